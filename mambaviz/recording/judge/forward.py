"""The forward: what it reads must be the state after the computed tokens (section 1, I2; 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mambaviz.recording.judge import ownership, slots
from mambaviz.recording.judge.case import Case, at
from mambaviz.recording.judge.slots import ForwardRow, Reads, Write
from mambaviz.recording.judge.view import MetadataView
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.trace import StateKind


def forwarded(case: Case) -> Iterator[Verdict]:
    """Every row of every Mamba group, held against what blocks hold."""
    facts = case.facts
    if facts.mode is None or facts.num_spec is None:
        case.ledger.forget()
        return
    for group in facts.mamba:
        view = MetadataView.of(case.now, group)
        for request in case.now.requests:
            yield from _row(case, request, group, view)
    if facts.checkpoints:
        _forget_inner_boundaries(case)
    for request in case.now.requests:
        full = request.scheduled == 1 + facts.num_spec
        last = facts.last_column(request.end)
        case.memory[request.id].previous = last if full else None


def _forget_inner_boundaries(case: Case) -> None:
    """A prefill may have written any boundary that its chunk passed: nothing is known there."""
    last_column = case.facts.last_column
    for request in case.now.requests:
        for group in case.facts.mamba:
            row = case.now.row(request.id, group) or ()
            for block in row[last_column(request.computed) : last_column(request.end)]:
                case.ledger.forget_place((group, block))


def _row(case: Case, request: Scheduled, group: int, view: MetadataView) -> Iterator[Verdict]:
    ids = case.now.row(request.id, group)
    found = view.slots(request.id, ids, case.facts, request.end)
    if found is None:
        if ids is None:
            case.ledger.forget()
        for block in ids or ():
            case.ledger.forget_place((group, block))
        return
    memory, decode = case.memory[request.id], view.is_decode(request.id)
    if decode is None:
        decode = memory.is_decode(request)
    row = ForwardRow(request, group, found, decode, view, memory)
    reads, writes = slots.used(row, case.facts)
    yield from _read(case, row, reads)
    yield from _written(case, row, writes)


def _read(case: Case, row: ForwardRow, reads: Reads) -> Iterator[Verdict]:
    """The first state that cannot be read, or is known to be another one."""
    if row.request.computed == 0:
        return
    places: tuple[tuple[StateKind, int | None], ...] = (
        ("conv", reads.conv),
        ("temporal", reads.temporal),
    )
    for state, slot in places:
        if slot is None or state not in case.facts.states:
            continue
        case.compared.update(("I2", "I4", "I7"))
        block = at(row.slots, slot)
        wrong = _no_block(case, row, state, slot, block)
        if wrong is None and block is not None:
            wrong = _another_state(case, row, state, block, reads.row)
        if wrong is not None:
            yield wrong
            return


def _no_block(
    case: Case, row: ForwardRow, state: StateKind, slot: int, block: int | None
) -> Verdict | None:
    """I7 and I4 for a slot that is read."""
    reads = f"{row.request.id} is about to read its {state} state"
    if block is None:
        return case.verdict(
            "columns",
            "forward",
            f"{reads} outside its row",
            request=row.request.id,
            group=row.group,
            column=slot,
        )
    if block == 0:
        return case.verdict(
            "null block",
            "forward",
            f"{reads} from the null block",
            request=row.request.id,
            group=row.group,
            block=0,
        )
    return None


def _another_state(
    case: Case, row: ForwardRow, state: StateKind, block: int, window: int | None
) -> Verdict | None:
    """I2 for a block that is read; the window begins at row ``window`` of a conv state."""
    request, group = row.request, row.group
    if state == "temporal" and case.facts.ring:
        return None  # the ring holds what the state has not absorbed yet
    if state == "conv" and window is None:
        return None
    found = case.ledger.disagrees(state, (group, block), request.id, request.computed, window or 0)
    if found is None:
        return None
    return case.verdict(
        "running state",
        "forward",
        f"{request.id} is about to read block {block} as its {state} state after "
        f"{request.computed} tokens; it holds {found.words}",
        request=request.id,
        group=group,
        block=block,
        expected=f"the state of {request.id} after {request.computed} tokens",
        found=found.words,
    )


def _written(case: Case, row: ForwardRow, writes: Sequence[Write]) -> Iterator[Verdict]:
    """Note what the row leaves where; its first state must go to a block of its own."""
    request, group = row.request, row.group
    for number, write in enumerate(writes):
        block = at(row.slots, write.slot)
        if number == 0 and block == 0 and case.facts.mode != "all":
            yield case.verdict(
                "null block",
                "forward",
                f"{request.id} writes its state to the null block",
                request=request.id,
                group=group,
                block=0,
            )
        if block:
            _note(case, (group, block), write)
            yield from ownership.written(case, request.id, group, block, None, "forward")


def _note(case: Case, place: tuple[int, int], write: Write) -> None:
    if write.conv is not None:
        case.ledger.put("conv", place, write.conv)
    if case.facts.ring:  # how much of the ring was absorbed is not known here
        case.ledger.temporal.pop(place, None)
        case.ledger.written.add(place)
    elif write.temporal is not None:
        case.ledger.put("temporal", place, write.temporal)
