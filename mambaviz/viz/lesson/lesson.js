// A lesson: stop after stop of a run, in big type. All stops are here; Python hears where it stands.

const LEGEND_SCALE = 1.45;

class Lesson {
  constructor(root) {
    this.root = root;
    this.stop = 0;
    this.wishes = new Wishes();
    this.leavers = [];
    this.listen();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  receive({ payload, asked }) {
    this.dress();
    const wished = this.wishes.take(asked);
    if (payload !== this.payload) {
      this.payload = payload;
      this.load(JSON.parse(payload));
      this.show(wished ? asked.stop : this.stop, "jump");
    } else if (wished && asked.stop !== this.stop) {
      this.show(asked.stop, "jump");
    }
    if (wished) this.wishes.known(this.view());
  }

  view() {
    return { stop: this.stop };
  }

  load(run) {
    this.run = run;
    this.pictures = ["lane", "conv", "temporal"].map((name) => {
      const svg = this.find(`.${name}-picture`);
      svg.replaceChildren();
      sizeSvg(svg, ...run.sizes[name], 1);
      return [name, new Picture(svg.appendChild(svgNode("g", {})), run.bodies, run.motion)];
    });
    this.find(".title span").textContent = run.title;
    this.find(".title span").title = run.title;
    const progress = this.find(".progress");
    progress.classList.toggle("many", run.stops.length > 12);
    progress.replaceChildren(...run.stops.map(() => el("i", "")));
    progress.setAttribute("aria-valuemax", run.stops.length);
  }

  dress() {
    this.root.dataset.theme = luminance(backgroundOf(this.root)) < 0.4 ? "dark" : "light";
  }

  go(by) {
    const next = clamp(this.stop + by, 0, this.run.stops.length - 1);
    if (next === this.stop) return;
    this.show(next, by > 0 ? "forward" : "fade");
    this.wishes.tell(() => this.view());
  }

  // Show a stop; going forward, what it copies is seen moving.
  show(stop, how) {
    this.stop = clamp(stop, 0, this.run.stops.length - 1);
    const at = this.run.stops[this.stop];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || how === "jump";
    const manner = still ? "jump" : how === "forward" && at.copies ? "copy" : "fade";
    for (const [name, picture] of this.pictures) {
      picture.show(new Map(Object.entries(at[name])), manner, 1);
    }
    words(this.find(".say"), at.words);
    this.find(".where span").textContent = at.where;
    this.find(".conv-title").textContent = at.conv_title;
    this.find(".temporal-title").textContent = at.temporal_title;
    this.find(".lane-picture").setAttribute("aria-label", `tokens and blocks of request ${at.request}`);
    this.find(".conv-picture").setAttribute("aria-label", `conv window: ${at.conv_title}`);
    this.find(".temporal-picture").setAttribute("aria-label", `temporal state: ${at.temporal_title}`);
    this.showLegend(at.legend);
    this.showProgress();
  }

  showLegend(items) {
    const holder = this.find(".legend");
    legend(holder, items);
    for (const svg of holder.querySelectorAll("svg")) {
      for (const side of ["width", "height"]) svg.setAttribute(side, svg.getAttribute(side) * LEGEND_SCALE);
    }
  }

  showProgress() {
    const progress = this.find(".progress");
    const last = this.run.stops.length - 1;
    [...progress.children].forEach((mark, index) => {
      mark.className = index === this.stop ? "now" : index < this.stop ? "done" : "";
    });
    progress.setAttribute("aria-valuenow", this.stop + 1);
    progress.setAttribute("aria-valuetext", `stop ${this.stop + 1} of ${last + 1}`);
    progress.title = `stop ${this.stop + 1} of ${last + 1}`;
    this.find("[data-do=back]").disabled = this.stop === 0;
    this.find("[data-do=on]").disabled = this.stop === last;
  }

  on(target, type, act) {
    target.addEventListener(type, act);
    this.leavers.push(() => target.removeEventListener(type, act));
  }

  listen() {
    const acts = { back: () => this.go(-1), on: () => this.go(1), leave: () => this.onLeave() };
    for (const node of this.root.querySelectorAll("[data-do]")) {
      node.type = "button";
      this.on(node, "click", () => acts[node.dataset.do]());
    }
    this.on(this.root.ownerDocument, "keydown", (event) => this.key(event));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.on(dark, "change", () => setTimeout(() => this.dress(), 50));
  }

  key(event) {
    if (!this.run || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.root.isConnected || !this.root.clientWidth || isTaken(event, this.root)) return;
    const most = this.run.stops.length;
    const by = { " ": 1, ArrowRight: 1, ArrowLeft: -1, Home: -most, End: most }[event.key];
    if (!by || (event.key === " " && event.repeat)) return;
    event.preventDefault();
    this.go(by);
  }

  leave() {
    this.wishes.hush();
    for (const undo of this.leavers) undo();
  }
}

export default function mount({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".stage");
  if (parentElement.lesson?.root !== root) {
    parentElement.lesson?.leave();
    parentElement.lesson = new Lesson(root);
  }
  const { lesson } = parentElement;
  lesson.wishes.report = (view) => setStateValue("view", view);
  lesson.onLeave = () => setTriggerValue("left", true);
  lesson.receive(data);
  return () => {
    lesson.leave();
    delete parentElement.lesson;
  };
}
