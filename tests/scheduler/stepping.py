"""Run the scheduler without a worker: drafts are verified at once, as the scenario says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mambaviz.acceptance import verify
from mambaviz.scenario import Scenario
from mambaviz.scheduler import Scheduler, SchedulerOutput

MORE_STEPS_THAN_ANY_RUN_TAKES = 2000


class WorkerRows:
    """What a worker makes of the outputs alone: rows that only ever grow (section 2)."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[int]]] = {}

    def follow(self, output: SchedulerOutput) -> None:
        for new in output.scheduled_new_reqs:
            self.rows[new.req_id] = [list(ids) for ids in new.block_ids]
        cached = output.scheduled_cached_reqs
        for name in cached.req_ids:
            if name in cached.resumed_req_ids:
                self.rows[name] = [[] for _ in cached.new_block_ids[name]]
            for row, ids in zip(self.rows[name], cached.new_block_ids[name], strict=True):
                row.extend(ids)


@dataclass(frozen=True)
class Stepped:
    """A step as it stands between schedule and update, while its blocks are being written.

    ``scheduler`` is the live one, which goes on; the rest is how things were.
    """

    scheduler: Scheduler
    output: SchedulerOutput
    lists: dict[str, list[list[int]]]
    hashed: dict[str, list[list[int]]]

    @classmethod
    def of(cls, scheduler: Scheduler, output: SchedulerOutput) -> Stepped:
        manager = scheduler.manager
        lists = {name: manager.block_lists(name) for name in scheduler.requests}
        hashed = {name: manager.hashed_columns(name) for name in scheduler.requests}
        return cls(scheduler, output, lists, hashed)


def steps(scenario: Scenario) -> Iterator[Stepped]:
    """Every step; it is committed when the next one is asked for."""
    scheduler = Scheduler(scenario)
    for index in range(MORE_STEPS_THAN_ANY_RUN_TAKES):
        if scheduler.is_done():
            return
        output = scheduler.schedule(index)
        yield Stepped.of(scheduler, output)
        verdict = verify(output, scheduler.requests)
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
    raise AssertionError(f"{scenario.name}: no end after {MORE_STEPS_THAN_ANY_RUN_TAKES} steps")


def run(
    scenario: Scenario, num_steps: int | None = None
) -> tuple[Scheduler, list[SchedulerOutput]]:
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
            "layer": {"chunk_size": 1, "num_layers": 4},
            "requests": named,
            "events": [
                dict(zip(("step", "kind", "request"), event, strict=False)) for event in events
            ],
        }
    )
