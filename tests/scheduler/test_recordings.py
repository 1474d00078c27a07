"""Every recording of a real engine, step by step, to the last entry of the free queue."""

from __future__ import annotations

import copy

import pytest

from tests.scheduler.replay import recordings, replay


@pytest.mark.parametrize("name", list(recordings()))
def test_scheduler_and_manager_do_what_the_real_engine_did(name: str) -> None:
    assert replay(recordings()[name]) == []


def test_all_recordings_are_there() -> None:
    assert len(recordings()) == 73


def test_replay_notices_a_difference_in_every_field() -> None:
    """The comparison itself: a changed value is reported, whichever field it stands in."""
    trace = recordings()["0.30.0-sp-12-padded-tail"]
    step, request = 6, trace["steps"][6]["reqs"]["b"]
    for field in request:
        spoilt = copy.deepcopy(trace)
        spoilt["steps"][step]["reqs"]["b"][field] = "spoilt"
        assert any(f"b.{field}:" in line for line in replay(spoilt)), field
    for field in set(trace["steps"][step]) - {"step", "reqs"}:
        spoilt = copy.deepcopy(trace)
        spoilt["steps"][step][field] = ["spoilt"]
        assert any(f" {field}:" in line for line in replay(spoilt)), field
