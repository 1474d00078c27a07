"""Step a recording of a real engine through the scheduler alone and compare every field.

    problems = replay(recording)      # [] when all is as recorded

Nothing here knows a rule of section 2: it reads what the scheduler says and what was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mambaviz.acceptance import Verdict, verify
from mambaviz.scenario import from_recording
from mambaviz.scheduler import ScheduledRequest, Scheduler, SchedulerOutput
from tests.scheduler.stepping import WorkerRows

GOLDEN = Path(__file__).parents[1] / "golden" / "engine.json"


@cache
def recordings() -> dict[str, dict[str, Any]]:
    """All recordings by id."""
    return {trace["id"]: trace for trace in json.loads(GOLDEN.read_text(encoding="utf-8"))}


def replay(trace: dict[str, Any]) -> list[str]:
    """One line per difference, with the step and the field."""
    recorded = {step["step"]: step for step in trace["steps"]}
    scheduler = Scheduler(from_recording(trace))
    workers, problems = WorkerRows(), []
    for index in range(max(recorded) + 1):
        if scheduler.is_done():
            problems.append(f"step {index}: recorded, but the run is over")
            break
        step = _Replayed(scheduler, workers, index, with_waiting=trace["how"] == "scheduler-only")
        if index in recorded:
            problems += [f"step {index}: {line}" for line in step.differences(recorded[index])]
        elif step.output.order:
            problems.append(f"step {index}: {step.output.order} scheduled, recorded nothing")
    if not problems and not scheduler.is_done():
        problems.append("the recording is over, but the run is not")
    return problems


class _Replayed:
    """One step done, in the names of the recordings."""

    def __init__(
        self, scheduler: Scheduler, workers: WorkerRows, index: int, with_waiting: bool
    ) -> None:
        self.output: SchedulerOutput = scheduler.schedule(index)
        workers.follow(self.output)
        self.problems = scheduler.check_conservation()
        manager = scheduler.manager
        rows = {
            name: {
                "list": manager.block_lists(name),
                "hashed_cols": manager.hashed_columns(name),
                "worker_row": [list(row) for row in workers.rows[name]],
            }
            for name in self.output.order
        }
        verdict = verify(self.output, scheduler.requests)
        finished = scheduler.update(self.output, verdict.sampled, verdict.accepted_drafts)
        self.problems += scheduler.check_conservation()
        self.reqs = {
            name: row | _request_fields(self.output, name, verdict) for name, row in rows.items()
        }
        self.step = _step_fields(self.output) | {
            "registered": {
                str(block): name for block, name in scheduler.registered_prefixes().items()
            },
            "free_queue_end": manager.free_queue(),
            "finished_after": finished,
            "num_computed_after": {
                name: scheduler.requests[name].num_computed_tokens
                for name in self.output.order
                if name not in finished
            },
        }
        self.with_waiting = with_waiting

    def differences(self, recorded: dict[str, Any]) -> Iterator[str]:
        yield from self.problems
        yield from _differ("", _expected_step(recorded, self.with_waiting), self.step)
        for name in self.output.order:
            if name in recorded["reqs"]:
                expected = _expected_request(recorded["reqs"][name])
                yield from _differ(f"{name}.", expected, self.reqs[name])


def _differ(prefix: str, expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for key, value in expected.items():
        if found[key] != value:
            yield f"{prefix}{key}: recorded {value}, got {found[key]}"


def _step_fields(output: SchedulerOutput) -> dict[str, Any]:
    return {
        "arrivals": list(output.arrivals),
        "order": list(output.order),
        "batch_order": list(output.batch_order),
        "preempted": sorted(output.preempted),
        "finished_reported": sorted(output.finished_req_ids),
        "waiting": list(output.waiting),
        "stuck": output.stuck,
        "free_queue_after_alloc": list(output.free_queue_after_alloc),
        "free_count": output.free_count,
    }


def _expected_step(recorded: dict[str, Any], with_waiting: bool) -> dict[str, Any]:
    """Absent means empty, or for the queue at the end of the step: as after allocation."""
    expected = {
        "arrivals": recorded.get("arrivals", []),
        "order": recorded["order"],
        "preempted": sorted(recorded.get("preempted", [])),
        "finished_reported": sorted(recorded.get("finished_reported", [])),
        "stuck": recorded.get("stuck", False),
        "registered": recorded["registered"],
        "free_queue_after_alloc": recorded["free_queue_after_alloc"],
        "free_queue_end": recorded.get("free_queue_end", recorded["free_queue_after_alloc"]),
        "free_count": recorded["free_count"],
        "finished_after": recorded.get("finished_after", []),
    }
    if with_waiting:
        expected["waiting"] = recorded.get("waiting", [])
    return expected | {
        key: recorded[key] for key in ("batch_order", "num_computed_after") if key in recorded
    }


def _request_fields(output: SchedulerOutput, name: str, verdict: Verdict) -> dict[str, Any]:
    scheduled: ScheduledRequest = output.requests[name]
    returned = _returned(output, name)
    return {
        "event": scheduled.event,
        "num_computed": scheduled.num_computed,
        "num_scheduled": scheduled.num_scheduled,
        "num_tokens": scheduled.num_tokens,
        "drafts": scheduled.drafts,
        "accepted_drafts": verdict.accepted_drafts.get(name, 0),
        "sampled": len(verdict.sampled.get(name, ())),
        "padded_tail": scheduled.padded_tail,
        "returned": returned if any(returned) else None,
        "last_state_block_idx": scheduled.last_state_block_idx,
    }


def _returned(output: SchedulerOutput, name: str) -> list[list[int]]:
    for new in output.scheduled_new_reqs:
        if new.req_id == name:
            return [list(ids) for ids in new.block_ids]
    return [list(ids) for ids in output.scheduled_cached_reqs.new_block_ids[name]]


def _expected_request(recorded: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "event",
        "num_computed",
        "num_scheduled",
        "num_tokens",
        "returned",
        "list",
        "worker_row",
    )
    expected = {key: recorded[key] for key in (*keys, "hashed_cols")}
    expected["drafts"] = recorded.get("drafts", 0)
    expected["accepted_drafts"] = recorded.get("accepted_drafts", 0)
    placeholders = recorded.get("padded_tail_or_async_placeholder", False)
    expected["padded_tail"] = recorded.get("padded_tail", placeholders)
    return expected | {
        key: recorded[key] for key in ("sampled", "last_state_block_idx") if key in recorded
    }
