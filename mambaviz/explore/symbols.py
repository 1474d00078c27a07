"""Block contents as symbols: which tokens a window row or a temporal state has absorbed.

A row symbol is a token at a position; 0 is a row of zeros. A state symbol is a number that stands
for one exact history: the state before, and the window and token that were taken in; 0 is a state
of zeros. Equal numbers mean equal bytes (up to rounding), and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mambaviz.explore.dataflow import (
    Convolve,
    Move,
    Operation,
    RowOf,
    RowSource,
    Scan,
    WindowMove,
)

ZERO = 0
_TOKENS = 1 << 32

Row = int | tuple[tuple[int, int], ...]  # one token, or a (row symbol, channel) per channel
Window = tuple[Row, ...]


def row_symbol(position: int, token: int) -> int:
    """The conv input of a token at a position; a placeholder's id is -1."""
    return (position + 1) * _TOKENS + token + 1


def row_position(row: Row) -> int | None:
    """The position that the readable channel of a row carries; None for zeros."""
    symbol = row[0][0] if isinstance(row, tuple) else row
    return symbol // _TOKENS - 1 if symbol else None


@dataclass
class Histories:
    """Numbers for state histories, given out once each; with how many tokens they took in."""

    _number: dict[object, int] = field(default_factory=dict)
    _tokens: list[int] = field(default_factory=lambda: [0])

    def after(self, state: int, window: Window, token: Row) -> int:
        """The state once it has taken in one more token behind this window."""
        key = (state, window, token)
        found = self._number.get(key)
        if found is None:
            found = self._new(key, self._tokens[state] + 1)
        return found

    def mixed(self, states: Sequence[int]) -> int:
        """A state put together from parts of several."""
        if len(set(states)) == 1:
            return states[0]
        key = tuple(states)
        return self._number.get(key) or self._new(key, self._tokens[states[0]])

    def tokens_absorbed(self, state: int) -> int:
        """What the readable head of such a state says."""
        return self._tokens[state]

    def _new(self, key: object, tokens: int) -> int:
        self._number[key] = number = len(self._tokens)
        self._tokens.append(tokens)
        return number


@dataclass(frozen=True)
class Truth:
    """One request's true windows and states after 0, 1, 2, ... tokens (section 5.3)."""

    windows: list[Window]
    states: list[int]

    @classmethod
    def of(cls, tokens: Iterable[int], window_rows: int, histories: Histories) -> Truth:
        window: Window = (ZERO,) * window_rows
        windows, states = [window], [ZERO]
        for position, token in enumerate(tokens):
            symbol = row_symbol(position, token)
            states.append(histories.after(states[-1], window, symbol))
            window = (*window, symbol)[1:]
            windows.append(window)
        return cls(windows, states)


RingEntry = tuple[Window, Row]  # what ReplaySSM keeps of a token


@dataclass
class Contents:
    """Every block of one cache group's layers; they all hold the same."""

    conv: list[Window]
    temporal: list[int]
    rings: list[tuple[RingEntry, ...]]

    @classmethod
    def zeros(cls, num_blocks: int, conv_rows: int) -> Contents:
        return cls([(ZERO,) * conv_rows] * num_blocks, [ZERO] * num_blocks, [()] * num_blocks)

    def copy(self) -> Contents:
        return Contents(self.conv[:], self.temporal[:], self.rings[:])

    def written_since(self, before: Contents) -> set[int]:
        """Blocks whose contents differ."""
        return {
            block
            for block, now in enumerate(zip(self.conv, self.temporal, self.rings, strict=True))
            if now != (before.conv[block], before.temporal[block], before.rings[block])
        }

    def window(self, block: int, first: int, rows: int) -> Window:
        """Rows from ``first`` on; zeros where the state has none."""
        state = self.conv[block]
        found = state[first : first + rows] if 0 <= first < len(state) else ()
        return found + (ZERO,) * (rows - len(found))


def move(
    contents: Sequence[Contents], moves: Sequence[Move], blocks: Sequence[int], histories: Histories
) -> None:
    """What a copy launch did. All sources are read as they were before it."""
    before = {one.group: contents[one.group].copy() for one in moves}
    for one in moves:
        old, new, block = before[one.group], contents[one.group], blocks[one.block]
        if isinstance(one, WindowMove):
            new.conv[block] = tuple(_row(old, source, blocks) for source in one.rows)
        else:
            states = [old.temporal[blocks[source]] for source in one.sources]
            new.temporal[block] = histories.mixed(states)


def _row(old: Contents, source: RowSource, blocks: Sequence[int]) -> Row:
    if isinstance(source, RowOf):
        return old.conv[blocks[source.block]][source.row]
    cells = []
    for block, row, channel in source:
        found = old.conv[blocks[block]][row]
        cells.append(found[channel] if isinstance(found, tuple) else (found, channel))
    symbols = {symbol for symbol, _ in cells}
    in_place = all(channel == number for number, (_, channel) in enumerate(cells))
    if symbols == {ZERO} or (len(symbols) == 1 and in_place):
        return cells[0][0]
    return tuple(cells)


@dataclass
class Forward:
    """One forward over symbols; afterwards ``states[group][token]`` is what y was made from."""

    contents: Sequence[Contents]
    blocks: Sequence[int]
    query: Sequence[int]  # row symbols in batch order
    window_rows: int
    histories: Histories

    def run(self, operations: Sequence[Operation]) -> list[list[int | None]]:
        groups = len(self.contents)
        self._inputs: list[list[RingEntry]] = [
            [((), symbol) for symbol in self.query] for _ in range(groups)
        ]
        self._states: list[list[int | None]] = [[None] * len(self.query) for _ in range(groups)]
        for operation in operations:
            if isinstance(operation, Convolve):
                self._convolve(operation)
            elif isinstance(operation, Scan):
                self._scan(operation)
            else:
                contents, group = self.contents[operation.group], operation.group
                block = self.blocks[operation.block]
                ring = contents.rings[block]
                entry = self._inputs[group][operation.token]
                state = contents.temporal[block]
                kept = ring[: operation.position]
                for window, token in (*kept, entry):
                    state = self.histories.after(state, window, token)
                self._states[group][operation.token] = state
                if operation.flush:
                    contents.temporal[block] = state
                else:
                    behind = ring[operation.position + 1 :]
                    contents.rings[block] = (*kept, entry, *behind)
        return self._states

    def _convolve(self, one: Convolve) -> None:
        contents, rows = self.contents[one.group], self.window_rows
        first = (
            contents.window(self.blocks[one.source], one.offset, rows)
            if one.source
            else (ZERO,) * rows
        )
        inputs = (*first, *self.query[one.start : one.start + one.length])
        taken = self._inputs[one.group]
        for index in range(one.length):
            taken[one.start + index] = (inputs[index : index + rows], inputs[index + rows])
        for absorbed, target in one.targets:
            block = self.blocks[target]
            if one.whole:
                left = inputs[1:]
            else:
                left = inputs[absorbed : absorbed + rows] if absorbed >= 0 else ()
                left += (ZERO,) * (rows - len(left))
            contents.conv[block] = left + contents.conv[block][len(left) :]

    def _scan(self, one: Scan) -> None:
        contents, inputs = self.contents[one.group], self._inputs[one.group]
        state = contents.temporal[self.blocks[one.source]] if one.source else ZERO
        states, after = self._states[one.group], self.histories.after
        for first, end, target in one.pieces:
            for token in range(first, end):
                state = after(state, *inputs[token])
                states[token] = state
            if target:
                contents.temporal[self.blocks[target]] = state
