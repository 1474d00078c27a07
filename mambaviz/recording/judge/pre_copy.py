"""Before a forward: the state moves into the running column (sections 3.3, 3.4 and 3.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.recording.held import Copy
from mambaviz.recording.judge import copies, counts
from mambaviz.recording.judge.case import Case
from mambaviz.recording.judge.copies import Move
from mambaviz.recording.judge.memory import NO_COLUMN
from mambaviz.recording.lines import CopyRow, Scheduled
from mambaviz.recording.rules import Verdict


@dataclass(frozen=True)
class Migration:
    """Where a state lies, NO_COLUMN: there is none yet, and where this step wants it.

    None: unknown.
    """

    source: int | None
    target: int
    accepted: int | None

    @property
    def moves(self) -> bool:
        return self.source is not None and self.source not in (NO_COLUMN, self.target)

    @property
    def move(self) -> Move:
        bias = None if self.accepted is None else self.accepted - 1
        return Move(self.source, self.target, bias)


def pre_copied(case: Case) -> Iterator[Verdict]:
    """Every row's copy. What was not seen is taken to have happened as the rules ask for it."""
    line, facts = case.now.pre_copy, case.facts
    if facts.mode != "align" or facts.block_size is None:
        return
    yield from _stale_entries(case)
    rows = {row.id: row for row in line.rows} if line is not None else {}
    found: list[Copy] = []
    for request in case.now.requests:
        row = rows.get(request.id) or CopyRow(id=request.id)
        memory = case.memory[request.id]
        if row.accepted is not None and not (case.now.rows and case.now.rows.accepted):
            yield from counts.carried(case, request, row.accepted, "pre-copy")
        accepted = memory.accepted if row.accepted is None else row.accepted
        wanted = Migration(memory.column, facts.last_column(request.end), accepted)
        yield from _column(case, request, row, wanted.target)
        yield from _copied(case, request.id, row, wanted)
        if row.copies is not None or wanted.moves or wanted.source is None:
            found += copies.moved(case, request, row, wanted.move)
        if row.accepted_out is not None:
            memory.accepted = row.accepted_out
        elif wanted.moves if row.copies is None else row.copies:
            memory.accepted = 1
        memory.column = wanted.target if row.column is None else row.column
        yield from copies.addressed(case, request, row, "pre-copy")
    case.ledger.copy(found)


def _stale_entries(case: Case) -> Iterator[Verdict]:
    """Section 3.7: who is gone, or came back, is forgotten before the columns are looked at."""
    line, schedule = case.now.pre_copy, case.now.schedule
    if line is None or line.columns_before is None or schedule is None:
        return
    if case.facts.runner == "v2":
        return  # slots are taken anew, nothing is remembered by name
    resumed = {request.id for request in schedule.requests if request.kind != "running"}
    gone = {*(schedule.finished or ()), *(schedule.preempted or ()), *resumed}
    for name in sorted(gone & set(line.columns_before)):
        if line.forgotten is not None and name not in line.forgotten:
            yield case.verdict(
                "stale entry",
                "pre-copy",
                f"{name} was finished, preempted or resumed, but its running column "
                f"{line.columns_before[name]} is still remembered",
                request=name,
                column=line.columns_before[name],
            )


def _column(case: Case, request: Scheduled, row: CopyRow, target: int) -> Iterator[Verdict]:
    if row.column is not None and row.column != target:
        yield case.verdict(
            "column",
            "pre-copy",
            f"{request.id} takes column {row.column} for its running one; with "
            f"{request.computed} computed and {request.scheduled} scheduled it is column {target}",
            request=request.id,
            column=row.column,
            expected=target,
            found=row.column,
        )


def _copied(case: Case, name: str, row: CopyRow, wanted: Migration) -> Iterator[Verdict]:
    """Whether a copy was made, which one, and what became of the accepted count."""
    source, target = wanted.source, wanted.target
    if row.copies is not None and source is not None and row.copies != wanted.moves:
        what = "a copy was made" if row.copies else "nothing was copied"
        why = (
            f"the state lies at column {source}, the running one is {target}"
            if source != NO_COLUMN
            else "nothing is computed yet"
        )
        yield case.verdict(
            "copy", "pre-copy", f"{name}: {what}, but {why}", request=name, column=target
        )
    if not row.copies:
        return
    yield from copies.decided(case, name, "pre-copy", row, wanted.move)
    if row.accepted_out is not None and row.accepted_out != 1:
        yield case.verdict(
            "count reset",
            "pre-copy",
            f"{name}: the state moved into column {target}, but its accepted count stays "
            f"{row.accepted_out}",
            request=name,
            expected=1,
            found=row.accepted_out,
        )
