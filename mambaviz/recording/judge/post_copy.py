"""After acceptance: the state at a block boundary is kept (sections 3.2 and 3.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.columns import boundary_before, boundary_column
from mambaviz.recording.held import Copy
from mambaviz.recording.judge import copies
from mambaviz.recording.judge.case import Case
from mambaviz.recording.judge.copies import Move
from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.lines import CopyRow, Scheduled
from mambaviz.recording.rules import Verdict


@dataclass(frozen=True)
class Checkpoint:
    """Section 3.2 for one request: the move to the last boundary, and whether it is made.

    ``accepted_out`` is the count that the next forward will see.
    """

    move: Move
    copied: bool
    accepted_out: int

    @classmethod
    def of(cls, running: int, accepted: int, column: int, block_size: int) -> Checkpoint:
        """``running`` tokens stand in the running column, which is ``column``."""
        new = running + accepted - 1
        bias = boundary_before(new, block_size) - running
        target = boundary_column(new, block_size)
        reached = bias >= 0
        return cls(
            Move(column, target, bias),
            copied=reached and (column, 0) != (target, bias),
            accepted_out=1 if reached and column == target else accepted,
        )


def post_copied(case: Case) -> Iterator[Verdict]:
    """Every row's checkpoint. Without a line the rules are taken to have been followed."""
    facts, line = case.facts, case.now.post_copy
    if facts.mode != "align" or not facts.num_spec or facts.block_size is None:
        return
    rows = {row.id: row for row in line.rows} if line is not None else {}
    found: list[Copy] = []
    for request in case.now.requests:
        if line is not None and request.id not in rows:
            continue
        row = rows.get(request.id) or CopyRow(id=request.id)
        memory = case.memory[request.id]
        yield from _staged(case, request, row, memory)
        accepted = memory.accepted if row.accepted is None else row.accepted
        column = memory.column if row.column is None else row.column
        if accepted is None or column is None:
            case.know_no_block_of(request)
            memory.accepted = row.accepted_out
            continue
        wanted = Checkpoint.of(request.running, accepted, column, facts.block_size)
        yield from _checkpointed(case, request.id, row, wanted)
        if wanted.copied or row.copies:
            found += copies.moved(case, request, row, wanted.move if wanted.copied else Move())
        yield from copies.addressed(case, request, row, "post-copy")
        memory.accepted = wanted.accepted_out if row.accepted_out is None else row.accepted_out
    case.ledger.copy(found)


def _staged(case: Case, request: Scheduled, row: CopyRow, memory: Memory) -> Iterator[Verdict]:
    """Section 3.7: the postprocess is given what the step did."""
    checks = (
        ("computed", row.computed, request.computed),
        ("scheduled", row.scheduled, request.scheduled),
        ("drafts", row.drafts, request.drafts),
        ("new computed", row.new_computed, memory.computed),
        ("accepted count", row.accepted, memory.accepted),
        ("running column", row.column, memory.column),
    )
    for what, found, expected in checks:
        if found is not None and expected is not None and found != expected:
            yield case.verdict(
                "staged values",
                "post-copy",
                f"{request.id}: the postprocess is given {what} {found}, the step had {expected}",
                request=request.id,
                expected=expected,
                found=found,
            )


def _checkpointed(case: Case, name: str, row: CopyRow, wanted: Checkpoint) -> Iterator[Verdict]:
    """Whether a checkpoint was made, which one, and what became of the accepted count."""
    if row.copies is not None and row.copies != wanted.copied:
        what = "a checkpoint was made" if row.copies else "no checkpoint was made"
        why = (
            f"a boundary was reached at column {wanted.move.target}"
            if wanted.copied
            else "there is nothing to copy by the rule"
        )
        yield case.verdict("copy", "post-copy", f"{name}: {what}, but {why}", request=name)
    if row.copies and wanted.copied:
        yield from copies.decided(case, name, "post-copy", row, wanted.move)
    if row.accepted_out is not None and row.accepted_out != wanted.accepted_out:
        yield case.verdict(
            "count reset",
            "post-copy",
            f"{name} leaves the postprocess with accepted count {row.accepted_out}, by the rule "
            f"it is {wanted.accepted_out}",
            request=name,
            expected=wanted.accepted_out,
            found=row.accepted_out,
        )
