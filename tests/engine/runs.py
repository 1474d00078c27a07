"""Runs that several tests look at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mambaviz import engine
from mambaviz.scenario import PRESETS, Scenario
from mambaviz.trace import Trace

GOLDEN = Path(__file__).parents[1] / "golden" / "engine.json"


@cache
def preset_run(name: str) -> Trace:
    """A preset on the plain back end."""
    return engine.run(PRESETS[name], backend="reference")


def with_faults(scenario: Scenario, *faults: str) -> Scenario:
    return scenario.model_copy(update={"faults": list(faults)})
