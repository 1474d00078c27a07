"""One worker step as data flow: which block is read, which is written, by which query token.

The engine's own worker decides all of it from small numbers (lengths, columns, counts, table
rows), never from what a block holds. So a step can be run once with the real runner, written down
in terms of blocks, and applied to symbols as often as the same numbers come up.

Blocks here are numbered in the order in which they appear in the step's rows; 0 stays null.
"""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.runner.base import WorkerBooks
from mambaviz.trace import Decision, Invariant, PhaseName

Cell = tuple[int, int, int]  # block, token row, channel


@dataclass(frozen=True)
class RowOf:
    """A whole token row of a block."""

    block: int
    row: int


RowSource = RowOf | tuple[Cell, ...]  # or one cell a channel


@dataclass(frozen=True)
class WindowMove:
    """A conv state after a copy launch: where each of its token rows came from."""

    group: int
    block: int
    rows: tuple[RowSource, ...]


@dataclass(frozen=True)
class StateMove:
    """A temporal state after a copy launch; several sources: they are mixed up."""

    group: int
    block: int
    sources: tuple[int, ...]


Move = WindowMove | StateMove


@dataclass(frozen=True)
class Convolve:
    """Query tokens ``start .. start + length - 1`` pass over a window.

    ``source`` 0: zeros. ``targets``: the window after so many tokens of the query goes to a
    block; ``whole`` says that a decode writes all rows in use, not only a window.
    """

    group: int
    start: int
    length: int
    source: int
    offset: int
    targets: tuple[tuple[int, int], ...]
    whole: bool


@dataclass(frozen=True)
class Scan:
    """A state takes in tokens and is kept on the way: ``(first token, end, block or 0)``.

    ``source`` 0: zeros.
    """

    group: int
    source: int
    pieces: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Replay:
    """A ReplaySSM decode: state and ring entries before ``position``, then the token."""

    group: int
    token: int
    block: int
    position: int
    flush: bool


Operation = Convolve | Scan | Replay


@dataclass(frozen=True)
class Read:
    """What a forward is about to read for a request that has state (I2)."""

    request: str
    group: int
    computed: int
    conv_block: int
    conv_row: int
    temporal_block: int
    state_tokens: int


@dataclass(frozen=True)
class Breach:
    """A broken invariant, as far as the engine and the symbols can agree about it."""

    invariant: Invariant
    step: int
    phase: PhaseName
    request: str | None = None
    group: int | None = None
    state: str | None = None
    block: int | None = None

    @property
    def words(self) -> str:
        place = [
            self.request,
            None if self.block is None else f"block {self.block}",
            self.state,
            None if self.group is None else f"group {self.group}",
        ]
        where = ", ".join(part for part in place if part)
        return f"{self.invariant} at step {self.step}, {self.phase}{f': {where}' if where else ''}"


@dataclass(frozen=True)
class WorkerStep:
    """All that the worker does in one step.

    ``breaches`` are those that need no look at contents (I4 and I7); their step is 0.
    """

    pre_copy: tuple[Move, ...]
    reads: tuple[Read, ...]
    forward: tuple[Operation, ...]
    post_copy: tuple[Move, ...]
    books: WorkerBooks
    breaches: tuple[Breach, ...]
    pre_decisions: tuple[Decision, ...]
    post_decisions: tuple[Decision, ...]
