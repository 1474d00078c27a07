// What the components ask of the browser: keys, sizes, the colour behind them.

// Keys belong to whoever has the focus and a use for them: fields, lists, menus, dialogs.
function isTaken(event, root) {
  const [target] = event.composedPath();
  if (!(target instanceof Element)) return false;
  const dialogs = [...target.ownerDocument.querySelectorAll("[role=dialog]")];
  if (dialogs.some((dialog) => !root.contains(dialog) && dialog.checkVisibility())) return true;
  if (target.isContentEditable || target.closest("input, textarea, select, [contenteditable=true]")) return true;
  const inside = root.contains(target);
  if (event.key === " " && target.closest("button, a, summary, [role=button], [role=tab], [role=option]")) return true;
  return !inside && target.closest("[role=slider], [role=tab], [role=radio], [role=listbox], [role=menu], [role=grid]") !== null;
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function sizeSvg(svg, width, height, scale, margin = 0) {
  const [wide, high] = [width + 2 * margin, height + 2 * margin];
  const size = `${-margin} ${-margin} ${wide} ${high} at ${scale}`;
  if (svg.dataset.size === size) return; // set again, it would be laid out again
  svg.dataset.size = size;
  svg.setAttribute("viewBox", `${-margin} ${-margin} ${wide} ${high}`);
  svg.setAttribute("width", wide * scale);
  svg.setAttribute("height", high * scale);
}

// The colour behind a node: Streamlit says it, else the first ancestor that has one.
function backgroundOf(node) {
  const said = getComputedStyle(node).getPropertyValue("--st-background-color").trim();
  if (said) return said;
  let at = node.parentNode;
  while (at) {
    const element = at instanceof ShadowRoot ? at.host : at;
    if (!(element instanceof Element)) break;
    const colour = getComputedStyle(element).backgroundColor;
    if (colour && !/, 0\)$|transparent/.test(colour)) return colour;
    at = element.parentNode;
  }
  return "";
}

function luminance(colour) {
  const numbers = colour.startsWith("#")
    ? colour.slice(1).match(colour.length > 4 ? /../g : /./g).map((digits) => parseInt(digits.padEnd(2, digits), 16))
    : (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  const [red, green, blue] = numbers;
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}

const REPORT_AFTER = 250; // ms of quiet before Python hears of a step

// What Python asks and hears. The component owns the place while a reader steps: a wish of
// Python's is taken up once, when its run or number is new, and whatever Python sends back of a
// step it has heard of moves nothing. A report names the wish it comes after (pages/wishes.py).
class Wishes {
  constructor() {
    this.report = () => {};
  }

  // Whether this is another wish than the one taken up before.
  take({ run, wish }) {
    const before = this.asked;
    this.asked = { run, wish };
    return !before || before.run !== run || before.wish !== wish;
  }

  // Python knows this view: it is the one it has asked for.
  known(view) {
    this.said = JSON.stringify([view, this.asked]);
  }

  // Tell Python where the component stands once it has been quiet for a while.
  tell(view, after = REPORT_AFTER) {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      const said = JSON.stringify([view(), this.asked]);
      if (said === this.said) return;
      this.said = said;
      this.report({ ...view(), asked: this.asked });
    }, after);
  }

  hush() {
    clearTimeout(this.telling);
  }
}
