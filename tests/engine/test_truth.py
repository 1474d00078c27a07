"""A step of a run held against the same step from token 0."""

from __future__ import annotations

from typing import Any

import pytest

from mambaviz.engine import run
from mambaviz.history import History
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS, build
from mambaviz.trace import Trace
from mambaviz.truth import allowed, between, measure

SOUND = [name for name in PRESETS if name not in UNSOUND_PRESETS]


def run_of(**fields: Any) -> Trace:
    return run(build(fields), backend="reference")


@pytest.mark.parametrize("name", SOUND)
def test_every_step_of_a_sound_preset_is_within_the_tolerance(name: str) -> None:
    history = History(run(PRESETS[name], backend="reference"))
    for step in history.trace.steps:
        found = measure(history, step.index)
        assert found.ok
        assert found.conv.largest in (0.0, None)
        if step.order:
            assert found.outputs.compared > 0


def test_copies_are_counted_and_equal() -> None:
    history = History(run(PRESETS["drafts-meet-the-boundary"], backend="reference"))
    found = measure(history, 2)
    assert (found.copies, found.equal) == (12, 12)
    assert found.temporal.largest is not None
    assert 0 < found.temporal.largest < 1e-5


def test_a_copy_whose_bytes_did_not_arrive_is_seen() -> None:
    trace = run(PRESETS["drafts-meet-the-boundary"], backend="reference")
    step = trace.steps[2]
    phase = step.phase("post-copy")
    lost = [c for c in phase.changes if (c.layer, c.state, c.block) != (0, "temporal", 2)]
    other = phase.model_copy(update={"changes": lost})
    phases = [other if p.name == "post-copy" else p for p in step.phases]
    steps = [s if s.index != 2 else step.model_copy(update={"phases": phases}) for s in trace.steps]
    found = measure(History(trace.model_copy(update={"steps": steps})), 2)
    assert (found.copies, found.equal) == (12, 11)
    assert not found.ok


def test_a_fault_is_beyond_the_tolerance_somewhere() -> None:
    scenario = PRESETS["drafts-meet-the-boundary"].model_dump()
    trace = run_of(**{**scenario, "faults": ["bias-off-by-one"]})
    history = History(trace)
    found = [measure(history, step.index) for step in trace.steps]
    broken = [one for one in found if not one.ok]
    assert broken
    assert any(one.outputs.worst for one in broken)


def test_a_run_and_itself_differ_by_nothing_and_another_seed_does() -> None:
    scenario = PRESETS["drafts-meet-the-boundary"].model_dump()
    one = History(run_of(**scenario))
    assert between(one, one, 2) == {"conv": 0.0, "temporal": 0.0, "outputs": 0.0}
    other = History(run_of(**{**scenario, "layer": {**scenario["layer"], "seed": 7}}))
    gaps = between(one, other, 2)
    assert all(gap is not None and gap > 1e-3 for gap in gaps.values())


def test_the_tolerance_is_that_of_the_cache() -> None:
    trace = run_of(layer={"cache_dtype": "bfloat16"}, requests=[{"id": "A", "prompt_len": 3}])
    assert allowed(trace) == pytest.approx(2 * 2**-7 / 0.2)
    history = History(trace)
    assert all(measure(history, step.index).ok for step in trace.steps)
