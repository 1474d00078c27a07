// A run as the payload holds it: what changes from frame to frame (viz/payload.py).
// A frame is one phase of one step; frames count through the whole run.

class Run {
  constructor(data) {
    Object.assign(this, data);
    this.timelines = data.timelines.map(sorted);
    this.pictures = {};
  }

  get frames() {
    return this.steps.length * this.phases.length;
  }

  // Marks of a channel at a frame: Map from name to [body, x, y, origin x, origin y].
  marks(channel, frame) {
    const index = this.channels[channel];
    if (index === undefined) return new Map();
    const reader = (this.pictures[index] ??= new Reader(this.timelines[index], this.names));
    return reader.at(frame);
  }

  // A panel's content at a frame: the latest one at or before it.
  panel(name, frame) {
    const index = this.panels[name];
    if (index === undefined) return null;
    const changes = this.timelines[index];
    const place = latest(changes, frame);
    return place < 0 ? null : this.texts[changes[place][1]];
  }

  events(frame) {
    return this.steps[Math.floor(frame / this.phases.length)].events[frame % this.phases.length];
  }
}

// Reads a channel forwards from where it stood, or from the start when it has to go back.
class Reader {
  constructor(changes, names) {
    this.changes = changes;
    this.names = names;
    this.reset();
  }

  reset() {
    this.next = 0;
    this.now = new Map();
  }

  at(frame) {
    if (this.next > 0 && this.changes[this.next - 1][0] > frame) this.reset();
    while (this.next < this.changes.length && this.changes[this.next][0] <= frame) {
      const [gone, put] = this.changes[this.next++][1];
      for (const name of gone) this.now.delete(this.names[name]);
      for (const [name, ...entry] of put) this.now.set(this.names[name], entry);
    }
    return this.now;
  }
}

function sorted(changes) {
  return Object.entries(changes).map(([frame, change]) => [Number(frame), change]).sort((a, b) => a[0] - b[0]);
}

function latest(changes, frame) {
  let low = 0;
  let high = changes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[middle][0] <= frame) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
