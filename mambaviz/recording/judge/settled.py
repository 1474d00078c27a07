"""Steps that overlap: where a step really starts, once the one before it is known (section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.steps import RecordedStep


def settled(step: RecordedStep, memory: Mapping[str, Memory]) -> RecordedStep:
    """The step, each request with the tokens that are computed when the worker begins.

    A scheduler that does not wait for verification counts all drafts of the step before as
    accepted. The worker counts on from those that were: its own number, or what the judge knows.
    """
    if step.schedule is None:
        return step
    counted = step.rows.computed if step.rows is not None else {}

    def of(request: Scheduled) -> Scheduled:
        known = memory.get(request.id)
        computed = counted.get(request.id)
        if computed is None and known is not None and request.kind == "running":
            computed = known.computed
        if computed is None or computed >= request.computed:
            return request
        return request.model_copy(update={"computed": computed})

    requests = [of(request) for request in step.schedule.requests]
    return replace(step, schedule=step.schedule.model_copy(update={"requests": requests}))
