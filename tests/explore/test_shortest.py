"""The shortest scenario that the explorer found for a fault: red with it, green without.

Found by ``python -m benchmarks.explorer --shortest``, which writes these files. The explorer goes
by the invariants, over symbols and without a trace; a fault that only the metadata derived anew
shows has its scenario made by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mambaviz import engine
from mambaviz.explore.replay import disagreement
from mambaviz.explore.search import worker_for
from mambaviz.fault_scenarios import FAULT_SCENARIOS
from mambaviz.faults import FAULTS, METADATA
from mambaviz.metadata_check import metadata_problems
from mambaviz.scenario import Scenario, load

FOLDER = Path(__file__).parent / "shortest"
FOUND = sorted(path.stem for path in FOLDER.glob("*.json"))


def shortest(fault: str) -> Scenario:
    return load(FOLDER / f"{fault}.json")


SILENT = sorted(fault for fault, one in FAULTS.items() if set(one.noticed_by) == {METADATA})


def test_every_fault_has_its_own() -> None:
    assert sorted([*FOUND, *SILENT]) == sorted(FAULTS)


@pytest.mark.parametrize("fault", FOUND)
def test_red_with_the_fault(fault: str) -> None:
    scenario = shortest(fault)
    assert scenario.faults == [fault]
    trace = engine.run(scenario, backend="reference")
    assert trace.violations
    # Behind the damage is one step more at most, but for the rest of a prompt: that is not cut.
    for step in trace.steps[trace.violations[0].step + 2 :]:
        assert all(row.num_computed < row.num_prompt_tokens for row in step.requests.values())


@pytest.mark.parametrize("fault", FOUND)
def test_green_without(fault: str) -> None:
    right = shortest(fault).model_copy(update={"faults": []})
    assert engine.run(right, backend="reference").violations == []


@pytest.mark.parametrize("fault", FOUND)
def test_symbols_say_the_same(fault: str) -> None:
    scenario = shortest(fault)
    assert disagreement(scenario, 100, worker_for(scenario)) == ""


@pytest.mark.parametrize("fault", SILENT)
def test_what_no_invariant_sees_shows_in_the_metadata(fault: str) -> None:
    right = FAULT_SCENARIOS[fault]
    assert metadata_problems(engine.run(right, backend="reference")) == []
    wrong = engine.run(right.model_copy(update={"faults": [fault]}), backend="reference")
    assert metadata_problems(wrong)
    assert wrong.violations == []
