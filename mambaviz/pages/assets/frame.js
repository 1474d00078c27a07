// The page's frame, as far as only the browser can do it.
//
// 1. Fold the sidebar once where the window is too narrow for it and the stage side by side.
// 2. Follow a link that asks for a theme: Streamlit keeps the reader's choice in localStorage and
//    reads it at start, so a change needs one reload.

const FOLD_BELOW = 1300; // px of window width
const THEME_KEY = /^stActiveTheme-.*-v\d+$/;

function fold() {
  if (window.innerWidth >= FOLD_BELOW) return;
  const sidebar = document.querySelector('[data-testid="stSidebar"]');
  if (sidebar?.dataset.collapsed !== "false") return;
  sidebar.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click();
}

function follow(theme) {
  const wanted = { light: "Light", dark: "Dark" }[theme];
  if (!wanted) return;
  const key =
    Object.keys(localStorage).find((name) => THEME_KEY.test(name)) ??
    `stActiveTheme-${window.location.pathname}-v2`;
  if (localStorage.getItem(key) === JSON.stringify(wanted)) return;
  localStorage.setItem(key, JSON.stringify(wanted));
  window.location.reload();
}

export default function ({ parentElement, data }) {
  if (parentElement.framed) return; // called again on every run of the page
  parentElement.framed = true;
  follow(data.theme);
  fold();
}
