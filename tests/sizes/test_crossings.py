"""The closed form of crossings against the engine: its scheduler alone for long runs, and whole
runs with copies for what they move."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from mambaviz.acceptance import verify
from mambaviz.engine import run
from mambaviz.scenario import Scenario, build
from mambaviz.scheduler import Scheduler
from mambaviz.sizes.alignment import StatePage
from mambaviz.sizes.crossings import crossing_bytes, crossings_per_step, kept_tokens
from mambaviz.sizes.families import StateShapes

DECODE_STEPS = 12_000  # of all requests together
REQUESTS = 32


@dataclass(frozen=True)
class Setting:
    block: int
    drafts: int
    acceptance: float
    seed: int


def random_settings(count: int) -> list[Setting]:
    """Blocks from just enough for a step to dozens, all acceptances, also none and all."""
    rng = random.Random(20)
    found = []
    for seed in range(count):
        drafts = rng.randint(0, 7)
        block = rng.randint(1 + drafts, 40)
        acceptance = rng.choice([0.0, 1.0, *(round(rng.uniform(0.05, 0.95), 2),) * 6])
        found.append(Setting(block, drafts, acceptance, seed))
    return found


def scenario(setting: Setting, requests: int, new_tokens: int, **layer: int) -> Scenario:
    """Requests that only decode, each from another place inside its block."""
    block, drafts = setting.block, setting.drafts
    longest = block + new_tokens + drafts + 3
    return build(
        {
            "engine": {
                "block_size": block,
                "num_spec": drafts,
                "num_blocks": 2 + requests * (3 + drafts),
                "max_num_seqs": requests,
                "max_num_batched_tokens": requests * (2 + max(block, drafts)),
                "max_model_len": longest,
            },
            "layer": {"num_layers": 1, "num_heads": 1, "head_dim": 1, "d_state": 1, **layer},
            "requests": [
                {
                    "id": f"r{index}",
                    "prompt_len": 2 + index % block,
                    "max_tokens": new_tokens,
                    "accept": {"rate": setting.acceptance, "seed": setting.seed},
                }
                for index in range(requests)
            ],
        }
    )


def simulated_rate(setting: Setting) -> float:
    """Crossings for each decode step, as the scheduler schedules it: the running column moved."""
    kept = kept_tokens(setting.drafts, setting.acceptance).mean
    new_tokens = round(DECODE_STEPS / REQUESTS * kept)
    scheduler = Scheduler(scenario(setting, REQUESTS, new_tokens))
    columns: dict[str, int] = {}
    steps = crossings = index = 0
    while not scheduler.is_done():
        output = scheduler.schedule(index)
        index += 1
        for name, request in output.requests.items():
            end = request.num_computed + request.num_scheduled
            column = -(-end // setting.block) - 1
            full = request.drafts == setting.drafts and request.row_class == "decode"
            if full and name in columns:  # its last steps are cut to what may still be generated
                steps += 1
                crossings += column != columns[name]
            columns[name] = column
        verdict = verify(output, scheduler.requests)
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
    assert steps > DECODE_STEPS / 2
    return crossings / steps


@pytest.mark.parametrize("setting", random_settings(30), ids=str)
def test_the_closed_form_is_within_two_percent_of_the_scheduler(setting: Setting) -> None:
    kept = kept_tokens(setting.drafts, setting.acceptance)
    expected = crossings_per_step(setting.block, kept)
    assert simulated_rate(setting) == pytest.approx(expected, rel=0.02)


# Blocks that no step divides, so that every place inside a block comes up.
WHOLE_RUNS = [(7, 3, 0.5, "SD"), (11, 4, 0.9, "DS"), (5, 0, 0.0, "SD")]


@pytest.mark.parametrize(("block", "drafts", "acceptance", "layout"), WHOLE_RUNS)
def test_copies_and_their_bytes_are_those_of_whole_runs(
    block: int, drafts: int, acceptance: float, layout: str
) -> None:
    """The number of copies of each kind, and the mean bytes of one, over a run with its kernels."""
    setting = Setting(block, drafts, acceptance, 3)
    plan = scenario(setting, 24, 50, head_dim=8).model_dump()
    plan["engine"]["layout"] = layout
    trace = run(build(plan), backend="reference")
    assert trace.violations == []
    steps, count, moved = 0, Counter[str](), Counter[str]()
    before: set[str] = set()
    for step in trace.steps:
        decodes = {
            name
            for name, request in step.requests.items()
            if request.row_class == "decode" and request.drafts == drafts
        }
        full = decodes & before  # a first decode meets the state of a prefill, which has no bias
        before = decodes
        steps += len(full)
        for phase in step.phases:
            for copy in phase.copies:
                if copy.skipped is None and copy.request in full:
                    count[copy.kind] += copy.state == "temporal"
                    moved[copy.kind] += copy.num_bytes
    kept = kept_tokens(drafts, acceptance)
    page = StatePage(
        StateShapes(conv=(3 + drafts, 8), temporal=(1, 8, 1)), "float32", "float32", drafts
    )
    expected = crossing_bytes(page, 1, kept)
    rate = crossings_per_step(block, kept)
    assert count["migrate"] / steps == pytest.approx(rate, rel=0.1)
    assert moved["migrate"] / count["migrate"] == pytest.approx(expected.migrate, rel=0.04)
    assert expected.copies == 1 + (drafts > 0)
    if not drafts:
        assert count["checkpoint"] == 0
        return
    assert count["checkpoint"] / steps == pytest.approx(rate, rel=0.1)
    assert moved["checkpoint"] / count["checkpoint"] == pytest.approx(expected.checkpoint, rel=0.04)


def test_what_is_kept_is_a_geometric_series() -> None:
    kept = kept_tokens(3, 0.5)
    assert kept.chances == (0.5, 0.25, 0.125, 0.125)
    assert kept.mean == 1 + 0.5 + 0.25 + 0.125
    assert kept_tokens(4, 1.0).mean == 5
    assert kept_tokens(4, 0.0).mean == 1
    assert kept_tokens(0, 0.3).mean == 1


def test_biases_by_hand() -> None:
    """One draft, always kept: 2 tokens a step. A boundary is passed at bias 0 or 1, each half of
    the time; at 1 the checkpoint is in place and the next migrate has bias 0, else 1."""
    kept = kept_tokens(1, 1.0)
    assert kept.checkpoint_bias == 0.5
    assert kept.migrate_bias == 0.5


def test_a_block_smaller_than_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="a block of 3 tokens is smaller than a step of 4"):
        crossings_per_step(3, kept_tokens(3, 0.5))
