// What belongs together. Pointing at a block marks the metadata entries that name it, the tokens
// its state has taken in, its cells and its arrows; pointing at a token marks the blocks that hold
// it; pointing at a metadata field marks its blocks and tokens. A click keeps the marks.

class Links {
  constructor(stage) {
    this.stage = stage;
    this.pointed = null;
    this.pinned = null;
    this.marked = false;
  }

  get shown() {
    return this.pointed ?? this.pinned;
  }

  // What a node stands for: {kind: "block", block}, {kind: "token", request, position},
  // {kind: "field", name}; null for everything else.
  of(node) {
    const block = node?.closest?.("[data-block]");
    if (block && block.dataset.block !== "0") return { kind: "block", block: Number(block.dataset.block) };
    const field = node?.closest?.(".metadata tr");
    if (field?.point) return { kind: "field", name: field.point.name };
    const token = node?.closest?.(".tk");
    if (!token) return null;
    const lane = token.closest(".lane");
    const request = lane ? Number(lane.dataset.request) : this.stage.request;
    const position = lane ? Number(token.dataset.token ?? NaN) : Number(token.textContent.replace(/^t/, "") || NaN);
    return Number.isNaN(position) ? null : { kind: "token", request, position };
  }

  point(what) {
    if (same(what, this.pointed)) return;
    this.pointed = what;
    this.refresh();
  }

  // The same thing again lets go of it.
  pin(what) {
    this.pinned = same(what, this.pinned) ? null : what;
    this.refresh();
  }

  // Whether there was something to release.
  release() {
    const was = Boolean(this.pinned);
    this.pinned = null;
    this.refresh();
    return was;
  }

  // After every frame, and when something else is pointed at.
  refresh() {
    if (this.marked) this.clear();
    if (!same(this.labelled, this.pinned)) this.label();
    const { shown } = this;
    if (!shown || !this.stage.lanes) return;
    this.marked = true;
    ({ block: () => this.markBlock(shown), token: () => this.markToken(shown), field: () => this.markField(shown) })[shown.kind]();
  }

  // The button that says what is pinned and lets go of it.
  label() {
    const { pinned, stage } = this;
    this.labelled = pinned;
    const node = stage.find(".pinned");
    const name = { block: () => `block ${pinned.block}`, token: () => `token ${pinned.position} of ${stage.run.requests[pinned.request]}`, field: () => pinned.name };
    node.hidden = !pinned;
    node.replaceChildren(...(pinned ? [name[pinned.kind](), el("span", "", "✕")] : []));
    if (pinned) node.setAttribute("aria-label", `release ${name[pinned.kind]()}`);
  }

  clear() {
    this.marked = false;
    const { root } = this.stage;
    for (const node of root.querySelectorAll(".ring, .span-mark, .row-mark")) node.remove();
    for (const cls of ["pointed", "partly", "linked", "hit"]) {
      for (const node of root.querySelectorAll(`.${cls}`)) node.classList.remove(cls);
    }
  }

  // ---------------------------------------------------------------- what is marked

  markBlock({ block, request, column }) {
    const inColumn = (lane, name) => block !== 0 || (lane === request && name === `c${column}`);
    this.eachLane((picture, lane) => {
      for (const [name, { node }] of picture.nodes) {
        const body = node.firstElementChild;
        if (body?.dataset.block === String(block) && inColumn(lane, name)) {
          this.ring(body);
          if (/^[bc]\d/.test(name) && body.links) this.spans(lane, body.links);
        }
        this.linkEnds(body, block);
      }
    });
    if (block === 0) return;
    for (const { node } of this.stage.statePicture.nodes.values()) {
      const body = node.firstElementChild;
      if (body?.dataset.block === String(block)) this.ring(body, this.stage.statePicture);
      this.linkEnds(body, block);
    }
    this.ringAll(".changes .bk", (node) => node.dataset.block === String(block));
    this.entries((row) => row.blocks.includes(block));
    for (const cell of this.stage.root.querySelectorAll(".metadata .bkc")) {
      if (cell.dataset.block === String(block)) cell.classList.add("linked");
    }
  }

  linkEnds(body, block) {
    if (block && body?.links?.[2].includes(block)) body.classList.add("linked");
  }

  markToken({ request, position }) {
    this.frameTokens(request, position, position);
    const blocks = new Map();
    const picture = this.pictureOf(request);
    if (!picture) return; // its lane is on another page
    for (const [name, { node }] of picture.nodes) {
      const body = node.firstElementChild;
      if (!/^[bc]\d/.test(name) || !body.links) continue;
      const [absorbed, window] = body.links;
      if (window.includes(position)) blocks.set(body.dataset.block, "pointed");
      else if (absorbed > position) blocks.set(body.dataset.block, "partly");
    }
    for (const { node } of picture.nodes.values()) this.ringAs(node.firstElementChild, blocks);
    this.entries((row) => row.tokens.some(([of, first, end]) => of === request && first <= position && position < end));
    if (request !== this.stage.request) return;
    for (const { node } of this.stage.statePicture.nodes.values()) {
      const body = node.firstElementChild;
      this.ringAs(body, blocks);
      if (body?.classList.contains("tk") && body.textContent.replace(/^t/, "") === String(position)) body.classList.add("linked");
    }
  }

  ringAs(body, blocks) {
    const manner = body?.classList.contains("bk") && blocks.get(body.dataset.block);
    if (manner) this.ring(body, null, manner);
  }

  markField({ name }) {
    const row = this.rows().find(({ point }) => point.name === name);
    if (!row) return;
    row.classList.add("hit");
    const blocks = new Set(row.blocks);
    this.ringAll(".main .bk", (node) => blocks.has(Number(node.dataset.block)));
    for (const [request, first, end] of row.tokens) this.frameTokens(request, first, end - 1);
  }

  // ---------------------------------------------------------------- how

  eachLane(act) {
    for (const { picture, index } of this.stage.lanes.pictures) act(picture, index);
  }

  pictureOf(request) {
    return this.stage.lanes.pictures.find(({ index }) => index === request)?.picture;
  }

  rows() {
    return [...this.stage.root.querySelectorAll(".metadata tr")].filter((row) => row.point);
  }

  entries(isMeant) {
    for (const row of this.rows()) row.classList.toggle("hit", isMeant(row));
  }

  ringAll(selector, isMeant) {
    for (const node of this.stage.root.querySelectorAll(selector)) {
      if (isMeant(node)) this.ring(node);
    }
  }

  // A frame around a block; in the state picture, its whole row.
  ring(node, picture = null, manner = "pointed") {
    if (node.classList.contains("list")) {
      node.classList.add("linked");
      return;
    }
    if (!node.classList.contains("bk")) return;
    const box = node.getBBox();
    node.append(svgNode("rect", { x: box.x - 2, y: box.y - 2, width: box.width + 4, height: box.height + 4, rx: 6 }, "ring"));
    node.classList.add(manner);
    if (!picture) return;
    const [, y] = picture.places(node);
    const band = { x: -6, y: y - 4, width: this.stage.run.sizes.state[0], height: box.height + 8, rx: 5 };
    picture.layers[0].prepend(svgNode("rect", band, "row-mark"));
  }

  // The tokens that a block's state has taken in, and those of its window.
  spans(lane, [absorbed, window]) {
    if (absorbed) this.frameTokens(lane, 0, absorbed - 1, "under");
    if (window.length) this.frameTokens(lane, Math.min(...window), Math.max(...window));
  }

  // A frame around tokens of a lane, or a line over them.
  frameTokens(lane, first, last, manner = "frame") {
    const tokens = this.stage.grid.row(lane, "token").filter(({ at }) => first <= at && at <= last);
    if (!tokens.length) return; // a small lane shows none
    const picture = this.pictureOf(lane);
    const [from, to] = [tokens[0].x, tokens.at(-1).x + tokens.at(-1).width];
    const y = picture.places(tokens[0].node)[1];
    const height = tokens[0].node.querySelector("rect").getBBox().height;
    const at = manner === "frame" ? { x: from - 2, y: y - 2, width: to - from + 3, height: height + 5, rx: 4 } : { x: from, y: y - 4.5, width: to - from - 1, height: 3, rx: 1.5 };
    picture.layers[2].append(svgNode("rect", at, `span-mark ${manner}`));
  }
}

function same(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}
