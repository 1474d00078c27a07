"""Blocks held, bytes copied, tokens computed again: counted another way, and by hand."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.comparisons import READY_MADE
from mambaviz.costs import costs
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace
from tests.engine.runs import preset_run


@pytest.fixture(scope="module")
def modes() -> dict[str, Trace]:
    scenarios = READY_MADE["cache-mode"].scenarios
    return {run.engine.mode: engine.run(run, backend="reference") for run in scenarios}


def test_the_numbers_of_the_three_modes(modes: dict[str, Trace]) -> None:
    """A2 arrives at step 5 with 10 tokens of A: none computes 10 again, align 2, all 6."""
    held = {mode: [c.blocks_held for c in costs(trace)][:6] for mode, trace in modes.items()}
    assert held == {
        "none": [6, 6, 6, 6, 6, 9],
        "align": [6, 8, 7, 8, 7, 12],
        "all": [9, 7, 8, 7, 8, 13],
    }
    copied = {mode: sum(c.bytes_copied for c in costs(t)[:6]) for mode, t in modes.items()}
    assert copied == {"none": 0, "align": 2944, "all": 0}
    again = {mode: [c.tokens_recomputed for c in costs(t)] for mode, t in modes.items()}
    assert again == {
        "none": [0, 0, 0, 0, 0, 10, 0, 0],
        "align": [0, 0, 0, 0, 0, 2, 0, 0],
        "all": [0, 0, 0, 0, 0, 6, 0, 0],
    }
    assert costs(modes["align"])[5].recomputed_of == {"A": 0, "B": 0, "A2": 2}


def test_bytes_are_those_of_the_copies_that_were_done() -> None:
    trace = preset_run("drafts-meet-the-boundary")
    for step, counted in zip(trace.steps, costs(trace), strict=True):
        copies = [copy for phase in step.phases for copy in phase.copies]
        assert counted.bytes_copied == sum(c.num_bytes for c in copies if not c.skipped)


def test_a_block_held_twice_counts_once() -> None:
    """B hits A's block: both lists name it."""
    trace = preset_run("a-shared-prefix")
    step = next(s.index for s in trace.steps if "B" in s.requests)
    rows = trace.tables_after(step, "allocate").rows
    everything = [b for row in rows.values() for ids in row.block_list for b in ids if b]
    assert costs(trace)[step].blocks_held == len(set(everything))


def two_prompts(**second: object) -> Trace:
    """The second request sends the first one's prompt again, with nothing cached."""
    prompt = list(range(1000, 1006))
    requests = [
        {"id": "A", "prompt": prompt, "max_tokens": 2},
        {"id": "B", "prompt": prompt, "max_tokens": 2, **second},
    ]
    scenario = {"engine": {"mode": "none", "num_spec": 0}, "requests": requests}
    return engine.run(build(scenario), backend="reference")


def test_tokens_that_two_compute_at_once_are_new() -> None:
    assert [c.tokens_recomputed for c in costs(two_prompts())] == [0, 0]


def test_another_salt_is_another_prefix() -> None:
    assert sum(c.tokens_recomputed for c in costs(two_prompts(arrive=1))) == 6
    assert sum(c.tokens_recomputed for c in costs(two_prompts(arrive=1, salt="x"))) == 0


def test_the_same_token_behind_another_one_is_new() -> None:
    trace = two_prompts(arrive=1, prompt=[1000, 1001, 1999, 1003, 1004, 1005])
    assert sum(c.tokens_recomputed for c in costs(trace)) == 2


def test_a_preempted_request_computes_its_own_tokens_again() -> None:
    """Outputs that it replays are prefill too; the token sampled last was never computed."""
    scenario = {
        "engine": {"mode": "none", "num_spec": 0},
        "requests": [{"id": "A", "prompt_len": 5, "max_tokens": 5}],
        "events": [{"step": 3, "kind": "preempt", "request": "A"}],
    }
    trace = engine.run(build(scenario), backend="reference")
    resumed = next(s for s in trace.steps if s.requests and s.requests["A"].event == "resumed")
    before = trace.steps[2].num_computed_after["A"]
    found = costs(trace)[resumed.index]
    assert found.prefilled_of["A"] == resumed.requests["A"].num_tokens
    assert found.recomputed_of["A"] == before == found.prefilled_of["A"] - 1


def test_drafts_and_sampled_tokens_do_not_count() -> None:
    plain = PRESETS["all-drafts-rejected"]
    assert all(c.tokens_recomputed == 0 for c in costs(engine.run(plain, backend="reference")))
