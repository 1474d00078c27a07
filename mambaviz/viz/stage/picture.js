// Draws the marks of a scene into an SVG group and moves them from one frame to the next.
// Everything is made by createElementNS and textContent: no text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function svgNode(tag, attributes, cls) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (cls) node.setAttribute("class", cls);
  return node;
}

// One primitive of viz/scene.py, as its JSON says it.
function primitive(part) {
  const [kind, cls] = part;
  switch (kind) {
    case "r":
      return svgNode("rect", { x: part[2], y: part[3], width: part[4], height: part[5], rx: part[6] }, cls);
    case "t": {
      const node = svgNode("text", { x: part[2], y: part[3] }, cls);
      node.textContent = part[4];
      return node;
    }
    case "p":
      return svgNode("path", { d: part[2] }, cls);
    case "c":
      return svgNode("circle", { cx: part[2], cy: part[3], r: part[4] }, cls);
    case "g": {
      const node = svgNode("g", { transform: `translate(${part[2]} ${part[3]})` }, cls);
      node.append(...part[4].map(primitive));
      return node;
    }
    default:
      return heat(part);
  }
}

function heat([, x, y, size, rows, values, raw]) {
  const group = svgNode("g", { transform: `translate(${x} ${y})` }, "cells");
  group.append(svgNode("rect", { width: size * rows[0].length, height: size * rows.length }, "under"));
  const shapes = new Map(); // one path for all cells of a colour: hundreds of cells, few nodes
  rows.forEach((letters, row) => {
    [...letters].forEach((letter, column) => {
      const zero = letter === ".";
      const strength = letter.charCodeAt(0) & 31; // both cases: a, A = 1
      const cls = zero ? "zero" : (letter < "a" ? "n" : "p") + strength;
      const [left, top] = [column * size, row * size];
      const cell = zero ? `M${left + size / 2 - 1} ${top + size / 2}a1 1 0 1 0 2 0a1 1 0 1 0 -2 0` : `M${left} ${top}h${size}v${size}h${-size}z`;
      shapes.set(cls, (shapes.get(cls) ?? "") + cell);
    });
  });
  for (const [cls, d] of shapes) group.append(svgNode("path", { d }, cls));
  group.heat = { size, rows: rows.length, columns: rows[0].length, values: values.split(" "), raw: raw.split(" ") };
  return group;
}

// The content of a body: a group with its classes, primitives and a tooltip.
function bodyNode(body) {
  const [, cls, parts, block, title, links] = body;
  const node = svgNode("g", {}, cls);
  node.links = links;
  if (block !== null) node.dataset.block = block;
  if (title) {
    const tip = svgNode("title", {});
    tip.textContent = title;
    node.append(tip);
  }
  node.append(...parts.map(primitive));
  return node;
}

class Picture {
  constructor(group, bodies, motion) {
    this.bodies = bodies;
    this.motion = motion;
    this.layers = [0, 1, 2, 3].map(() => group.appendChild(svgNode("g", {})));
    this.nodes = new Map();
    this.running = [];
    this.leaving = [];
  }

  // Show a frame. `how`: "jump" at once, "fade" what changed, "copy" with arrows and slides.
  show(marks, how, speed) {
    this.settle();
    for (const name of [...this.nodes.keys()]) {
      if (!marks.has(name)) this.remove(name, how, speed);
    }
    for (const [name, entry] of marks) this.put(name, entry, how, speed);
  }

  // Where the mark stands that a node is part of.
  places(body) {
    for (const { node, entry } of this.nodes.values()) if (node.contains(body)) return [entry[1], entry[2]];
    return [0, 0];
  }

  // End every motion: the end state stands.
  settle() {
    for (const animation of this.running) animation.cancel();
    for (const node of this.leaving) node.remove();
    this.running = [];
    this.leaving = [];
  }

  remove(name, how, speed) {
    const { node } = this.nodes.get(name);
    this.nodes.delete(name);
    if (how === "jump") node.remove();
    else this.leave(node, this.motion.fade, 0, speed);
  }

  put(name, entry, how, speed) {
    const [number, x, y, originX, originY] = entry;
    const before = this.nodes.get(name);
    if (!before) {
      this.add(name, entry, how, speed);
      return;
    }
    if (how === "copy" && originX !== undefined) {
      // What moves comes as a shape of its own; what it covers stays until it has arrived.
      this.leave(before.node, this.motion.fade, this.motion.draw + this.motion.slide, speed);
      this.add(name, entry, how, speed);
      return;
    }
    const [oldNumber, oldX, oldY] = before.entry;
    before.entry = entry;
    const moves = x !== oldX || y !== oldY;
    if (moves) place(before.node, x, y);
    const late = how === "copy" && arrivesLate(name, this.bodies[number]);
    if (number !== oldNumber) this.redraw(before, number, how, late, speed);
    if (moves && how !== "jump") this.slide(before.node, [oldX, oldY], [x, y], this.motion.column, 0, speed);
  }

  add(name, entry, how, speed) {
    const [number, x, y, originX, originY] = entry;
    const body = this.bodies[number];
    const node = svgNode("g", {});
    node.append(bodyNode(body));
    place(node, x, y);
    this.layers[body[0]].append(node);
    this.nodes.set(name, { node, entry });
    if (how === "jump") return;
    if (how === "copy") this.enterCopy(node, body[1], originX === undefined ? null : [originX, originY], [x, y], speed);
    else this.animate(node, [{ opacity: 0 }, { opacity: 1 }], this.motion.fade, 0, speed);
  }

  // New looks at the same place: the old ones fade as the new ones come.
  redraw(held, number, how, late, speed) {
    const old = held.node.firstChild;
    const fresh = bodyNode(this.bodies[number]);
    if (how === "jump") {
      old.replaceWith(fresh);
      return;
    }
    held.node.prepend(fresh);
    const delay = late ? this.motion.draw + this.motion.slide : 0;
    this.animate(fresh, [{ opacity: 0 }, { opacity: 1 }], this.motion.fade, delay, speed);
    this.leave(old, this.motion.fade, delay, speed);
  }

  enterCopy(node, cls, origin, target, speed) {
    const { draw, slide, frame } = this.motion;
    if (origin) {
      this.slideIn(node, origin, target, speed);
    } else if (cls.startsWith("copy")) {
      for (const line of node.querySelectorAll(".line")) this.drawLine(line, speed);
      for (const other of node.querySelectorAll(":not(.line)")) {
        this.animate(other, [{ opacity: 0 }, { opacity: 1 }], draw / 2, draw / 2, speed);
      }
    } else if (cls === "frame") {
      this.animate(node, [{ opacity: 0 }, { opacity: 1 }], frame, draw + slide, speed);
    } else {
      this.animate(node, [{ opacity: 0 }, { opacity: 1 }], this.motion.fade, 0, speed);
    }
  }

  // A line counts as 1 long, so that nothing has to be measured; a dashed one only fades in.
  drawLine(line, speed) {
    if (line.closest(".skipped")) {
      this.animate(line, [{ opacity: 0 }, { opacity: 1 }], this.motion.draw, 0, speed);
      return;
    }
    line.setAttribute("pathLength", 1);
    const dashes = { strokeDasharray: "1 1" };
    this.animate(
      line,
      [{ ...dashes, strokeDashoffset: 1 }, { ...dashes, strokeDashoffset: 0 }],
      this.motion.draw, 0, speed,
    );
  }

  slideIn(node, origin, target, speed) {
    this.slide(node, origin, target, this.motion.slide, this.motion.draw, speed);
  }

  slide(node, [fromX, fromY], [toX, toY], duration, delay, speed) {
    const frames = [{ transform: move(fromX, fromY) }, { transform: move(toX, toY) }];
    this.animate(node, frames, duration, delay, speed);
  }

  animate(node, frames, duration, delay, speed) {
    const timing = { duration: duration / speed, delay: delay / speed, easing: this.motion.easing, fill: "backwards" };
    this.running.push(node.animate(frames, timing));
  }

  leave(node, duration, delay, speed) {
    this.leaving.push(node);
    const timing = { duration: duration / speed, delay: delay / speed, easing: this.motion.easing, fill: "forwards" };
    const animation = node.animate([{ opacity: 1 }, { opacity: 0 }], timing);
    animation.onfinish = () => node.remove();
    this.running.push(animation);
  }
}

// What says a block's new content changes only when the copy has arrived.
function arrivesLate(name, [, cls]) {
  return cls.startsWith("bk") || name.startsWith("bar");
}

function move(x, y) {
  return `translate(${x}px, ${y}px)`;
}

function place(node, x, y) {
  node.style.transform = move(x, y);
}
