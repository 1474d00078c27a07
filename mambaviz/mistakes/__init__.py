"""The wrong way to do it: parts of the engine that make the mistakes of `mambaviz.faults`.

Each is a subclass of the right part, which it replaces only in a scenario with faults; so the
right code holds no hook, and what a mistake changes can be read beside what it should be.

    scheduling.py   chunks, registration
    runners.py      books, decisions before and after a forward: one class for each runner
    copies.py       launches of the copy kernels
    metadata.py     the metadata builder

The two mistakes of a forward are settings of the mixer (`MixerConfig`).
"""

from __future__ import annotations

from mambaviz.mistakes.runners import MistakenV1Runner, MistakenV2Runner
from mambaviz.mistakes.scheduling import MistakenScheduler
from mambaviz.runner import ModelRunner, V1Runner, V2Runner
from mambaviz.scenario import Scenario
from mambaviz.scheduler import Scheduler


def scheduler_class(scenario: Scenario) -> type[Scheduler]:
    return MistakenScheduler if scenario.faults else Scheduler


def runner_class(scenario: Scenario) -> type[ModelRunner]:
    if scenario.engine.runner == "v2":
        return MistakenV2Runner if scenario.faults else V2Runner
    return MistakenV1Runner if scenario.faults else V1Runner


__all__ = ["runner_class", "scheduler_class"]
