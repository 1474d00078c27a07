// Points from the fields to the blocks and back, and turns the ring. All drawing was done in
// Python: this only marks what is there.
//
// A field is *chosen* (click, Enter) or *pointed at* (pointer, focus); pointing ends, a choice stays.

class Pointing {
  constructor(root) {
    this.root = root;
    this.chosen = root.dataset.chosen;
    root.addEventListener("pointerover", (event) => this.over(event.target));
    root.addEventListener("pointerleave", () => this.field(this.chosen));
    root.addEventListener("focusin", (event) => this.over(event.target));
    root.addEventListener("focusout", () => this.field(this.chosen));
    root.addEventListener("click", (event) => this.choose(event.target));
    root.addEventListener("input", (event) => {
      if (event.target.type === "range") this.turn(Number(event.target.value));
    });
    this.field(this.chosen);
    this.turn(0);
  }

  all(selector) {
    return [...this.root.querySelectorAll(selector)];
  }

  choose(target) {
    const name = nameAt(target);
    if (!name) return;
    this.chosen = name;
    this.field(name);
  }

  over(target) {
    const cell = target.closest?.("[data-mark^=cell-]")?.dataset.mark;
    const value = target.closest?.("[data-cell]");
    const number = target.closest?.("[data-row]");
    if (cell) this.cell(cell);
    else if (value || number) {
      this.field(nameAt(target));
      this.only(value?.dataset.cell, number?.dataset.row);
    } else this.field(nameAt(target) ?? this.chosen);
  }

  // A field: its cells are ringed, its line is marked, its details are shown.
  field(name) {
    const button = this.all(".name").find((found) => found.dataset.field === name);
    const cells = new Set((button?.dataset.cells ?? "").split(" ").filter(Boolean));
    this.ring(cells);
    for (const found of this.all(".name")) found.setAttribute("aria-pressed", String(found.dataset.field === this.chosen));
    for (const line of this.all("[data-line]")) line.classList.toggle("on", line.dataset.line.split(" ").includes(name));
    for (const detail of this.all("[data-detail]")) detail.hidden = detail.dataset.detail !== name;
    for (const value of this.all(".pointed[data-cell], .pointed[data-row]")) value.classList.remove("pointed");
    const said = this.root.querySelector(".ringed");
    if (said) said.textContent = cells.size ? `ringed: ${name}` : `${name} points at no block`;
    const first = [...cells][0];
    this.row(first ? first.split("-")[1] : "0", false);
  }

  // One number of a field: the one cell or row that it is about.
  only(cell, row) {
    if (cell) this.ring(new Set([cell]));
    this.row(row ?? cell?.split("-")[1] ?? null, true);
  }

  // A block of the table: the numbers that name it.
  cell(mark) {
    this.ring(new Set([mark]));
    for (const value of this.all("[data-cell]")) value.classList.toggle("pointed", value.dataset.cell === mark);
    this.row(mark.split("-")[1], true);
    const names = new Set(this.all(`.value [data-cell="${mark}"]`).map((value) => nameAt(value)));
    const said = this.root.querySelector(".ringed");
    if (said) said.textContent = names.size ? `in ${[...names].join(", ")}` : "in no field";
  }

  ring(cells) {
    for (const mark of this.all("[data-mark^=cell-]")) mark.classList.toggle("pointed", cells.has(mark.dataset.mark));
  }

  row(row, marked) {
    for (const name of this.all(".row-name")) name.classList.toggle("pointed", marked && name.dataset.mark === `row-${row}`);
    for (const told of this.all("[data-row-words]")) told.hidden = told.dataset.rowWords !== row;
  }

  turn(step) {
    for (const dial of this.all(".dial")) dial.classList.toggle("now", dial.dataset.mark === `dial-${step}`);
    for (const column of this.all("[data-mark^=step-0-]")) column.classList.toggle("now", column.dataset.mark === `step-0-${step}`);
  }
}

function nameAt(target) {
  return target.closest?.("[data-field]")?.dataset.field ?? target.closest?.("[data-line]")?.dataset.line.split(" ")[0];
}

export default function mount({ data, parentElement }) {
  const root = parentElement.querySelector(".batch");
  const kept = parentElement.shown;
  if (kept?.html === data.html) return; // called again on every run of the page
  const fresh = root.cloneNode(false); // without the listeners of before
  fresh.innerHTML = data.html; // escaped in viz/batch/view.py
  const chosen = kept?.pointing?.chosen;
  const still = chosen && fresh.querySelector(`.name[data-field="${chosen}"]`);
  fresh.dataset.chosen = still ? chosen : data.chosen;
  root.replaceWith(fresh);
  const pointing = data.chosen ? new Pointing(fresh) : null;
  parentElement.shown = { html: data.html, pointing };
}
