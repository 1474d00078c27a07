"""A smaller recording out of a large one: some of its steps, so that a page can take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from mambaviz.recording.lines import Blocks, Cut, End, Head, Lost, Rows
from mambaviz.recording.reader import RecordingError
from mambaviz.recording.steps import GroupRows, RecordedStep


@dataclass(frozen=True)
class Span:
    """Steps ``first`` to ``end - 1``; a negative ``first`` counts from the end, None: open."""

    first: int | None = None
    end: int | None = None

    @classmethod
    def parse(cls, text: str) -> Span:
        """``100:400``, ``:300``, ``-200:`` or ``7``. Raises `RecordingError`."""
        try:
            if ":" not in text:
                step = int(text)
                return cls(step, step + 1)
            first, end = (int(part) if part else None for part in text.split(":"))
        except ValueError:
            raise RecordingError(
                f"steps {text[:40]!r}: give a step such as 7, a range such as 100:400 (the last "
                "one left out), :300 for the first 300 or -200: for the last 200"
            ) from None
        return cls(first, end)

    @property
    def from_the_end(self) -> bool:
        """Whether the number of steps must be known first."""
        return any(bound is not None and bound < 0 for bound in (self.first, self.end))

    def counted(self, steps: int) -> Span:
        """The same with bounds that count from the start; ``steps`` is the last number + 1."""
        first, end = self.first, self.end
        if first is not None and first < 0:
            first = max(0, steps + first)
        if end is not None and end < 0:
            end = max(0, steps + end)
        return Span(first, end)

    def holds(self, step: int) -> bool:
        return (self.first or 0) <= step and (self.end is None or step < self.end)

    def is_over(self, step: int) -> bool:
        return self.end is not None and step >= self.end


WHOLE = Span()


def steps_of(request: str, steps: Iterable[RecordedStep]) -> Span:
    """From the step before a request first ran to the one after its last."""
    ran = [step.index for step in steps if any(r.id == request for r in step.requests)]
    if not ran:
        raise RecordingError(f"there is no request {request[:40]!r} in this recording")
    return Span(max(0, ran[0] - 1), ran[-1] + 2)


def cut(head: Head, steps: Iterable[RecordedStep], span: Span) -> Iterator[str]:
    """The lines of a recording of these steps alone, each with its end.

    The first step states in full what requests hold, since the lines before it are left out.
    """
    yield _text(head)
    lines, kept = 1, 0
    known_blocks = known_rows = not span.first
    for step in steps:
        if span.is_over(step.index):
            break
        if not span.holds(step.index):
            continue
        kept += 1
        blocks = step.blocks_line if known_blocks or not step.blocks else _all_lists(step)
        rows = step.rows_line if known_rows or not step.rows else _all_rows(step)
        known_blocks, known_rows = known_blocks or bool(blocks), known_rows or bool(rows)
        for line in _lines(step, blocks, rows):
            lines += 1
            yield _text(line)
    yield _text(End(event="end", steps=kept, lines=lines + 1, why="cut"))


def _text(line: BaseModel) -> str:
    return line.model_dump_json(exclude_unset=True) + "\n"


def _lines(step: RecordedStep, blocks: Blocks | None, rows: Rows | None) -> Iterator[BaseModel]:
    if step.lost:
        yield Lost(event="lost", lines=step.lost, step=step.index)
    found = (*step.came, *step.actions, step.schedule, blocks, rows, step.pre_copy)
    behind = (*step.metadata, step.accept, step.post_copy, step.commit, *step.notes)
    yield from (line for line in (*found, *step.states, *behind) if line is not None)


def _all_lists(step: RecordedStep) -> Blocks:
    """A step's ``blocks`` line with nothing left out."""
    now = step.blocks
    assert now is not None
    return Blocks(
        event="blocks",
        step=step.index,
        lists={name: _cuts(rows) for name, rows in now.lists.items()},
        registered=dict(now.registered) if now.registered is not None else None,
        refs=dict(now.refs) if now.refs is not None else None,
        free_queue=list(now.free_queue) if now.free_queue is not None else None,
        remembered=dict(now.remembered),
        whole=True,
    )


def _all_rows(step: RecordedStep) -> Rows:
    now = step.rows
    assert now is not None
    return Rows(
        event="rows",
        step=step.index,
        order=list(now.order),
        rows={name: _cuts(rows) for name, rows in now.rows.items()},
        computed=dict(now.computed),
        accepted=dict(now.accepted) if now.accepted is not None else None,
        slots=dict(now.slots) if now.slots is not None else None,
    )


def _cuts(rows: GroupRows) -> list[Cut | None]:
    return [None if row is None else Cut(ids=list(row)) for row in rows]
