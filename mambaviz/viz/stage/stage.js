// The stage: one node that stays, holds a whole run and steps through it in the browser.
// Python hears where it stands when it pauses or has been stepped by hand, never while it plays.

const SPEEDS = [0.5, 1, 2, 4];
const LOW = 800; // window height below which the lower panels become tabs
const NARROW = 1080; // width of the stage below which it gets tighter
const STACKED = 860;
const MOST_LANES = 8; // requests that are drawn at once; the others are listed
const STEPPING = new Set([" ", "ArrowRight", "ArrowLeft", "Home", "End", "e", "E"]);

// Lines of text that only a screen reader sees.
function toldLines(holder, lines) {
  while (holder.children.length > lines.length) holder.lastChild.remove();
  lines.forEach((line, index) => {
    const item = holder.children[index] ?? holder.appendChild(el("li", ""));
    if (item.textContent !== line) item.textContent = line;
  });
}

class Stage {
  constructor(root) {
    this.root = root;
    this.frame = 0;
    this.request = 0;
    this.layer = 0;
    this.group = 0;
    this.speed = 1;
    this.hex = false;
    this.tab = "why";
    this.details = false; // whether the panels below are shown
    this.wishes = new Wishes();
    this.leavers = [];
    this.reportDrawn = () => {};
    this.overview = new Overview(this.find(".overview-box"));
    this.links = new Links(this);
    this.grid = new LaneGrid(this);
    this.tips = new Tips(root);
    this.keyList = new KeyList(root);
    this.groups = [[".lamps", ".lamp"], [".say", ".term"], [".legend", "[data-term]"], [".why .body", "[data-term]"], [".metadata .body", "tr.field, .bkc"]]
      .map(([holder, items]) => new Roving(root, this.find(holder), items));
    this.listen();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  // ---------------------------------------------------------------- from and to Python

  // What Python sends. A long run comes packed: unpacking it takes a moment, in which what stands
  // goes on; of what has come meanwhile only the latest counts.
  take(data) {
    this.sent = data;
    const { payload } = data;
    if (!isPacked(payload)) {
      this.packed = null;
      this.receive(data);
    } else if (this.packed === payload) {
      if (this.unpacked) this.receive({ ...data, payload: this.unpacked });
    } else {
      [this.packed, this.unpacked] = [payload, null];
      unpack(payload).then((text) => {
        if (this.packed !== payload) return;
        this.unpacked = text;
        this.receive({ ...this.sent, payload: text });
      });
    }
  }

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
      // The same scenario computed anew (a live run for the recorded one) goes on where it is.
      const stays = !wished && this.run?.run === next.run;
      const [place, playing] = [stays ? this.view() : asked, stays && this.playing];
      this.load(new Run(next));
      this.adopt(place);
      if (playing) this.toggle();
    } else if (wished && !this.isAt(asked)) {
      this.adopt(asked);
    }
    if (wished) this.wishes.known(this.view());
    this.tellDrawn();
  }

  // Python waits with heavy work until the picture is there: a frame later it has been painted.
  tellDrawn() {
    const { run } = this.run;
    if (this.drawn === run) return;
    this.drawn = run;
    requestAnimationFrame(() => setTimeout(() => this.reportDrawn(run)));
  }

  isAt({ step, phase, request, layer, details }) {
    const here = this.view();
    const wanted = request ?? this.run.requests[this.subject(this.frame)];
    return here.step === step && here.phase === phase && here.layer === layer && here.request === wanted && here.details === details;
  }

  adopt({ step, phase, request, layer, details }) {
    const { run } = this;
    this.pause();
    this.unfold(details);
    this.layer = Math.max(0, run.layers.findIndex(([number]) => number === layer));
    this.group = run.layers[this.layer][1];
    const last = run.steps.length - 1;
    const at = Math.min(Math.max(step, 0), last) * run.phases.length + Math.max(0, run.phases.indexOf(phase));
    const named = run.requests.indexOf(request);
    this.picked = named >= 0;
    this.visited = null;
    if (this.picked) this.request = named;
    this.show(at, "jump");
  }

  view() {
    const { run } = this;
    return {
      step: Math.floor(this.frame / run.phases.length),
      phase: run.phases[this.frame % run.phases.length],
      request: run.requests[this.request],
      layer: run.layers[this.layer][0],
      details: this.details,
    };
  }

  tell() {
    if (this.playing) this.wishes.hush();
    else this.wishes.tell(() => this.view());
  }

  // ---------------------------------------------------------------- a run comes in

  load(run) {
    this.root.classList.remove("waiting"); // first: pictures are measured where they are seen
    if (this.run?.run !== run.run) this.find(".findings").hidden = true; // else the reader goes on reading
    this.run = run;
    this.frame = 0;
    this.seen = {};
    this.links.release();
    this.overview.load(run);
    toldLines(this.find("#overview-told"), run.steps.map((step) => step.alt));
    this.buildChips();
    this.buildLamps();
    this.buildRamp();
    legend(this.find(".legend"), run.legend);
    this.fitLegend();
    this.find(".lane-picture").replaceChildren();
    this.find(".state-picture").replaceChildren();
    this.find(".change-picture").replaceChildren();
    this.lanes = null;
    const [width, height] = run.sizes.state;
    this.statePicture = this.picture(this.find(".state-picture"), width, height);
    this.changePicture = this.picture(this.find(".change-picture"), run.sizes.changes[0], run.sizes.changes[1]);
    this.fit();
  }

  picture(svg, width, height) {
    sizeSvg(svg, width, height, 1);
    return new Picture(svg.appendChild(svgNode("g", {})), this.run.bodies, this.run.motion);
  }

  // ---------------------------------------------------------------- theme and size

  // Dark or light by what really lies behind the stage.
  dress() {
    const dark = luminance(backgroundOf(this.root)) < 0.4;
    this.root.dataset.theme = dark ? "dark" : "light";
  }

  fit() {
    const width = this.root.clientWidth;
    if (!width) return;
    this.root.classList.toggle("low", window.innerHeight < LOW);
    this.root.classList.toggle("narrow", width < NARROW);
    this.root.classList.toggle("stacked", width < STACKED);
    if (!this.run) return;
    this.overview.build();
    this.scalePictures();
    this.labelSums();
    this.fitLegend();
    this.tips.hide();
    this.changesRoom = null;
    if (this.lanes) this.showPanels("jump");
  }

  // The stage is as high as what it says, step by step; only its width is a reason to fit anew.
  fitWidth() {
    const width = this.root.clientWidth;
    if (width === this.fitted) return;
    this.fitted = width;
    this.fit();
  }

  // The legend keeps to one line; what does not fit waits behind a button at its end.
  fitLegend() {
    const holder = this.find(".legend");
    const { legendOpen: open } = this;
    holder.querySelector(".more")?.remove();
    const items = [...holder.children];
    for (const item of items) item.classList.remove("over");
    holder.classList.add("line"); // for measuring
    const room = holder.clientWidth;
    const right = (item) => item.offsetLeft - holder.offsetLeft + item.offsetWidth;
    if (!room || !items.length || right(items.at(-1)) <= room) return;
    const over = items.filter((item) => right(item) > room - 86);
    if (!open) for (const item of over) item.classList.add("over");
    holder.classList.toggle("line", !open);
    const count = over.filter((item) => item.matches("span")).length;
    const more = button(open ? "less" : `${count} more`, Boolean(open), () => {
      this.legendOpen = !open;
      this.fitLegend();
      holder.querySelector(".more")?.focus();
    });
    more.className = "small more";
    holder.append(more);
  }

  // Pictures are drawn at their own size; a narrow panel makes them a little smaller.
  scalePictures() {
    const scroll = this.find(".lanes .scroll");
    [this.room, this.scrolled] = [scroll.clientWidth, scroll.scrollLeft];
    const lanes = this.room - 8; // its padding
    const state = this.find(".state .scroll").clientWidth - 24; // its padding
    const { sizes, groups } = this.run;
    this.scale = clamp(lanes / sizes.lanes[0], 0.86, 1);
    sizeSvg(this.find(".lane-picture"), groups[this.group].width, this.laneHeight(), this.scale);
    sizeSvg(this.find(".state-picture"), ...sizes.state, clamp(state / sizes.state[0], 0.86, 1), 4);
  }

  // ---------------------------------------------------------------- stepping

  get last() {
    return this.run.frames - 1;
  }

  step(by, how) {
    this.go(this.frame + by, how);
  }

  go(frame, how = "fade") {
    this.pause();
    this.show(clamp(frame, 0, this.last), how);
    this.tell();
  }

  // The next event, or with -1 the one before: in every phase in which something moves, each
  // request that it is about. From here on the panel follows the events again.
  nextEvent(by = 1) {
    this.picked = false;
    const here = this.about(this.frame);
    const next = here[here.indexOf(this.request) + by];
    if (here.includes(this.request) && next !== undefined) {
      this.visit(this.frame, next);
      return;
    }
    let frame = this.frame + by;
    while (frame > 0 && frame < this.last && !this.run.events(frame).length) frame += by;
    frame = clamp(frame, 0, this.last);
    const about = this.about(frame);
    this.visit(frame, about.at(by > 0 ? 0 : -1));
  }

  // Of the requests that a frame is about, show this one, until another event comes.
  visit(frame, request) {
    this.visited = request === undefined ? null : { frame, request };
    this.go(frame);
  }

  // Where the reader has picked no request, the panel is about the one of the latest event: by
  // which way the frame was reached makes no difference.
  followEvent() {
    if (this.visited?.frame !== this.eventAt(this.frame)) this.visited = null;
    if (!this.picked) this.request = this.visited?.request ?? this.subject(this.frame);
  }

  // The latest frame, up to this one, that is about a request; -1 where there is none.
  eventAt(frame) {
    let at = frame;
    while (at >= 0 && !this.about(at).length) at -= 1;
    return at;
  }

  // The request that a frame opens with where the reader has picked none (viz/payload.py).
  subject(frame) {
    const at = this.eventAt(frame);
    return at < 0 ? 0 : this.about(at)[0];
  }

  // The requests that a frame's events are about: shown where the reader has picked none.
  about(frame) {
    const phases = this.run.phases.length;
    return this.run.steps[Math.floor(frame / phases)].about?.[frame % phases] ?? [];
  }

  toggle() {
    if (this.playing) {
      this.pause();
      this.tell();
      return;
    }
    this.wishes.hush();
    if (this.frame === this.last) this.show(0, "jump");
    this.playing = true;
    this.root.classList.add("playing");
    this.labelPlay();
    this.wait(0);
  }

  wait(time) {
    this.timer = setTimeout(() => {
      if (this.frame >= this.last) {
        this.pause();
        this.tell();
        return;
      }
      this.wait(this.show(this.frame + 1, "fade"));
    }, time);
  }

  pause() {
    clearTimeout(this.timer);
    this.playing = false;
    this.root.classList.remove("playing");
    this.labelPlay();
  }

  labelPlay() {
    this.find(".say").setAttribute("aria-live", this.playing ? "off" : "polite"); // a flood else
    this.find("[data-do=play]").setAttribute("aria-label", this.playing ? "pause" : "play");
  }

  // ---------------------------------------------------------------- one frame

  // Whether something differs from what was shown last under this name.
  isNew(name, ...values) {
    const old = this.seen[name];
    this.seen[name] = values;
    return !old || values.some((value, index) => value !== old[index]);
  }

  // Show a frame; returns how long it wants to be looked at, in ms.
  show(frame, how) {
    const { run } = this;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const forward = frame === this.frame + 1;
    this.frame = frame;
    this.followEvent();
    const copies = run.events(frame).some((event) => event === "migrate" || event === "checkpoint");
    const manner = how === "jump" || still ? "jump" : copies && forward ? "copy" : "fade";
    this.showLanes(manner);
    this.showState(manner);
    this.showTexts();
    this.showPanels(manner);
    this.overview.show(frame);
    this.showChips();
    this.showLamps();
    this.showTold();
    this.grid.refresh();
    this.links.refresh();
    for (const group of this.groups) group.refresh();
    if (this.scrolls) this.tellAway(this.scrolled);
    this.follow(manner); // last: it may have to measure, and nothing changes after it
    const { fade, draw, slide, frame: framed, rest } = run.motion;
    return ((copies ? draw + slide + framed : fade) + rest) / this.speed;
  }

  showLanes(manner) {
    const key = `${this.group}:${this.drawnRequests()[0]}`;
    const { run } = this;
    this.labelSums();
    if (this.lanes?.key !== key) this.lanes = { key, pictures: this.buildLanes() };
    if (this.lanes.chosen !== this.request) this.arrangeLanes();
    const layer = this.groupLayer();
    for (const lane of this.lanes.pictures) {
      const { picture, size, index } = lane;
      const marks = run.marks(`lane:${this.group}:${layer}:${index}:${size}`, this.frame);
      const anew = lane.drawn !== size; // in another size nothing stays where it was
      if (anew) picture.show(new Map(), "jump", this.speed);
      picture.show(marks, anew ? "jump" : manner, this.speed);
      lane.drawn = size;
    }
  }

  // The layer whose blocks the lanes read: the chosen one, or the first of the group on show.
  groupLayer() {
    const { layers } = this.run;
    if (layers[this.layer][1] === this.group) return layers[this.layer][2];
    const other = layers.find(([, group]) => group === this.group);
    return other ? other[2] : "None";
  }

  // The requests whose lanes are drawn: the page of eight that the chosen one is on.
  drawnRequests() {
    const all = this.run.requests.map((_, index) => index);
    const first = Math.floor(this.request / MOST_LANES) * MOST_LANES;
    return all.slice(first, first + MOST_LANES);
  }

  laneHeight() {
    const [, heading, full, other] = this.run.sizes.lanes;
    return heading + 2 + full + (this.drawnRequests().length - 1) * other;
  }

  // One sentence for whatever is too large to be drawn one by one.
  labelSums() {
    const { run } = this;
    const drawn = this.drawnRequests();
    const others = run.requests.length - drawn.length;
    const names = drawn.length > 1 ? `${run.requests[drawn[0]]} to ${run.requests[drawn.at(-1)]}` : run.requests[drawn[0]];
    const lanes = others ? `Of ${run.requests.length} requests, ${names} are drawn; choose another to see the others.` : "";
    const text = [lanes, this.overview.summed].filter(Boolean).join(" ");
    const told = this.find(".sums");
    if (told.textContent !== text) told.textContent = text;
    told.hidden = !text;
  }

  buildLanes() {
    const { run } = this;
    const svg = this.find(".lane-picture");
    const [, heading, , , left] = run.sizes.lanes;
    const group = run.groups[this.group];
    const drawn = this.drawnRequests();
    svg.replaceChildren();
    svg.setAttribute("aria-label", `tokens and block tables of ${drawn.map((index) => run.requests[index]).join(", ")}`);
    const head = svg.appendChild(svgNode("g", {}));
    for (const [body, x, y] of group.heading) {
      const node = bodyNode(run.bodies[body]);
      place(node, x, y);
      head.append(node);
    }
    this.headGutter = head.appendChild(svgNode("rect", { x: -8, width: left + 6, height: heading }, "page"));
    const pictures = drawn.map((index) => {
      const lane = svg.appendChild(svgNode("g", {}));
      const hit = lane.appendChild(svgNode("rect", { width: group.width, fill: "none" }));
      hit.style.pointerEvents = "all";
      lane.dataset.request = index;
      const line = index > drawn[0] ? lane.appendChild(svgNode("path", { d: `M0 -5H${group.width}` }, "axis")) : null;
      lane.addEventListener("click", () => {
        if (index !== this.request) this.choose({ request: index });
      });
      const picture = new Picture(lane, run.bodies, run.motion);
      const away = lane.appendChild(svgNode("text", { x: left + 8 }, "m s125 halo away"));
      return { picture, lane, hit, line, index, away };
    });
    this.left = left;
    this.scalePictures();
    return pictures;
  }

  // The chosen request's lane is the large one; all of them stay the nodes they are.
  arrangeLanes() {
    const { run } = this;
    const [, heading, full, other] = run.sizes.lanes;
    let y = heading;
    for (const held of this.lanes.pictures) {
      const { lane, hit, line, index, away } = held;
      held.size = index === this.request || run.requests.length < 3 ? "full" : run.sizes.others;
      const height = held.size === "full" ? full : other;
      lane.setAttribute("class", index === this.request ? "lane chosen" : "lane");
      lane.setAttribute("transform", `translate(0 ${y})`);
      hit.setAttribute("height", height);
      away.setAttribute("y", held.size === "full" ? 114.5 : height / 2 + 4);
      const apart = run.sizes.others === "small" || [index, index - 1].includes(this.request);
      line?.setAttribute("visibility", apart ? "visible" : "hidden");
      y += height;
    }
    this.lanes.chosen = this.request;
  }

  chosenPicture() {
    return this.lanes.pictures.find(({ index }) => index === this.request).picture;
  }

  // On a long axis, keep the column at work in view; labels on the left stay where they are.
  follow(manner) {
    const { scale, scrolled, room } = this; // known already: asking would make the page lay out
    if (!this.scrolls) return;
    const running = this.chosenPicture().nodes.get("running");
    if (!running) return;
    const [first, last] = this.atWork(running.entry[1]);
    if (first > scrolled + this.left * scale && last < scrolled + room) return;
    const before = Math.min(room * 0.35, room - (last - first) - 12);
    const left = Math.max(0, first - Math.max(before, this.left * scale));
    this.find(".lanes .scroll").scrollTo({ left, behavior: manner === "jump" ? "auto" : "smooth" });
  }

  get scrolls() {
    return this.run.groups[this.group].width * this.scale > this.room;
  }

  // From where to where the selected lane is at work, in pixels: running column and arrows.
  atWork(running) {
    const group = this.run.groups[this.group];
    const ends = [running, running + group.lefts[1] - group.lefts[0]];
    for (const [name, { node }] of this.chosenPicture().nodes) {
      if (!name.startsWith("arrow")) continue;
      const box = node.getBBox();
      ends.push(box.x, box.x + box.width);
    }
    return [Math.min(...ends) * this.scale, Math.max(...ends) * this.scale];
  }

  pinGutter() {
    const { scrollLeft } = this.find(".lanes .scroll");
    this.scrolled = scrollLeft;
    this.headGutter.style.transform = move(scrollLeft / this.scale, 0);
    for (const { picture } of this.lanes?.pictures ?? []) {
      picture.layers[3].style.transform = move(scrollLeft / this.scale, 0);
    }
    this.tellAway(scrollLeft);
  }

  // A lane whose running column is scrolled out of view says where it is.
  tellAway(scrollLeft) {
    const { lefts } = this.run.groups[this.group];
    for (const { picture, away } of this.lanes?.pictures ?? []) {
      const at = picture.nodes.get("running")?.entry[1];
      const [before, after] = [at * this.scale < scrollLeft, at * this.scale > scrollLeft + this.room];
      const column = lefts.findLastIndex((left) => left <= at + 3);
      const told = before ? `← runs in column ${column}` : after ? `runs in column ${column} →` : "";
      if (away.textContent !== told) away.textContent = told;
      away.style.transform = move(scrollLeft / this.scale, 0);
    }
  }

  showState(manner) {
    const { run } = this;
    const [, , twin] = run.layers[this.layer];
    const other = this.isNew("state", this.request, this.layer, this.group);
    const marks = run.marks(`state:${this.request}:${twin}`, this.frame);
    this.statePicture.show(marks, other ? "jump" : manner, this.speed);
    if (other) this.labelState();
  }

  labelState() {
    const { run } = this;
    const [layer] = run.layers[this.layer];
    const name = run.requests[this.request];
    this.find(".state-of").textContent = `State of request ${name}, layer ${layer}`;
    this.find(".state-picture").setAttribute("aria-label", `conv window and temporal state of request ${name}`);
    segments(this.find(".requests"), run.requests, this.request, "request", (index) => this.choose({ request: index }));
    segments(this.find(".layers"), run.layers.map(([number]) => `layer ${number}`), this.layer, "layer", (index) => this.choose({ layer: index }));
    const names = run.groups.length > 1 ? run.groups.map(({ name: group }) => group) : [];
    segments(this.find(".groups"), names, this.group, "cache group", (index) => this.chooseGroup(index));
  }

  // The expert panels, as far as one sees them: what is folded is drawn when it is unfolded.
  showPanels(manner) {
    if (this.sees("changes")) this.showChanges(manner);
    if (this.sees("why")) this.showWhy();
    // A pinned field marks its blocks through the table's rows.
    if (this.sees("metadata") || this.links.shown?.kind === "field") this.showMetadata();
  }

  sees(panel) {
    if (!this.details || this.hidden?.has("panels")) return false;
    return this.tab === panel || !this.root.classList.contains("low");
  }

  showChanges(manner) {
    const { run } = this;
    const [layer] = run.layers[this.layer];
    const marks = run.marks(`changes:${layer}`, this.frame);
    const none = marks.size === 0;
    if (!this.isNew("changes", none, this.hex) && none) return;
    const width = run.panel(`width:${layer}`, this.frame) ?? 0;
    this.changesRoom ??= this.find(".changes .body").clientWidth;
    const scale = clamp((this.changesRoom || width) / (width || 1), 0.9, 1); // a little too wide is made to fit
    sizeSvg(this.find(".change-picture"), width, run.sizes.changes[1], scale);
    // A block's grids stand at another place in every phase: they do not slide, they are new.
    const how = manner === "copy" ? "copy" : "jump";
    this.changePicture.show(new Map(), "jump", this.speed);
    this.changePicture.show(marks, how, this.speed);
    this.find(".changes .nothing").textContent = !none ? "" : run.bytes ? "No block changes in this phase." : "The recording holds indices, no bytes.";
    this.find(".change-picture").toggleAttribute("hidden", this.hex || none);
    this.find(".hex").hidden = !this.hex || none;
    if (this.hex) hexDump(this.find(".hex"), this.changePicture);
    this.find(".pointed-at").textContent = "";
  }

  showTexts() {
    const { run, frame } = this;
    const [, , twin] = run.layers[this.layer];
    const told = run.panel(`words:${this.request}:${twin}`, frame);
    if (this.isNew("words", told)) this.say(told);
    const pool = run.panel("pool", frame);
    if (this.isNew("pool", pool)) this.find(".pool").textContent = pool;
  }

  showWhy() {
    const why = this.run.panel("why", this.frame);
    if (this.isNew("why", why)) whyTable(this.find(".why .body"), why);
  }

  showMetadata() {
    const { run, frame } = this;
    const [, group] = run.layers[this.layer];
    const found = run.panel(`metadata:${this.group}`, frame) ?? run.panel(`metadata:${group}`, frame);
    if (!this.isNew("metadata", found)) return;
    this.find(".metadata .note").textContent = found.note;
    metadataTable(this.find(".metadata .body"), found, run.meanings, (row) => this.tellField(row));
    this.tellField(null);
  }

  say(told) {
    const known = new Set();
    words(this.find(".say"), told, (text) => withTerms(text, known));
  }

  // The pictures in words, beside them, for a screen reader.
  showTold() {
    const { run, frame } = this;
    const [layer, , twin] = run.layers[this.layer];
    const lanes = this.drawnRequests().flatMap((index) => run.panel(`alt-lane:${this.group}:${this.groupLayer()}:${index}`, frame) ?? []);
    const told = { lanes, state: run.panel(`alt-state:${this.request}:${twin}`, frame), changes: run.panel(`alt-changes:${layer}`, frame) };
    for (const [name, lines] of Object.entries(told)) {
      if (this.isNew(`told ${name}`, lines?.join())) toldLines(this.find(`#${name}-told`), (lines ?? []).map((line) => run.lines[line]));
    }
  }

  // ---------------------------------------------------------------- choosing

  choose({ request = this.request, layer = this.layer }) {
    this.pause();
    this.picked ||= request !== this.request;
    this.request = request;
    this.layer = layer;
    this.group = this.run.layers[layer][1];
    this.show(this.frame, "jump");
    this.tell();
  }

  chooseGroup(group) {
    const layer = this.run.layers.findIndex(([, other]) => other === group);
    if (layer >= 0) {
      this.choose({ layer });
      return;
    }
    this.group = group; // no layer keeps state in it: only the lanes change
    this.show(this.frame, "jump");
  }

  // ---------------------------------------------------------------- overview and chips

  buildChips() {
    const { run } = this;
    this.find(".chips").replaceChildren(...run.phases.map((phase, index) => {
      const chip = explained(el("button", "chip", phase), phase);
      chip.type = "button";
      chip.addEventListener("click", () => this.go(this.frame - (this.frame % run.phases.length) + index));
      return chip;
    }));
  }

  showChips() {
    const { run } = this;
    const now = this.frame % run.phases.length;
    const chips = [...this.find(".chips").children];
    if (this.isNew("chips", this.frame - now)) chips.forEach((chip, index) => this.dressChip(chip, this.frame - now + index));
    chips.forEach((chip, index) => {
      chip.className = `chip ${index === now ? "now" : index > now ? "ahead" : ""}`;
      chip.setAttribute("aria-current", index === now ? "step" : "false");
      chip.tabIndex = index === now ? 0 : -1;
    });
    // The arrows step the run; a focus among the chips goes along.
    if (chips.includes(this.root.getRootNode().activeElement)) chips[now].focus();
  }

  dressChip(chip, frame) {
    const { run } = this;
    const events = run.events(frame);
    const signs = events.slice(0, 3).map((event) => sign(run.signs[event], event));
    chip.replaceChildren(run.phases[frame % run.phases.length], ...signs);
    const came = [...new Set(events)].map((event) => run.events_in_words[event]);
    chip.dataset.now = came.length ? `In this step: ${came.join(", ")}.` : "";
    chip.setAttribute("aria-label", [run.phases[frame % run.phases.length], ...came].join(", "));
  }

  buildRamp() {
    const ramp = this.find(".ramp");
    const steps = ["n10", "n7", "n3", "z", "p3", "p7", "p10"];
    ramp.replaceChildren(
      svgNode("rect", { width: 56, height: 10 }, "z"),
      ...steps.map((cls, index) => svgNode("rect", { x: index * 8, width: 8, height: 10 }, cls)),
    );
  }

  // ---------------------------------------------------------------- lamps

  buildLamps() {
    const lamps = this.run.invariants.map((name) => {
      const lamp = el("button", "lamp", svgNode("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }), name);
      lamp.type = "button";
      explained(lamp, name);
      lamp.addEventListener("click", () => this.openLamp(name));
      return lamp;
    });
    this.find(".lamps").replaceChildren(el("span", "", "invariants"), ...lamps);
  }

  stepFindings() {
    const at = this.frame % this.run.phases.length;
    const step = Math.floor(this.frame / this.run.phases.length);
    return this.run.steps[step].findings.filter(([, phase]) => phase <= at);
  }

  showLamps() {
    const { run } = this;
    const broken = new Set(this.stepFindings().map(([name]) => name));
    const step = Math.floor(this.frame / run.phases.length);
    if (!this.isNew("lamps", step, [...broken].join())) return;
    const texts = run.steps[step].lamps;
    [...this.find(".lamps").querySelectorAll(".lamp")].forEach((lamp, index) => {
      const bad = broken.has(run.invariants[index]);
      if (run.unjudged.includes(run.invariants[index])) return this.darken(lamp, run.invariants[index]);
      lamp.classList.toggle("bad", bad);
      lamp.dataset.now = `${texts[index].split("; ").slice(1).join("; ")}; ${bad ? "broken, press for the place" : "holds"}.`;
      lamp.setAttribute("aria-label", `${texts[index]}; ${bad ? "broken" : "holds"}`);
      lamp.firstChild.replaceChildren(
        svgNode("path", { d: bad ? "M7 .5L13.5 7L7 13.5L.5 7z" : "M.5 7a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0" }, "disc"),
        svgNode("path", { d: bad ? "M4.8 4.8l4.4 4.4M9.2 4.8l-4.4 4.4" : "M3.8 7.3l2.2 2.2l4.2 -4.6" }, "tick"),
      );
    });
    if (!this.find(".findings").hidden) this.fillFindings();
  }

  // A lamp that says nothing: what it stands for cannot be told from indices.
  darken(lamp, name) {
    lamp.dataset.now = "not judged: the recording holds indices, no bytes.";
    lamp.setAttribute("aria-label", `${name}: not judged, the recording holds indices, no bytes`);
    lamp.classList.add("unjudged");
    lamp.firstChild.replaceChildren(svgNode("path", { d: "M3 6h8v2h-8z" }, "disc"));
  }

  openLamp(name) {
    const list = this.find(".findings");
    if (!list.hidden && this.lamp === name) {
      this.closeLamp();
      return;
    }
    this.lamp = name;
    list.hidden = false;
    this.tips.hide();
    this.fillFindings();
    list.querySelector("button").focus();
  }

  // Whether a lamp was open; the focus goes back to it.
  closeLamp() {
    const list = this.find(".findings");
    if (list.hidden) return false;
    const inside = list.contains(this.root.getRootNode().activeElement);
    list.hidden = true;
    if (inside) this.find(".lamps").querySelectorAll(".lamp")[this.run.invariants.indexOf(this.lamp)].focus();
    return true;
  }

  // The exact step, phase, request and layer of a broken invariant, with the block it names ringed.
  goThere(step, [, phase, , , request, layer, block, column, field]) {
    const { run } = this;
    if (request !== null) [this.request, this.picked] = [request, true];
    const number = run.layers.findIndex(([other]) => other === layer);
    if (number >= 0) [this.layer, this.group] = [number, run.layers[number][1]];
    this.links.pinned = null;
    this.closeLamp(); // the place itself is what there is to see now
    if (field) this.unfold(true, "metadata");
    this.go(step * run.phases.length + phase, "jump");
    if (block !== null) this.links.pin(block ? { kind: "block", block } : { kind: "block", block, request, column });
    else if (field) this.links.pin({ kind: "field", name: field });
  }

  fillFindings() {
    const { run } = this;
    const list = this.find(".findings");
    const step = Math.floor(this.frame / run.phases.length);
    const text = run.steps[step].lamps[run.invariants.indexOf(this.lamp)];
    const found = run.steps[step].findings.filter(([name]) => name === this.lamp);
    const rows = found.map((finding) => {
      const [, , message, place] = finding;
      const row = el("button", "", message, el("small", "", place ? `go to ${place}` : "go there"));
      row.type = "button";
      row.addEventListener("click", () => this.goThere(step, finding));
      return row;
    });
    const close = el("button", "close", "✕");
    close.type = "button";
    close.setAttribute("aria-label", "close");
    close.addEventListener("click", () => this.closeLamp());
    const inside = list.contains(this.root.getRootNode().activeElement);
    list.replaceChildren(el("p", "", text), ...rows, close);
    if (inside) list.querySelector("button").focus();
  }

  // ---------------------------------------------------------------- fields and blocks point at each other

  // The meaning of the field that is pointed at, else of the first one with blocks.
  tellField(row) {
    const rows = [...this.find(".metadata .body").querySelectorAll("tr")].filter((other) => other.point);
    const shown = row ?? rows.find((other) => other.blocks.length);
    for (const other of rows) other.classList.toggle("at", other === shown);
    this.find(".meaning").replaceChildren(...(shown ? [el("b", "", shown.point.name), `: ${shown.point.meaning}`] : []));
  }

  pointCell(event) {
    const cells = event.target.closest?.(".cells");
    const told = this.find(".pointed-at");
    if (!cells) {
      told.textContent = "";
      return;
    }
    const { size, columns, rows, values, raw } = cells.heat;
    const box = cells.getBoundingClientRect();
    const scale = box.width / (size * columns);
    const column = clamp(Math.floor((event.clientX - box.left) / scale / size), 0, columns - 1);
    const row = clamp(Math.floor((event.clientY - box.top) / scale / size), 0, rows - 1);
    const at = row * columns + column;
    told.textContent = `row ${row}, column ${column}: ${values[at]}, hex ${raw[at]}`;
  }

  // ---------------------------------------------------------------- input

  on(target, type, act, options) {
    target.addEventListener(type, act, options);
    this.leavers.push(() => target.removeEventListener(type, act, options));
  }

  listen() {
    const acts = {
      first: () => this.go(0, "jump"),
      back: () => this.step(-1),
      play: () => this.toggle(),
      forward: () => this.step(1),
      last: () => this.go(this.last, "jump"),
      event: () => this.nextEvent(),
      "event-back": () => this.nextEvent(-1),
      speed: () => this.nextSpeed(),
      hex: () => this.toggleHex(),
      keys: () => this.keyList.toggle(),
      unpin: () => this.links.release(),
      details: () => this.toggleDetails(),
    };
    for (const node of this.root.querySelectorAll("[data-do]")) {
      node.type = "button";
      this.on(node, "click", () => acts[node.dataset.do]());
    }
    this.tabs();
    this.scrub();
    this.on(this.find(".lanes .scroll"), "scroll", () => this.pinGutter());
    this.on(this.find(".change-picture"), "pointermove", (event) => this.pointCell(event));
    this.on(this.find(".change-picture"), "pointerleave", () => { this.find(".pointed-at").textContent = ""; });
    this.point();
    const on = (...what) => this.on(...what);
    for (const part of [this.tips, this.grid, ...this.groups]) part.listen(on);
    this.on(this.root, "pointerdown", () => { this.root.dataset.by = "pointer"; }, true);
    this.on(this.root.ownerDocument, "keydown", (event) => { if (event.key === "Tab" || event.key === "Enter") this.root.dataset.by = "keys"; }, true);
    this.on(this.root.ownerDocument, "keydown", (event) => this.key(event));
    // Whoever saves a picture asks where the stage stands (pages/assets/picture.js).
    this.on(this.root.ownerDocument, "mambaviz-where", (event) => { if (this.run) event.detail.view = this.view(); });
    this.on(window, "resize", () => this.fit());
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.on(dark, "change", () => setTimeout(() => this.dress(), 50));
    this.root.ownerDocument.fonts.ready.then(() => this.run && this.fitLegend());
    const observer = new ResizeObserver(() => this.fitWidth());
    observer.observe(this.root);
    this.leavers.push(() => observer.disconnect());
  }

  // Hover and focus point at what they are on, a click keeps it (links.js).
  point() {
    const places = [this.find(".main"), this.find(".lower")];
    for (const place of places) {
      this.on(place, "pointerover", (event) => this.links.point(this.links.of(event.target)));
      this.on(place, "pointerleave", () => {
        this.links.point(null);
        this.tellField(null);
      });
      this.on(place, "focusin", (event) => this.links.point(event.target.matches(":focus-visible") ? this.links.of(event.target) : null));
      this.on(place, "focusout", () => this.links.point(null));
      this.on(place, "click", (event) => {
        const what = this.links.of(event.target);
        if (what) this.links.pin(what);
      });
    }
    this.on(this.find(".metadata .body"), "keydown", (event) => {
      const what = event.key === "Enter" || event.key === " " ? this.links.of(event.target) : null;
      if (!what) return;
      event.preventDefault();
      this.links.pin(what);
    });
  }

  // Show or fold the panels below; where the window is low, one of them.
  unfold(shown, tab = this.tab) {
    [this.details, this.tab] = [Boolean(shown), tab];
    this.root.classList.toggle("folded", !this.details);
    for (const node of this.root.querySelectorAll("[role=tab]")) {
      const chosen = this.details && node.dataset.tab === tab;
      node.setAttribute("aria-selected", chosen);
      node.tabIndex = node.dataset.tab === tab ? 0 : -1;
      this.find(`.lower .${node.dataset.tab}`).classList.toggle("chosen", chosen);
    }
    if (!this.lanes) return; // a run that has just come in is shown in a moment
    this.seen.changes = this.changesRoom = null; // drawn to fit, which it cannot be while folded
    this.showPanels("jump");
    this.links.refresh();
    for (const group of this.groups) group.refresh();
  }

  toggleDetails() {
    this.unfold(!this.details);
    this.tell();
  }

  tabs() {
    const pick = (name) => {
      this.unfold(!(this.details && this.tab === name), name);
      this.tell();
    };
    const all = [...this.root.querySelectorAll("[role=tab]")];
    all.forEach((tab, index) => {
      this.on(tab, "click", () => pick(tab.dataset.tab));
      this.on(tab, "keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        const next = all[(index + by + all.length) % all.length];
        if (this.details) pick(next.dataset.tab);
        next.focus();
      });
    });
    this.unfold(this.details);
  }

  scrub() {
    const strip = this.find(".overview");
    const follow = (event) => {
      const frame = this.overview.frameAt(event);
      if (frame !== this.frame) this.go(frame, "jump");
    };
    this.on(strip, "pointerdown", (event) => {
      strip.setPointerCapture(event.pointerId);
      follow(event);
    });
    this.on(strip, "pointermove", (event) => {
      if (event.buttons & 1) follow(event);
      this.overview.point(event);
    });
    this.on(strip, "pointerleave", () => this.overview.unpoint());
    this.on(this.find(".lens"), "click", (event) => this.go(this.overview.lensFrame(event)));
  }

  nextSpeed() {
    this.speed = SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length];
    const name = this.speed === 0.5 ? "½×" : `${this.speed}×`;
    const node = this.find("[data-do=speed]");
    node.textContent = name;
    node.setAttribute("aria-label", `speed ${name}`);
  }

  toggleHex() {
    this.hex = !this.hex;
    this.find("[data-do=hex]").setAttribute("aria-pressed", this.hex);
    this.showChanges("jump");
  }

  key(event) {
    if (!this.run || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.root.isConnected || !this.root.clientWidth || isTaken(event, this.root)) return;
    const act = this.acts(event)[event.key];
    if (!act || (this.hidden.has("transport") && STEPPING.has(event.key))) return;
    if (event.key !== "Escape") event.preventDefault();
    act();
  }

  acts({ repeat, shiftKey }) {
    const held = repeat ? "jump" : "fade";
    const { phases, requests, layers } = this.run;
    const back = shiftKey ? -1 : 1;
    const another = (at, by, count) => (at + by + count) % count;
    const acts = {
      " ": () => repeat || this.toggle(),
      ArrowRight: () => this.step(shiftKey ? phases.length : 1, held),
      ArrowLeft: () => this.step(shiftKey ? -phases.length : -1, held),
      Home: () => this.go(0, "jump"),
      End: () => this.go(this.last, "jump"),
      e: () => this.nextEvent(back),
      "[": () => this.choose({ request: another(this.request, -1, requests.length) }),
      "]": () => this.choose({ request: another(this.request, 1, requests.length) }),
      l: () => this.choose({ layer: another(this.layer, back, layers.length) }),
      h: () => this.toggleHex(),
      d: () => this.toggleDetails(),
      "?": () => this.keyList.toggle(),
      Escape: () => this.escape(),
    };
    for (const letter of "elhd") acts[letter.toUpperCase()] = acts[letter];
    requests.slice(0, 9).forEach((_, request) => { acts[request + 1] = () => this.choose({ request }); });
    return acts;
  }

  // The topmost thing that is open closes; with nothing open, what is pinned is released.
  escape() {
    this.tips.hide() || this.keyList.hide() || this.closeLamp() || this.links.release();
  }

  leave() {
    this.pause();
    this.wishes.hush();
    for (const undo of this.leavers) undo();
  }
}
