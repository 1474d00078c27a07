// The list of the stage's keys that `?` opens; KEYS is viz/keys.py's, put in front of this.

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
