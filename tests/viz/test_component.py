"""What the stage component tells Python, and what Python makes of it."""

from __future__ import annotations

from mambaviz.pages.stage_component import StageState, reported
from mambaviz.viz.payload import stage_payload
from tests.recording.files import preset_trace

ASKED = {"step": 0, "phase": "schedule", "request": None, "layer": 0, "run": "r", "wish": 3}
ANSWERED = {"run": "r", "wish": 3}
VIEW = {"step": 2, "phase": "post-copy", "request": "A", "layer": 1, "asked": ANSWERED}


def test_a_report_is_a_state():
    assert reported(VIEW, ASKED) == StageState(2, "post-copy", "A", 1)


def test_a_report_says_whether_the_details_are_open():
    assert reported({**VIEW, "details": True}, ASKED) == StageState(2, "post-copy", "A", 1, True)
    assert reported({**VIEW, "details": "yes"}, ASKED) == StageState(2, "post-copy", "A", 1)


def test_a_report_after_another_wish_is_history():
    assert reported(VIEW, {**ASKED, "wish": 4}) is None
    assert reported(VIEW, {**ASKED, "run": "other"}) is None


def test_nonsense_from_outside_is_no_state():
    for broken in (None, "x", {}, {**VIEW, "step": "2"}, {**VIEW, "phase": "lunch"}):
        assert reported(broken, ASKED) is None
    for part in ({"step": -1}, {"step": True}, {"layer": -1}, {"phase": []}, {"phase": {}}):
        assert reported({**VIEW, **part}, ASKED) is None
    assert reported({**VIEW, "request": 7}, ASKED) == StageState(2, "post-copy", None, 1)


def test_a_place_that_the_run_does_not_have():
    trace = preset_trace("plain-decode")
    payload = stage_payload(trace)
    steps, layers = len(trace.steps), payload.layers
    assert payload.has(steps - 1, "A", 0)
    assert payload.has(0, None, layers - 1)
    for step, request, layer in ((steps, "A", 0), (0, "nobody", 0), (0, "A", layers)):
        assert not payload.has(step, request, layer)
