"""The process's back end and the plain twins: the same run, as section 1 defines the same."""

from __future__ import annotations

import os
import random

import pytest

import kernels
from mambaviz import engine
from mambaviz.compare import compare_traces
from mambaviz.oracle import tolerance
from mambaviz.random_scenarios import random_scenario
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario
from mambaviz.trace import BlockChange, Trace

SEEDS = int(os.environ.get("MAMBAVIZ_BACKEND_SCENARIOS", "10"))

pytestmark = pytest.mark.skipif(
    kernels.BACKEND == "reference", reason="this process has the plain twins only"
)


def both(scenario: Scenario) -> tuple[Trace, Trace]:
    return engine.run(scenario, backend="reference"), engine.run(scenario, backend="auto")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_scenarios(seed: int) -> None:
    scenario = random_scenario(
        random.Random(1000 + seed),
        layouts=("SD", "DS"),
        cache_dtypes=("float32", "float16", "bfloat16"),
        conv_kernels=(2, 3, 4),
        page_paddings=(0, 12),
        max_requests=2,
    )
    plain, real = both(scenario)
    found = compare_traces(plain, real, tolerance(scenario.layer.cache_dtype))
    assert found.equal, found.problems[0]
    assert found.compared > 0
    assert not real.violations


def test_a_difference_is_noticed() -> None:
    trace = engine.run(PRESETS[DEFAULT_PRESET], backend="reference")
    step = trace.steps[2]
    phase = step.phase("post-copy")
    change = phase.changes[0]
    wrong = BlockChange(
        layer=change.layer, state=change.state, block=change.block, data="AAAA" + change.data[4:]
    )
    phases = [
        p.model_copy(update={"changes": [wrong, *p.changes[1:]]}) if p is phase else p
        for p in step.phases
    ]
    steps = [s.model_copy(update={"phases": phases}) if s is step else s for s in trace.steps]
    other = trace.model_copy(update={"steps": steps})
    found = compare_traces(trace, other, 1e-5)
    assert len(found.problems) == 1
    assert "step 2, post-copy" in found.problems[0]
