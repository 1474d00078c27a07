"""A finished run, looked up: the same as walking it."""

from __future__ import annotations

import pytest

from mambaviz.engine import run
from mambaviz.history import History, frame_of, moment_of
from mambaviz.scenario import PRESETS
from mambaviz.trace import PHASES, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return run(PRESETS["a-shared-prefix"], backend="reference")


def test_frames_count_phases() -> None:
    assert [moment_of(frame_of(2, phase)) for phase in PHASES] == [(2, phase) for phase in PHASES]


def test_contents_and_tables_are_those_of_a_walk(trace: Trace) -> None:
    history = History(trace)
    compared = 0
    for step, phase, tables, contents in trace.walk():
        frame = frame_of(step.index, phase.name)
        assert history.tables[frame] == tables
        for key, raw in contents.items():
            assert history.raw(key, frame) == raw
            compared += 1
    assert compared > 100


def test_before_the_first_write_a_block_is_zeros(trace: Trace) -> None:
    history = History(trace)
    assert not any(history.raw((0, "conv", 1), frame_of(0, "pre-copy")))
    assert not any(history.raw((0, "conv", 1), -1))
    assert history.last_write((0, "conv", 1), frame_of(0, "pre-copy")) is None
    assert history.last_write((0, "conv", 1), frame_of(5, "commit")) == frame_of(0, "forward")


def test_branches_are_the_tokens_a_query_stood_on(trace: Trace) -> None:
    history = History(trace)
    for branch in history.branches:
        request = trace.steps[branch.step].requests[branch.request]
        assert list(branch.tokens[branch.computed :]) == request.tokens
        assert len(branch.tokens) == request.num_computed + request.num_scheduled
    prompt = trace.scenario.prompt_of(0)
    assert list(history.branches[0].tokens) == prompt[: len(history.branches[0].tokens)]


def test_hits_name_the_blocks_found(trace: Trace) -> None:
    (hit,) = History(trace).hits
    assert (hit.frame, hit.request, hit.blocks) == (frame_of(3, "allocate"), "B", {1})
