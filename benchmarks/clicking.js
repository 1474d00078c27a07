// What a hand could touch on the page, shadow roots included; kept for `touch`.
() => {
  const WANTED = [
    "button", "a[href]", "input", "textarea", "select", "summary", "canvas", "[tabindex]",
    "[role=button]", "[role=tab]", "[role=option]", "[role=slider]", "[role=combobox]",
    "[role=radio]", "[role=checkbox]", "[role=switch]", "[contenteditable=true]", "[data-token]",
    "[data-block]", "label", "svg",
  ].join(",");
  const found = [];
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) visit(node.shadowRoot);
      if (!node.matches(WANTED)) continue;
      const box = node.getBoundingClientRect();
      if (box.width < 2 || box.height < 2) continue;
      if (getComputedStyle(node).visibility === "hidden") continue;
      found.push(node);
    }
  };
  visit(document);
  window.mvFound = found;
  return found.map((node) => {
    const words = node.ariaLabel || node.textContent || node.placeholder || "";
    return {
      tag: node.tagName.toLowerCase(),
      role: node.getAttribute("role") || node.type || "",
      words: String(words).trim().replace(/\s+/g, " ").slice(0, 60),
      leads: node.href && typeof node.href === "string" ? node.href : "",
    };
  });
}
