"""The stage of the Watch page as a Streamlit component: thin, all drawing is in `mambaviz.viz`.

One node stays in the page for as long as the key does. It gets the whole run once, steps in the
browser, and reports where it stands when it pauses or is stepped by hand, never while it plays.

    payload = stage_payload(trace)                       # cache this per trace
    wish = standing("wish", payload.run, StageState(2, "post-copy", "A", 0), number)
    shown = stage(payload, key="stage", wish=wish)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import streamlit as st

from mambaviz.pages.wishes import Wish, answers
from mambaviz.trace import PHASES, PhaseName
from mambaviz.viz.assets import STAGE_HTML, stage_css, stage_js
from mambaviz.viz.payload import StagePayload

Hidden = Literal["transport", "panels", "legend"]


@dataclass(frozen=True)
class StageState:
    """Where the stage stands. ``request`` is a request's id, ``layer`` a layer's index; with
    ``details`` the panels below (why, changed blocks, metadata) are unfolded."""

    step: int
    phase: PhaseName
    request: str | None
    layer: int
    details: bool = False


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_stage", html=STAGE_HTML, css=stage_css(), js=stage_js()
    )


def stage(
    payload: StagePayload,
    *,
    key: str,
    wish: Wish[StageState],
    hidden: Collection[Hidden] = (),
    on_move: Callable[[], None] | None = None,
) -> StageState:
    """Draw the stage and say where it stands.

    ``payload`` is `mambaviz.viz.payload.stage_payload` of a trace. ``wish`` says where the page
    wants the stage (`mambaviz.pages.wishes`). ``hidden`` leaves parts out: the transport (with
    overview and chips), the three lower panels, the legend.
    ``on_move`` runs before the page when a reader has stepped or paused; the new state is then
    in ``st.session_state[key]["view"]`` and is what this function returns.
    """
    asked = wish.asked
    result = _mount()(
        key=key,
        data={"payload": payload.packed, "asked": asked, "hidden": sorted(hidden)},
        on_view_change=on_move or _nothing,
        on_drawn_change=_nothing,
    )
    found = reported(result.view, asked)
    is_there = found is not None and payload.has(found.step, found.request, found.layer)
    return found if found is not None and is_there else wish.place


def is_drawn(payload: StagePayload, key: str) -> bool:
    """Whether the browser has said that this run is on the stage, or one of the same scenario."""
    said = st.session_state.get(key)
    return said is not None and said.get("drawn") == payload.run.partition(":")[0]


def _nothing() -> None:
    """The page asked for no callback; the reported state still needs a name to come back by."""


def reported(view: Any, asked: dict[str, Any]) -> StageState | None:
    """What the browser said, if it is a view at all (it comes from outside) and still counts."""
    if not answers(view, asked):
        return None
    step, phase, layer = view.get("step"), view.get("phase"), view.get("layer")
    request = view.get("request")
    if type(step) is not int or type(layer) is not int or min(step, layer) < 0:
        return None
    if phase not in PHASES:
        return None
    request = request if isinstance(request, str) else None
    return StageState(step, phase, request, layer, view.get("details") is True)
