"""Tour and questions as a Streamlit component: thin, all drawing is in `mambaviz.viz`.

It keeps one node with the stage in it, steps in the browser, and reports where the reader stands.
What it reports is taken up in callbacks, before the page runs: the run that a stop needs then
comes with the very next answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import streamlit as st

from mambaviz import tour
from mambaviz.pages.wishes import Wish, answers
from mambaviz.questions import MOST_CHOICES
from mambaviz.viz.assets import LEARN_HTML, learn_css, learn_js

KEY = "learn"

Act = Literal["next", "watch", "questions", "tour"]


@dataclass(frozen=True)
class LearnPlace:
    """Number of the tour's stop, whether its movement has been seen, the choice taken, and the
    names of the stops seen."""

    stop: int
    moved: bool
    chosen: int | None
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What the component is to show. ``run`` and ``payload`` are the run of ``place``, empty while
    there is none; ``question`` is empty while it is on its way, which ``waiting`` says."""

    mode: Literal["tour", "questions"]
    tour: str
    run: str
    payload: str
    question: str = ""
    topic: str = ""
    waiting: str = ""
    problem: bool = False
    score: str = ""


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_learn", html=LEARN_HTML, css=learn_css(), js=learn_js()
    )


def desk(
    shown: Shown,
    wish: Wish[LearnPlace],
    *,
    on_view: Callable[[], None],
    on_act: Callable[[], None],
) -> None:
    """Draw it. The callbacks find what was said with `place_reported` and `act_reported`."""
    _mount()(
        key=KEY,
        data={
            "mode": shown.mode,
            "tour": shown.tour,
            "run": shown.run,
            "payload": shown.payload,
            "question": shown.question,
            "topic": shown.topic,
            "waiting": shown.waiting,
            "problem": shown.problem,
            "score": shown.score,
            "asked": wish.asked,
        },
        on_view_change=on_view,
        on_act_change=on_act,
    )


def place_reported(wish: Wish[LearnPlace] | None) -> LearnPlace | None:
    """Where the reader stands, if the browser has said so after this wish and no other."""
    said = st.session_state.get(KEY)
    view = said.get("view") if said is not None else None
    if wish is None or not answers(view, wish.asked):
        return None
    return read_place(view)


def act_reported() -> tuple[Act, LearnPlace] | None:
    """What the reader wants to be done, and where."""
    said = st.session_state.get(KEY)
    act = said.get("act") if said is not None else None
    place = read_place(act)
    for what in get_args(Act):
        if place is not None and act is not None and act.get("what") == what:
            return what, place
    return None


def read_place(view: Any) -> LearnPlace | None:
    """A place out of what the browser said, if it is one at all (it comes from outside)."""
    if not isinstance(view, dict):
        return None
    stop, moved, chosen = view.get("stop"), view.get("moved"), view.get("chosen")
    if type(stop) is not int or not 0 <= stop < len(tour.NAMES) or type(moved) is not bool:
        return None
    if chosen is not None and (type(chosen) is not int or not 0 <= chosen < MOST_CHOICES):
        return None
    seen = view.get("seen")
    if not isinstance(seen, list) or not all(name in tour.NAMES for name in seen):
        return None
    return LearnPlace(stop, moved, chosen, tuple(seen))
