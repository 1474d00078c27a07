"""What can be said of a run after a phase, fact by fact, and in which facts runs differ.

Two runs are held against each other where `mambaviz.alignment` sets them side by side. A fact is
a short text under a key: the block at a column, the ``h(n)`` and the window its bytes say, a
metadata field, a copy, a broken invariant. Runs differ in a fact if their texts do; a fact that
only one of them has differs too. Pure: traces in, texts out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from mambaviz.alignment import Moment
from mambaviz.trace import (
    PHASES,
    Metadata,
    MetadataField,
    Phase,
    PhaseName,
    RequestStep,
    RowTables,
    StateKind,
    Step,
    Tables,
    TensorRecord,
    Trace,
    tokens_absorbed,
    window_rows,
)

FactKind = Literal[
    "schedule", "blocks", "worker row", "state", "copies", "metadata", "outputs", "invariants"
]
FACT_KINDS: tuple[FactKind, ...] = get_args(FactKind)

OUTPUT_TOLERANCE = 1e-5  # relative to the largest value, section 1 for float32

# The phase from whose end on a fact of a whole step is known.
_METADATA, _FORWARD, _ACCEPT = (PHASES.index(name) for name in ("metadata", "forward", "accept"))


class Fact(NamedTuple):
    """What a fact is about. ``request`` is empty where it concerns none, ``item`` names the rest:
    ``column 2``, ``computed``, a metadata field."""

    kind: FactKind
    request: str
    item: str


Facts = Mapping[Fact, str]


@dataclass(frozen=True)
class Difference:
    """One fact in which runs differ; None where a run does not have it."""

    fact: Fact
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Parting:
    """Where runs differ for the first time."""

    moment: int  # index
    phase: PhaseName
    differences: tuple[Difference, ...]


class RunFacts:
    """The facts of a run for one layer, phase by phase; ``layer`` is whose states are read.

    A phase shows the lists and states of the layer's cache group, and what the step had decided
    by its end.
    """

    def __init__(self, trace: Trace, layer: int) -> None:
        self.trace = trace
        self.layer = layer
        self.group = next(spec.group for spec in trace.states if spec.layer == layer)
        self.phases: list[dict[Fact, str]] = list(self._walk())

    def at(self, step: int, phase: PhaseName) -> Facts:
        return self.phases[step * len(PHASES) + PHASES.index(phase)]

    def _walk(self) -> Iterator[dict[Fact, str]]:
        labels: dict[int, str] = {}
        rows: dict[Fact, str] = {}
        tables_seen: Tables | None = None
        for step, phase, tables, contents in self.trace.walk():
            changed = {change.block for change in phase.changes if change.layer == self.layer}
            for block in changed:
                labels[block] = self._label(block, contents)
            if changed or tables is not tables_seen:
                rows, tables_seen = dict(self._row_facts(tables, labels)), tables
            yield {**rows, **dict(self._step_facts(step, phase))}

    # ------------------------------------------------------------------ lists and states

    def _row_facts(self, tables: Tables, labels: Mapping[int, str]) -> Iterator[tuple[Fact, str]]:
        for request, row in tables.rows.items():
            yield from self._row(request, row, labels)

    def _row(
        self, request: str, row: RowTables, labels: Mapping[int, str]
    ) -> Iterator[tuple[Fact, str]]:
        for column, block in enumerate(row.block_list[self.group]):
            item = f"column {column}"
            yield Fact("blocks", request, item), str(block) if block else "∅"
            if block:
                yield Fact("state", request, item), labels.get(block, "empty")
        ids = " ".join(str(block) if block else "∅" for block in row.worker_row[self.group])
        yield Fact("worker row", request, "ids"), f"[{ids}]"

    def _label(self, block: int, contents: Mapping[tuple[int, StateKind, int], bytes]) -> str:
        """``h(8) [t5 t6 t7 –]``, read from the bytes (section 5.1); all rows of the conv state."""
        parts = []
        for state in ("temporal", "conv"):
            spec = self.trace.spec_of.get((self.layer, state))
            raw = contents.get((self.layer, state, block))
            if spec is None or raw is None:
                continue
            values = spec.decode(raw)
            if state == "temporal":
                parts.append(f"h({tokens_absorbed(values)})")
            else:
                rows = window_rows(values, self.trace.scenario.engine.layout)
                names = ("–" if token is None else f"t{token}" for token in rows)
                parts.append(f"[{' '.join(names)}]")
        return " ".join(parts)

    # ------------------------------------------------------------------ what the step decided

    def _step_facts(self, step: Step, phase: Phase) -> Iterator[tuple[Fact, str]]:
        now = PHASES.index(phase.name)
        for name, request in step.requests.items():
            yield from _schedule_facts(name, request, step, now)
        for names, fact in ((step.preempted, "preempted"), (step.waiting, "waiting")):
            for name in names:
                yield Fact("schedule", name, fact), "yes"
        for done in step.phases[: now + 1]:
            yield from self._copies(done)
        if now >= _METADATA:
            for metadata in step.metadata:
                yield from self._metadata(metadata)
        broken = {
            violation.invariant
            for violation in step.violations
            if PHASES.index(violation.phase) <= now
        }
        for invariant in sorted(broken):
            yield Fact("invariants", "", invariant), "broken"

    def _copies(self, phase: Phase) -> Iterator[tuple[Fact, str]]:
        for copy in phase.copies:
            if copy.layer == self.layer:
                told = f"{copy.src_block} → {copy.dst_block}, bias {copy.bias}"
                told += f", {copy.num_bytes} B" if copy.skipped is None else ", skipped"
                yield Fact("copies", copy.request, f"{copy.kind} {copy.state}"), told
        if phase.bytes_unexplained:
            item = f"bytes unlike the copies, {phase.name}"
            yield Fact("copies", "", item), str(phase.bytes_unexplained)

    def _metadata(self, metadata: Metadata) -> Iterator[tuple[Fact, str]]:
        if metadata.group == self.group:
            for field in metadata.fields:
                yield Fact("metadata", "", field.name), field_text(field)


def _schedule_facts(
    name: str, request: RequestStep, step: Step, now: int
) -> Iterator[tuple[Fact, str]]:
    yield Fact("schedule", name, "computed"), str(request.num_computed)
    yield Fact("schedule", name, "scheduled"), str(request.num_scheduled)
    if request.drafts:
        yield Fact("schedule", name, "drafts"), str(request.drafts)
    if now >= _ACCEPT and request.accepted_drafts is not None:
        yield Fact("schedule", name, "accepted"), str(request.accepted_drafts + 1)
    if now >= _ACCEPT:
        yield Fact("schedule", name, "computed after"), str(step.num_computed_after[name])


def field_text(field: MetadataField, limit: int = 60) -> str:
    """A metadata field in one short line."""
    value = field.value
    if isinstance(value, TensorRecord):
        text = str(value.values).replace("'", "")
        if value.fill is not None:
            text = f"{text[:-1]}, … {value.fill}]"
    else:
        text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --------------------------------------------------------------------------------------
# Runs against each other
# --------------------------------------------------------------------------------------


def differences(
    runs: Sequence[RunFacts], moment: Moment, phase: PhaseName
) -> tuple[Difference, ...]:
    """Facts in which the runs differ after a phase of a moment, in the order of `FactKind`.

    A run without a step at this moment has ended or not begun: it is left out, and with fewer
    than two runs nothing differs.
    """
    facts = [
        None if step is None else run.at(step, phase)
        for run, step in zip(runs, moment.steps, strict=True)
    ]
    present = [found for found in facts if found is not None]
    if len(present) < 2:
        return ()
    keys = dict.fromkeys(key for found in present for key in found)
    found = [
        Difference(key, tuple(None if run is None else run.get(key) for run in facts))
        for key in keys
        if len({run.get(key) for run in present}) > 1
    ]
    found += _output_differences(runs, moment, phase)
    return tuple(sorted(found, key=lambda one: FACT_KINDS.index(one.fact.kind)))


def parting(runs: Sequence[RunFacts], moments: Sequence[Moment]) -> Parting | None:
    """The first phase in which the runs differ; None if they never do."""
    for index, moment in enumerate(moments):
        for phase in PHASES:
            found = differences(runs, moment, phase)
            if found:
                return Parting(index, phase, found)
    return None


def _output_differences(
    runs: Sequence[RunFacts], moment: Moment, phase: PhaseName
) -> Iterator[Difference]:
    """Layer outputs of queries over the same tokens, against the first run that has them."""
    if PHASES.index(phase) < _FORWARD:
        return
    steps = [
        None if step is None else run.trace.steps[step]
        for run, step in zip(runs, moment.steps, strict=True)
    ]
    names = dict.fromkeys(name for step in steps if step is not None for name in step.requests)
    for name in names:
        requests = [None if step is None else step.requests.get(name) for step in steps]
        apart = _apart(requests, runs[0].layer)
        if any(d is not None and not d <= OUTPUT_TOLERANCE for d in apart):  # NaN is never right
            told = tuple(None if d is None else "" if d == 0 else f"{d:.2g} apart" for d in apart)
            yield Difference(Fact("outputs", name, "outputs"), told)


def _apart(requests: Sequence[RequestStep | None], layer: int) -> list[float | None]:
    """Largest relative difference of each run's kept outputs from the first run's.

    None without outputs, or where the query is over other tokens.
    """
    base = next((request for request in requests if request is not None), None)
    if base is None:
        return [None] * len(requests)
    return [
        None
        if request is None or not _same_query(base, request)
        else _distance(base, request, layer)
        for request in requests
    ]


def _same_query(one: RequestStep, other: RequestStep) -> bool:
    return (one.num_computed, one.tokens) == (other.num_computed, other.tokens)


def _distance(one: RequestStep, other: RequestStep, layer: int) -> float:
    first = np.asarray(one.outputs[layer].values, np.float64)
    second = np.asarray(other.outputs[layer].values, np.float64)
    kept = one.num_scheduled - one.drafts + (one.accepted_drafts or 0)
    first, second = first[:kept], second[:kept]
    scale = max(float(np.abs(first).max(initial=0)), float(np.abs(second).max(initial=0))) or 1.0
    return float(np.abs(first - second).max(initial=0)) / scale
