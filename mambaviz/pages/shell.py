"""The frame of every page: logo, style sheet, and the things that only the browser can do."""

from __future__ import annotations

from functools import cache
from urllib.parse import parse_qsl

import streamlit as st

from mambaviz.pages import state
from mambaviz.pages.assets import FRAME_SCRIPT, LINK_SCRIPT, LINK_STYLE, LOGO, STYLE
from mambaviz.pages.state import PageState
from mambaviz.viz.theme import DARK, LIGHT

_frame = st.components.v2.component(
    "mambaviz_frame", html="<span></span>", js=FRAME_SCRIPT.read_text(encoding="utf-8")
)
_copy_link = st.components.v2.component(
    "mambaviz_copy_link",
    html='<button type="button">Copy link</button>',
    css=LINK_STYLE.read_text(encoding="utf-8"),
    js=LINK_SCRIPT.read_text(encoding="utf-8"),
)


def frame(view: PageState) -> None:
    """Once a run of a page, before anything else is drawn."""
    st.logo(LOGO, size="small")
    st.html(f"<style>{tokens()}\n{STYLE.read_text(encoding='utf-8')}</style>")
    page = state.path_of(state.session().page)
    _frame(key="frame", data={"theme": view.theme, "page": page}, on_popped_change=_went)


def _went() -> None:
    """The reader went back or forward in the history; the frame says to which address."""
    # Streamlit also calls this when the frame goes with its page, and then there is no state.
    popped = st.session_state.get("frame", {}).get("popped")
    if isinstance(popped, dict) and isinstance(popped.get("address"), str):
        state.went_to(dict(parse_qsl(popped["address"].removeprefix("?"))))


def copy_link() -> None:
    """A button that puts a link to exactly this view on the clipboard: the address, without
    what only other pages show. Where a link would be too long, a sentence takes its place."""
    problem = state.no_link()
    if problem:
        st.caption(problem)
        return
    _copy_link(key="copy-link", data={"others": state.only_elsewhere(state.session().page)})


@cache
def tokens() -> str:
    """The theme's colours as CSS variables for the page around the stage.

    Streamlit says which of its themes is on by ``color-scheme``, which ``light-dark()`` follows.
    """
    pairs = zip(LIGHT.variables(), DARK.variables(), strict=True)
    rules = "".join(
        f"--mv-{name}:{light};" if light == dark else f"--mv-{name}:light-dark({light},{dark});"
        for (name, light), (_, dark) in pairs
    )
    return f".stApp{{{rules}}}"
