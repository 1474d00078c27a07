"""Which of its slots a row's forward reads and writes (section 5.2; in all mode also 4.6)."""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.columns import next_column
from mambaviz.recording.held import Held
from mambaviz.recording.judge.facts import Facts
from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.judge.view import MetadataView
from mambaviz.recording.lines import Scheduled


@dataclass(frozen=True)
class Reads:
    """Slots that a forward reads, and the row its window begins at; None: unknown."""

    conv: int | None
    row: int | None
    temporal: int | None


@dataclass(frozen=True)
class Write:
    """What a forward leaves in a slot; None: nothing."""

    slot: int
    conv: Held | None
    temporal: Held | None


@dataclass(frozen=True)
class ForwardRow:
    """One row of a forward: its blocks by slot, and what decides which of them it uses."""

    request: Scheduled
    group: int
    slots: list[int]
    is_decode: bool
    view: MetadataView
    memory: Memory

    @property
    def accepted(self) -> int | None:
        """The count that the forward reads at; None: unknown."""
        found = self.view.number("num_accepted_tokens", self.request.id)
        return self.memory.accepted if found is None else found

    def column(self, field: str, otherwise: int) -> int:
        """A column as the metadata give it, else as the rules do."""
        found = self.view.number(field, self.request.id)
        return otherwise if found is None else found


def used(row: ForwardRow, facts: Facts) -> tuple[Reads, list[Write]]:
    """What a row's forward reads, and what it writes in this order."""
    return _all_mode(row, facts) if facts.mode == "all" else _one_block(row, facts)


def _one_block(row: ForwardRow, facts: Facts) -> tuple[Reads, list[Write]]:
    """None and align mode: everything lies in the running block and its scratch."""
    if row.is_decode and facts.num_spec:
        offset = _offset(row)
        return Reads(0, offset, offset), _draft_writes(row.request, 0)
    end = Held(row.request.id, row.request.end)
    return Reads(0, 0, 0), [Write(0, end, end)]


def _all_mode(row: ForwardRow, facts: Facts) -> tuple[Reads, list[Write]]:
    """All mode: a column for every block boundary."""
    request = row.request
    assert facts.block_size is not None
    computed = row.column("block_idx_last_computed_token", facts.last_column(request.computed))
    last = row.column("block_idx_last_scheduled_token", facts.last_column(request.end))
    if row.is_decode and facts.num_spec:
        # Nothing remembered: the step before left its last state where its token count says.
        previous = row.memory.previous
        previous = row.column(
            "block_idx_last_scheduled_token_prev_step",
            facts.last_column(request.computed) if previous is None else previous,
        )
        offset = _offset(row)
        temporal = None if offset is None else previous + offset
        return Reads(previous, offset, temporal), _draft_writes(request, last)
    writes = []
    if not row.is_decode:
        for column in range(next_column(request.computed, facts.block_size), last):
            held = Held(request.id, (column + 1) * facts.block_size)
            writes.append(Write(column, held, held))
    end = Held(request.id, request.end)
    return Reads(computed, 0, computed), [*writes, Write(last, end, end)]


def _offset(row: ForwardRow) -> int | None:
    """Tokens past the first state of the query before; None: unknown."""
    return row.accepted - 1 if row.accepted else None


def _draft_writes(request: Scheduled, first: int) -> list[Write]:
    """A decode with drafts: one window with a row a token, a temporal state a token."""
    start = request.computed + 1
    window = Held(request.id, start, request.scheduled)
    writes = [Write(first, window, Held(request.id, start))]
    for token in range(1, request.scheduled):
        writes.append(Write(first + token, None, Held(request.id, start + token)))
    return writes
