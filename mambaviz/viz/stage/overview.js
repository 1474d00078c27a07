// The whole run in one line. With room, a step has a cell for each phase. A long run has one mark
// a step: which kind of event it is shows in its place and form, not in its colour alone, and a
// lens beside it enlarges the phases of the step at hand. The strip never moves.

const ORDER = ["wrong", "checkpoint", "migrate", "preempted", "hit", "boundary"];
const CELLS_FROM = 84; // px a step needs for a cell a phase
const LEAST_MARK = 2.5; // px; longer runs put several steps into one mark
const TRACK = 10; // y of the line that the steps are on; rare events above, copies below

class Overview {
  constructor(box) {
    this.strip = box.querySelector(".overview");
    this.lens = box.querySelector(".lens");
    this.told = box.querySelector(".ov-told");
    this.pointed = null;
  }

  load(run) {
    this.run = run;
    this.key = null;
    this.pointed = null;
    this.told.hidden = true;
    this.build();
  }

  // ---------------------------------------------------------------- drawing

  get phases() {
    return this.run.phases.length;
  }

  build() {
    const { run, strip } = this;
    const count = run.steps.length;
    this.lens.hidden = this.lens.parentNode.clientWidth / count >= CELLS_FROM;
    const width = strip.clientWidth;
    const room = width / count;
    const key = `${this.lens.hidden}:${Math.round(width)}`;
    if (this.key === key || !width) return;
    this.key = key;
    this.width = width;
    this.dense = !this.lens.hidden;
    this.perMark = this.dense ? Math.ceil((LEAST_MARK * count) / width) : 1;
    strip.classList.toggle("dense", this.dense);
    strip.setAttribute("aria-valuemin", 0);
    strip.setAttribute("aria-valuemax", run.frames - 1);
    if (this.dense) this.buildMarks(width, room);
    else this.buildCells(room);
    this.show(this.frame ?? 0);
  }

  // One sentence where a mark is more than a step; else nothing.
  get summed() {
    return this.perMark > 1 ? `A mark of the overview stands for ${this.perMark} steps.` : "";
  }

  buildCells(room) {
    const cells = (step) => step.events.map((events) => this.cell(events, room / this.phases));
    this.strip.replaceChildren(...this.run.steps.map((step, index) => {
      const name = el("div", "ov-name", el("b", "", `step ${index}`), room > 110 ? step.title : "");
      return el("div", "ov", name, el("div", "ov-cells", ...cells(step)));
    }));
  }

  cell(events, room) {
    const event = ORDER.find((name) => events.includes(name));
    const cell = el("span", event ? `ov-cell ${event}` : "ov-cell");
    if (event && room >= 13) cell.append(sign(this.run.signs[event], ""));
    return cell;
  }

  buildMarks(width, room) {
    const svg = svgNode("svg", { width, height: 42, viewBox: `0 0 ${width} 42`, "aria-hidden": "true" }, "ov-marks");
    const marks = svgNode("g", { transform: "translate(0 16)" });
    const pitch = room * this.perMark;
    marks.append(svgNode("rect", { y: TRACK, width, height: 3 }, "track"));
    for (let first = 0; first < this.run.steps.length; first += this.perMark) {
      const steps = this.run.steps.slice(first, first + this.perMark);
      const events = new Set(steps.flatMap((step) => step.events.flat()));
      for (const event of [...ORDER].reverse()) {
        if (events.has(event)) marks.append(svgNode("path", { d: markOf(event, (first / this.perMark) * pitch, pitch) }, `ov-mark ${event}`));
      }
    }
    const every = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000].find((step) => step * room >= 34) ?? 5000;
    for (let step = 0; step < this.run.steps.length; step += every) {
      const x = (step + 0.5) * room;
      const label = svgNode("text", { x: Math.max(x, 4), y: 12 }, step ? "mid s12" : "s12");
      label.textContent = step;
      svg.append(label, svgNode("path", { d: `M${x} 14v3` }, "tick"));
    }
    this.ahead = svgNode("rect", { y: 0, height: 26 }, "ahead");
    this.cursor = svgNode("path", {}, "cursor");
    this.pointer = svgNode("rect", { x: -100, y: 0, height: 26, width: Math.max(pitch, 3) }, "pointer");
    marks.append(this.ahead, this.pointer, this.cursor);
    svg.append(marks);
    this.strip.replaceChildren(svg);
  }

  // ---------------------------------------------------------------- where the stage stands

  show(frame) {
    const { strip, phases } = this;
    this.frame = frame;
    const step = Math.floor(frame / phases);
    strip.setAttribute("aria-valuenow", frame);
    strip.setAttribute("aria-valuetext", `step ${step}, ${this.run.phases[frame % phases]}`);
    if (this.dense) {
      this.showCursor(step);
      if (this.pointed === null) this.showLens(step);
      return;
    }
    [...strip.querySelectorAll(".ov-cell")].forEach((cell, index) => dressCell(cell, index, frame));
    [...strip.children].forEach((item, index) => item.classList.toggle("now", index === step));
  }

  showCursor(step) {
    const { width } = this; // known since it was built: asking now would make the page lay out
    const room = width / this.run.steps.length;
    const x = (step + 0.5) * room;
    this.cursor.setAttribute("d", `M${x} 0V26M${x - 4} 26h8l-4 -5z`);
    this.ahead.setAttribute("x", (step + 1) * room);
    this.ahead.setAttribute("width", Math.max(0, width - (step + 1) * room));
  }

  // The phases of a step enlarged, each a way to get there.
  showLens(step) {
    const { run, lens, phases } = this;
    if (lens.step !== step || lens.run !== run) {
      Object.assign(lens, { step, run });
      const cells = run.steps[step].events.map((events) => this.cell(events, 17));
      lens.replaceChildren(el("div", "ov-name", el("b", "", `step ${step}`), run.steps[step].title), el("div", "ov-cells", ...cells));
      lens.title = this.say(step);
    }
    lens.classList.toggle("ahead", this.pointed !== null);
    [...lens.querySelectorAll(".ov-cell")].forEach((cell, index) => dressCell(cell, step * phases + index, this.frame));
  }

  // ---------------------------------------------------------------- pointing

  // The frame under the pointer: in a dense strip a step's phase stays the one on show.
  frameAt(event) {
    const { strip, phases, run } = this;
    const box = strip.getBoundingClientRect();
    const place = clamp((event.clientX - box.left) / box.width, 0, 0.9999) * run.steps.length;
    const step = Math.floor(place);
    if (this.dense) return step * phases + (this.frame % phases);
    return step * phases + inCells(strip.children[step], event, phases, 15);
  }

  lensFrame(event) {
    return this.lens.step * this.phases + inCells(this.lens, event, this.phases, 0);
  }

  point(event) {
    if (!this.run) return;
    const frame = this.frameAt(event);
    const step = Math.floor(frame / this.phases);
    if (this.pointed === frame) return;
    this.pointed = frame;
    this.told.hidden = false;
    this.told.textContent = this.dense ? this.say(step) : this.sayPhase(step, frame % this.phases);
    const box = this.strip.getBoundingClientRect();
    const x = ((step + 0.5) / this.run.steps.length) * box.width;
    const half = this.told.offsetWidth / 2;
    const room = this.told.parentNode.clientWidth;
    this.told.style.left = `${clamp(x - half, 0, Math.max(0, room - 2 * half))}px`;
    if (!this.dense) return;
    this.pointer.setAttribute("x", (step / this.run.steps.length) * box.width);
    this.showLens(step);
  }

  unpoint() {
    if (this.pointed === null) return;
    this.pointed = null;
    this.told.hidden = true;
    if (!this.dense) return;
    this.pointer.setAttribute("x", -100);
    this.showLens(Math.floor(this.frame / this.phases));
  }

  // What a step is and what moves in it, in words.
  say(step) {
    const { title, events } = this.run.steps[step];
    const said = events.map((found, phase) => this.inWords(step, phase)).filter(Boolean);
    return `step ${step}, ${title}: ${events.flat().length ? said.join("; ") : "nothing moves"}`;
  }

  sayPhase(step, phase) {
    return `step ${step}, ${this.run.phases[phase]}: ${this.inWords(step, phase) || "nothing moves"}`;
  }

  inWords(step, phase) {
    const { requests, events_in_words: words } = this.run;
    const { events, about } = this.run.steps[step];
    const names = (about?.[phase] ?? []).map((index) => requests[index]).join(", ");
    const said = [...new Set(events[phase])].map((event) => words[event]).join(" and ");
    return said && names ? `${said} (${names})` : said;
  }
}

function dressCell(cell, frame, now) {
  cell.classList.toggle("now", frame === now);
  cell.classList.toggle("ahead", frame > now);
}

// Which of the phases' cells inside a holder an event points at.
function inCells(holder, event, phases, margin) {
  const cells = holder.querySelector(".ov-cells").getBoundingClientRect();
  const inside = (event.clientX - cells.left) / (cells.width - margin);
  return clamp(Math.floor(inside * phases), 0, phases - 1);
}

// The form of an event in a mark `pitch` wide that begins at x. Above the line stand the rare
// ones: diamond, bars, ring. On it a boundary, below it copies: up on it or down on the floor.
function markOf(event, x, pitch) {
  const middle = x + pitch / 2;
  const width = Math.max(1.5, Math.min(pitch - 1, 9));
  const left = middle - width / 2;
  switch (event) {
    case "wrong":
      return `M${middle} 0l4.5 4.5l-4.5 4.5l-4.5 -4.5z`;
    case "preempted":
      return `M${middle - 3} 1v7h2v-7zM${middle + 1} 1v7h2v-7z`;
    case "hit":
      return `M${middle - 3.5} 4.5a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0zm2 0a1.5 1.5 0 1 1 3 0a1.5 1.5 0 1 1 -3 0z`;
    case "boundary":
      return `M${left} ${TRACK - 1.5}h${width}v6h${-width}z`;
    case "migrate":
      return `M${left} 15.5h${width}v4h${-width}z`;
    default: // checkpoint
      return `M${left} 21h${width}v5h${-width}z`;
  }
}
