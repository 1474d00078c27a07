"""What the stage component tells Python, and what Python makes of it."""

from __future__ import annotations

from mambaviz.pages.stage_component import StageState, reported

ASKED = {"step": 0, "phase": "schedule", "request": None, "layer": 0, "run": "r"}
VIEW = {"step": 2, "phase": "post-copy", "request": "A", "layer": 1, "asked": ASKED}


def test_a_report_is_a_state():
    assert reported(VIEW, ASKED) == StageState(2, "post-copy", "A", 1)


def test_a_report_about_another_question_is_history():
    assert reported(VIEW, {**ASKED, "step": 1}) is None
    assert reported(VIEW, {**ASKED, "run": "other"}) is None


def test_nonsense_from_outside_is_no_state():
    for broken in (None, "x", {}, {**VIEW, "step": "2"}, {**VIEW, "phase": "lunch"}):
        assert reported(broken, ASKED) is None
    assert reported({**VIEW, "request": 7}, ASKED) == StageState(2, "post-copy", None, 1)
