"""Counts of tokens: how many are computed and how many were accepted (section 2)."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.recording.judge.case import Case
from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.trace import PhaseName


def scheduled(case: Case) -> Iterator[Verdict]:
    """The computed tokens that a step starts with are those that the step before left."""
    for request in case.now.requests:
        memory = case.memory.get(request.id)
        if request.kind != "running":
            case.memory[request.id] = Memory.admitted(request, case.facts)
        elif memory is None:
            case.memory[request.id] = Memory()
        elif memory.computed is not None and memory.computed != request.computed:
            if not case.facts.asynchronous or _counted_by_worker(case, request):
                yield _goes_on_elsewhere(case, request, memory.computed)
            memory.column = memory.accepted = None
        if request.drafts and request.scheduled < 1 + request.drafts:
            yield _drafts_alone(case, request)


def _counted_by_worker(case: Case, request: Scheduled) -> bool:
    """Whether a count is the worker's own; a scheduler that runs ahead only has a bound."""
    return case.now.rows is not None and request.id in case.now.rows.computed


def _goes_on_elsewhere(case: Case, request: Scheduled, computed: int) -> Verdict:
    return case.verdict(
        "computed tokens",
        "schedule",
        f"{request.id} goes on from token {request.computed}, but its step before left "
        f"{computed} computed",
        request=request.id,
        expected=computed,
        found=request.computed,
    )


def _drafts_alone(case: Case, request: Scheduled) -> Verdict:
    return case.verdict(
        "computed tokens",
        "schedule",
        f"{request.id} has {request.drafts} drafts in a query of {request.scheduled} tokens, and "
        "a query begins with a token that is known",
        request=request.id,
        expected=f"at least {1 + request.drafts}",
        found=request.scheduled,
    )


def carried(case: Case, request: Scheduled, count: int, phase: PhaseName) -> Iterator[Verdict]:
    """An accepted count moves with its row; an admission starts with 1."""
    memory, num_spec = case.memory[request.id], case.facts.num_spec
    if not num_spec:
        return
    expected, memory.accepted = memory.accepted, count
    enters = f"{request.id} enters the step with accepted count {count}"
    if expected is not None and expected != count:
        yield case.verdict(
            "accepted count",
            phase,
            f"{enters}, but its step before left {expected}",
            request=request.id,
            expected=expected,
            found=count,
        )
    elif not 1 <= count <= 1 + num_spec:
        yield case.verdict(
            "accepted range",
            phase,
            f"{enters}, where 1 to {1 + num_spec} can be",
            request=request.id,
            expected=f"1 to {1 + num_spec}",
            found=count,
        )


def accepted(case: Case) -> Iterator[Verdict]:
    """What verification kept, and how many tokens are computed by that."""
    line = case.now.accept
    for request in case.now.requests:
        count = line.counts.get(request.id) if line and line.counts else None
        sampled = line.sampled.get(request.id) if line and line.sampled else None
        if count is not None:
            yield from _kept(case, request, count, sampled)
        elif not request.drafts:
            count = 1
        else:
            count = sampled or None
        _note_accepted(case, request, count)


def _kept(case: Case, request: Scheduled, count: int, sampled: int | None) -> Iterator[Verdict]:
    most = 1 + request.drafts
    if not 1 <= count <= most:
        yield case.verdict(
            "accepted range",
            "accept",
            f"{request.id}: accepted count {count} with {request.drafts} drafts, where 1 to "
            f"{most} can be",
            request=request.id,
            expected=f"1 to {most}",
            found=count,
        )
    elif sampled and count != sampled and not request.padded_tail:
        yield case.verdict(
            "accepted count",
            "accept",
            f"{request.id}: accepted count {count}, but {sampled} tokens came out",
            request=request.id,
            expected=sampled,
            found=count,
        )


def _note_accepted(case: Case, request: Scheduled, count: int | None) -> None:
    memory = case.memory[request.id]
    memory.accepted = count
    if count is None:
        memory.computed = None
        case.know_no_block_of(request)
        return
    memory.computed = request.computed_after(count)
    if request.drafts:
        case.ledger.reject(request.id, memory.computed)


def committed(case: Case) -> Iterator[Verdict]:
    """The computed tokens that the scheduler ends a step with."""
    line = case.now.commit
    for request in case.now.requests:
        memory = case.memory[request.id]
        found = line.computed.get(request.id) if line and line.computed else None
        if found is None:
            continue
        expected, memory.computed = memory.computed, found
        if expected is not None and expected != found and not case.facts.asynchronous:
            yield case.verdict(
                "computed tokens",
                "commit",
                f"{request.id} has {found} tokens computed after the step; {request.computed} "
                f"before it, {request.scheduled} scheduled and what was accepted make {expected}",
                request=request.id,
                expected=expected,
                found=found,
            )
