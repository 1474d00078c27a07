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

// The address without what only other pages show.
function address(others) {
  const url = new URL(window.location.href);
  const found = others.filter((name) => url.searchParams.has(name));
  if (!found.length) return window.location.href; // as it is, to the letter
  for (const name of found) url.searchParams.delete(name);
  return url.href;
}

export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  let back;
  button.onclick = async () => {
    try {
      await copy(address(data.others));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Use the address bar";
    }
    clearTimeout(back);
    back = setTimeout(() => (button.textContent = "Copy link"), 1600);
  };
}
