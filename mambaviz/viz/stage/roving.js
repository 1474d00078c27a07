// One stop of the Tab key for a group of things; inside it the arrow keys move the focus.
// They do so only while the keyboard has brought the focus there: after a click they step the run.

class Roving {
  constructor(root, holder, selector) {
    Object.assign(this, { root, holder, selector });
  }

  items() {
    return [...this.holder.querySelectorAll(this.selector)];
  }

  // Exactly one item is in the order of the Tab key: the one that has had the focus last.
  refresh() {
    const items = this.items();
    const at = items.includes(this.at) ? this.at : items[0];
    for (const item of items) {
      const order = item === at ? "0" : "-1";
      if (item.getAttribute("tabindex") !== order) item.setAttribute("tabindex", order);
    }
  }

  listen(on) {
    on(this.holder, "focusin", (event) => {
      const item = event.target.closest?.(this.selector);
      if (!item) return;
      this.at = item;
      this.refresh();
    });
    on(this.holder, "keydown", (event) => this.key(event));
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const items = this.items();
    const at = items.indexOf(event.target);
    if (!by || at < 0 || this.root.dataset.by !== "keys" || event.shiftKey) return;
    event.preventDefault();
    items[(at + by + items.length) % items.length].focus();
  }
}

// The lanes: arrows go along tokens and blocks, and up and down from lane to lane.
class LaneGrid {
  constructor(stage) {
    this.stage = stage;
    this.known = new WeakSet();
    this.here = null; // {lane, kind, at}: what has the focus, also when it is drawn anew
  }

  // Two rows of items for each lane: {node, lane, kind, at, x, width}, from left to right. `lane`
  // is the request's number.
  rows() {
    return this.stage.lanes.pictures.flatMap(({ picture, index: lane }) => {
      const [tokens, blocks] = [[], []];
      for (const [name, { node, entry }] of picture.nodes) {
        const body = node.firstElementChild;
        const [, x] = entry;
        const number = Number(name.replace(/^\D+/, ""));
        if (/^t\d+$/.test(name)) tokens.push({ node: body, lane, kind: "token", at: number, x, width: wide(body) });
        else if (/^tokens\d+$/.test(name)) tokens.push(...inColumn(body, lane, number, x));
        else if (/^[bc]\d+$/.test(name)) blocks.push({ node: body, lane, kind: "block", at: name, x, width: wide(body) });
        else if (name === "badge") blocks.push({ node: body, lane, kind: "badge", at: 0, x: -1, width: 26 });
      }
      return [tokens, blocks].map((row) => row.sort((a, b) => a.x - b.x));
    }).filter((row) => row.length);
  }

  // After every frame: what is new gets a name, and the focus stays on what it was on.
  refresh() {
    const rows = this.rows();
    this.cells = rows;
    for (const item of rows.flat()) if (!this.known.has(item.node)) this.name(item);
    this.hideTheRest();
    const { root } = this.stage;
    const focused = root.getRootNode().activeElement;
    const lost = this.here && (!focused || focused === document.body || (focused.closest?.(".lane") && !this.itemOf(focused)));
    const stop = this.find(this.here) ?? this.first();
    this.stopAt(stop);
    if (lost && stop && this.focusedLast) stop.node.focus({ preventScroll: true });
  }

  stopAt(item) {
    this.stop?.setAttribute("tabindex", -1);
    this.stop = item?.node;
    this.stop?.setAttribute("tabindex", 0);
  }

  name({ node, lane, kind, at }) {
    this.known.add(node);
    node.setAttribute("tabindex", -1);
    const request = this.stage.run.requests[lane];
    node.setAttribute("role", "button");
    if (kind === "token") {
      node.dataset.token = at;
      node.setAttribute("aria-label", `${request}: token ${at}, ${node.classList.item(1)}`);
    } else if (kind === "badge") {
      node.setAttribute("aria-label", `request ${request}`);
    } else {
      node.setAttribute("aria-label", `${request}: ${node.querySelector("title")?.textContent ?? "block"}`);
    }
  }

  // Labels and lines would be read one by one; the table beside the picture says them in order.
  hideTheRest() {
    for (const { picture } of this.stage.lanes.pictures) {
      for (const [name, { node }] of picture.nodes) {
        if (this.known.has(node)) continue;
        this.known.add(node);
        if (!/^(t|tokens|b|c)\d+$|^badge$/.test(name)) node.setAttribute("aria-hidden", "true");
      }
    }
  }

  first() {
    const blocks = this.row(this.stage.request, "block");
    return blocks.find(({ node }) => node.classList.contains("running")) ?? blocks[0];
  }

  // A lane's tokens, or its badge and blocks.
  row(lane, kind) {
    return this.cells.find(([item]) => item.lane === lane && (item.kind === "token") === (kind === "token")) ?? [];
  }

  find(key) {
    if (!key) return undefined;
    const row = this.row(key.lane, key.kind);
    return row.find(({ kind, at }) => kind === key.kind && at === key.at) ?? row.at(-1);
  }

  itemOf(node) {
    return this.cells.flat().find((item) => item.node === node);
  }

  listen(on) {
    const picture = this.stage.find(".lane-picture");
    on(picture, "focusin", (event) => {
      const item = this.itemOf(event.target);
      if (!item) return;
      this.here = item;
      this.focusedLast = true;
      this.stopAt(item);
      if (this.stage.root.dataset.by === "keys") event.target.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    on(this.stage.root, "focusin", (event) => { this.focusedLast = picture.contains(event.target); });
    on(picture, "keydown", (event) => this.key(event));
  }

  key(event) {
    const item = this.itemOf(event.target);
    if (!item || event.shiftKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (item.kind === "badge") this.stage.choose({ request: item.lane });
      else this.stage.links.pin(this.stage.links.of(item.node));
      return;
    }
    if (this.stage.root.dataset.by !== "keys") return;
    const next = this.next(item, event.key);
    if (!next && !event.key.startsWith("Arrow")) return;
    event.preventDefault(); // at an edge too: an arrow must not step the run now and then
    next?.node.focus();
  }

  next(item, key) {
    const number = this.cells.findIndex((row) => row.includes(item));
    const along = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (along) return this.cells[number][this.cells[number].indexOf(item) + along];
    const by = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (!by) return undefined;
    const distance = ({ x, width }) => Math.abs(x + width / 2 - item.x - item.width / 2);
    return this.cells[number + by]?.toSorted((a, b) => distance(a) - distance(b))[0];
  }
}

function wide(body) {
  return Number(body.querySelector("rect")?.getAttribute("width") ?? 0) + 1;
}

// A column long past is one shape; its tokens are groups inside it.
function inColumn(body, lane, column, x) {
  const groups = [...body.querySelectorAll(":scope > .tk")];
  return groups.map((node, index) => {
    const [left] = node.getAttribute("transform").match(/[\d.]+/).map(Number);
    return { node, lane, kind: "token", at: column * groups.length + index, x: x + left, width: wide(node) };
  });
}
