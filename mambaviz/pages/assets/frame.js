// The page's frame, as far as only the browser can do it.
//
// 1. Fold the sidebar once where the window is too narrow for it and the stage side by side.
// 2. Follow a link that asks for a theme: Streamlit keeps the reader's choice in localStorage and
//    reads it at start, so a change needs one reload.
// 3. Tell Python when the reader goes back or forward in the history: the address alone does not
//    say it, because a browser also sends addresses that have been replaced meanwhile. Not where
//    that leads to another page: Streamlit goes there, and told from here, Python would draw this
//    page once more, and the reader would never get away.

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

export default function ({ parentElement, data, setStateValue }) {
  const frame = parentElement;
  frame.told = (address) => setStateValue("popped", { address, when: performance.timeOrigin + performance.now() });
  if (frame.framed) return undefined; // called again on every run of the page
  frame.framed = true;
  follow(data.theme);
  fold();
  const popped = () => {
    if (window.location.pathname.split("/").pop() === data.page) frame.told(window.location.search);
  };
  window.addEventListener("popstate", popped);
  return () => {
    window.removeEventListener("popstate", popped);
    frame.framed = false;
  };
}
