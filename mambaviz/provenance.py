"""Where a block's state comes from: which tokens of which request, computed when, copied how.

What a cell is is read from its bytes: the readable head names a position or a count of tokens, the
oracle recomputes what any request's history has there, and only bytes that agree are given to it.
How it got there is followed backwards through the trace, from write to write: a copy leads to its
source before the phase, a forward to the state that it read. Bytes that no request's history gives
are said to be unknown, however plausible their label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mambaviz.history import (
    COPY_PHASES,
    AtFrame,
    Branch,
    History,
    StateKey,
    frame_of,
    moment_of,
    rows_moved,
)
from mambaviz.oracle import compare_state
from mambaviz.trace import BlockCopy

TokenKind = Literal["prompt", "generated", "draft", "draft accepted", "draft rejected"]
HopKind = Literal["forward", "carried", "migrate", "checkpoint", "hit", "unknown"]


@dataclass(frozen=True)
class Hop(AtFrame):
    """One station on the way back. ``row`` is the conv row there, None for a temporal state.

    ``block`` is where the state stood after it, ``source`` where it stood before. A run of
    forwards that only handed a conv row on is one hop, ``since`` its first frame.
    """

    kind: HopKind
    request: str
    block: int
    source: int | None = None
    row: int | None = None
    source_row: int | None = None
    since: int | None = None


@dataclass(frozen=True)
class Taken:
    """Tokens ``first`` to ``last`` that one forward of a request took into a state."""

    first: int
    last: int
    request: str
    step: int
    accepted: bool  # False: some of them are drafts that were rejected, or not judged yet


@dataclass(frozen=True)
class RowOrigin:
    """One conv row. ``position`` None: never written."""

    row: int
    position: int | None
    token: int | None = None
    kind: TokenKind | None = None
    request: str = ""
    hops: tuple[Hop, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class TemporalOrigin:
    """A temporal state. ``off`` is how far its bytes are, at most, from the history they are given
    to, or from the nearest if there is none; None where no history is that long."""

    absorbed: int
    request: str
    taken: tuple[Taken, ...]
    hops: tuple[Hop, ...]
    known: bool
    off: float | None = None


@dataclass(frozen=True)
class BlockOrigin:
    """All of a block's state in one layer after a frame. None: the layer has no such state."""

    block: int
    layer: int
    frame: int
    conv: tuple[RowOrigin, ...] | None
    temporal: TemporalOrigin | None

    @property
    def written(self) -> bool:
        rows = any(row.position is not None for row in self.conv or ())
        return rows or bool(self.temporal and (self.temporal.absorbed or self.temporal.hops))

    @property
    def known(self) -> bool:
        """Whether some request's history gives every byte."""
        rows = all(row.known for row in self.conv or ())
        return rows and (self.temporal is None or self.temporal.known)


def provenance(history: History, frame: int, block: int, layer: int) -> BlockOrigin:
    """Where the state of a block comes from, as it is after ``frame``, in one layer."""
    conv = temporal = None
    if history.spec(layer, "conv") is not None:
        positions = history.positions(layer, block, frame)
        conv = tuple(
            _row_origin(history, frame, block, layer, row, position)
            for row, position in enumerate(positions)
        )
    if history.spec(layer, "temporal") is not None:
        temporal = _temporal_origin(history, frame, block, layer)
    return BlockOrigin(block, layer, frame, conv, temporal)


# --------------------------------------------------------------------------------------
# Whose bytes they are
# --------------------------------------------------------------------------------------


def row_of(history: History, branch: Branch, layer: int, position: int) -> np.ndarray:
    """The conv input that a branch's token at ``position`` gives, [dim]."""
    return history.truth(branch, layer, position + 1).window[-1]


def kind_of(history: History, branch: Branch, position: int, frame: int) -> TokenKind:
    """What a branch's token was to its request, as far as a frame knows."""
    request = history.trace.steps[branch.step].requests[branch.request]
    if position < request.num_prompt_tokens:
        return "prompt"
    if position < request.num_tokens:
        return "generated"
    if frame < frame_of(branch.step, "accept"):
        return "draft"
    kept = position - request.num_tokens < (request.accepted_drafts or 0)
    return "draft accepted" if kept else "draft rejected"


def preferred(branches: Sequence[Branch], request: str | None) -> list[Branch]:
    """Branches of the request first: of several that begin alike, the one that wrote it."""
    return sorted(branches, key=lambda branch: branch.request != request)


def _row_origin(
    history: History, frame: int, block: int, layer: int, row: int, position: int | None
) -> RowOrigin:
    found = history.numbers((layer, "conv", block), frame)[row]
    if position is None:
        return RowOrigin(row, None, known=not found.any())
    hops = tuple(_row_hops(history, frame, block, layer, row, position))
    writer = hops[-1].request if hops else None
    step, _ = moment_of(frame)
    for branch in preferred(history.branches_with(position + 1, step), writer):
        if np.array_equal(row_of(history, branch, layer, position), found):
            kind = kind_of(history, branch, position, frame)
            return RowOrigin(row, position, branch.tokens[position], kind, branch.request, hops)
    return RowOrigin(row, position, hops=hops, known=False)


def _temporal_origin(history: History, frame: int, block: int, layer: int) -> TemporalOrigin:
    key: StateKey = (layer, "temporal", block)
    found, absorbed = history.numbers(key, frame), history.absorbed(layer, block, frame)
    if absorbed == 0:
        return TemporalOrigin(0, "", (), (), known=not found.any())
    hops, taken = _temporal_chain(history, frame, block, layer)
    writer = next((hop.request for hop in hops if hop.kind == "forward"), None)
    step, _ = moment_of(frame)
    nearest: float | None = None
    for branch in preferred(history.branches_with(absorbed, step), writer):
        truth = history.truth(branch, layer, absorbed)
        off = float(np.abs(truth.state - found).max())
        nearest = off if nearest is None else min(nearest, off)
        if compare_state(truth, found, history.trace.scenario.layer.cache_dtype).ok:
            return TemporalOrigin(absorbed, branch.request, taken, hops, True, off)
    return TemporalOrigin(absorbed, writer or "", taken, hops, False, nearest)


# --------------------------------------------------------------------------------------
# How they came here
# --------------------------------------------------------------------------------------


def _row_hops(
    history: History, frame: int, block: int, layer: int, row: int, position: int
) -> Iterator[Hop]:
    """From the row as it is back to the forward whose query brought its token."""
    carried: Hop | None = None
    while True:
        key: StateKey = (layer, "conv", block)
        at = history.last_write(key, frame)
        for hop in _hits(history, block, at, frame):
            if carried is not None:
                yield carried
                carried = None
            yield replace(hop, row=row)
        if at is None:
            break
        copy = _copy_of_row(history, key, at, row)
        if copy is not None:
            assert copy.src_block is not None
            if carried is not None:
                yield carried
                carried = None
            source_row = row + copy.bias
            yield Hop(at, copy.kind, copy.request, block, copy.src_block, row, source_row)
            block, row = copy.src_block, source_row
        elif not np.array_equal(history.numbers(key, at)[row], history.numbers(key, at - 1)[row]):
            step, phase = moment_of(at)
            name = history.writer(block, at)
            if phase in COPY_PHASES or name is None:
                yield Hop(at, "unknown", name or "", block, row=row)
                return
            request = history.trace.steps[step].requests[name]
            if position >= request.num_computed or at == 0:
                if carried is not None:
                    yield carried
                yield Hop(at, "forward", name, block, row=row)
                return
            source = _row_before(history, name, layer, position, block, at)
            if source is None:
                yield Hop(at, "unknown", name, block, row=row)
                return
            if carried is None:
                carried = Hop(at, "carried", name, block, source[0], row, source[1], at)
            else:
                carried = replace(carried, source=source[0], source_row=source[1], since=at)
            block, row = source
        frame = at - 1
    if carried is not None:
        yield carried


def _copy_of_row(history: History, key: StateKey, frame: int, row: int) -> BlockCopy | None:
    """The copy of a frame that brought this conv row, if one did."""
    for copy in history.copies_into(key, frame):
        assert copy.target is not None
        if row < rows_moved(history.trace, copy):
            return copy
    return None


def _row_before(
    history: History, request: str, layer: int, position: int, block: int, frame: int
) -> tuple[int, int] | None:
    """Where a forward found the row that it handed on: (block, row), its own block first."""
    wanted = history.numbers((layer, "conv", block), frame)
    row = history.positions(layer, block, frame).index(position)
    for other in _blocks_of(history, request, layer, block, frame):
        found = history.numbers((layer, "conv", other), frame - 1)
        same = np.flatnonzero((found == wanted[row]).all(axis=1))
        if same.size:
            return other, int(same[0])
    return None


def _blocks_of(
    history: History, request: str, layer: int, first: int, frame: int
) -> dict[int, None]:
    """The blocks of a request's row in a layer's group, ``first`` in front, then from the right."""
    row, group = history.row(request, frame), _group(history, layer)
    ids = row.worker_row[group] if row is not None else []
    return dict.fromkeys([first, *(block for block in reversed(ids) if block)])


def _group(history: History, layer: int) -> int:
    return next(spec.group for spec in history.trace.states if spec.layer == layer)


def _temporal_chain(
    history: History, frame: int, block: int, layer: int
) -> tuple[tuple[Hop, ...], tuple[Taken, ...]]:
    """Back through copies and forwards to token 0: the hops, and the tokens of each forward."""
    hops: list[Hop] = []
    taken: list[Taken] = []
    while True:
        key: StateKey = (layer, "temporal", block)
        at = history.last_write(key, frame)
        hops += _hits(history, block, at, frame)
        if at is None:
            break
        step, _ = moment_of(at)
        copies = history.copies_into(key, at)
        if copies:
            source = copies[0].src_block
            assert source is not None
            hops.append(Hop(at, copies[0].kind, copies[0].request, block, source))
            block, frame = source, at - 1
            continue
        name = history.writer(block, at)
        if name is None:
            hops.append(Hop(at, "unknown", "", block))
            break
        absorbed = history.absorbed(layer, block, at)
        read = _read_by(history, name, layer, absorbed, at)
        first = 0 if read is None else history.absorbed(layer, read, at - 1)
        taken.append(_taken(history, name, step, first, absorbed - 1))
        hops.append(Hop(at, "forward", name, block, read))
        if read is None:
            break
        block, frame = read, at - 1
    return tuple(hops), tuple(reversed(taken))


def _taken(history: History, name: str, step: int, first: int, last: int) -> Taken:
    request = history.trace.steps[step].requests[name]
    final = request.num_computed + request.num_scheduled - request.drafts
    kept = final + (request.accepted_drafts or 0)
    return Taken(first, last, name, step, last < kept)


def _read_by(history: History, name: str, layer: int, absorbed: int, frame: int) -> int | None:
    """The block whose temporal state a forward went on from, None if it started from zero.

    The one that the running column and the accepted count point at; else any of the row that
    holds the state after as many tokens as had been computed.
    """
    step, _ = moment_of(frame)
    computed = history.trace.steps[step].requests[name].num_computed
    row = history.row(name, frame)
    if computed == 0 or row is None:
        return None
    ids = row.worker_row[_group(history, layer)]
    at = (row.state_col or 0) + max(0, row.num_accepted - 1)
    pointed = [block for block in ids[at : at + 1] if block]
    others = [
        block
        for block in reversed(ids)
        if block and history.absorbed(layer, block, frame - 1) == computed
    ]
    candidates = [block for block in pointed if block in others] or others or pointed
    return next(
        (block for block in candidates if 0 < history.absorbed(layer, block, frame - 1) < absorbed),
        None,
    )


def _hits(history: History, block: int, written: int | None, frame: int) -> list[Hop]:
    """Requests that found the block in the cache since it was written; the latest first."""
    since = -1 if written is None else written
    return [
        Hop(found.frame, "hit", found.request, block)
        for found in reversed(history.hits)
        if block in found.blocks and since < found.frame <= frame
    ]
