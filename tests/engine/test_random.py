"""Random scenarios: real bytes, every step checked by the oracle. More of them: make proof."""

from __future__ import annotations

import os
import random

import pytest

from mambaviz import engine
from mambaviz.random_scenarios import random_scenario
from tests.engine.runs import bytes_unexplained, unexplained

# The long runs of benchmarks/proof.py raise these.
ALIGN_SEEDS = int(os.environ.get("MAMBAVIZ_ALIGN_SCENARIOS", "300"))
BATCH = 50


@pytest.mark.parametrize("first", range(0, ALIGN_SEEDS, BATCH))
def test_align_runs_break_no_invariant(first: int) -> None:
    for seed in range(first, min(first + BATCH, ALIGN_SEEDS)):
        scenario = random_scenario(random.Random(seed))
        trace = engine.run(scenario, backend="reference")
        assert not unexplained(trace), (seed, unexplained(trace)[0])
        assert bytes_unexplained(trace) == 0, seed
        assert not trace.steps[-1].stuck, seed
