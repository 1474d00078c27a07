"""The scheduler's lists and its free queue, after an allocation (section 1, I5 to I7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mambaviz.columns import boundary_column
from mambaviz.recording.held import Place
from mambaviz.recording.judge.case import Case
from mambaviz.recording.judge.ownership import shared
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import GroupRows


def allocated(case: Case) -> Iterator[Verdict]:
    """Every list that changed, then the pool as a whole."""
    blocks = case.now.blocks
    if blocks is None:
        return
    changed = case.holders.take(blocks)
    for name in changed:
        for place in case.holders.regroup(blocks.lists[name]):
            case.ledger.forget_place(place)
    scheduled = {request.id: request for request in case.now.requests}
    for name in changed:
        yield from _ids(case, name, blocks.lists[name])
        yield from shared(case, name, blocks.lists[name], blocks.registered)
        if name in scheduled:
            _note_hit(case, scheduled[name])
    if blocks.free_queue is not None:
        yield from _conserved(case, blocks.free_queue)


def _ids(case: Case, request: str, rows: GroupRows) -> Iterator[Verdict]:
    """I7: every id is a block of the pool."""
    total = case.facts.num_blocks
    if total is None:
        return
    for group, row in enumerate(rows):
        case.compared["I7"] += len(row or ())
        for column, block in enumerate(row or ()):
            if not 0 <= block < total:
                yield case.verdict(
                    "ids",
                    "allocate",
                    f"the list of {request} names block {block} at column {column}, but the pool "
                    f"has blocks 0 to {total - 1}",
                    request=request,
                    group=group,
                    column=column,
                    found=block,
                )


def _note_hit(case: Case, request: Scheduled) -> None:
    """Section 2, prefix identity: an admission that finds a state begins like its owner."""
    size = case.facts.block_size
    if request.kind == "running" or not request.computed or not size:
        return
    if case.facts.mode == "none":
        return
    column = boundary_column(request.computed, size)
    places: list[Place] = []
    for group in case.facts.mamba:
        row = case.now.block_list(request.id, group)
        if row is not None and column < len(row) and row[column]:
            places.append((group, row[column]))
    case.ledger.hit(request.id, places, request.computed)


MOST_TOLD = 100  # blocks of a step that are neither free nor held, or both


def _conserved(case: Case, free_queue: Sequence[int]) -> Iterator[Verdict]:
    """I6: every block is either free or held, never both, never neither."""
    total = case.facts.num_blocks
    if total is None or not case.holders.complete:
        return
    free = Counter(free_queue)
    case.compared["I6"] += total - 1
    told = 0
    for block in range(1, total):
        held = case.holders.count(block) > 0
        if free[block] + held != 1:
            where = _where(free[block], held)
            yield case.verdict("conservation", "allocate", f"block {block} is {where}", block=block)
            told += 1
        if told == MOST_TOLD:
            return


def _where(free: int, held: bool) -> str:
    if free > 1:
        return "twice in the free queue"
    if held:
        return "in the free queue and in a list"
    return "neither in the free queue nor in a list"
