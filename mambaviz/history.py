"""A finished run, looked up: what a block's bytes were, who wrote them, which tokens were known.

A trace says what changed in each phase. A `History` turns that around, once a run, so that any
question about a moment is answered without walking the run again. Moments are counted in frames:
eight phases a step, ``frame_of(step, phase)``.

Pure: a trace in. Whether bytes are the state after certain tokens is asked of the oracle, which
recomputes those tokens from token 0; torch is not needed for any of it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mambaviz.layer import layer_params
from mambaviz.oracle import AcceptedSequence, LayerTruth, Oracle
from mambaviz.trace import (
    PHASES,
    BlockCopy,
    Phase,
    PhaseName,
    RowTables,
    StateKind,
    StateSpec,
    Step,
    Tables,
    Trace,
    tokens_absorbed,
    window_rows,
)

StateKey = tuple[int, StateKind, int]  # layer, state, block
COPY_PHASES: tuple[PhaseName, ...] = ("pre-copy", "post-copy")


def frame_of(step: int, phase: PhaseName) -> int:
    """Phases counted through the whole run, from 0."""
    return step * len(PHASES) + PHASES.index(phase)


def moment_of(frame: int) -> tuple[int, PhaseName]:
    """The step and the phase of a frame."""
    step, phase = divmod(frame, len(PHASES))
    return step, PHASES[phase]


@dataclass(frozen=True)
class AtFrame:
    """Something that is of one frame."""

    frame: int

    @property
    def step(self) -> int:
        return moment_of(self.frame)[0]

    @property
    def phase(self) -> PhaseName:
        return moment_of(self.frame)[1]


@dataclass(frozen=True)
class Branch:
    """The tokens that a request's query of one step stood on and brought: accepted ones up to
    ``computed``, then the query with its drafts, whatever became of them."""

    request: str
    step: int
    computed: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class CacheHit:
    """An admission that began with ``blocks`` from the cache, at the frame of its allocation."""

    frame: int
    request: str
    blocks: frozenset[int]


class History:
    """A trace with its contents by block, its tables by frame and its tokens by request."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.oracle = Oracle(layer_params(trace.scenario.layer))
        self.tables: list[Tables] = []  # after each frame
        self._changes: dict[StateKey, tuple[list[int], list[bytes]]] = {}
        self._writes: dict[StateKey, list[int]] = {}
        self._truths: dict[tuple[int, ...], AcceptedSequence] = {}
        tables = trace.initial_tables
        for frame, (_, phase) in enumerate(phases_of(trace)):
            tables = phase.tables or tables
            self.tables.append(tables)
            self._note(frame, phase)

    def _note(self, frame: int, phase: Phase) -> None:
        written: dict[StateKey, None] = {}
        for change in phase.changes:
            key = (change.layer, change.state, change.block)
            frames, contents = self._changes.setdefault(key, ([], []))
            frames.append(frame)
            contents.append(change.raw)
            written[key] = None
        for copy in phase.copies:  # may bring the very bytes that were there
            if copy.target is not None and copy.dst_block is not None:
                written[copy.layer, copy.state, copy.dst_block] = None
        for key in written:
            self._writes.setdefault(key, []).append(frame)

    # ---------------------------------------------------------------- bytes

    def spec(self, layer: int, state: StateKind) -> StateSpec | None:
        """None in a layer without that state."""
        return self.trace.spec_of.get((layer, state))

    def raw(self, key: StateKey, frame: int) -> bytes:
        """A block's state after a frame; zeros before it was ever written."""
        frames, contents = self._changes.get(key, ([], []))
        at = bisect_right(frames, frame)
        return contents[at - 1] if at else bytes(self.trace.spec_of[key[:2]].num_bytes)

    def numbers(self, key: StateKey, frame: int) -> np.ndarray:
        """The same as numbers; conv with tokens first, ``[state_len, dim]``, in either layout."""
        spec = self.trace.spec_of[key[:2]]
        found = spec.decode(self.raw(key, frame))
        by_channel = spec.state == "conv" and self.trace.scenario.engine.layout == "DS"
        return found.T if by_channel else found

    def positions(self, layer: int, block: int, frame: int) -> list[int | None]:
        """Token position that each conv row says it holds."""
        return window_rows(self.numbers((layer, "conv", block), frame), "SD")

    def absorbed(self, layer: int, block: int, frame: int) -> int:
        """How many tokens the temporal state says it has taken in."""
        return tokens_absorbed(self.numbers((layer, "temporal", block), frame))

    def last_write(self, key: StateKey, frame: int) -> int | None:
        """The latest frame, this one included, that wrote the block's state; None: none did."""
        frames = self._writes.get(key, [])
        at = bisect_right(frames, frame)
        return frames[at - 1] if at else None

    def written_in(self, step: int) -> list[StateKey]:
        """What the phases of a step wrote, in their order, each once."""
        first, last = frame_of(step, PHASES[0]), frame_of(step, PHASES[-1])
        found = [
            (self.last_write(key, last), key)
            for key, frames in self._writes.items()
            if bisect_right(frames, last) > bisect_right(frames, first - 1)
        ]
        return [key for _, key in sorted(found, key=lambda one: (one[0] or 0, one[1]))]

    # ---------------------------------------------------------------- who

    def writer(self, block: int, frame: int) -> str | None:
        """The request whose query a forward computed into this block."""
        step, _ = moment_of(frame)
        holders = [
            (role == "cached", name)
            for name, role in self.holders(block, frame)
            if name in self.trace.steps[step].requests and role != "retired"
        ]
        return min(holders)[1] if holders else None

    def holders(self, block: int, frame: int) -> Iterator[tuple[str, str]]:
        """Requests whose worker row names a block, with the role that it has there."""
        for name, row in self.tables[frame].rows.items():
            for ids, roles in zip(row.worker_row, row.roles, strict=True):
                for found, role in zip(ids, roles, strict=True):
                    if found == block:
                        yield name, role

    def row(self, request: str, frame: int) -> RowTables | None:
        return self.tables[frame].rows.get(request)

    def copies_into(self, key: StateKey, frame: int) -> list[BlockCopy]:
        """The copies of a frame that went to this state of this block."""
        step, phase = moment_of(frame)
        return [
            copy
            for copy in self.trace.steps[step].phase(phase).copies
            if (copy.layer, copy.state, copy.dst_block) == key and copy.target is not None
        ]

    @cached_property
    def hits(self) -> list[CacheHit]:
        """Every prefix hit of the run, in order."""
        size = self.trace.scenario.engine.effective_block_size
        found = []
        for step in self.trace.steps:
            for name in step.order:
                request = step.requests[name]
                frame = frame_of(step.index, "allocate")
                row = self.row(name, frame)
                if request.event == "running" or request.num_computed == 0 or row is None:
                    continue
                columns = request.num_computed // size
                blocks = {block for ids in row.block_list for block in ids[:columns] if block}
                found.append(CacheHit(frame, name, frozenset(blocks)))
        return found

    # ---------------------------------------------------------------- tokens

    @cached_property
    def branches(self) -> list[Branch]:
        """Every query of the run on top of the tokens before it, in order."""
        scenario = self.trace.scenario
        known = {plan.id: scenario.prompt_of(i) for i, plan in enumerate(scenario.requests)}
        found = []
        for step in self.trace.steps:
            for name in step.order:
                request = step.requests[name]
                del known[name][request.num_tokens :]
                tokens = (*known[name][: request.num_computed], *request.tokens)
                found.append(Branch(name, step.index, request.num_computed, tokens))
                known[name] += request.sampled
        return found

    def branches_with(self, length: int, step: int) -> list[Branch]:
        """Branches of steps up to ``step`` that have this many tokens; the latest first, and of
        one request each run of tokens once."""
        found: dict[tuple[str, tuple[int, ...]], Branch] = {}
        for branch in reversed(self.branches):
            if branch.step <= step and len(branch.tokens) >= length:
                found.setdefault((branch.request, branch.tokens[:length]), branch)
        return list(found.values())

    def truth(self, branch: Branch, layer: int, length: int) -> LayerTruth:
        """What the oracle says about a branch's first tokens."""
        sequence = self._truths.get(branch.tokens)
        if sequence is None:
            sequence = self._truths[branch.tokens] = self.oracle.sequence(branch.tokens)
        return sequence.truth_after(layer, length)


def phases_of(trace: Trace) -> Iterator[tuple[Step, Phase]]:
    """Every phase of a run in order; its position is its frame."""
    for step in trace.steps:
        for phase in step.phases:
            yield step, phase


def rows_moved(trace: Trace, copy: BlockCopy) -> int:
    """Token rows in a conv copy: SD one run of whole rows, DS as many elements a channel."""
    if copy.source is None:
        return 0
    spec = trace.spec_of[copy.layer, copy.state]
    size = spec.num_bytes // math.prod(spec.shape)
    if trace.scenario.engine.layout == "DS":
        return copy.source.length // size
    return copy.source.length // (size * spec.shape[1])
