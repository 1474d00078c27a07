// The programs of a launch (one mount) and the chosen one in detail (another). All drawing was done
// in Python: this only shows what belongs to the chosen program.
//
// The mount with the programs holds the choice and says it to the other one through the window;
// a mount that comes later asks for it. Python learns of it when the reader rests for a moment.

const SAID = "mambaviz-program";
const ASKED = "mambaviz-program?";
const REST = 500; // ms
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

class Part {
  constructor(root, data, tell) {
    this.root = root;
    this.tell = tell;
    this.values = data.values ?? {};
    this.fades = data.fades ?? false;
    this.lines = [...root.querySelectorAll("[data-line]")];
    this.source = root.querySelector(".source");
    root.querySelector(".whole input")?.addEventListener("change", (event) => {
      this.source.classList.toggle("all", event.target.checked);
    });
  }

  show(program) {
    for (const one of this.root.querySelectorAll("[data-for]")) one.hidden = one.dataset.for !== program;
    for (const button of this.root.querySelectorAll("[data-program]")) {
      const chosen = button.dataset.program === program;
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    this.told(this.values[program] ?? {});
  }

  // Values beside the lines. What the program never came to is faded.
  told(values) {
    const ends = new Map(); // function → the line at which the program ended in it
    const entered = new Set();
    for (const line of this.lines) {
      const [value, mark] = values[line.dataset.line] ?? ["", ""];
      line.lastElementChild.textContent = value;
      line.classList.toggle("key", mark === "key");
      line.classList.toggle("stop", mark === "stop");
      if (value) entered.add(line.dataset.function);
      if (mark === "stop") ends.set(line.dataset.function, Number(line.dataset.line));
    }
    for (const line of this.lines) {
      const end = ends.get(line.dataset.function) ?? Infinity;
      const reached = entered.has(line.dataset.function) && Number(line.dataset.line) <= end;
      line.classList.toggle("faded", this.fades && !reached);
    }
    this.look();
  }

  // What decided comes into view, unless it is there already.
  look() {
    if (!this.source) return;
    const line = this.source.querySelector("tr.stop") ?? this.source.querySelector("tr.key");
    if (!line) return;
    const top = line.offsetTop;
    const { scrollTop, clientHeight } = this.source;
    if (top >= scrollTop && top + 40 <= scrollTop + clientHeight) return;
    const above = this.lines.filter((one) => one.offsetParent && one.offsetTop <= top - clientHeight / 3);
    this.source.scrollTop = above.length ? above[above.length - 1].offsetTop : 0;
  }
}

class Programs extends Part {
  constructor(root, data, tell) {
    super(root, data, tell);
    this.choose(data.chosen, false);
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-program]");
      if (button) this.choose(button.dataset.program, true);
    });
    this.onKey = (event) => this.key(event);
    this.onAsked = () => this.say();
    document.addEventListener("keydown", this.onKey);
    window.addEventListener(ASKED, this.onAsked);
  }

  button(program) {
    return this.root.querySelector(`[data-program="${CSS.escape(program)}"]`);
  }

  choose(program, byReader) {
    this.chosen = program;
    this.show(program);
    this.say();
    if (!byReader) return;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.tell("program", this.chosen), REST);
  }

  say() {
    window.dispatchEvent(new CustomEvent(SAID, { detail: this.chosen }));
  }

  key(event) {
    const step = STEPS[event.key];
    const focus = document.activeElement;
    const inside = this.root.getRootNode().activeElement?.closest?.(".grid");
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!inside && focus && focus !== document.body) return;
    const [row, state] = this.chosen.split("-").map(Number);
    const next = `${row + step[0]}-${state + step[1]}`;
    event.preventDefault();
    if (!this.button(next)) return;
    this.choose(next, true);
    if (inside) this.button(next).focus();
  }

  end() {
    clearTimeout(this.rest);
    document.removeEventListener("keydown", this.onKey);
    window.removeEventListener(ASKED, this.onAsked);
  }
}

class Detail extends Part {
  constructor(root, data, tell) {
    super(root, data, tell);
    root.querySelector(".paths")?.addEventListener("click", (event) => {
      const path = event.target.closest("[data-path]")?.dataset.path;
      if (path) this.tell("path", path);
    });
    this.onSaid = (event) => this.show(event.detail);
    window.addEventListener(SAID, this.onSaid);
    this.show(data.chosen);
    window.dispatchEvent(new CustomEvent(ASKED));
  }

  end() {
    window.removeEventListener(SAID, this.onSaid);
  }
}

export default function mount({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".kernels");
  const kept = parentElement.shown;
  const tell = (name, value) => setStateValue(name, { value, launch: data.launch });
  if (kept?.html === data.html && kept.launch === data.launch) {
    if (kept.part) kept.part.tell = tell;
  } else {
    kept?.part?.end();
    const fresh = root.cloneNode(false);
    fresh.innerHTML = data.html; // escaped in viz/kernels
    root.replaceWith(fresh);
    const kind = { programs: Programs, detail: Detail }[data.part];
    const part = kind ? new kind(fresh, data, tell) : null;
    parentElement.shown = { html: data.html, launch: data.launch, part };
  }
  return () => {
    parentElement.shown?.part?.end();
    delete parentElement.shown;
  };
}
