"""A draw of the random campaigns (benchmarks/campaigns.py); all of them: make proof."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kernels
from benchmarks.campaigns import (
    Finding,
    check_align,
    check_backends,
    check_runners,
    check_whole,
    everything,
)
from mambaviz import engine

BATCH = 50


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_align_runs_break_no_invariant(first: int) -> None:
    assert problems(check_align, range(first, first + BATCH)) == []


@pytest.mark.parametrize("first", range(0, 150, BATCH))
def test_runs_over_every_option_break_no_invariant(first: int) -> None:
    assert problems(check_whole, range(first, first + BATCH)) == []


def test_v1_and_v2_leave_the_same_bytes() -> None:
    assert problems(check_runners, range(30)) == []


@pytest.mark.slow
@pytest.mark.skipif(kernels.BACKEND == "reference", reason="this process has only the twins")
@pytest.mark.parametrize("first", range(0, 10, 5))
def test_the_back_end_agrees_with_the_twins(first: int) -> None:
    assert problems(check_backends, range(first, first + 5)) == []


def test_a_slow_draw_covers_every_option() -> None:
    """The draw above is no proof of anything that it never draws."""
    scenarios = [everything(seed) for seed in range(150)]
    settings = {(s.engine.mode, s.engine.runner, s.engine.layout) for s in scenarios}
    assert {mode for mode, _, _ in settings} == {"none", "align", "all"}
    assert {("align", "v2", "DS"), ("align", "v1", "DS"), ("none", "v2", "SD")} <= settings
    assert any(s.engine.replayssm_buffer_len for s in scenarios)
    assert any(s.engine.attention_group and s.engine.num_mamba_groups > 1 for s in scenarios)
    assert {s.layer.states for s in scenarios} == {"both", "conv", "temporal"}
    assert {e.kind for s in scenarios for e in s.events} == {
        "preempt",
        "abort",
        "reset",
        "reset_running",
    }


def test_preemption_and_resumption_with_a_hit_occur() -> None:
    events = set()
    for seed in range(60):
        trace = engine.run(everything(seed), backend="reference")
        for step in trace.steps:
            events |= {"preempted"} if step.preempted else set()
            for request in step.requests.values():
                hit = request.num_computed > 0
                if request.event != "running":
                    events.add((request.event, hit))
    assert {"preempted", ("new", False), ("new", True), ("resumed", False), ("resumed", True)} <= (
        events
    )


def problems(check: Callable[[int], Finding], seeds: range) -> list[str]:
    return [f"seed {f.seed}: {f.problem}" for f in map(check, seeds) if f.problem]
