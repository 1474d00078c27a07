"""Two traces of one scenario, held against each other as section 1 defines equal.

Decisions, ids, metadata, copies and the window rows must be the same, byte for byte; temporal
states and outputs may differ within the tolerance of their dtype, relative to the largest
value of the tensor. That is how back ends are compared (section 5.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from mambaviz.trace import BlockChange, Phase, StateKind, Step, Trace


@dataclass
class TraceDifference:
    """What differs: ``problems`` in words (empty when equal), ``worst`` relative difference.

    ``compared`` counts the numbers that were granted a tolerance.
    """

    problems: list[str] = field(default_factory=list)
    worst: float = 0.0
    compared: int = 0

    @property
    def equal(self) -> bool:
        return not self.problems


def compare_traces(one: Trace, other: Trace, tolerance: float) -> TraceDifference:
    """Compare step by step and phase by phase; the back ends' names may differ."""
    found = TraceDifference()
    if one.scenario_hash != other.scenario_hash:
        found.problems.append("the traces are of different scenarios")
        return found
    if len(one.steps) != len(other.steps):
        found.problems.append(f"{len(one.steps)} steps against {len(other.steps)}")
    for left, right in zip(one.steps, other.steps, strict=False):
        _compare_steps(one, left, right, tolerance, found)
    return found


def _compare_steps(
    trace: Trace, one: Step, other: Step, tolerance: float, found: TraceDifference
) -> None:
    where = f"step {one.index}"
    ignored = {"phases", "checks", "requests"}
    if one.model_dump(exclude=ignored) != other.model_dump(exclude=ignored):
        found.problems.append(f"{where}: schedule, metadata or verdicts differ")
    for name, request in one.requests.items():
        twin = other.requests.get(name)
        if twin is None or request.model_dump(exclude={"outputs"}) != twin.model_dump(
            exclude={"outputs"}
        ):
            found.problems.append(f"{where}: request {name} differs")
            continue
        for layer, record in request.outputs.items():
            _compare_numbers(
                np.asarray(record.values, np.float64),
                np.asarray(twin.outputs[layer].values, np.float64),
                f"{where}: output of {name}, layer {layer}",
                tolerance,
                found,
            )
    for left, right in zip(one.phases, other.phases, strict=True):
        for problem in _compare_ids(left, right):
            found.problems.append(f"{where}, {left.name}: {problem}")
        _compare_changes(trace, left, right, where, tolerance, found)


def _compare_ids(one: Phase, other: Phase) -> Iterator[str]:
    for name in ("tables", "decisions", "copies", "launches", "bytes_unexplained"):
        if getattr(one, name) != getattr(other, name):
            yield f"{name} differ"


def _compare_changes(
    trace: Trace,
    one: Phase,
    other: Phase,
    where: str,
    tolerance: float,
    found: TraceDifference,
) -> None:
    left, right = _by_place(one), _by_place(other)
    if left.keys() != right.keys():
        found.problems.append(f"{where}, {one.name}: other blocks changed")
        return
    for (layer, state, block), change in left.items():
        twin = right[layer, state, block]
        words = f"{where}, {one.name}: block {block}, layer {layer} {state}"
        if state == "conv":
            if change.data != twin.data:
                found.problems.append(f"{words}: window rows differ")
            continue
        spec = trace.spec_of[layer, state]
        numbers, others = spec.decode(change.raw), spec.decode(twin.raw)
        if not np.array_equal(numbers[0], others[0]):
            found.problems.append(f"{words}: the readable head differs")
        _compare_numbers(numbers, others, words, tolerance, found)


def _by_place(phase: Phase) -> dict[tuple[int, StateKind, int], BlockChange]:
    return {(change.layer, change.state, change.block): change for change in phase.changes}


def _compare_numbers(
    one: np.ndarray, other: np.ndarray, words: str, tolerance: float, found: TraceDifference
) -> None:
    if one.shape != other.shape:
        found.problems.append(f"{words}: shapes {one.shape} and {other.shape}")
        return
    if one.size == 0:
        return
    scale = max(float(np.abs(one).max()), float(np.abs(other).max())) or 1.0
    worst = float(np.abs(one.astype(np.float64) - other).max()) / scale
    found.compared += one.size
    found.worst = max(found.worst, worst)
    if not worst <= tolerance:  # NaN is never right
        found.problems.append(f"{words}: {worst:.3g} apart, relative to the largest value")
