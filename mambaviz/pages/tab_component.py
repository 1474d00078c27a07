"""The tabs' pictures as a Streamlit component; all drawing is in `mambaviz.viz.tabs`.

A click on a moment or a block comes back as a callback; the page then asks the stage to go there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import streamlit as st

from mambaviz.limits import MOST_BLOCKS, MOST_STEPS
from mambaviz.pages import state
from mambaviz.trace import PHASES
from mambaviz.viz.tabs.html import tabs_css, tabs_js

CHOSEN = "chosen_block"  # of the session: (scenario hash, block), while the reader has chosen one


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_tab", html='<div class="tab"></div>', css=tabs_css(), js=tabs_js()
    )


def figure(html: str, *, key: str, run: str) -> None:
    """Show finished markup. ``run`` is the hash of the scenario that a chosen block belongs to."""

    def go() -> None:
        place = st.session_state.get(key, {}).get("go")
        if isinstance(place, dict):
            go_to(place.get("step"), place.get("phase"))

    def choose() -> None:
        block = st.session_state.get(key, {}).get("block")
        if type(block) is int and 0 <= block < MOST_BLOCKS:
            st.session_state[CHOSEN] = (run, block)

    _mount()(key=key, data={"html": html}, on_go_change=go, on_block_change=choose)


def go_to(step: Any, phase: Any) -> None:
    """Ask the stage for a moment, if what the browser said is one."""
    if type(step) is int and 0 <= step <= MOST_STEPS and phase in PHASES:
        state.update(step=step, phase=phase)


def chosen_block(run: str) -> int | None:
    """The block that the reader has chosen in this run; None: none yet."""
    found = st.session_state.get(CHOSEN)
    return found[1] if isinstance(found, tuple) and found[0] == run else None
