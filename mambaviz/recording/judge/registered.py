"""Blocks registered for reuse, and what they hold (section 1, I1; section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.columns import boundary_column
from mambaviz.recording.judge.case import Case
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Lists
from mambaviz.trace import StateKind

STATES: tuple[StateKind, ...] = ("conv", "temporal")


@dataclass(frozen=True)
class Registration:
    """A block that is registered for the first ``tokens`` tokens of ``owner``; "": not known.

    ``holder`` is the request of this step whose list it stands in.
    """

    block: int
    group: int
    owner: str
    tokens: int
    column: int | None
    holder: Scheduled | None


def registered(case: Case) -> Iterator[Verdict]:
    """Blocks that were registered, or were written while they are."""
    blocks = case.now.blocks
    if blocks is None or blocks.registered is None:
        return
    written = {block for _, block in case.ledger.written}
    for block in sorted(blocks.fresh | (written & blocks.registered.keys())):
        found = _registration(case, block, blocks.registered[block])
        if found is not None:
            yield from _prefix(case, blocks, found)
            yield from _state(case, found)


def _registration(case: Case, block: int, prefix: str) -> Registration | None:
    """``request@tokens`` taken apart; None where that is no Mamba state of a known length."""
    owner, _, length = prefix.rpartition("@")
    group, size = case.holders.group_of(block), case.facts.block_size
    if not length.isdigit() or group is None or group not in case.facts.mamba:
        return None
    column = boundary_column(int(length), size) if size else None
    return Registration(block, group, owner, int(length), column, _holder(case, block, group))


def _holder(case: Case, block: int, group: int) -> Scheduled | None:
    requests = {request.id: request for request in case.now.requests}
    for name in case.holders.of(block):
        if name in requests and block in (case.now.block_list(name, group) or ()):
            return requests[name]
    return None


def _prefix(case: Case, blocks: Lists, found: Registration) -> Iterator[Verdict]:
    """Section 2: what is registered is known, and computed or scheduled."""
    holder = found.holder
    if found.block not in blocks.fresh or holder is None or holder.known is None:
        return
    most = max(min(holder.end, holder.known), holder.computed)
    if found.tokens > most:
        yield case.verdict(
            "registered prefix",
            "allocate",
            f"block {found.block} is registered for {found.tokens} tokens of {holder.id}, but "
            f"only {most} are known and computed or scheduled",
            request=holder.id,
            group=found.group,
            block=found.block,
            column=found.column,
            expected=f"at most {most}",
            found=found.tokens,
        )


def _state(case: Case, found: Registration) -> Iterator[Verdict]:
    """I1: the first of its states that is known not to be the one after its prefix."""
    for state in STATES:
        held = case.ledger.of(state).get((found.group, found.block))
        if held is None or (state == "temporal" and case.facts.ring):
            continue
        case.compared["I1"] += 1
        other = case.ledger.differ(held.request, found.owner, found.tokens)
        if held.tokens != found.tokens or other:
            yield case.verdict(
                "boundary state",
                "commit",
                f"block {found.block} is registered for {found.owner or 'a prefix'}@"
                f"{found.tokens}, but its {state} state is {held.words}",
                request=found.holder.id if found.holder is not None else found.owner or None,
                group=found.group,
                block=found.block,
                column=found.column,
                expected=f"the state after {found.tokens} tokens",
                found=held.words,
            )
            return
