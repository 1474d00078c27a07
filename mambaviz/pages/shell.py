"""The frame of every page: logo, style sheet, and the things that only the browser can do."""

from __future__ import annotations

from functools import cache

import streamlit as st

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


def frame(state: PageState) -> None:
    """Once a run of a page, before anything else is drawn."""
    st.logo(LOGO, size="small")
    st.html(f"<style>{tokens()}\n{STYLE.read_text(encoding='utf-8')}</style>")
    _frame(key="frame", data={"theme": state.theme})


def copy_link() -> None:
    """A button that puts the address, a link to exactly this view, on the clipboard."""
    _copy_link(key="copy-link")


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
