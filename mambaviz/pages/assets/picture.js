// Two buttons that save what the stage shows: as SVG, or drawn by this browser as PNG.
//
// The stage says where it stands, even while it plays; Python writes the SVG from the same scene
// and sends it back under a number; what has a new number is saved, once.

const SCALE = 2; // pixels of the PNG for one of the picture
const FONT = "Source Sans";

function isDark(node) {
  const colour = getComputedStyle(node).getPropertyValue("--st-background-color").trim();
  const [red, green, blue] = (colour.match(/[0-9a-f]{2}/gi) ?? ["ff", "ff", "ff"]).map((two) => parseInt(two, 16));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 102;
}

// The link is clicked inside the menu: a click outside would close it.
function save(holder, blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  holder.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function dataUrl(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
}

// An image cannot use the page's own font unless it is inside it. Without one it falls back.
async function fontFace() {
  for (const sheet of document.styleSheets) {
    let rules;
    try {
      rules = [...sheet.cssRules];
    } catch {
      continue; // a sheet of another origin, an extension's
    }
    const rule = rules.find((one) => one instanceof CSSFontFaceRule
      && one.style.fontFamily.replaceAll('"', "") === FONT && one.style.fontStyle !== "italic");
    const [, url] = rule?.style.getPropertyValue("src").match(/url\("?([^")]+)"?\)/) ?? [];
    if (!url) continue;
    const answer = await fetch(new URL(url, sheet.href ?? document.baseURI));
    if (!answer.ok) return "";
    const weights = rule.style.fontWeight || "200 900";
    return `@font-face{font-family:"${FONT}";font-weight:${weights};src:url(${await dataUrl(await answer.blob())})}`;
  }
  return "";
}

async function rasterised(svg) {
  const drawn = svg.replace("<style>", `<style>${await fontFace()}`);
  const image = new Image();
  image.src = await dataUrl(new Blob([drawn], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), {
    width: image.naturalWidth * SCALE, height: image.naturalHeight * SCALE,
  });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

async function deliver(holder, { kind, name, svg }) {
  const blob = kind === "png" ? await rasterised(svg) : new Blob([svg], { type: "image/svg+xml" });
  save(holder, blob, `${name}.${kind}`);
}

export default function ({ parentElement, data, setTriggerValue }) {
  const holder = parentElement;
  const told = holder.querySelector("p");
  for (const button of holder.querySelectorAll("button")) {
    button.onclick = () => {
      const where = new CustomEvent("mambaviz-where", { detail: {} });
      document.dispatchEvent(where); // the stage fills it in
      told.textContent = "";
      setTriggerValue("wanted", { kind: button.dataset.kind, dark: isDark(button), view: where.detail.view });
    };
  }
  const made = data.made;
  holder.taken ??= data.first;
  if (!made || made.number <= holder.taken) return;
  holder.taken = made.number;
  deliver(holder, made).catch(() => { told.textContent = "This browser could not draw the picture."; });
}
