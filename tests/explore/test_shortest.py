"""The shortest scenario that the explorer found for a fault: red with it, green without.

Found by ``python -m benchmarks.explorer --shortest``, which writes these files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mambaviz import engine
from mambaviz.explore.replay import disagreement
from mambaviz.explore.search import worker_for
from mambaviz.scenario import Scenario, load

FOLDER = Path(__file__).parent / "shortest"
FOUND = sorted(path.stem for path in FOLDER.glob("*.json"))


def shortest(fault: str) -> Scenario:
    return load(FOLDER / f"{fault}.json")


def test_there_are_some() -> None:
    assert FOUND


@pytest.mark.parametrize("fault", FOUND)
def test_red_with_the_fault(fault: str) -> None:
    scenario = shortest(fault)
    assert scenario.faults == [fault]
    trace = engine.run(scenario, backend="reference")
    assert trace.violations
    # Nothing behind it: the damage is done in the last steps, or the run could be shorter.
    assert trace.violations[0].step >= len(trace.steps) - 2


@pytest.mark.parametrize("fault", FOUND)
def test_green_without(fault: str) -> None:
    right = shortest(fault).model_copy(update={"faults": []})
    assert engine.run(right, backend="reference").violations == []


@pytest.mark.parametrize("fault", FOUND)
def test_symbols_say_the_same(fault: str) -> None:
    scenario = shortest(fault)
    assert disagreement(scenario, 100, worker_for(scenario)) == ""
