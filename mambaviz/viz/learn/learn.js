// The Learn page: a tour and questions, told above the stage of the Watch page (stage/stage.js).
// All stops are here; a run comes when a stop of it is reached, and stays. Python hears where the
// reader stands.

const MOST_RUNS = 16; // that are kept
const LETTERS = "ABCD";

class Learn {
  constructor(root) {
    this.root = root;
    this.place = { stop: 0, moved: false, chosen: null };
    this.seen = new Set(); // names of stops: a quick reader is past one before Python hears of it
    this.runs = new Map(); // JSON of a run by its name
    this.spots = 0; // counts the places that the stage was asked for
    this.wishes = new Wishes();
    this.leavers = [];
    this.listen(); // before the stage does: a key that is ours is not the stage's
    this.stage = new Stage(root.querySelector(".held .stage"));
    this.explain();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  // ---------------------------------------------------------------- from and to Python

  async receive(data) {
    this.sent = data;
    await this.keep(data.run, data.payload);
    if (this.sent !== data) return; // something newer has come meanwhile
    this.dress();
    if (data.tour !== this.told) [this.told, this.stops] = [data.tour, JSON.parse(data.tour)];
    const wished = this.wishes.take(data.asked);
    const other = data.question !== this.question;
    this.question = data.question;
    this.asks = data.question ? JSON.parse(data.question) : null;
    if (wished) {
      const { stop, moved, chosen, seen } = data.asked;
      this.place = { stop, moved, chosen };
      this.seen = new Set(seen);
      this.wishes.known(this.view());
      this.freeKeys();
    }
    this.draw(wished || other);
    setTimeout(() => this.showInList(), 400); // the sidebar is drawn a moment later
  }

  // The sidebar's list of stops scrolls; the one on show is kept in view.
  showInList() {
    const chosen = "[data-testid=stSidebar] [role=radiogroup] label:has(input:checked)";
    this.root.ownerDocument.querySelector(chosen)?.scrollIntoView({ block: "nearest" });
  }

  // A long run travels packed, and is unpacked once.
  async keep(name, payload) {
    if (!payload || this.runs.has(name)) return;
    const text = isPacked(payload) ? await unpack(payload) : payload;
    if (this.runs.size >= MOST_RUNS) this.runs.delete(this.runs.keys().next().value);
    this.runs.set(name, text);
  }

  // What was picked from a list with the pointer leaves the keys to the page.
  freeKeys() {
    const focus = this.root.ownerDocument.activeElement;
    const picked = "input[type=radio]:not(:focus-visible), [data-testid=stSidebar] button:not(:focus-visible)";
    if (focus?.matches(picked)) focus.blur();
  }

  view() {
    return { ...this.place, seen: [...this.seen] };
  }

  tell(after) {
    this.wishes.tell(() => this.view(), after);
  }

  dress() {
    this.root.dataset.theme = luminance(backgroundOf(this.root)) < 0.4 ? "dark" : "light";
  }

  // ---------------------------------------------------------------- where the reader stands

  get asking() {
    return this.sent.mode === "questions";
  }

  // What is on show: a stop of the tour or a question, both with two moments of a run.
  get scene() {
    return this.asking ? this.asks : this.stops[this.place.stop];
  }

  get moved() {
    return this.asking ? this.place.chosen !== null : this.place.moved;
  }

  on() {
    const { scene } = this;
    if (this.asking) {
      if (this.moved || this.sent.problem) this.act("next");
      return;
    }
    if (scene.after && !this.moved) this.move();
    else if (this.place.stop < this.stops.length - 1) this.go(this.place.stop + 1);
    else this.act("questions");
  }

  back() {
    if (this.asking) return;
    if (this.moved) this.go(this.place.stop);
    else if (this.place.stop > 0) this.go(this.place.stop - 1);
  }

  go(stop) {
    const next = clamp(stop, 0, this.stops.length - 1);
    if (next === this.place.stop && !this.place.moved) return;
    this.seen.add(this.scene.name);
    this.place = { stop: next, moved: false, chosen: null };
    this.seen.add(this.scene.name);
    this.draw(true);
    this.tell(this.runs.has(this.scene.run) ? undefined : 0);
  }

  // The movement of a stop: the run goes on from its first moment to its second.
  move() {
    this.place.moved = true;
    this.write();
    this.play();
    this.tell();
  }

  choose(index) {
    if (!this.asking || !this.scene || this.moved || index >= this.scene.choices.length) return;
    const within = this.find(".choices").contains(this.root.getRootNode().activeElement);
    this.place.chosen = index;
    this.write();
    this.play();
    if (within) this.find("[data-act=on]").focus();
    this.tell(0);
  }

  // ---------------------------------------------------------------- the stage

  // Everything anew; `jumps` where the stage has to be put to its place, too.
  draw(jumps) {
    this.write();
    const { scene } = this;
    const text = scene && this.runs.get(scene.run);
    this.root.classList.toggle("fetching", !text);
    clearTimeout(this.timer);
    if (!text) {
      this.drawn = null;
      return;
    }
    if (!jumps && this.drawn === scene.run) return;
    this.drawn = scene.run;
    this.put(text, this.moved && scene.after ? scene.after : scene.before);
  }

  put(payload, { step, phase, request }) {
    this.spots += 1;
    const asked = { run: this.scene.run, wish: this.spots, step, phase, request, layer: 0, details: Boolean(this.scene.panel) };
    const hidden = ["transport", ...(this.scene.panel ? [] : ["panels"])];
    this.stage.receive({ payload, asked, hidden });
    if (this.scene.panel) this.stage.unfold(true, this.scene.panel);
  }

  // Phase after phase from the first moment to the second, each as long as it takes to see it.
  play() {
    clearTimeout(this.timer);
    const { scene, stage } = this;
    const text = this.runs.get(scene.run);
    if (!scene.after || !text || this.drawn !== scene.run) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.put(text, scene.after);
      return;
    }
    const { phases } = stage.run;
    const last = scene.after.step * phases.length + phases.indexOf(scene.after.phase);
    const next = () => {
      if (stage.frame >= last) return;
      this.timer = setTimeout(next, stage.show(stage.frame + 1, "fade"));
    };
    next();
  }

  // ---------------------------------------------------------------- the words

  write() {
    const { root, scene, moved } = this;
    root.classList.toggle("asking", this.asking);
    root.classList.toggle("answered", this.asking && moved);
    root.classList.toggle("moved", moved);
    root.classList.toggle("with-lamps", Boolean(scene?.lamps));
    root.classList.toggle("paneled", Boolean(scene?.panel));
    this.known = new Set();
    if (this.asking) this.writeQuestion();
    else this.writeStop();
    const shown = moved && scene?.after ? scene.after : scene?.before;
    this.find(".moment").textContent = shown ? `on show: request ${shown.request}, step ${shown.step}, ${shown.phase}` : "";
    this.find(".score").textContent = this.sent.score;
    this.terms.refresh();
  }

  label(act, text, key, disabled = false) {
    const node = this.find(`[data-act=${act}]`);
    const spoken = `${text} ${key}`;
    if (node.dataset.label !== spoken) {
      node.dataset.label = spoken;
      node.replaceChildren(text, " ", el("kbd", "", key));
    }
    node.disabled = disabled;
    node.hidden = !text;
  }

  writeStop() {
    const { stop } = this.place;
    const { scene, moved } = this;
    const last = this.stops.length - 1;
    this.setText(".head h1", scene.title);
    this.find(".where span").textContent = `Tour, ${stop + 1} of ${last + 1}`;
    this.showProgress(stop, last);
    this.label("back", "Back", "←", stop === 0 && !moved);
    const goesOn = scene.after && !moved ? "Show it" : stop < last ? "Go on" : "Questions";
    this.label("on", goesOn, "Space");
    this.label("watch", "Open on Watch", "W");
    this.label("other", "Questions", "Q");
    this.find(".asks p").replaceChildren(...this.rich(scene.ask));
    this.find(".taught").textContent = "";
    this.find(".choices").replaceChildren();
    const hint = scene.after ? [el("p", "hint", "First say what you expect; then Space makes it happen.")] : [];
    this.say(moved ? [el("p", "", ...this.rich(scene.told))] : hint);
  }

  showProgress(stop, last) {
    const progress = this.find(".progress");
    progress.replaceChildren(...this.stops.map(({ name }, index) =>
      el("i", index === stop ? "now" : this.seen.has(name) ? "seen" : "")));
    progress.setAttribute("aria-label", "stops of the tour");
    progress.setAttribute("aria-valuemax", last + 1);
    progress.setAttribute("aria-valuenow", stop + 1);
    progress.setAttribute("aria-valuetext", `stop ${stop + 1} of ${last + 1}`);
  }

  writeQuestion() {
    const { scene, moved } = this;
    this.find(".progress").replaceChildren();
    this.find(".where span").textContent = this.sent.topic;
    this.label("back", "Tour", "T");
    this.label("on", "Next question", "N", !moved && !this.sent.problem);
    this.label("watch", scene && moved ? "Watch this run" : "", "W");
    this.label("other", "", "");
    this.setText(".head h1", scene ? scene.title : this.sent.problem ? "No question" : "A question is on its way");
    const [given, asked] = scene ? scene.text : [this.sent.waiting, ""];
    this.find(".asks p").replaceChildren(...this.rich(given), ...(asked ? [el("b", "", asked)] : []));
    this.find(".taught").textContent = scene?.taught ?? "";
    this.writeChoices();
    if (!scene) this.say([]);
    else if (moved) this.say(this.verdict());
    else this.say([el("p", "hint", "The picture shows the moment before. Choose by mouse, 1–4 or A–D.")]);
  }

  writeChoices() {
    const holder = this.find(".choices");
    const { scene } = this;
    const key = scene ? scene.run : "";
    if (holder.dataset.of !== key) {
      holder.dataset.of = key;
      holder.replaceChildren(...(scene?.choices ?? []).map((choice, index) => {
        const node = el("button", "choice", el("kbd", "", LETTERS[index]), choice);
        node.type = "button";
        node.addEventListener("click", () => this.choose(index));
        return node;
      }));
    }
    [...holder.children].forEach((node, index) => {
      const right = this.moved && index === scene.answer;
      const missed = this.moved && index === this.place.chosen && !right;
      node.className = `choice ${right ? "right" : missed ? "missed" : ""}`;
      node.firstChild.textContent = right ? "✓" : missed ? "✗" : LETTERS[index];
      node.setAttribute("aria-disabled", this.moved);
    });
  }

  verdict() {
    const { scene } = this;
    const right = scene.choices[scene.answer];
    const chosen = scene.choices[this.place.chosen];
    const told = chosen === right ? [el("b", "", "Right: "), `${right}.`] : [el("b", "", "Not so: "), `you said ${chosen}; it is ${right}.`];
    return [el("p", "verdict", ...told), el("p", "", ...this.rich(scene.why))];
  }

  // Only what is new is put there: it is read out.
  say(nodes) {
    const holder = this.find(".answer");
    const text = nodes.map((node) => node.textContent).join("\n");
    if (holder.dataset.said === text) return;
    holder.dataset.said = text;
    holder.replaceChildren(...nodes);
  }

  setText(selector, text) {
    const node = this.find(selector);
    if (node.textContent !== text) node.textContent = text;
  }

  // Text with **bold** parts and its terms explained.
  rich(text) {
    return text.split("**").flatMap((part, index) => {
      const nodes = withTerms(part, this.known);
      return index % 2 ? [el("b", "", ...nodes)] : nodes;
    });
  }

  // ---------------------------------------------------------------- input

  explain() {
    const card = this.find(".card");
    const on = (...what) => this.hear(...what);
    this.tips = new Tips(card);
    this.tips.tip.id = "learn-tip";
    this.tips.listen(on);
    this.terms = new Roving(this.stage.root, card, ".term");
    this.terms.listen(on);
  }

  hear(target, type, act, options) {
    target.addEventListener(type, act, options);
    this.leavers.push(() => target.removeEventListener(type, act, options));
  }

  listen() {
    const acts = {
      back: () => (this.asking ? this.act("tour") : this.back()),
      on: () => this.on(),
      watch: () => this.act("watch"),
      other: () => this.act("questions"),
    };
    for (const node of this.root.querySelectorAll("[data-act]")) {
      node.type = "button";
      this.hear(node, "click", () => acts[node.dataset.act]());
    }
    this.hear(this.root.ownerDocument, "keydown", (event) => this.key(event));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.hear(dark, "change", () => setTimeout(() => this.dress(), 50));
  }

  act(what) {
    this.wishes.hush();
    this.report(what, this.view());
  }

  key(event) {
    if (!this.sent || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.root.isConnected || !this.root.clientWidth || isTaken(event, this.root)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const act = (this.asking ? this.questionKeys() : this.tourKeys())[name];
    if (!act) return;
    event.preventDefault();
    if (!event.repeat || name.startsWith("Arrow")) act();
  }

  tourKeys() {
    return {
      " ": () => this.on(),
      ArrowRight: () => this.on(),
      ArrowLeft: () => this.back(),
      Home: () => this.go(0),
      End: () => this.go(this.stops.length - 1),
      q: () => this.act("questions"),
      w: () => this.act("watch"),
    };
  }

  questionKeys() {
    const keys = {
      " ": () => this.on(),
      ArrowRight: () => this.on(),
      n: () => this.on(),
      t: () => this.act("tour"),
      w: () => this.moved && this.act("watch"),
    };
    [..."abcd"].forEach((letter, index) => {
      keys[letter] = keys[index + 1] = () => this.choose(index);
    });
    return keys;
  }

  leave() {
    clearTimeout(this.timer);
    this.wishes.hush();
    this.stage.leave();
    for (const undo of this.leavers) undo();
  }
}

export default function mount({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".learn");
  if (parentElement.learn?.root !== root) {
    parentElement.learn?.leave();
    parentElement.learn = new Learn(root);
  }
  const { learn } = parentElement;
  learn.wishes.report = (view) => setStateValue("view", view);
  learn.report = (what, view) => setTriggerValue("act", { what, ...view });
  learn.receive(data);
  return () => {
    learn.leave();
    delete parentElement.learn;
  };
}
