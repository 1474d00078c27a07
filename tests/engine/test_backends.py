"""How two traces are compared, and how the process's back end is chosen (sections 1 and 5.4)."""

from __future__ import annotations

from mambaviz.compare import compare_traces
from mambaviz.scenario import DEFAULT_PRESET, PRESETS
from mambaviz.trace import BlockChange
from tests.engine.runs import preset_run


def test_a_trace_equals_itself() -> None:
    trace = preset_run(DEFAULT_PRESET)
    found = compare_traces(trace, trace, 0.0)
    assert found.equal
    assert found.compared > 0


def test_a_difference_is_noticed() -> None:
    trace = preset_run(DEFAULT_PRESET)
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


def test_other_scenarios_are_not_compared() -> None:
    others = [name for name in PRESETS if name != DEFAULT_PRESET]
    found = compare_traces(preset_run(DEFAULT_PRESET), preset_run(others[0]), 1.0)
    assert found.problems == ["the traces are of different scenarios"]
