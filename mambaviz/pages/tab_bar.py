"""The tabs below the stage: one is open, and the link says which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from mambaviz.pages import state, widgets

if TYPE_CHECKING:
    from streamlit.elements.lib.mutable_tab_container import TabContainer

KEY = "tab"


def place(titles: Mapping[str, str]) -> Sequence[TabContainer]:
    """Tabs by their name in a link. The first is open if the link names none of these."""
    wanted = state.current().tab
    open_tab = wanted if wanted is not None and wanted in titles else next(iter(titles))
    widgets.stand(KEY, titles[open_tab])
    return st.tabs(list(titles.values()), key=KEY, on_change=_take, args=(titles,))


def _take(titles: Mapping[str, str]) -> None:
    """Callback: the reader has opened a tab; the first needs no word in the link."""
    title = widgets.choice(KEY, titles.values())
    if title is not None:
        name = next(name for name, its in titles.items() if its == title)
        state.follow(tab=None if name == next(iter(titles)) else name)
