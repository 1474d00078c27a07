// The keys of the stage, and the list of them that `?` opens. C and R are Streamlit's.

const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one phase back or forward"],
  ["Shift ← →", "one step back or forward"],
  ["Home End", "first or last phase"],
  ["E   Shift E", "next or previous event"],
  ["[   ]", "previous or next request"],
  ["1 … 9", "that request"],
  ["L   Shift L", "next or previous layer"],
  ["D", "show or fold the details"],
  ["H", "changed blocks as hex digits"],
  ["Tab", "next group; arrows move inside it"],
  ["Enter", "pin a token, a block or a field"],
  ["Esc", "close, or release what is pinned"],
  ["?", "this list"],
];

class KeyList {
  constructor(root) {
    this.root = root;
    const close = el("button", "close", "✕");
    close.type = "button";
    close.setAttribute("aria-label", "close");
    close.addEventListener("click", () => this.hide());
    const rows = KEYS.map(([keys, what]) => el("tr", "", el("th", "", ...keys.split("   ").map((key) => el("kbd", "", key))), el("td", "", what)));
    this.node = el("div", "keylist", el("h3", "", "Keys"), el("table", "", el("tbody", "", ...rows)), close);
    this.node.setAttribute("role", "dialog");
    this.node.setAttribute("aria-label", "keys");
    this.node.tabIndex = -1;
    this.node.hidden = true;
    root.append(this.node);
  }

  toggle() {
    if (this.node.hidden) this.show();
    else this.hide();
  }

  show() {
    this.before = this.root.getRootNode().activeElement;
    this.node.hidden = false;
    this.node.focus({ preventScroll: true });
  }

  // Whether it was open; the focus goes back to where it was.
  hide() {
    const was = !this.node.hidden;
    this.node.hidden = true;
    if (was && this.before?.isConnected) this.before.focus({ preventScroll: true });
    return was;
  }
}
