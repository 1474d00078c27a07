"""Run the scheduler without a worker: drafts are verified at once, as the scenario says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mambaviz.acceptance import verify
from mambaviz.scenario import Scenario
from mambaviz.scheduler import Scheduler, SchedulerOutput

MORE_STEPS_THAN_ANY_RUN_TAKES = 2000


@dataclass(frozen=True)
class Stepped:
    """A step between schedule and update, while its blocks are being written."""

    scheduler: Scheduler
    output: SchedulerOutput

    def lists(self, request: str) -> list[list[int]]:
        return self.scheduler.manager.block_lists(request)


def steps(scenario: Scenario) -> Iterator[Stepped]:
    """Every step; it is committed when the next one is asked for."""
    scheduler = Scheduler(scenario)
    for index in range(MORE_STEPS_THAN_ANY_RUN_TAKES):
        if scheduler.is_done():
            return
        output = scheduler.schedule(index)
        yield Stepped(scheduler, output)
        verdict = verify(output, scheduler.requests)
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
    raise AssertionError(f"{scenario.name}: no end after {index + 1} steps")


def run(scenario: Scenario, num_steps: int | None = None) -> tuple[Scheduler, list[SchedulerOutput]]:
    """The scheduler after ``num_steps`` committed steps (None: to the end), and its outputs."""
    scheduler, outputs = Scheduler(scenario), []
    while not scheduler.is_done() and len(outputs) != num_steps:
        output = scheduler.schedule(len(outputs))
        verdict = verify(output, scheduler.requests)
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
        outputs.append(output)
        assert len(outputs) < MORE_STEPS_THAN_ANY_RUN_TAKES
    return scheduler, outputs


def scenario(*requests: dict[str, Any], events: Any = (), **engine: Any) -> Scenario:
    """A scenario from plain mappings; requests are named a, b, c, … unless they say otherwise."""
    named = [{"id": "abcdefgh"[index]} | request for index, request in enumerate(requests)]
    engine = {"num_blocks": 40, "num_spec": 0, "max_model_len": 200} | engine
    return Scenario.model_validate(
        {
            "engine": engine,
            "layer": {"chunk_size": 1},
            "requests": named,
            "events": [
                dict(zip(("step", "kind", "request"), event, strict=False)) for event in events
            ],
        }
    )
