// The parts of the stage that are text and tables. Text only ever goes through textContent.

function el(tag, cls, ...children) {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  node.append(...children);
  return node;
}

function sign(parts, cls) {
  const node = svgNode("svg", { viewBox: "1.5 1 14 14", "aria-hidden": "true" }, cls);
  node.append(...parts.map(primitive));
  return node;
}

function button(label, pressed, act) {
  const node = el("button", "", label);
  node.type = "button";
  node.setAttribute("aria-pressed", pressed);
  node.addEventListener("click", act);
  return node;
}

const MOST_SEGMENTS = 4; // more choices than this become a list to pick from

// A row of choices of which one is on.
function segments(holder, labels, chosen, name, act) {
  if (labels.length > MOST_SEGMENTS) {
    const select = el("select", "");
    select.setAttribute("aria-label", name);
    labels.forEach((label, index) => select.append(new Option(label, index, false, index === chosen)));
    select.addEventListener("change", () => act(Number(select.value)));
    holder.replaceChildren(select);
    return;
  }
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", name);
  holder.replaceChildren(...labels.map((label, index) => button(label, index === chosen, () => act(index))));
}

// `inside` makes nodes of a text, where its terms are to be explained.
function words(holder, [headline, spans], inside = (text) => [text]) {
  holder.querySelector("h1").replaceChildren(...inside(headline));
  const nodes = spans.flatMap(([text, role]) => (role ? el("span", role, ...inside(text)) : inside(text)));
  holder.querySelector("p").replaceChildren(...nodes);
}

function whyTable(holder, why) {
  const many = why.requests.length > 4;
  const head = el("tr", "", el("th", "", why.title));
  head.firstChild.colSpan = many ? 1 : 2;
  head.append(...why.requests.map((name) => titled(el("th", "n", name), name)));
  const rows = why.rows.map(([name, how, values, key, rule, term]) => {
    const word = el("span", "", name);
    if (term) word.dataset.term = term;
    const row = el("tr", `${key ? "about" : ""} ${rule ? "rule" : ""}`, el("td", "", word));
    if (!many) row.append(titled(el("td", "how", how), how));
    row.append(...values.map((value) => el("td", "n", value)));
    return row;
  });
  const reasons = why.reasons.map((reason) => el("div", "", reason));
  const lines = why.formulas.map((formulas, index) =>
    el("tr", "", el("td", "", why.requests[index]), ...formulas.map((text) => el("td", "", ...boldEnd(text)))));
  holder.replaceChildren(
    el("table", "long", el("thead", "", head), el("tbody", "", ...rows)),
    el("table", "formulas", ...lines),
    el("div", "reasons", ...reasons),
  );
}

function titled(node, title) {
  node.title = title;
  return node;
}

function boldEnd(text) {
  const cut = Math.max(text.lastIndexOf("= "), text.lastIndexOf("→ ")) + 2;
  return [text.slice(0, cut), el("b", "", text.slice(cut))];
}

function metadataTable(holder, found, meanings, point) {
  const rows = found.rows.map(([name, cells, kind, changed, tokens]) => {
    const meaning = meanings[name] ?? "";
    const row = el("tr", changed ? "changed" : "", el("td", "", name), el("td", ""), el("td", "", kind));
    row.children[1].append(...cellRows(cells));
    row.classList.add("field");
    row.setAttribute("aria-describedby", "field-told");
    row.tokens = tokens;
    row.blocks = cells.filter(([, block]) => block).map(([, block]) => block);
    row.title = changed ? `${name}, changed since the step before` : name;
    row.addEventListener("pointerenter", () => point(row));
    row.addEventListener("focus", () => point(row));
    row.point = { name, meaning };
    return row;
  });
  if (found.empty.length) {
    const row = el("tr", "", el("td", "prose", "None"), el("td", "", ""), el("td", "", ""));
    row.children[0].colSpan = 3;
    row.children[0].textContent = `None: ${found.empty.join(", ")}`;
    row.children[0].style.whiteSpace = "normal";
    row.children[2].remove();
    row.children[1].remove();
    rows.push(row);
  }
  holder.replaceChildren(el("table", "", ...rows));
}

// Block ids come in rows; a row is not broken in the middle.
function cellRows(cells) {
  const rows = [];
  for (const item of cells) {
    if (item[0].trimStart().startsWith("[") || !rows.length) rows.push(el("span", "whole"));
    rows[rows.length - 1].append(cell([item[0].trimStart(), item[1], item[2]]));
  }
  const whole = rows.length > 1 || cells.length > 1;
  return whole ? rows.flatMap((row) => [row, " "]) : cells.map(cell);
}

function cell([text, block, role]) {
  if (block === null) return text;
  const node = el("span", role ? `bkc ${role}` : "", text);
  node.dataset.block = block;
  return node;
}

function legend(holder, items) {
  holder.replaceChildren(...items.map((item) => {
    if (!item) return el("i", "");
    const [width, body, text, term] = item;
    const picture = svgNode("svg", { width, height: 16, viewBox: `0 0 ${width} 16`, "aria-hidden": "true" });
    picture.append(bodyNode(body));
    const entry = el("span", "", picture, text);
    if (term) entry.dataset.term = term;
    return entry;
  }));
}

// Contents as hex digits, for each grid on show; digits that changed are framed.
function hexDump(holder, picture) {
  const grids = new Map();
  for (const [name, { node }] of picture.nodes) {
    const cells = node.querySelector(".cells");
    if (cells) grids.set(name, { heat: cells.heat, title: node.querySelector("title").textContent });
  }
  const tables = [];
  for (const [name, { heat: after, title }] of grids) {
    if (!name.includes("-after")) continue;
    const before = grids.get(name.replace("-after", "-before")).heat;
    const table = el("table", "");
    for (let row = 0; row < after.rows; row++) {
      const line = el("tr", "");
      for (let column = 0; column < after.columns; column++) {
        const at = row * after.columns + column;
        line.append(el("td", after.raw[at] === before.raw[at] ? "" : "new", after.raw[at]));
      }
      table.append(line);
    }
    tables.push(el("h4", "", title), table);
  }
  holder.replaceChildren(...tables);
}
