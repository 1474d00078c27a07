"""Runs side by side as a Streamlit component: thin, all drawing is in `mambaviz.viz.compare`.

Like the stage it keeps one node, steps in the browser, and reports where it stands when it pauses
or has been stepped by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import streamlit as st

from mambaviz.limits import MOST_TOKENS
from mambaviz.pages.wishes import Wish, answers
from mambaviz.trace import PHASES, PhaseName
from mambaviz.viz.assets import COMPARE_HTML, compare_css, compare_js
from mambaviz.viz.compare.payload import ComparePayload

Hidden = Literal["transport", "panels", "legend"]


@dataclass(frozen=True)
class CompareState:
    """Where it stands: a step or token, the phase after which it shows the runs, marks or not."""

    at: int
    phase: PhaseName
    marks: bool


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_compare", html=COMPARE_HTML, css=compare_css(), js=compare_js()
    )


def side_by_side(
    payload: ComparePayload,
    *,
    key: str,
    wish: Wish[CompareState],
    hidden: Collection[Hidden] = (),
) -> CompareState:
    """Draw the runs and say where they stand. ``wish`` works as for the stage."""
    asked = wish.asked
    result = _mount()(
        key=key,
        data={"payload": payload.text, "asked": asked, "hidden": sorted(hidden)},
        on_view_change=_nothing,
    )
    return reported(result.view, asked) or wish.place


def _nothing() -> None:
    """The reported state needs a name to come back by."""


def reported(view: Any, asked: dict[str, Any]) -> CompareState | None:
    """What the browser said, if it is a view at all (it comes from outside) and still counts."""
    if not answers(view, asked):
        return None
    at, phase, marks = view.get("at"), view.get("phase"), view.get("marks")
    if type(at) is not int or not 0 <= at <= MOST_TOKENS:  # which are more than steps
        return None
    if not (phase in PHASES and isinstance(marks, bool)):
        return None
    return CompareState(at, phase, marks)
