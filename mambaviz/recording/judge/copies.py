"""What a copy before a forward and a checkpoint after one have in common (sections 3.1 and 3.2).

A copy reads its conv state in the source column and its temporal state ``bias`` columns on; what
the engine asked for may be recorded as columns, as blocks, as both, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mambaviz.recording.held import Copy
from mambaviz.recording.judge import ownership
from mambaviz.recording.judge.case import Case, at
from mambaviz.recording.lines import CopyRow, Scheduled
from mambaviz.recording.rules import RuleName, Verdict
from mambaviz.trace import PhaseName, StateKind

Pair = tuple[int | None, int | None]  # source and destination block


@dataclass(frozen=True)
class Move:
    """A copy by the rules: columns, and how many tokens past the source; None: unknown."""

    source: int | None = None
    target: int | None = None
    bias: int | None = None


def decided(case: Case, name: str, phase: PhaseName, row: CopyRow, move: Move) -> Iterator[Verdict]:
    """Source, destination and bias of a copy that was made."""
    verb = "copies" if phase == "pre-copy" else "checkpoints"
    checks: tuple[tuple[RuleName, int | None, int | None, str], ...] = (
        ("source", move.source, row.src_col, "from column"),
        ("destination", move.target, row.dst_col, "to column"),
        ("bias", move.bias, row.bias, "with bias"),
    )
    for rule, expected, found, words in checks:
        if expected is not None and found is not None and expected != found:
            yield case.verdict(
                rule,
                phase,
                f"{name} {verb} {words} {found}, by the rule it is {expected}",
                request=name,
                expected=expected,
                found=found,
            )


def moved(case: Case, request: Scheduled, row: CopyRow, move: Move) -> list[Copy]:
    """What a copy moved, in every Mamba group: as recorded, else as the rules have it."""
    if row.copies is False:
        return []
    source = move.source if row.src_col is None else row.src_col
    target = move.target if row.dst_col is None else row.dst_col
    bias = move.bias if row.bias is None else row.bias
    found = []
    for group in case.facts.mamba:
        conv, temporal = _recorded(row, group, "conv"), _recorded(row, group, "temporal")
        ids = case.now.row(request.id, group)
        if ids is None or target is None:
            conv, temporal = conv or (None, None), temporal or (None, None)
        elif source is None or bias is None:  # something unknown may have come to the target
            conv = conv or (None, at(ids, target))
            temporal = temporal or (None, at(ids, target))
        else:
            conv = conv or (at(ids, source), at(ids, target))
            temporal = temporal or (at(ids, source + bias), at(ids, target))
        found.append(Copy(group, conv, temporal, bias or 0))
    return found


def _recorded(row: CopyRow, group: int, state: StateKind) -> Pair | None:
    for copied in row.blocks or ():
        if copied.group == group and copied.state in (None, state):
            return copied.src, copied.dst
    return None


def addressed(case: Case, request: Scheduled, row: CopyRow, phase: PhaseName) -> Iterator[Verdict]:
    """I4, I5 and I7 for the columns and blocks of a copy that was made."""
    if not row.copies or row.src_col is None or row.dst_col is None or row.bias is None:
        return
    reads = {"conv": row.src_col, "temporal": row.src_col + row.bias}
    columns = [(reads[s], "from") for s in ("conv", "temporal") if s in case.facts.states]
    for group in case.facts.mamba:
        ids = case.now.row(request.id, group)
        if ids is None:
            continue
        wrong = _no_block(case, request, group, ids, (*columns, (row.dst_col, "to")), phase)
        if wrong is not None:
            yield wrong
            continue
        block = at(ids, row.dst_col)
        yield from ownership.written(case, request.id, group, block, row.dst_col, phase)


def _no_block(
    case: Case,
    request: Scheduled,
    group: int,
    ids: Sequence[int],
    columns: Sequence[tuple[int, str]],
    phase: PhaseName,
) -> Verdict | None:
    """The first of some columns that holds no block."""
    for column, what in columns:
        copies = f"{request.id} copies {what} column {column}"
        block = at(ids, column)
        if block is None:
            return case.verdict(
                "columns",
                phase,
                f"{copies}, outside its row of {len(ids)} columns",
                request=request.id,
                group=group,
                column=column,
            )
        if block == 0:
            return case.verdict(
                "null block",
                phase,
                f"{copies}, which is the null block",
                request=request.id,
                group=group,
                block=0,
                column=column,
            )
    return None
