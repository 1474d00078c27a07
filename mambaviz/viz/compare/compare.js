// Runs side by side: one node that stays, steps all runs together in the browser, and tells
// Python where it stands when it has been stepped by hand or has paused.

const LOW = 800; // window height below which the lower panels become tabs
const NARROW = 1080;
const STACKED = 800;
const EVENT_WORDS = {
  migrate: "migrate before the forward",
  checkpoint: "checkpoint after acceptance",
  hit: "prefix hit",
  preempted: "request preempted",
  wrong: "invariant broken",
};
const COLUMNS = [["migrate"], ["checkpoint"], ["wrong", "hit", "preempted"]]; // of a moment's events
const FIRST_EVENT = ["wrong", "hit", "checkpoint", "migrate", "preempted"]; // where one has to do

class Compare {
  constructor(root) {
    this.root = root;
    this.moment = 0;
    this.phase = 0;
    this.tab = "below";
    this.marks = false;
    this.wishes = new Wishes();
    this.leavers = [];
    this.listen();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  // ---------------------------------------------------------------- from and to Python

  receive({ payload, asked, hidden }) {
    this.hidden = new Set(hidden);
    for (const part of this.root.querySelectorAll("[data-part]")) {
      part.classList.toggle("gone", this.hidden.has(part.dataset.part));
    }
    this.dress();
    const wished = this.wishes.take(asked);
    if (payload !== this.payload) {
      this.payload = payload;
      const next = JSON.parse(payload);
      const stays = !wished && this.run?.run === next.run;
      const place = stays ? this.view() : asked;
      this.load(new Run({ ...next, steps: next.moments }));
      this.adopt(place);
    } else if (wished && !this.isAt(asked)) {
      this.adopt(asked);
    }
    if (wished) this.wishes.known(this.view());
  }

  isAt({ at, phase, marks }) {
    return at >= this.here.at && at <= this.here.last && this.run.phases[this.phase] === phase && this.marks === marks;
  }

  adopt({ at, phase, marks }) {
    const { run } = this;
    this.pause();
    this.marks = marks;
    this.phase = Math.max(0, run.phases.indexOf(phase));
    const found = run.moments.findIndex(({ last }) => at <= last);
    this.show(found < 0 ? run.moments.length - 1 : found, "jump");
  }

  get here() {
    return this.run.moments[this.moment];
  }

  view() {
    return { at: this.here.at, phase: this.run.phases[this.phase], marks: this.marks };
  }

  tell() {
    if (this.playing) this.wishes.hush();
    else this.wishes.tell(() => this.view());
  }

  // ---------------------------------------------------------------- runs come in

  load(run) {
    this.run = run;
    this.seen = {};
    this.moment = 0;
    this.buildRuns();
    this.buildCharts();
    this.buildParting();
    this.buildEvents();
    this.leftPicture = this.picture(this.find(".left svg"), run.sizes.found);
    this.find(".where select").replaceChildren(...run.phases.map((phase) => new Option(phase, phase)));
    legend(this.find(".legend"), run.legend);
    this.momentsKey = null;
    this.fit();
  }

  picture(svg, [width, height]) {
    svg.replaceChildren();
    sizeSvg(svg, width, height, 1);
    return new Picture(svg.appendChild(svgNode("g", {})), this.run.bodies, this.run.motion);
  }

  buildRuns() {
    const { run } = this;
    this.panels = run.runs.map(([name, caption]) => {
      const lamps = el("span", "all-lamps");
      const lists = svgNode("svg", { role: "img", "aria-label": `block lists of ${name}` });
      const strip = svgNode("svg", { role: "img", "aria-label": `tokens of a request in ${name}` });
      const title = el("span", "", name);
      title.title = name;
      const small = el("small", "", caption);
      small.title = caption;
      const findings = el("div", "findings");
      findings.hidden = true;
      const scroll = el("div", "scroll", lists);
      const names = el("div", "names", ...run.requests.map(([request, short]) => {
        const label = el("b", short.length > 2 ? "long" : "", short);
        label.title = `request ${request}`;
        return label;
      }));
      const numbers = el("dl", "");
      const node = el("section", "panel", el("h3", "", title, small, lamps), el("div", "lists", names, scroll), el("div", "of", strip), numbers, findings);
      node.setAttribute("aria-label", `run ${name}`);
      const [width] = run.sizes.lists;
      const picture = this.picture(lists, run.sizes.lists);
      const differ = new Picture(lists.appendChild(svgNode("g", {})), run.bodies, run.motion);
      return { node, lamps, caption: small, lists, names, scroll, strip, numbers, findings, picture, differ, width, stripPicture: this.picture(strip, [run.sizes.panel, run.sizes.strip]) };
    });
    this.find(".runs").replaceChildren(...this.panels.map(({ node }) => node));
  }

  buildCharts() {
    const { run } = this;
    this.chartPictures = [];
    this.find(".charts").replaceChildren(...run.charts.map(([title, note]) => {
      const svg = svgNode("svg", { role: "img", "aria-label": `${title}, a line a run` });
      this.chartPictures.push(this.picture(svg, run.sizes.chart));
      return el("section", "panel", el("h3", "", el("span", "", title), el("small", "", note)), el("div", "body", svg));
    }));
  }

  buildParting() {
    const { parting, moments } = this.run;
    const node = this.find("[data-do=parting]");
    node.disabled = !parting;
    node.replaceChildren(...(parting ? [`≠ ${moments[parting[0]].name}`, el("kbd", "", "D")] : ["no difference"]));
  }

  buildEvents() {
    this.find(".events").replaceChildren(...["migrate", "checkpoint", "hit"].map((event) =>
      el("span", "", sign(this.run.signs[event], event), EVENT_WORDS[event])));
  }

  // ---------------------------------------------------------------- theme and size

  dress() {
    this.root.dataset.theme = luminance(backgroundOf(this.root)) < 0.4 ? "dark" : "light";
  }

  fit() {
    const width = this.root.clientWidth;
    if (!width) return;
    this.root.classList.toggle("low", window.innerHeight < LOW);
    this.root.classList.toggle("narrow", width < NARROW);
    this.root.classList.toggle("stacked", width < STACKED);
    if (!this.run) return;
    this.buildMoments();
    this.scale();
    for (const panel of this.panels) this.follow(panel);
    this.showMoments();
  }

  // Pictures are drawn at their own size and follow their panel, within reason.
  scale() {
    const { sizes } = this.run;
    for (const panel of this.panels) {
      const [left, heading, row] = sizes.rows;
      const room = panel.node.clientWidth - 18; // its padding
      const most = this.root.classList.contains("low") ? 1 : 1.1;
      const scale = clamp(room / sizes.panel, 0.86, most);
      const [width, height] = sizes.lists;
      sizeSvg(panel.lists, width - left, height, scale);
      panel.lists.setAttribute("viewBox", `${left} 0 ${width - left} ${height}`);
      panel.names.style.flexBasis = `${left * scale}px`;
      panel.names.style.paddingTop = `${heading * scale}px`;
      for (const name of panel.names.children) name.style.height = `${row * scale}px`;
      sizeSvg(panel.strip, sizes.panel, sizes.strip, clamp(room / sizes.panel, 0.6, most));
    }
    for (const body of this.root.querySelectorAll(".charts .body")) {
      const svg = body.firstChild;
      svg.setAttribute("width", "100%");
      svg.setAttribute("viewBox", `0 0 ${sizes.chart.join(" ")}`);
    }
  }

  // ---------------------------------------------------------------- stepping

  get last() {
    return this.run.moments.length - 1;
  }

  go(moment, how = "fade") {
    this.pause();
    this.show(clamp(moment, 0, this.last), how);
    this.tell();
  }

  goPhase(by) {
    const { phases } = this.run;
    const frame = clamp(this.moment * phases.length + this.phase + by, 0, (this.last + 1) * phases.length - 1);
    this.phase = frame % phases.length;
    this.go(Math.floor(frame / phases.length));
  }

  goParting() {
    const { parting } = this.run;
    if (!parting) return;
    this.phase = Math.max(parting[1], 0);
    this.go(parting[0], "jump");
  }

  toggle() {
    if (this.playing) {
      this.pause();
      this.tell();
      return;
    }
    this.wishes.hush();
    if (this.moment === this.last) this.show(0, "jump");
    this.playing = true;
    this.root.classList.add("playing");
    this.labelPlay();
    this.wait();
  }

  wait() {
    const { slide, rest } = this.run.motion;
    this.timer = setTimeout(() => {
      if (this.moment >= this.last) {
        this.pause();
        this.tell();
        return;
      }
      this.show(this.moment + 1, "fade");
      this.wait();
    }, slide + 2 * rest);
  }

  pause() {
    clearTimeout(this.timer);
    this.playing = false;
    this.root.classList.remove("playing");
    this.labelPlay();
  }

  labelPlay() {
    this.find("[data-do=play]").setAttribute("aria-label", this.playing ? "pause" : "play");
  }

  // ---------------------------------------------------------------- one moment

  // Whether something differs from what was shown last under this name.
  isNew(name, value) {
    const old = this.seen[name];
    this.seen[name] = value;
    return old === undefined || old !== value;
  }

  show(moment, how) {
    const { run } = this;
    const manner = matchMedia("(prefers-reduced-motion: reduce)").matches ? "jump" : how;
    this.moment = moment;
    const frame = moment * run.phases.length + this.phase;
    this.panels.forEach((panel, index) => this.showRun(panel, index, frame, manner));
    this.chartPictures.forEach((picture, index) => picture.show(run.marks(`chart:${index}`, frame), "jump", 1));
    this.showTexts(frame);
    this.find(".where b").textContent = this.here.name;
    this.find(".where select").value = run.phases[this.phase];
    this.root.classList.toggle("marking", this.marks);
    this.find("[data-do=marks]").setAttribute("aria-pressed", this.marks);
    this.showMoments();
  }

  showRun(panel, index, frame, manner) {
    const { run } = this;
    panel.picture.show(run.marks(`lists:${index}`, frame), manner, 1);
    this.follow(panel);
    panel.differ.show(run.marks(`differ:${index}`, frame), "jump", 1);
    panel.stripPicture.show(run.marks(`strip:${index}`, frame), "jump", 1);
    this.caption(panel, index);
    const numbers = run.panel(`numbers:${index}`, frame);
    if (this.isNew(`numbers:${index}`, numbers)) {
      panel.numbers.replaceChildren(...numbers.map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value))));
    }
    const lamps = run.panel(`lamps:${index}`, frame);
    if (this.isNew(`lamps:${index}`, lamps)) this.showLamps(panel, lamps, index);
  }

  // On a long list, keep the columns at work in view.
  follow(panel) {
    const { scroll, lists } = panel;
    if (lists.width.baseVal.value <= scroll.clientWidth) return;
    const scale = lists.width.baseVal.value / lists.viewBox.baseVal.width;
    const [left] = this.run.sizes.rows;
    const running = [...panel.picture.nodes.values()].filter(({ entry }) => this.run.bodies[entry[0]][1].includes("running"));
    const at = Math.min(...running.map(({ entry }) => entry[1] - left)) * scale;
    if (Number.isFinite(at)) scroll.scrollLeft = Math.max(0, at - scroll.clientWidth * 0.3);
  }

  // A run without a step here says so in the place of its caption, and is paler.
  caption(panel, index) {
    const { moments, runs, lock } = this.run;
    const gone = this.here.steps[index] === null;
    panel.node.classList.toggle("ended", gone);
    const last = moments.slice(0, this.moment).map(({ steps }) => steps[index]).filter((step) => step !== null).at(-1);
    const told = lock === null ? `ended after step ${last}` : "does not get to this token";
    panel.caption.textContent = gone ? told : runs[index][1];
  }

  // One lamp says that all hold; each broken one has its own.
  showLamps(panel, lamps, index) {
    const { invariants } = this.run;
    const broken = invariants.filter((_, place) => lamps[place][1]);
    const ended = this.here.steps[index] === null;
    const shown = ended ? [] : broken.length ? broken.slice(0, 3) : [`${invariants[0]}–${invariants.at(-1)}`];
    panel.lamps.replaceChildren(...shown.map((name) => {
      const bad = broken.length > 0;
      const disc = svgNode("path", { d: bad ? "M7 .5L13.5 7L7 13.5L.5 7z" : "M.5 7a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0" }, "disc");
      const tick = svgNode("path", { d: bad ? "M4.8 4.8l4.4 4.4M9.2 4.8l-4.4 4.4" : "M3.8 7.3l2.2 2.2l4.2 -4.6" }, "tick");
      const picture = svgNode("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
      picture.append(disc, tick);
      const lamp = el("button", bad ? "lamp bad" : "lamp", picture, name);
      lamp.type = "button";
      lamp.setAttribute("aria-label", `${name} ${bad ? "broken" : "hold"}`);
      lamp.addEventListener("click", () => { panel.findings.hidden = !panel.findings.hidden; });
      return lamp;
    }));
    panel.node.classList.toggle("broken", broken.length > 0);
    panel.findings.replaceChildren(...lamps.map(([text, bad]) => el("p", bad ? "bad" : "", bad ? `✗ ${text}` : text)));
  }

  showTexts(frame) {
    const { run } = this;
    const said = run.panel("say", frame);
    if (this.isNew("say", said)) words(this.find(".say"), said);
    const left = run.panel("left", frame);
    this.leftPicture.show(run.marks("found", frame), "jump", 1);
    if (this.isNew("left", left)) this.showLeft(left);
    const notes = run.panel("notes", frame);
    if (this.isNew("notes", notes)) {
      this.find(".notice ul").replaceChildren(...notes.map((line) => el("li", "", ...line.map(span))));
    }
    const differs = run.panel("differs", frame);
    if (this.isNew("differs", differs)) this.showDifferences(differs);
  }

  showLeft([title, rows]) {
    const panel = this.find(".left");
    panel.querySelector("h3 span").textContent = title || "Computed at this step";
    panel.querySelector("h3 small").textContent = title ? "ringed: taken" : "tokens before → after";
    panel.querySelector("svg").toggleAttribute("hidden", !title);
    table(panel.querySelector("table"), title ? [] : rows, ["", ...this.run.runs.map(([name]) => name)]);
  }

  showDifferences([count, rows]) {
    const gone = this.here.steps.filter((step) => step !== null).length < 2;
    const told = gone ? "only one run is left" : count ? `${count} facts differ` : "nothing differs";
    this.find(".notice .count").textContent = told;
    table(this.find(".notice table"), rows, ["differs", ...this.run.runs.map(([name]) => name)]);
  }

  // ---------------------------------------------------------------- overview

  buildMoments() {
    const { run } = this;
    const holder = this.find(".moments");
    const room = (holder.clientWidth - 80) / run.moments.length;
    const dense = room < 52;
    const key = `${run.run} ${dense} ${Math.round(room)}`;
    if (this.momentsKey === key) return;
    this.momentsKey = key;
    holder.classList.toggle("dense", dense);
    const names = el("div", "names", el("span", ""), ...run.runs.map(([name]) => el("span", "", name)));
    names.title = run.runs.map(([name]) => name).join(", ");
    const every = Math.max(1, Math.ceil(26 / room));
    holder.replaceChildren(names, ...run.moments.map((moment, index) => this.momentNode(moment, index, dense, every, room)));
  }

  momentNode(moment, index, dense, every, room) {
    const { run } = this;
    const parts = run.parting?.[0] === index;
    const word = dense ? "" : run.lock === null ? "step " : "token ";
    const label = el("div", "ov-name", index % every === 0 || parts ? `${word}${dense ? moment.at : moment.short}` : "");
    if (parts) label.append(el("b", "parts", " ≠"));
    const rows = moment.events.map((events, place) => {
      const groups = dense ? [FIRST_EVENT] : COLUMNS;
      const gone = moment.steps[place] === null;
      return el("div", "ov-cells", ...groups.map((group) => this.eventCell(group.find((event) => events.includes(event)), gone, room)));
    });
    const node = el("button", "moment", label, ...rows);
    node.type = "button";
    const told = run.runs.map(([name], place) => `${name}: ${moment.events[place].map((event) => EVENT_WORDS[event]).join(", ") || "–"}`);
    node.title = `${moment.name}${parts ? ", here the runs part" : ""}\n${told.join("\n")}`;
    node.setAttribute("aria-label", moment.name);
    node.addEventListener("click", () => this.go(index, "jump"));
    return node;
  }

  eventCell(event, gone, room) {
    const cell = el("span", `ov-cell${event ? ` ${event}` : ""}${gone ? " gone" : ""}`);
    if (event && room >= 13) cell.append(sign(this.run.signs[event], ""));
    return cell;
  }

  showMoments() {
    [...this.root.querySelectorAll(".moment")].forEach((node, index) => {
      node.classList.toggle("now", index === this.moment);
      node.setAttribute("aria-current", index === this.moment ? "step" : "false");
    });
  }

  // ---------------------------------------------------------------- input

  on(target, type, act) {
    target.addEventListener(type, act);
    this.leavers.push(() => target.removeEventListener(type, act));
  }

  listen() {
    const acts = {
      first: () => this.go(0, "jump"),
      back: () => this.go(this.moment - 1),
      play: () => this.toggle(),
      forward: () => this.go(this.moment + 1),
      last: () => this.go(this.last, "jump"),
      parting: () => this.goParting(),
      marks: () => this.toggleMarks(),
    };
    for (const node of this.root.querySelectorAll("[data-do]")) {
      node.type = "button";
      this.on(node, "click", () => acts[node.dataset.do]());
    }
    const select = this.find(".where select");
    this.on(select, "change", () => {
      this.phase = this.run.phases.indexOf(select.value);
      this.go(this.moment);
      select.blur();
    });
    this.tabs();
    this.on(this.root.ownerDocument, "keydown", (event) => this.key(event));
    this.on(window, "resize", () => this.fit());
    this.on(matchMedia("(prefers-color-scheme: dark)"), "change", () => setTimeout(() => this.dress(), 50));
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(this.root);
    this.leavers.push(() => observer.disconnect());
  }

  tabs() {
    const all = [...this.root.querySelectorAll("[role=tab]")];
    const pick = (name) => {
      this.tab = name;
      for (const tab of all) {
        tab.setAttribute("aria-selected", tab.dataset.tab === name);
        this.find(`.lower > .${tab.dataset.tab}`).classList.toggle("chosen", tab.dataset.tab === name);
      }
    };
    for (const tab of all) this.on(tab, "click", () => pick(tab.dataset.tab));
    pick(this.tab);
  }

  toggleMarks() {
    this.marks = !this.marks;
    this.go(this.moment, "jump");
  }

  key(event) {
    if (!this.run || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.root.isConnected || !this.root.clientWidth || this.hidden.has("transport") || isTaken(event, this.root)) return;
    const held = event.repeat ? "jump" : "fade";
    const acts = {
      " ": () => event.repeat || this.toggle(),
      ArrowRight: () => (event.shiftKey ? this.goPhase(1) : this.go(this.moment + 1, held)),
      ArrowLeft: () => (event.shiftKey ? this.goPhase(-1) : this.go(this.moment - 1, held)),
      Home: () => this.go(0, "jump"),
      End: () => this.go(this.last, "jump"),
      d: () => this.goParting(),
      D: () => this.goParting(),
      m: () => this.toggleMarks(),
      M: () => this.toggleMarks(),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  leave() {
    this.pause();
    this.wishes.hush();
    for (const undo of this.leavers) undo();
  }
}

function span([text, role]) {
  return role ? el("span", role, text) : text;
}

function table(node, rows, head) {
  if (!rows.length) {
    node.replaceChildren();
    return;
  }
  const line = (tag, cells) => el("tr", "", ...cells.map((text) => el(tag, "", text)));
  node.replaceChildren(line("th", head), ...rows.map(([name, values]) => line("td", [name, ...values])));
}

export default function mount({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".stage");
  if (parentElement.compare?.root !== root) {
    parentElement.compare?.leave();
    parentElement.compare = new Compare(root);
  }
  const { compare } = parentElement;
  compare.wishes.report = (view) => setStateValue("view", view);
  compare.receive(data);
  return () => {
    compare.leave();
    delete parentElement.compare;
  };
}
