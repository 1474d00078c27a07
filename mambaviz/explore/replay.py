"""A run of the explorer once more with real bytes, in the real engine: do both say the same?"""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz import engine
from mambaviz.explore.dataflow import Breach
from mambaviz.explore.run import Stage, SymbolicRun
from mambaviz.explore.worker import Worker, breach_of
from mambaviz.scenario import Scenario


def symbolic_breaches(scenario: Scenario, worker: Worker | None = None) -> Iterator[set[Breach]]:
    """What every step of the scenario breaks, by its own accept plans, on symbols."""
    run = SymbolicRun.start(Stage(scenario, worker or Worker(scenario)))
    while not run.is_over:
        output = run.schedule()
        yield set(run.finish(output, run.planned(output)).breaches)


def real_breaches(scenario: Scenario) -> Iterator[set[Breach]]:
    """The same from the engine's own checks, on the plain back end."""
    for step in engine.iter_steps(scenario, backend="reference"):
        yield {breach_of(violation) for violation in step.violations}


def disagreement(scenario: Scenario, steps: int, worker: Worker | None = None) -> str:
    """Where symbols and bytes part within the first ``steps`` steps, in words; empty: nowhere."""
    symbolic = symbolic_breaches(scenario, worker)
    real = real_breaches(scenario)
    for step in range(steps):
        on_symbols, in_bytes = next(symbolic, None), next(real, None)
        if on_symbols is None or in_bytes is None:
            if on_symbols == in_bytes:
                return ""
            longer = "symbols" if in_bytes is None else "bytes"
            return f"step {step}: only the run over {longer} has it"
        only = [f"{breach.words} (on symbols only)" for breach in on_symbols - in_bytes]
        only += [f"{breach.words} (in bytes only)" for breach in in_bytes - on_symbols]
        if only:
            return "; ".join(sorted(only))
    return ""
