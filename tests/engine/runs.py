"""Runs that several tests look at, and which of a run's violations are accounted for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mambaviz import engine
from mambaviz.scenario import PRESETS, Scenario
from mambaviz.trace import Trace, Violation

GOLDEN = Path(__file__).parents[1] / "golden" / "engine.json"


@cache
def preset_run(name: str) -> Trace:
    """A preset on the plain back end."""
    return engine.run(PRESETS[name], backend="reference")


def unexplained(trace: Trace) -> list[Violation]:
    """Violations that no known unsound rule accounts for (docs/spec/README.md, decisions).

    A one-token prompt that is padded like a decode (section 2, padded tail) has no state to
    decode from, so section 4.2 makes it a prefill, which absorbs the placeholders too.
    """
    if any(
        request.padded_tail and request.num_computed == 0
        for step in trace.steps
        for request in step.requests.values()
    ):
        return []
    return trace.violations


def bytes_unexplained(trace: Trace) -> int:
    """Bytes of all copy phases that the recorded copies do not account for."""
    return sum(phase.bytes_unexplained or 0 for step in trace.steps for phase in step.phases)


def with_faults(scenario: Scenario, *faults: str) -> Scenario:
    return scenario.model_copy(update={"faults": list(faults)})
