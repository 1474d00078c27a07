// A button that puts the address of exactly this view on the clipboard.

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Plain http to another machine has no clipboard interface: select and copy the old way.
  const field = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("copy refused");
}

export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  let back;
  button.onclick = async () => {
    try {
      await copy(window.location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Use the address bar";
    }
    clearTimeout(back);
    back = setTimeout(() => (button.textContent = "Copy link"), 1600);
  };
}
