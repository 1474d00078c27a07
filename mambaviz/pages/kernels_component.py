"""The pictures of the Kernels page as a Streamlit component; all drawing is in `mambaviz.viz`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import streamlit as st

from mambaviz.viz.kernels.view import kernels_css, kernels_js

Part = Literal["programs", "detail", "speeds"]


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_kernels", html='<div class="kernels"></div>', css=kernels_css(), js=kernels_js()
    )


def part(name: Part, html: str, **data: Any) -> None:
    """A finished part of the page, under the key ``kernels-NAME``."""
    callbacks = {}
    if name == "programs":
        callbacks["on_program_change"] = data.pop("on_program")
    if name == "detail":
        callbacks["on_path_change"] = data.pop("on_path")
    launch = data.pop("launch", "")
    _mount()(
        key=f"kernels-{name}",
        data={"part": name, "html": html, "launch": launch, **data},
        **callbacks,
    )


def told(name: Part, value: str, launch: str) -> str | None:
    """What the reader did in a part, if it was about this launch. It comes from outside."""
    state = st.session_state.get(f"kernels-{name}")
    said = state.get(value) if state is not None else None
    if not isinstance(said, dict) or said.get("launch") != launch:
        return None
    found = said.get("value")
    return found if isinstance(found, str) else None
