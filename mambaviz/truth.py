"""One step by every back end, held against the same step computed from token 0.

A `Measured` says of one run and one step how far the states that the step wrote, and its outputs,
lie from what the oracle makes of the same tokens, and whether each copy's bytes arrived as they
were. Nothing is computed here but the oracle's numbers: the run is what its trace says.

A state is judged by what its own bytes say it is: the temporal state h(n) against n tokens of the
request that wrote it, a conv row that names token p against the input of token p.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mambaviz.history import Branch, History, StateKey, frame_of
from mambaviz.oracle import compare_output, compare_state, tolerance
from mambaviz.provenance import preferred, row_of
from mambaviz.trace import PHASES, BlockCopy, ByteRange, Trace

Quantity = Literal["conv", "temporal", "outputs"]
QUANTITIES: tuple[Quantity, ...] = ("conv", "temporal", "outputs")


@dataclass(frozen=True)
class Distance:
    """How far one kind of number is from the oracle's in a step.

    ``largest`` is absolute and None where nothing was compared; ``unknown`` counts the rows and
    states whose label no request's history reaches. ``worst`` names the place that is beyond the
    tolerance, or is empty.
    """

    compared: int
    largest: float | None
    unknown: int = 0
    worst: str = ""

    @property
    def ok(self) -> bool:
        return not self.unknown and not self.worst


@dataclass(frozen=True)
class Measured:
    """One run's step. ``copies`` were decided on and done, ``equal`` of them byte for byte."""

    conv: Distance
    temporal: Distance
    outputs: Distance
    copies: int
    equal: int

    @property
    def ok(self) -> bool:
        distances = (self.conv, self.temporal, self.outputs)
        return all(distance.ok for distance in distances) and self.copies == self.equal


def measure(history: History, step: int) -> Measured:
    """A step of a run against the plain recurrence from token 0."""
    copies = list(_copies(history, step))
    return Measured(
        conv=_conv(history, step),
        temporal=_temporal(history, step),
        outputs=_outputs(history, step),
        copies=len(copies),
        equal=sum(_arrived(history, frame, copy) for frame, copy in copies),
    )


def allowed(trace: Trace) -> float:
    """The tolerance of the run's cache dtype, relative to the largest value (section 1)."""
    return tolerance(trace.scenario.layer.cache_dtype)


def between(one: History, other: History, step: int) -> dict[Quantity, float | None]:
    """The largest difference between two runs in what a step wrote and put out; None: nothing
    that both have."""
    frame = frame_of(step, PHASES[-1])
    if max(len(one.trace.steps), len(other.trace.steps)) <= step:
        return dict.fromkeys(QUANTITIES)
    gaps: dict[Quantity, list[float]] = {name: [] for name in QUANTITIES}
    for key in {*one.written_in(step), *other.written_in(step)}:
        gaps[key[1]].append(_gap(one.numbers(key, frame), other.numbers(key, frame)))
    for name, request in one.trace.steps[step].requests.items():
        twin = other.trace.steps[step].requests.get(name)
        for layer, record in request.outputs.items():
            if twin is not None and layer in twin.outputs:
                found = np.asarray(twin.outputs[layer].values, np.float64)
                mine = np.asarray(record.values, np.float64)
                if mine.shape == found.shape:
                    gaps["outputs"].append(_gap(mine, found))
    return {name: max(found) if found else None for name, found in gaps.items()}


def _gap(one: np.ndarray, other: np.ndarray) -> float:
    gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


# --------------------------------------------------------------------------------------
# Against the oracle
# --------------------------------------------------------------------------------------


class _Tally:
    """Comparisons as they come in."""

    def __init__(self) -> None:
        self.compared = 0
        self.largest: float | None = None
        self.unknown = 0
        self.worst = ""

    def add(self, off: float, compared: int, worst: str) -> None:
        self.compared += compared
        if self.largest is None or off > self.largest:
            self.largest = off
        self.worst = self.worst or worst

    def distance(self) -> Distance:
        return Distance(self.compared, self.largest, self.unknown, self.worst)


def _conv(history: History, step: int) -> Distance:
    """Every written conv row: the input of the token that it names, to the last bit."""
    tally, frame = _Tally(), frame_of(step, PHASES[-1])
    for key in history.written_in(step):
        layer, state, block = key
        if state != "conv":
            continue
        rows = history.numbers(key, frame)
        for row, position in enumerate(history.positions(layer, block, frame)):
            if position is None:
                continue
            branches = history.branches_with(position + 1, step)
            offs = [
                _gap(row_of(history, branch, layer, position), rows[row]) for branch in branches
            ]
            if not offs:
                tally.unknown += 1
                continue
            off = min(offs)
            where = f"block {block}, layer {layer}, row {row} (t{position})"
            tally.add(off, rows.shape[1], where if off else "")
    return tally.distance()


def _temporal(history: History, step: int) -> Distance:
    tally, frame = _Tally(), frame_of(step, PHASES[-1])
    dtype = history.trace.scenario.layer.cache_dtype
    for key in history.written_in(step):
        layer, state, block = key
        if state != "temporal":
            continue
        found, absorbed = history.numbers(key, frame), history.absorbed(layer, block, frame)
        candidates = _of_the_writer(history, key, frame, absorbed, step)
        if not candidates:
            tally.unknown += 1
            continue
        judged = [
            (compare_state(truth, found, dtype), _gap(truth.state, found))
            for truth in (history.truth(branch, layer, absorbed) for branch in candidates)
        ]
        result, off = min(judged, key=lambda one: (not one[0].ok, one[1]))
        where = f"block {block}, layer {layer}, h({absorbed})"
        tally.add(off, result.compared, "" if result.ok else where)
    return tally.distance()


def _of_the_writer(
    history: History, key: StateKey, frame: int, length: int, step: int
) -> list[Branch]:
    """The histories that a state may be the state of: its writer's, where the run says who."""
    at = history.last_write(key, frame)
    assert at is not None
    copies = history.copies_into(key, at)
    writer = copies[0].request if copies else history.writer(key[2], at)
    branches = preferred(history.branches_with(length, step), writer)
    own = [branch for branch in branches if branch.request == writer]
    return own or branches


def _outputs(history: History, step: int) -> Distance:
    """Every output of the step, of rejected drafts as well: their tokens are known too."""
    tally, dtype = _Tally(), history.trace.scenario.layer.cache_dtype
    branches = {branch.request: branch for branch in history.branches if branch.step == step}
    for name, request in history.trace.steps[step].requests.items():
        for layer, record in request.outputs.items():
            for offset, values in enumerate(record.values):
                position = request.num_computed + offset
                truth = history.truth(branches[name], layer, position + 1)
                assert truth.output is not None
                found = np.asarray(values, np.float64)
                result = compare_output(truth, found, dtype)
                where = f"output of {name} at token {position}, layer {layer}"
                tally.add(_gap(truth.output, found), found.size, "" if result.ok else where)
    return tally.distance()


# --------------------------------------------------------------------------------------
# Copies
# --------------------------------------------------------------------------------------


def _copies(history: History, step: int) -> Iterator[tuple[int, BlockCopy]]:
    """The copies of a step that were done, with their frames."""
    for phase in history.trace.steps[step].phases:
        for copy in phase.copies:
            if copy.source is not None and copy.target is not None:
                yield frame_of(step, phase.name), copy


def _arrived(history: History, frame: int, copy: BlockCopy) -> bool:
    """Whether the bytes that a copy wrote are those that it read, as they were before it."""
    assert copy.source is not None
    assert copy.target is not None
    assert copy.src_block is not None
    assert copy.dst_block is not None
    before = history.raw((copy.layer, copy.state, copy.src_block), frame - 1)
    after = history.raw((copy.layer, copy.state, copy.dst_block), frame)
    return list(_pieces(before, copy.source)) == list(_pieces(after, copy.target))


def _pieces(raw: bytes, part: ByteRange) -> Iterator[bytes]:
    for row in range(part.rows):
        start = part.start + row * part.stride
        yield raw[start : start + part.length]
