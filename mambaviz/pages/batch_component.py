"""The pictures of the Metadata page as a Streamlit component; all drawing is in `mambaviz.viz`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import streamlit as st

from mambaviz.viz.batch.view import batch_css, batch_js


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_batch", html='<div class="batch"></div>', css=batch_css(), js=batch_js()
    )


def pictures(html: str, *, key: str, chosen: str = "") -> None:
    """Show finished pictures. ``chosen`` is the field pointed at first; empty: there are none."""
    _mount()(key=key, data={"html": html, "chosen": chosen})
