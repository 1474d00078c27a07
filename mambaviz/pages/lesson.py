"""The Watch page as a lesson: the stops that a link names, in big type, and two buttons.

Whoever wants to show a few moments of a run drives this one: a `Lesson` in the page state
(`mambaviz.pages.lesson_state`) is all it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from mambaviz.pages import state
from mambaviz.pages.lesson_state import Lesson, Stop
from mambaviz.pages.runs import Run
from mambaviz.pages.state import PageState
from mambaviz.pages.wishes import answers, standing
from mambaviz.viz.assets import LESSON_HTML, lesson_css, lesson_js
from mambaviz.viz.lesson.payload import LessonStop, lesson_payload


@dataclass(frozen=True)
class StopState:
    """Where a lesson stands: the number of a stop among those that the run has."""

    stop: int


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_lesson", html=LESSON_HTML, css=lesson_css(), js=lesson_js()
    )


# --------------------------------------------------------------------------------------
# What a run has of a lesson
# --------------------------------------------------------------------------------------


def stops_of(run: Run, lesson: Lesson) -> list[Stop]:
    """The stops that this run has, in the lesson's order."""
    known = {plan.id for plan in run.trace.scenario.requests}
    steps = len(run.trace.steps)
    return [
        stop
        for stop in lesson.stops
        if stop.step < steps and (stop.request is None or stop.request in known)
    ]


def nothing_left(run: Run | None, view: PageState) -> bool:
    """Whether the run has none of the lesson's stops: then the whole page is shown."""
    return run is not None and view.lesson is not None and not stops_of(run, view.lesson)


def stop_at(run: Run, view: PageState) -> int | None:
    """Number of the stop at which the view stands; None if it stands at none."""
    assert view.lesson is not None
    here = seen(run, Stop(step=view.step, phase=view.phase, request=view.request))
    for number, stop in enumerate(stops_of(run, view.lesson)):
        if seen(run, stop) == here:
            return number
    return None


def seen(run: Run, stop: Stop) -> LessonStop:
    """A stop with the request that it is about."""
    if stop.step >= len(run.trace.steps):
        return LessonStop(stop.step, stop.phase, stop.request or "")
    about = stop.request or run.payload.request_at(stop.step, stop.phase)
    return LessonStop(stop.step, stop.phase, about or run.trace.scenario.requests[0].id)


def sentence(run: Run | None, view: PageState) -> str:
    """What of the lesson this run does not have; empty if it has all of it, or no run is there."""
    if run is None or view.lesson is None:
        return ""
    left = stops_of(run, view.lesson)
    lost = [stop for stop in view.lesson.stops if stop not in left]
    if not left:
        return "This run has none of the stops of this lesson, so the whole page is shown."
    if lost:
        about = f", request “{lost[0].request}”" if lost[0].request else ""
        return f"This run has no stop at step {lost[0].step}{about}, so it is left out."
    if stop_at(run, view) is None:
        return "This link stands at none of its lesson's stops, so the first one is shown."
    return ""


# --------------------------------------------------------------------------------------
# On the page
# --------------------------------------------------------------------------------------


@st.fragment
def place(run: Run | None) -> None:
    """The lesson, as soon as its run is there; alone when it reports a stop."""
    view = state.current()
    if view.lesson is None:
        st.rerun()  # left: the rest of the page comes back
    if run is None:
        return
    stops = stops_of(run, view.lesson)
    at = StopState(stop_at(run, view) or 0)
    number = state.session().wish
    wish = standing("lesson-wish", f"{run.payload.run}:{hash(view.lesson)}", at, number)
    result = _mount()(
        key="lesson",
        data={"payload": _payload(run, view.lesson, view.layer), "asked": wish.asked},
        on_view_change=_nothing,
        on_left_change=_leave,
    )
    shown = reported(result.view, wish.asked, len(stops)) or wish.place
    stop = stops[shown.stop]
    if shown != at:
        state.follow(**dict(stop))


def _payload(run: Run, lesson: Lesson, layer: int) -> str:
    """Kept as long as run, lesson and layer are the same."""
    key = (id(run), lesson, layer)
    if st.session_state.get("lesson_key") != key:
        stops = [seen(run, stop) for stop in stops_of(run, lesson)]
        layers = sorted({spec.layer for spec in run.trace.states})
        chosen = layer if layer in layers else layers[-1]
        text = lesson_payload(run.trace, lesson.title, stops, chosen)
        st.session_state["lesson_key"], st.session_state["lesson_text"] = key, text
    return st.session_state["lesson_text"]


def _leave() -> None:
    """Callback: the reader wants the whole page, at the same place."""
    state.update(lesson=None)


def _nothing() -> None:
    """The reported state needs a name to come back by."""


def reported(view: Any, asked: dict[str, Any], stops: int) -> StopState | None:
    """What the browser said, if it is a stop at all (it comes from outside) and still counts."""
    if not answers(view, asked):
        return None
    stop = view.get("stop")
    return StopState(stop) if isinstance(stop, int) and 0 <= stop < stops else None
