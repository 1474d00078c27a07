"""What the Reports page opens with, held against the same made anew."""

from __future__ import annotations

from typing import Any

import pytest

from mambaviz.history import History
from mambaviz.pages.runs import recorded_run
from mambaviz.reports import REPORTS, Replay
from mambaviz.reports.outputs import largest_errors
from mambaviz.reports.recorded import recorded_numbers
from mambaviz.scenario import Scenario
from mambaviz.trace import Trace
from mambaviz.truth import allowed, between

HARMLESS = {"S01", "S09", "S13", "S14", "S17", "S21", "S37"}


@pytest.mark.parametrize("name", REPORTS)
def test_runs_and_numbers_are_those_of_today(name: str) -> None:
    report = REPORTS[name]
    replay = report.replay()
    measured = tuple(replay.measured(with_fault) for with_fault in (False, True))
    assert recorded_numbers()[name] == measured
    for scenario, trace in (
        (report.scenario, replay.right),
        (report.faulty_scenario, replay.wrong),
    ):
        if scenario is None or trace is None:
            continue
        kept = recorded_run(scenario)
        assert kept is not None, "python -m mambaviz.pages.record reports records it"
        assert_same_run(kept.trace, trace)


def assert_same_run(one: Trace, other: Trace) -> None:
    """The same indices, bytes where only bytes were moved, and numbers as near as processors are:
    sums differ between them in the last digit."""
    mine, theirs = one.model_dump(mode="json"), other.model_dump(mode="json")
    assert same(mine["steps"], theirs["steps"])
    histories = History(one), History(other)
    for step in range(len(one.steps)):
        gaps = between(*histories, step).values()
        assert max((gap for gap in gaps if gap is not None), default=0.0) <= allowed(one)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            len(one[key]) == len(other[key]) if key == "data" else same(one[key], other[key])
            for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return bool(other == pytest.approx(one, rel=1e-4, abs=1e-5))
    return bool(one == other)


def test_another_run_is_not_the_same() -> None:
    report = REPORTS["S05"]
    right, wrong = (run_of(one) for one in (report.scenario, report.faulty_scenario))
    assert_same_run(right, right)
    with pytest.raises(AssertionError):
        assert_same_run(right, wrong)


def run_of(scenario: Scenario | None) -> Trace:
    kept = recorded_run(scenario) if scenario is not None else None
    assert kept is not None
    return kept.trace


def test_known_numbers_are_not_measured_again() -> None:
    known = ({"width": "8"}, {"width": "9"})
    replay = Replay(REPORTS["S33"], None, None, known)
    assert replay.measured(with_fault=False) == {"width": "8"}
    assert replay.measured(with_fault=True) == {"width": "9"}


def _errors(name: str) -> list[float | None]:
    report = REPORTS[name]
    assert report.scenario is not None
    assert report.faulty_scenario is not None
    right, wrong = recorded_run(report.scenario), recorded_run(report.faulty_scenario)
    assert right is not None
    assert wrong is not None
    return largest_errors(right.trace, wrong.trace)


def test_the_output_is_wrong_from_the_step_after_the_damage_on() -> None:
    errors = _errors("S03")
    assert errors[:2] == [0, 0]  # the window is spoilt after the forward of step 1
    assert all(error is not None and error > 0 for error in errors[2:])


def test_some_mistakes_reach_no_output() -> None:
    names = [name for name, report in REPORTS.items() if report.scenario is not None]
    assert {name for name in names if not any(_errors(name))} == HARMLESS


def test_a_step_whose_tokens_have_no_counterpart_has_no_error() -> None:
    assert _errors("S09")[1:3] == [None, None]  # steps in which nothing is computed
    assert set(_errors("S37")) == {None}
