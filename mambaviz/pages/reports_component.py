"""A report as a Streamlit component: thin, all drawing is in `mambaviz.viz.reports`.

It keeps one node, steps in the browser, and reports where it stands and what was guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import streamlit as st

from mambaviz.limits import MOST_STEPS
from mambaviz.pages.wishes import Wish, answers
from mambaviz.questions import MOST_CHOICES
from mambaviz.trace import PHASES, PhaseName
from mambaviz.viz.assets import REPORTS_HTML, reports_css, reports_js
from mambaviz.viz.reports.payload import ReportPayload

SKIPPED = -1  # a guess that was none

Hidden = Literal["transport", "panels"]


@dataclass(frozen=True)
class ReportState:
    """Where it stands: a step, the phase after which it shows the runs, and the reader's guess:
    None while the run with the fault is still covered, -1 for one who wanted to see it anyway."""

    at: int
    phase: PhaseName
    guess: int | None


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_reports", html=REPORTS_HTML, css=reports_css(), js=reports_js()
    )


def exhibit(
    payload: ReportPayload,
    *,
    key: str,
    wish: Wish[ReportState],
    score: str,
    hidden: Collection[Hidden] = (),
) -> ReportState:
    """Draw a report and say where it stands. ``wish`` works as for the stage."""
    asked = wish.asked
    result = _mount()(
        key=key,
        data={"payload": payload.text, "asked": asked, "score": score, "hidden": sorted(hidden)},
        on_view_change=_nothing,
    )
    return reported(result.view, asked) or wish.place


def _nothing() -> None:
    """The reported state needs a name to come back by."""


def reported(view: Any, asked: dict[str, Any]) -> ReportState | None:
    """What the browser said, if it is a view at all (it comes from outside) and still counts."""
    if not answers(view, asked):
        return None
    at, phase, guess = view.get("at"), view.get("phase"), view.get("guess")
    if not (type(at) is int and 0 <= at <= MOST_STEPS and phase in PHASES):
        return None
    if not (guess is None or (type(guess) is int and SKIPPED <= guess < MOST_CHOICES)):
        return None
    return ReportState(at, phase, guess)
