"""A lesson's pictures say what the mock-up of the migrate lesson says, and stay inside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.trace import PHASES, Trace
from mambaviz.viz import assets
from mambaviz.viz.lesson import pictures
from mambaviz.viz.lesson.payload import LessonStop, lesson_payload
from mambaviz.viz.scene import Scene
from mambaviz.viz.theme import LESSON
from mambaviz.viz.views import frame_at, group_of
from tests.viz.conftest import HOSTILE, RUNS


def payload(trace: Trace, *stops: LessonStop, layer: int = 0) -> Any:
    return json.loads(lesson_payload(trace, "Lesson", stops, layer))


def texts_of(trace: Trace, stop: LessonStop) -> dict[str, list[str]]:
    frame = frame_at(trace, stop.step, stop.phase)
    view = frame.lane(stop.request, group_of(trace, 0), 0)
    state = frame.state(stop.request, 0)
    columns = pictures.columns_of(view, trace.scenario.engine.block_size)
    drawn = {
        "lane": pictures.lane(view, columns),
        "conv": pictures.conv(state),
        "temporal": pictures.temporal(state),
    }
    return {name: Scene(1, 1, marks).texts() for name, marks in drawn.items()}


def test_the_migrate_lesson(watch):
    found = texts_of(watch, LessonStop(4, "pre-copy", "A"))
    for text in ("column 5", "query 3, 2 of them drafts", "h(9)", "[t8 t9 t10] @2", "r", "R", "S"):
        assert text in found["lane"]
    assert "conv, rows slide by 2" in found["lane"]
    assert "temporal, from column 2 + 2" in found["lane"]
    assert "bias 2" in found["conv"]
    assert [text for text in found["temporal"] if text.startswith(("col", "h(", "was"))] == [
        "col 2", "h(9)", "col 3", "h(11)", "was h(10)", "col 4", "h(11)",
    ]  # fmt: skip
    stop = payload(watch, LessonStop(4, "pre-copy", "A"))["stops"][0]
    assert stop["where"] == "step 4, pre-copy"
    assert stop["conv_title"] == "rows 2–4 slide to rows 0–2"
    assert stop["temporal_title"] == "copied whole, from column 2 + 2 = 4"
    assert stop["copies"] is True
    assert stop["words"][0] == "A outgrows block 3, so its state moves on into block 7."
    assert [text for _, _, text in stop["legend"]] == [
        "running", "until now", "speculative", "retired",
        "prompt", "generated", "draft", "copy",
    ]  # fmt: skip


def test_stops_keep_their_order_and_their_request(watch):
    stops = (
        LessonStop(4, "post-copy", "B"), LessonStop(2, "post-copy", "A"),
        LessonStop(2, "post-copy", "B"),
    )  # fmt: skip
    found = payload(watch, *stops)["stops"]
    assert [(stop["where"], stop["request"]) for stop in found] == [
        ("step 4, post-copy", "B"), ("step 2, post-copy", "A"), ("step 2, post-copy", "B"),
    ]  # fmt: skip
    with pytest.raises(KeyError):
        payload(watch, LessonStop(99, "accept", "A"))


@pytest.mark.parametrize("run", RUNS)
def test_every_moment_of_every_run_has_its_pictures_inside(run, request):
    """Whatever the mode, layout and length: nothing starts outside its picture."""
    trace = request.getfixturevalue(run)
    names = [plan.id for plan in trace.scenario.requests]
    steps = range(0, len(trace.steps), max(1, len(trace.steps) // 6))
    stops = [
        LessonStop(step, phase, names[step % len(names)]) for step in steps for phase in PHASES
    ]
    layer = max(spec.layer for spec in trace.states)
    found = payload(trace, *stops, layer=layer)
    rooms = {name: found["sizes"][name] for name in ("lane", "conv", "temporal")}
    for stop in found["stops"]:
        for name, (width, height) in rooms.items():
            for mark, (body, x, y, *_) in stop[name].items():
                assert -1 <= x <= width + 1, (stop["where"], name, mark)
                assert -1 <= y <= height + 1, (stop["where"], name, mark)
                assert found["bodies"][body]
        assert stop["words"][0]


def test_a_long_row_shows_its_last_columns(long_run):
    frame = frame_at(long_run, len(long_run.steps) - 2, "forward")
    view = frame.lane("A", 0, 0)
    columns = pictures.columns_of(view, 4)
    assert columns.count == pictures.MOST_COLUMNS
    assert columns.first == len(view.cells) - pictures.MOST_COLUMNS
    marks = pictures.lane(view, columns)
    assert all(0 <= mark.x <= LESSON.lane_width for mark in marks if mark.name.startswith("t"))
    bars = [mark for mark in pictures.temporal(frame.state("A", 0)) if mark.name.endswith("-fold")]
    assert bars
    assert all("0–" in "".join(Scene(1, 1, (mark,)).texts()) for mark in bars)


def test_names_stay_text(crowd):
    text = lesson_payload(crowd, HOSTILE, [LessonStop(0, "schedule", HOSTILE)], 0)
    assert json.loads(text)["title"] == HOSTILE
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML"):
        assert forbidden not in assets.lesson_js()


def test_its_style_holds_no_colour_of_its_own():
    text = (assets._LESSON_DIR / "lesson.css").read_text(encoding="utf-8")
    assert "#" not in text
    assert "rgb" not in text
