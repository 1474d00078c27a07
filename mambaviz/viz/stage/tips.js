// Explanations a hover or the focus away: one tooltip for the whole stage, filled from the
// glossary (mambaviz/glossary.py) where a node names a term.

const TIP_AFTER = 350; // ms of rest before a hover explains; the focus explains at once

// Let a node be explained: `name` is a term of the glossary, or nothing happens.
function explained(node, name) {
  if (Object.hasOwn(GLOSSARY, name ?? "")) node.dataset.term = name;
  return node;
}

const FORMS = Object.entries(GLOSSARY).flatMap(([name, [, , forms]]) => forms.map((form) => [form, name]));
FORMS.sort(([a], [b]) => b.length - a.length);
const FORM = new RegExp(`\\b(${FORMS.map(([form]) => form).join("|")})\\b`, "i");

// Running text with its first mention of each term as a node of its own. `told` are terms that
// have been mentioned before.
function withTerms(text, told) {
  const nodes = [];
  let rest = text;
  for (let found = FORM.exec(rest); found; found = FORM.exec(rest)) {
    const [, name] = FORMS.find(([form]) => form.toLowerCase() === found[0].toLowerCase());
    const fresh = !told.has(name);
    told.add(name);
    const word = fresh ? explained(el("span", "term", found[0]), name) : found[0];
    nodes.push(rest.slice(0, found.index), word);
    rest = rest.slice(found.index + found[0].length);
  }
  return [...nodes, rest].filter((node) => node !== "");
}

class Tips {
  constructor(root) {
    this.root = root;
    this.tip = el("div", "tip");
    this.tip.id = "stage-tip";
    this.tip.setAttribute("role", "tooltip");
    this.tip.hidden = true;
    root.append(this.tip);
  }

  listen(on) {
    const of = (event) => event.target.closest?.("[data-term]");
    on(this.root, "pointerover", (event) => {
      if (this.tip.contains(event.target)) clearTimeout(this.leaving); // it can be read at leisure
      else this.rest(of(event));
    });
    on(this.root, "pointerleave", () => this.rest(null));
    on(this.root, "pointerdown", () => this.hide());
    on(this.root, "focusin", (event) => {
      const node = of(event);
      if (node?.matches(":focus-visible")) this.show(node);
      else this.hide();
    });
    on(this.root, "focusout", () => this.hide());
  }

  rest(node) {
    clearTimeout(this.coming);
    if (node && node === this.node) {
      clearTimeout(this.leaving);
    } else {
      if (this.node) this.leaving = setTimeout(() => this.putAway(), TIP_AFTER / 2);
      if (node) this.coming = setTimeout(() => this.show(node), TIP_AFTER);
    }
  }

  show(node) {
    this.hide();
    if (!node.isConnected) return;
    this.node = node;
    const name = node.dataset.term;
    const [meaning, section] = GLOSSARY[name];
    const lead = node.dataset.now ? [el("p", "now", node.dataset.now)] : [];
    this.tip.replaceChildren(el("b", "", name), ` ${meaning} `, el("small", "", `specification, section ${section} (docs/spec)`), ...lead);
    this.tip.hidden = false;
    node.setAttribute("aria-describedby", this.tip.id);
    this.place(node);
  }

  // Below the node, or above it where the window ends or, for the legend, where the tabs stand;
  // never beyond the stage's sides.
  place(node) {
    const [box, stage] = [node.getBoundingClientRect(), this.root.getBoundingClientRect()];
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = clamp(box.left + box.width / 2 - width / 2, stage.left, stage.right - width);
    const below = !node.closest(".legend") && box.bottom + 6 + height < window.innerHeight;
    this.tip.style.left = `${left - stage.left}px`;
    this.tip.style.top = `${(below ? box.bottom + 6 : box.top - 6 - height) - stage.top}px`;
  }

  // Whether there was something to hide. What is about to come, comes not.
  hide() {
    clearTimeout(this.coming);
    return this.putAway();
  }

  putAway() {
    clearTimeout(this.leaving);
    const was = Boolean(this.node);
    if (this.node?.getAttribute("aria-describedby") === this.tip.id) this.node.removeAttribute("aria-describedby");
    this.node = null;
    this.tip.hidden = true;
    return was;
  }
}
