"""Which step of one run stands beside which step of another.

Runs of the same requests drift apart: align mode stops a prefill at block boundaries, a rejected
draft costs a step. So there are two ways to set them side by side, the same step or the same token
of one request. Pure: traces in, `Moment`s out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mambaviz.trace import Trace


@dataclass(frozen=True)
class Moment:
    """Steps that stand beside each other, one a run.

    ``at`` is the step, or the position of the first token, that the moment is named by; ``last``
    the last one of it (a decode can keep several tokens in one step). A run that has ended, or
    never gets to the token, has None.
    """

    at: int
    last: int
    steps: tuple[int | None, ...]


def align(traces: Sequence[Trace], request: str | None = None) -> tuple[Moment, ...]:
    """The moments of some runs: by step, or by the tokens of ``request``.

    Raises ValueError without a run, or for a request of which none of them computes a token
    (`lockable`).
    """
    if not traces:
        raise ValueError("there is no run to align")
    if request is None:
        return _same_step(traces)
    if request not in lockable(traces):
        raise ValueError(f"no run computes a token of a request {request!r}")
    return _same_token(traces, request)


def request_ids(trace: Trace) -> list[str]:
    return [plan.id for plan in trace.scenario.requests]


def all_request_ids(traces: Sequence[Trace]) -> list[str]:
    """The requests of any of the runs, each once, in the order of the scenarios."""
    return list(dict.fromkeys(name for trace in traces for name in request_ids(trace)))


def lockable(traces: Sequence[Trace]) -> list[str]:
    """The requests whose tokens runs can be aligned by: some run computes one."""
    return [
        name
        for name in all_request_ids(traces)
        if any(first_computed(trace, name) for trace in traces)
    ]


def place_of(moments: Sequence[Moment], at: int) -> int:
    """Index of the moment that a step or a token falls into; the last one for what lies beyond."""
    for index, moment in enumerate(moments):
        if at <= moment.last:
            return index
    return len(moments) - 1


def _same_step(traces: Sequence[Trace]) -> tuple[Moment, ...]:
    longest = max(len(trace.steps) for trace in traces)
    return tuple(
        Moment(step, step, tuple(step if step < len(trace.steps) else None for trace in traces))
        for step in range(longest)
    )


def _same_token(traces: Sequence[Trace], request: str) -> tuple[Moment, ...]:
    """Neighbouring tokens that every run keeps in one and the same step make one moment."""
    computed = [first_computed(trace, request) for trace in traces]
    moments: list[Moment] = []
    for token in range(max(len(steps) for steps in computed)):
        steps = tuple(found[token] if token < len(found) else None for found in computed)
        if moments and moments[-1].steps == steps:
            moments[-1] = Moment(moments[-1].at, token, steps)
        else:
            moments.append(Moment(token, token, steps))
    return tuple(moments)


def first_computed(trace: Trace, request: str) -> list[int]:
    """By token position: the step after which the token's state was final for the first time.

    What a prefix hit brings counts at the step of the hit. A rejected draft's position counts
    when a kept token takes its place.
    """
    steps: list[int] = []
    for step in trace.steps:
        after = step.num_computed_after.get(request, 0)
        steps += [step.index] * (after - len(steps))
    return steps
