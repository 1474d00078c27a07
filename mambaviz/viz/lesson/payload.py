"""The stops of a lesson as the browser component takes them: all pictures, all words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mambaviz.trace import PHASES, PhaseName, Trace
from mambaviz.viz import legend
from mambaviz.viz.lesson import pictures
from mambaviz.viz.payload import phase_events
from mambaviz.viz.scene import Mark, body_json, short
from mambaviz.viz.theme import EASING, LESSON, MOTION
from mambaviz.viz.timelines import Bodies
from mambaviz.viz.views import Frame, frames, group_of
from mambaviz.viz.words import words

Json = Any


@dataclass(frozen=True)
class LessonStop:
    """A moment of a run, seen from one of its requests."""

    step: int
    phase: PhaseName
    request: str


def lesson_payload(trace: Trace, title: str, stops: Sequence[LessonStop], layer: int) -> str:
    """JSON. Raises KeyError for a stop that the run does not have."""
    wanted = {(stop.step, stop.phase) for stop in stops}
    bodies = Bodies()
    at: dict[tuple[int, str, str], Json] = {}
    for frame in frames(trace):  # a frame is good until the next one is asked for
        if (frame.step.index, frame.phase.name) in wanted:
            for stop in stops:
                if (stop.step, stop.phase) == (frame.step.index, frame.phase.name):
                    at[stop.step, stop.phase, stop.request] = _stop(frame, stop, layer, bodies)
    data = {
        "title": title,
        "stops": [at[stop.step, stop.phase, stop.request] for stop in stops],
        "bodies": bodies.values,
        "motion": {**MOTION, "easing": EASING},
        "sizes": {
            "lane": [LESSON.lane_width, LESSON.lane_height],
            "conv": [LESSON.conv_width, LESSON.conv_height],
            "temporal": [LESSON.temporal_width, LESSON.temporal_height],
        },
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _stop(frame: Frame, stop: LessonStop, layer: int, bodies: Bodies) -> Json:
    told = words(frame, stop.request, layer)
    group = group_of(frame.trace, layer)
    view, state = frame.lane(stop.request, group, layer), frame.state(stop.request, layer)
    engine = frame.trace.scenario.engine
    if engine.mode == "none":  # everything is in column 0; scratch covers no tokens
        columns = pictures.columns_of(view, max(len(view.tokens), 1), covering=1)
    else:
        columns = pictures.columns_of(view, engine.block_size)
    events = phase_events(frame.trace, frame.step, PHASES.index(stop.phase))
    statuses = {status for strip in state.strips for _, status in strip.rows}
    drawn = {status for status in (*view.tokens, *statuses) if status in legend.TOKEN_NAME}
    items = legend.items({cell.role for cell in view.cells}, drawn, set(events) & {"wrong"})
    return {
        "where": f"step {stop.step}, {stop.phase}",
        "request": stop.request,
        "words": [told.headline, [[span.text, span.role] for span in told.sentence]],
        "copies": bool({"migrate", "checkpoint"} & set(events)),
        "lane": _marks(pictures.lane(view, columns), bodies),
        "conv": _marks(pictures.conv(state), bodies),
        "conv_title": "" if state.note else pictures.conv_title(state),
        "temporal": _marks(pictures.temporal(state), bodies),
        "temporal_title": "" if state.note else pictures.temporal_title(state),
        "legend": [
            [short(item.width), body_json(item.body), item.text]
            for item in items
            if item is not None and (item.text != "copied now" or view.copies)
        ],
    }


def _marks(marks: Sequence[Mark], bodies: Bodies) -> Json:
    found = {}
    for mark in marks:
        entry = [bodies.of(mark.body), short(mark.x), short(mark.y)]
        origin = [] if mark.origin is None else [short(at) for at in mark.origin]
        found[mark.name] = [*entry, *origin]
    return found
