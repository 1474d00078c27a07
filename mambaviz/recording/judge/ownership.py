"""Who may share a block, and who may write it (section 1, I5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mambaviz.recording.judge.case import Case
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import GroupRows
from mambaviz.trace import PhaseName


def shared(
    case: Case, request: str, rows: GroupRows, registered: Mapping[int, str] | None
) -> Iterator[Verdict]:
    """Who shares a block shares a registered one."""
    for group, row in enumerate(rows):
        case.compared["I5"] += len(row or ())
        for column, block in enumerate(row or ()):
            if not block or registered is None or block in registered:
                continue
            if case.holders.count(block) > 1:
                yield case.verdict(
                    "ownership",
                    "allocate",
                    f"block {block} stands {_in_lists(case, block)}, but it is not registered for "
                    "reuse",
                    request=request,
                    group=group,
                    block=block,
                    column=column,
                )


def _in_lists(case: Case, block: int) -> str:
    holders = case.holders.of(block)
    if len(holders) == 1:
        return f"twice in the list of {holders[0]}"
    return f"in the lists of {case.holders.named(block)}"


def written(
    case: Case, request: str, group: int, block: int | None, column: int | None, phase: PhaseName
) -> Iterator[Verdict]:
    """A block that is written stands in its request's list, and in no other."""
    block_list = case.now.block_list(request, group)
    if not block or block_list is None:
        return
    case.compared["I5"] += 1
    if block not in block_list:
        others = case.holders.named(block, besides=request)
        where = f"it is in the list of {others}" if others else "no list holds it, it is free"
        yield case.verdict(
            "freed block",
            phase,
            f"{request} writes block {block}, which its list does not hold; {where}",
            request=request,
            group=group,
            block=block,
            column=column,
        )
    elif case.holders.is_shared(block):
        yield case.verdict(
            "ownership",
            phase,
            f"{request} writes block {block}, which stands in the lists of "
            f"{case.holders.named(block)}",
            request=request,
            group=group,
            block=block,
            column=column,
        )
