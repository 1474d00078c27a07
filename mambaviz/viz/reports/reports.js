// A report: the run with the fault and the one with the fix, locked to the same phase of the same
// step. One node that stays, steps in the browser and tells Python where the reader stands. What
// the mistake does stays covered until the reader has guessed, or wants to see it anyway.

const EVENT_WORDS = {
  migrate: "migrate before the forward",
  checkpoint: "checkpoint after acceptance",
  hit: "prefix hit",
  preempted: "request preempted",
  boundary: "block boundary reached",
};
const ALONG = { look: "Look at: ", not: "Not as in the report: ", doubt: "In doubt: " };
const SKIPPED = -1; // a guess that was none
const FAULT = 0;
const FIX = 1;

class Museum {
  constructor(root) {
    this.root = root;
    this.frame = 0;
    this.guess = null; // null: still covered
    this.flipped = false;
    this.wishes = new Wishes();
    this.leavers = [];
    this.listen();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  // ---------------------------------------------------------------- from and to Python

  receive({ payload, asked, score, hidden }) {
    this.hidden = new Set(hidden);
    for (const part of this.root.querySelectorAll("[data-part]")) {
      part.classList.toggle("gone", this.hidden.has(part.dataset.part));
    }
    this.dress();
    this.find(".score").textContent = score;
    const wished = this.wishes.take(asked);
    if (payload !== this.payload) {
      this.payload = payload;
      this.load(new Run({ timelines: [], channels: {}, panels: {}, ...JSON.parse(payload) }));
      this.adopt(asked);
      this.freeKeys();
    } else if (wished && !this.isAt(asked)) {
      this.adopt(asked);
    }
    if (wished) this.wishes.known(this.view());
  }

  // A report picked from the list with the pointer leaves the keys to its runs; one picked with the
  // keyboard leaves them to the list.
  freeKeys() {
    const focus = this.root.ownerDocument.activeElement;
    if (focus?.matches("input[type=radio]:not(:focus-visible)")) focus.blur();
  }

  isAt(asked) {
    const { at, phase, guess } = this.view();
    return at === asked.at && phase === asked.phase && guess === asked.guess;
  }

  adopt({ at, phase, guess }) {
    const { phases } = this.run;
    this.guess = guess;
    const step = clamp(at, 0, Math.max(this.run.steps.length - 1, 0));
    this.show(step * phases.length + Math.max(phases.indexOf(phase), 0), "jump");
    this.showGuess();
  }

  view() {
    const { phases } = this.run;
    return { at: Math.floor(this.frame / phases.length), phase: phases[this.frame % phases.length], guess: this.guess };
  }

  tell() {
    this.wishes.tell(() => this.view());
  }

  // ---------------------------------------------------------------- a report comes in

  load(run) {
    this.run = run;
    this.seen = {};
    this.flipped = false;
    const live = run.steps.length > 0;
    this.root.classList.toggle("functions", !live);
    this.buildAbout();
    this.buildQuestion();
    this.buildNumbers();
    this.find(".along .body").replaceChildren(...run.along.map(([kind, text]) =>
      el("p", kind, ...(ALONG[kind] ? [el("b", "", ALONG[kind])] : []), text)));
    if (live) {
      this.buildStrip();
      this.buildPair();
      this.context = this.buildLists(this.find(".context .lists"), `block lists with the fix`);
      this.buildErrors();
    } else {
      this.buildFunctions();
    }
    this.fit();
  }

  buildAbout() {
    const { title, symptom, cause, links, certainty, setting } = this.run;
    this.find(".about h1").textContent = title;
    this.find(".about p").replaceChildren(el("b", "", "Symptom "), symptom, " ", el("b", "", "Cause "), cause);
    const link = ([text, url]) => {
      const node = el("a", "", text);
      Object.assign(node, { href: url, target: "_blank", rel: "noopener noreferrer" });
      return node;
    };
    const [first, ...others] = links;
    const more = others.map((one) => Object.assign(link(["↗", one[1]]), { title: one[0] }));
    for (const node of more) node.setAttribute("aria-label", node.title);
    this.find(".from").replaceChildren(link(first), ...more, el("span", "certainty", `certainty ${certainty}`), el("small", "", setting));
  }

  buildQuestion() {
    const [text, choices] = this.run.question;
    this.find(".asks").textContent = text;
    this.find(".choices").replaceChildren(...choices.map((choice, index) => {
      const node = el("button", "key text choice", choice);
      node.type = "button";
      node.addEventListener("click", () => this.answer(index));
      return node;
    }));
  }

  buildNumbers() {
    const head = el("tr", "", el("th", ""), el("th", "", "expected"), el("th", "", "with the fault"));
    const notes = this.run.numbers.filter(([, , , , note]) => note).map(([, , , , note]) => {
      const cell = el("td", "foot", `* ${note}`);
      cell.colSpan = 3;
      return el("tr", "", cell);
    });
    const damagedFirst = [...this.run.numbers].sort((one, other) => other[3] - one[3]);
    const rows = damagedFirst.map((number) => this.numberRow(number));
    this.find(".numbers table").replaceChildren(head, ...rows, ...notes);
  }

  numberRow([what, right, wrong, damaged, note]) {
    const name = el("td", "", what);
    const found = el("td", damaged ? "bad" : "", damaged ? `${wrong} ✗` : wrong);
    if (note) name.append("*");
    return el("tr", "", name, el("td", "", right), found);
  }

  picture(svg, [width, height]) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `-4 -4 ${width + 8} ${height + 8}`);
    return new Picture(svg.appendChild(svgNode("g", {})), this.run.bodies, this.run.motion);
  }

  buildPair() {
    const { run } = this;
    const [name, what] = run.fault;
    const told = [
      ["With the fault", what, "fault"],
      ["With the fix", "the same scenario, nothing switched on", "fix"],
    ];
    this.panels = told.map(([title, caption, cls], index) => {
      const lamps = el("span", "all-lamps");
      const head = el("span", "", title);
      const small = el("p", "caption", caption);
      small.title = name && index === FAULT ? `${name}: ${caption}` : caption;
      const flip = index === FAULT ? this.flipButton() : "";
      const body = el("div", "picture");
      const facts = el("table", "facts");
      const node = el("section", `panel ${cls}`, el("h3", "", head, flip, lamps), small, body, facts);
      node.setAttribute("aria-label", title.toLowerCase());
      const panel = { node, head, title, lamps, facts };
      if (run.has_block) {
        const svg = svgNode("svg", { role: "img", class: "block" });
        body.append(svg);
        panel.block = this.picture(svg, run.sizes.block);
        panel.svg = svg;
      } else {
        panel.lists = this.buildLists(body, `block lists ${title.toLowerCase()}`);
      }
      return panel;
    });
    this.find(".pair").replaceChildren(...this.panels.map(({ node }) => node));
    if (run.parting) this.showLamps();
  }

  flipButton() {
    const node = button("Flip the fix", false, () => this.flip());
    node.className = "small flip";
    node.append(" ", el("kbd", "", "F"));
    node.title = "show this panel with the fix, and back (F)";
    this.flipNode = node;
    return node;
  }

  buildLists(holder, label) {
    const { run } = this;
    const [left, heading, row] = run.sizes.rows;
    const svg = svgNode("svg", { role: "img", "aria-label": label });
    const [width, height] = run.sizes.lists;
    const picture = this.picture(svg, run.sizes.lists);
    svg.setAttribute("viewBox", `${left} 0 ${width - left} ${height}`);
    svg.setAttribute("width", width - left);
    svg.setAttribute("height", height);
    const names = el("div", "names", ...run.requests.map(([request, short]) => {
      const node = el("b", "", short);
      node.title = `request ${request}`;
      node.style.height = `${row}px`;
      return node;
    }));
    names.style.flexBasis = `${left}px`;
    names.style.paddingTop = `${heading}px`;
    holder.replaceChildren(el("div", "lists", names, el("div", "scroll", svg)));
    return picture;
  }

  // Each check that turns red with the fault, and from where on; with the fix all hold.
  showLamps() {
    const { red, phases } = this.run;
    this.panels.forEach(({ lamps }, index) => {
      const shown = red.map(([name, step, phase]) => this.lamp(name, index === FAULT, step * phases.length + phase));
      const first = Math.min(...red.map(([, step]) => step));
      const told = !red.length ? "every check holds" : index === FAULT ? `red from step ${first}` : "in every step";
      lamps.replaceChildren(el("small", "", told), ...shown);
    });
  }

  lamp(name, bad, from) {
    const disc = svgNode("path", { d: bad ? "M7 .5L13.5 7L7 13.5L.5 7z" : "M.5 7a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0" }, "disc");
    const tick = svgNode("path", { d: bad ? "M4.8 4.8l4.4 4.4M9.2 4.8l-4.4 4.4" : "M3.8 7.3l2.2 2.2l4.2 -4.6" }, "tick");
    const picture = svgNode("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
    picture.append(disc, tick);
    if (!bad) return el("span", "lamp", picture, name);
    const node = button("", false, () => this.go(from, "jump"));
    node.removeAttribute("aria-pressed");
    node.className = "lamp bad";
    node.append(picture, name);
    node.title = `${name} breaks in step ${Math.floor(from / this.run.phases.length)}, ${this.run.phases[from % this.run.phases.length]}`;
    node.setAttribute("aria-label", `${name} broken, go there`);
    return node;
  }

  buildErrors() {
    const svg = svgNode("svg", { role: "img", "aria-label": "largest error of an accepted token, a bar a step" });
    this.find(".output .body").replaceChildren(svg);
    const error = "largest error of an accepted token, layer outputs";
    this.find(".output p").textContent = this.run.harmless ? "accepted tokens, layer outputs: none comes out wrong" : error;
    this.picture(svg, this.run.sizes.errors).show(this.run.marks("errors", 0), "jump", 1);
  }

  // Without a run: the function concerned, asked right and with the mistake.
  buildFunctions() {
    const { numbers, why_not: why } = this.run;
    const told = [["The function, with the mistake", 2, "fault"], ["The function, as it should be", 1, "fix"]];
    this.panels = [];
    this.find(".pair").replaceChildren(...told.map(([title, column, cls]) => {
      const rows = numbers.map((number) => {
        const bad = cls === "fault" && number[3];
        return el("tr", "", el("td", "", number[0]), el("td", bad ? "bad" : "", bad ? `${number[column]} ✗` : number[column]));
      });
      return el("section", `panel ${cls}`, el("h3", "", el("span", "", title)), el("div", "body", el("table", "asked", ...rows)));
    }));
    const along = this.find(".along .body");
    along.prepend(el("p", "why", el("b", "", "Why there is no run: "), why));
  }

  // ---------------------------------------------------------------- both runs, phase by phase

  buildStrip() {
    const { run } = this;
    const rows = ["with the fault", "with the fix"];
    const names = el("div", "names", el("span", ""), ...rows.map((name) => el("span", "", name)));
    const apart = new Set(run.apart);
    this.cells = [];
    const steps = run.steps.map((step, index) => {
      const label = el("div", "ov-name", `step ${step.at}`);
      const lines = step.events.map((events, row) => el("div", "ov-cells", ...run.phases.map((phase, at) => {
        const frame = index * run.phases.length + at;
        const event = events?.[at] ?? "";
        const cls = events === null ? "none" : event;
        const node = el("button", `ov-cell ${cls}`);
        node.type = "button";
        node.tabIndex = -1;
        if (row === FAULT && apart.has(frame)) node.classList.add("apart");
        if (event) node.append(sign(run.signs[event], ""));
        node.title = `${rows[row]}, step ${step.at}, ${phase}${event ? `: ${EVENT_WORDS[event]}` : ""}${events === null ? ": the run has ended" : ""}`;
        node.setAttribute("aria-label", node.title);
        node.addEventListener("click", () => this.go(frame, "jump"));
        this.cells.push({ node, frame });
        return node;
      })));
      return el("div", "one", label, ...lines);
    });
    const pointer = el("div", "parts", "here the runs part");
    this.pointer = pointer;
    this.find(".strip").replaceChildren(names, ...steps, pointer);
    this.find("[data-do=parting]").disabled = !run.parting;
  }

  place() {
    const { run } = this;
    if (!run.parting || !this.cells?.length) return;
    const frame = run.parting[0] * run.phases.length + run.parting[1];
    const cell = this.cells.filter((one) => one.frame === frame).at(-1).node;
    const strip = this.find(".strip");
    const x = cell.getBoundingClientRect().left - strip.getBoundingClientRect().left + cell.offsetWidth / 2;
    const late = x > strip.clientWidth - 140;
    this.pointer.classList.toggle("late", late);
    this.pointer.style.left = late ? "auto" : `${x}px`;
    this.pointer.style.right = late ? `${strip.clientWidth - x}px` : "auto";
  }

  get last() {
    return Math.max(this.run.frames - 1, 0);
  }

  go(frame, how = "fade") {
    if (!this.run.steps.length) return;
    this.show(clamp(frame, 0, this.last), how);
    this.tell();
  }

  goStep(by) {
    this.go(this.frame + by * this.run.phases.length);
  }

  goParting() {
    const { parting, phases } = this.run;
    if (parting) this.go(parting[0] * phases.length + parting[1], "jump");
  }

  flip() {
    if (!this.panels.length || this.guess === null) return;
    this.flipped = !this.flipped;
    this.show(this.frame, "jump");
  }

  // Whether something differs from what was shown last under this name.
  isNew(name, value) {
    const old = this.seen[name];
    this.seen[name] = value;
    return old === undefined || old !== value;
  }

  show(frame, how) {
    const { run } = this;
    const manner = matchMedia("(prefers-reduced-motion: reduce)").matches ? "jump" : how;
    this.frame = frame;
    if (!run.steps.length) return;
    this.find(".where").textContent = run.panel("where", frame);
    for (const { node, frame: own } of this.cells) {
      node.classList.toggle("now", own === frame);
      node.setAttribute("aria-current", own === frame ? "step" : "false");
    }
    this.context.show(run.marks(`lists:${FIX}`, frame), manner, 1);
    const facts = run.panel("facts", frame);
    this.panels.forEach((panel, index) => {
      const shown = index === FAULT && this.flipped ? FIX : index;
      panel.block?.show(run.marks(`block:${shown}`, frame), manner, 1);
      panel.svg?.setAttribute("aria-label", run.panel(`alt:${shown}`, frame) ?? "");
      panel.lists?.show(run.marks(`lists:${shown}`, frame), manner, 1);
      this.showFacts(panel, facts, shown);
      panel.node.classList.toggle("flipped", shown !== index);
      panel.head.textContent = shown === index ? panel.title : "With the fix, in its place";
    });
    this.flipNode.setAttribute("aria-pressed", this.flipped);
  }

  showFacts(panel, facts, run) {
    panel.facts.replaceChildren(...facts.map(([name, ...values]) => {
      const value = el("td", run === FAULT ? "bad" : "", values[run]);
      value.title = values[run];
      const label = el("td", "", name);
      label.title = name;
      return el("tr", "", label, value);
    }));
  }

  // ---------------------------------------------------------------- predict first

  answer(index) {
    if (this.guess !== null && this.guess !== SKIPPED) return;
    this.guess = index;
    this.showGuess();
    this.tell();
  }

  skip() {
    if (this.guess !== null) return;
    this.guess = SKIPPED;
    this.showGuess();
    this.tell();
  }

  showGuess() {
    const [, , answer, because] = this.run.question;
    const open = this.guess !== null;
    this.root.classList.toggle("covered", !open);
    [...this.root.querySelectorAll(".choice")].forEach((node, index) => {
      node.disabled = open;
      node.classList.toggle("right", open && index === answer);
      node.classList.toggle("missed", open && index === this.guess && index !== answer);
      node.setAttribute("aria-pressed", index === this.guess);
    });
    const verdict = this.guess === answer ? "Right. " : this.guess === SKIPPED ? "" : "Not so. ";
    this.find(".because").textContent = open ? `${verdict}${because}` : "";
    this.place();
  }

  // ---------------------------------------------------------------- theme, size, input

  dress() {
    this.root.dataset.theme = luminance(backgroundOf(this.root)) < 0.4 ? "dark" : "light";
  }

  fit() {
    const width = this.root.clientWidth;
    if (!width) return;
    this.root.classList.toggle("low", window.innerHeight < 800);
    this.root.classList.toggle("narrow", width < 980);
    if (this.run) this.place();
  }

  on(target, type, act) {
    target.addEventListener(type, act);
    this.leavers.push(() => target.removeEventListener(type, act));
  }

  listen() {
    const acts = {
      back: () => this.go(this.frame - 1),
      forward: () => this.go(this.frame + 1),
      parting: () => this.goParting(),
      skip: () => this.skip(),
    };
    for (const node of this.root.querySelectorAll("[data-do]")) {
      node.type = "button";
      this.on(node, "click", () => acts[node.dataset.do]());
    }
    this.on(this.root.ownerDocument, "keydown", (event) => this.key(event));
    this.on(window, "resize", () => this.fit());
    this.on(matchMedia("(prefers-color-scheme: dark)"), "change", () => setTimeout(() => this.dress(), 50));
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(this.root);
    this.leavers.push(() => observer.disconnect());
  }

  key(event) {
    if (!this.run || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.root.isConnected || !this.root.clientWidth || this.hidden.has("transport")) return;
    const [target] = event.composedPath();
    const inList = target instanceof Element && target.matches("input[type=radio]") && /^[\da-z]$/i.test(event.key);
    if (!inList && isTaken(event, this.root)) return;
    const held = event.repeat ? "jump" : "fade";
    const acts = {
      ArrowRight: () => (event.shiftKey ? this.goStep(1) : this.go(this.frame + 1, held)),
      ArrowLeft: () => (event.shiftKey ? this.goStep(-1) : this.go(this.frame - 1, held)),
      Home: () => this.go(0, "jump"),
      End: () => this.go(this.last, "jump"),
      d: () => this.goParting(),
      f: () => this.flip(),
      s: () => this.skip(),
    };
    const choice = Number(event.key) - 1;
    const asked = choice >= 0 && choice < this.run.question[1].length && this.guess === null;
    const act = asked ? () => this.answer(choice) : acts[event.key] ?? acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }

  leave() {
    this.wishes.hush();
    for (const undo of this.leavers) undo();
  }
}

export default function mount({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".stage");
  if (parentElement.museum?.root !== root) {
    parentElement.museum?.leave();
    parentElement.museum = new Museum(root);
  }
  const { museum } = parentElement;
  museum.wishes.report = (view) => setStateValue("view", view);
  museum.receive(data);
  return () => {
    museum.leave();
    delete parentElement.museum;
  };
}
