// What the tabs below the stage do in the browser: a click on a moment leads there, one on a block
// chooses it. All drawing was done in Python.

// Marks of a picture carry their meaning in their name (data-mark), buttons in data-go, data-block.
function wishOf(target) {
  const button = target.closest?.("[data-go], [data-block]");
  if (button?.dataset.go) return { go: button.dataset.go };
  if (button?.dataset.block) return { block: Number(button.dataset.block) };
  const name = target.closest?.("[data-mark]")?.dataset.mark ?? "";
  const [kind, ...rest] = name.split(":");
  if (kind === "go") return { go: rest.slice(0, 2).join(":") };
  if (kind === "block" || kind === "span") return { block: Number(rest[0]) };
  return null;
}

// What had the focus, so that it has it again in the markup that follows.
function focusOf(root) {
  const active = root.getRootNode().activeElement;
  if (!active || !root.contains(active)) return "";
  const { go, block, mark } = active.dataset;
  if (mark) return `[data-mark="${mark}"]`;
  if (block) return `[data-block="${block}"]`;
  return go ? `[data-go="${go}"]` : "";
}

export default function mount({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".tab");
  if (!parentElement.listens) {
    parentElement.listens = true;
    const act = (event) => {
      const wish = wishOf(event.target);
      if (!wish) return;
      if (wish.go) {
        const [step, phase] = wish.go.split(":");
        parentElement.tell("go", { step: Number(step), phase });
      } else parentElement.tell("block", wish.block);
    };
    root.addEventListener("click", act);
    root.addEventListener("keydown", (event) => {
      if (event.target.closest("button") || !(event.key === "Enter" || event.key === " ")) return;
      if (!wishOf(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
      act(event);
    });
  }
  parentElement.tell = setTriggerValue;
  if (parentElement.shown === data.html) return; // called again on every run of the page
  parentElement.shown = data.html;
  const focus = focusOf(root);
  const scrolled = [...root.querySelectorAll(".scroll, .picture")].map((box) => [box.scrollLeft, box.scrollTop]);
  root.innerHTML = data.html; // escaped in viz/tabs
  for (const mark of root.querySelectorAll('[data-mark^="block:"]')) {
    mark.setAttribute("tabindex", "0");
    mark.setAttribute("role", "button");
  }
  root.querySelectorAll(".scroll, .picture").forEach((box, index) => {
    [box.scrollLeft, box.scrollTop] = scrolled[index] ?? [0, 0];
  });
  const now = root.querySelector(".scroll tr.now");
  if (now) now.parentElement.closest(".scroll").scrollTop = now.offsetTop - 60;
  if (focus) root.querySelector(focus)?.focus({ preventScroll: true });
}
