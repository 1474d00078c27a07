"""The worker's rows, beside the scheduler's lists (section 2, two views of a row)."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.recording.judge import counts
from mambaviz.recording.judge.case import Case, at
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Row


def taken_over(case: Case) -> Iterator[Verdict]:
    """What the worker made of the scheduler's output: its rows, and the counts in them."""
    rows = case.now.rows
    if rows is None:
        return
    for request in case.now.requests:
        for group, row in enumerate(rows.rows.get(request.id, ())):
            if row is not None:
                yield from _follows(case, request, group, row)
        if rows.accepted is not None and request.id in rows.accepted:
            yield from counts.carried(case, request, rows.accepted[request.id], "allocate")


def _follows(case: Case, request: Scheduled, group: int, row: Row) -> Iterator[Verdict]:
    """What the list holds, the row holds at the same column; the first difference is told."""
    for column, block in enumerate(case.now.block_list(request.id, group) or ()):
        found = at(row, column)
        if block and found != block:
            what = "ends before it" if found is None else f"has block {found} there"
            yield case.verdict(
                "worker row",
                "allocate",
                f"the list of {request.id} has block {block} at column {column}, its worker row "
                f"{what}",
                request=request.id,
                group=group,
                block=block,
                column=column,
                expected=block,
                found="no column" if found is None else found,
            )
            return
