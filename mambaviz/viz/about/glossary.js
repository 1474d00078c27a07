// The glossary in the browser: searched while one types, filtered by group, one word set off.
// All text was made in Python. A click is told to Python, which keeps the session; with a held key
// or the middle button the link opens as any other.

function words(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

class Glossary {
  constructor(root) {
    this.root = root;
    this.field = root.querySelector("input");
    this.count = root.querySelector(".count");
    this.groups = root.querySelector(".groups");
    this.list = root.querySelector(".list");
    this.group = "";
    this.field.addEventListener("input", () => this.filter());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.all();
    });
    this.groups.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      this.group = button.dataset.group;
      this.filter();
    });
    this.list.addEventListener("click", (event) => this.click(event));
    this.onKey = (event) => this.key(event);
    root.ownerDocument.addEventListener("keydown", this.onKey);
  }

  key(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !this.root.isConnected) return;
    const [target] = event.composedPath();
    if (target instanceof Element && target.closest("input, textarea, select, [contenteditable=true]")) return;
    event.preventDefault();
    this.field.focus();
    this.field.select();
  }

  click(event) {
    const link = event.target.closest("a[data-do]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.tell(link.dataset.do, link.dataset.section ?? link.closest("article").dataset.term);
  }

  load(html, names) {
    this.list.innerHTML = html; // escaped in viz/about
    this.entries = [...this.list.querySelectorAll("article")].map((node) => ({ node, text: node.textContent.toLowerCase() }));
    this.groups.replaceChildren(
      ...["", ...names].map((name) => {
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.group = name;
        button.textContent = name || "all";
        return button;
      }),
    );
    this.filter();
  }

  all() {
    this.field.value = "";
    this.group = "";
    this.filter();
  }

  filter() {
    const wanted = words(this.field.value);
    let shown = 0;
    for (const { node, text } of this.entries) {
      const inGroup = !this.group || node.parentElement.dataset.group === this.group;
      node.hidden = !(inGroup && wanted.every((word) => text.includes(word)));
      shown += !node.hidden;
    }
    for (const section of this.list.querySelectorAll("section")) {
      section.hidden = !section.querySelector("article:not([hidden])");
    }
    for (const button of this.groups.children) button.setAttribute("aria-pressed", String(button.dataset.group === this.group));
    const all = this.entries.length;
    this.count.textContent = shown === all ? `${all} words` : shown ? `${shown} of ${all} words` : "No word here says that; Esc shows all.";
  }

  // The word that the link asks for: set off, and in view.
  setOff(term) {
    if (term === this.term) return;
    this.term = term;
    for (const { node } of this.entries) node.toggleAttribute("aria-current", node.dataset.term === term);
    const found = this.entries.find(({ node }) => node.dataset.term === term)?.node;
    if (!found) return;
    if (found.hidden) this.all();
    found.scrollIntoView({ block: "center" });
  }
}

export default function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".glossary");
  parentElement.glossary ??= new Glossary(root);
  const one = parentElement.glossary;
  one.tell = setTriggerValue;
  if (parentElement.shown !== data.html) {
    parentElement.shown = data.html;
    one.load(data.html, data.groups);
  }
  one.setOff(data.term);
  return () => {
    root.ownerDocument.removeEventListener("keydown", one.onKey);
    delete parentElement.glossary;
    delete parentElement.shown;
  };
}
