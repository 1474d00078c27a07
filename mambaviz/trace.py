"""What happened, in full: the record every picture, notebook and test is made from.

A `Trace` is complete (a page can be drawn from a saved one on a machine without torch),
serialisable and deterministic: the same scenario on the same back end and versions gives
the same JSON. It says what the scheduler decided, which ids stood in which list, what each
kernel was launched with and decided, which bytes changed, and what the oracle thought of
it. Nothing in here is computed from a picture; pictures compute nothing about Mamba.

    Trace ── Step ── Phase ── KernelLaunch, Decision, BlockCopy
                 │        └── BlockChange (bytes), Tables (ids, roles), when they changed
                 └── RequestStep, Metadata, Violation, InvariantCheck

Importing this module costs no torch.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from mambaviz.scenario import Scenario

FORMAT_VERSION = 1

PhaseName = Literal[
    "schedule", "allocate", "pre-copy", "metadata", "forward", "accept", "post-copy", "commit"
]
PHASES: tuple[PhaseName, ...] = (
    "schedule",
    "allocate",
    "pre-copy",
    "metadata",
    "forward",
    "accept",
    "post-copy",
    "commit",
)
Invariant = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7"]
INVARIANTS: tuple[Invariant, ...] = ("I1", "I2", "I3", "I4", "I5", "I6", "I7")
Role = Literal["null", "cached", "running", "previous", "speculative", "retired", "free"]
StateKind = Literal["conv", "temporal"]
CopyKind = Literal["migrate", "checkpoint"]
RowClass = Literal["decode", "short extend", "prefill"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TensorRecord(_Record):
    """A small tensor as it was: nested lists, row-major.

    ``fill`` says that ``values`` holds the head of a 1-D tensor only and every entry behind
    it equals ``fill`` (the padded program lists of section 4.5). Without it, ``values`` smaller
    than ``shape`` are the first entries along each axis of a large tensor (a recording's).
    """

    dtype: str
    shape: list[int]
    values: Any
    fill: int | None = None

    @property
    def held(self) -> list[int]:
        """Entries along each axis that ``values`` has."""
        lengths, values = [], self.values
        while isinstance(values, list):
            lengths.append(len(values))
            values = values[0] if values else None
        return lengths

    @property
    def holds_all(self) -> bool:
        """Whether ``values`` alone is the whole tensor."""
        return self.held == self.shape[: len(self.held)]


class StateSpec(_Record):
    """One state tensor of one layer and where it lies in the layer's page.

    ``shape`` is one block's: conv SD ``[state_len, dim]``, conv DS ``[dim, state_len]``,
    temporal ``[heads, head_dim, d_state]``. ``offset`` and ``page_bytes`` are bytes.
    """

    layer: int
    layer_name: str
    group: int
    state: StateKind
    index: int  # position in the copy kernels' metadata tensors
    shape: list[int]
    dtype: Literal["float32", "float16", "bfloat16"]
    offset: int
    page_bytes: int

    @property
    def num_bytes(self) -> int:
        """Natural bytes of one block's state."""
        return math.prod(self.shape) * (4 if self.dtype == "float32" else 2)

    def decode(self, raw: bytes) -> np.ndarray:
        """One block's natural bytes as float32 numbers of `shape`."""
        return decode_floats(raw, self.dtype).reshape(self.shape)


def decode_floats(raw: bytes, dtype: str) -> np.ndarray:
    """Little-endian bytes of a cache dtype as float32 numbers."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, {"float32": "<f4", "float16": "<f2"}[dtype]).astype(np.float32)


class BlockChange(_Record):
    """New content of one block's state after a phase; unchanged blocks have no entry."""

    layer: int
    state: StateKind
    block: int
    data: str  # base64 of the natural bytes (padding left out)

    @property
    def raw(self) -> bytes:
        return base64.b64decode(self.data)


class ByteRange(_Record):
    """``rows`` pieces of ``length`` bytes, ``stride`` bytes apart, in one block's state."""

    start: int
    length: int
    rows: int = 1
    stride: int = 0


class BlockCopy(_Record):
    """One state-block copy (section 3.1) that a launch decided on, done or skipped."""

    kind: CopyKind
    request: str
    group: int
    layer: int
    state: StateKind
    src_col: int
    dst_col: int
    src_block: int | None  # None: the column lies outside the row
    dst_block: int | None
    bias: int
    source: ByteRange | None  # None when skipped
    target: ByteRange | None
    num_bytes: int
    skipped: str | None = None  # the guard's reason, in words

    @property
    def onto_itself(self) -> bool:
        """Whether source and target are the same bytes: they are copied, and none changes."""
        same = self.src_block == self.dst_block and self.source == self.target
        return same and self.skipped is None


class Decision(_Record):
    """What a copy launch decided for one request, value by value (sections 3.2 to 3.4, 3.7).

    A value a decision does not have is None: a pre-copy knows no ``aligned``.
    """

    request: str
    row: int
    slot: int | None
    computed: int
    scheduled: int | None = None
    drafts: int | None = None
    accepted: int | None = None
    running: int | None = None
    new: int | None = None
    aligned: int | None = None
    bias: int | None = None
    src_col: int | None = None
    dst_col: int | None = None
    accepted_out: int | None = None
    copies: bool
    outcome: str  # in words: why it copies, or why there is nothing to do


class KernelLaunch(_Record):
    """One real launch: name, grid, and the index data it was given (no addresses, no states)."""

    kernel: str
    grid: list[int]
    inputs: dict[str, TensorRecord | int | None]


class RowTables(_Record):
    """One request's index data after a phase; the lists run over the cache groups.

    ``block_list`` is the scheduler's list (0 = null), ``worker_row`` the worker's append-only
    row, ``roles`` the role of each worker-row column.
    """

    block_list: list[list[int]]
    worker_row: list[list[int]]
    roles: list[list[Role]]
    hashed_cols: list[list[int]]
    state_col: int | None  # running-state column
    num_accepted: int
    num_computed: int
    batch_row: int | None
    slot: int | None = None


class Tables(_Record):
    """All index data after a phase: who holds which block, what is registered, what is free.

    ``registered`` names for each block the prefix it is registered for, ``request@tokens``.
    """

    rows: dict[str, RowTables]
    registered: dict[int, str]
    free_queue: list[int]
    block_roles: list[Role]  # indexed by physical block id


class Phase(_Record):
    """One phase of a step. ``tables`` is None when it left them as the phase before had them.

    ``decisions`` has an entry for every batch row of a copy phase, ``copies`` one for every
    state copy that was decided. ``bytes_unexplained`` counts the bytes in which the caches
    after the phase differ from those before it plus these copies; None for a phase that
    copies nothing by its nature.
    """

    name: PhaseName
    tables: Tables | None = None
    changes: list[BlockChange] = []
    launches: list[KernelLaunch] = []
    decisions: list[Decision] = []
    copies: list[BlockCopy] = []
    bytes_unexplained: int | None = None


class RequestStep(_Record):
    """What one scheduled request did in one step.

    ``tokens`` are the query's token ids, drafts included; ``accepted_drafts`` of them were
    kept and ``sampled`` tokens came out (accepted drafts plus the bonus token), None while a
    prefill is unfinished.
    """

    event: Literal["new", "resumed", "running"]
    row_class: RowClass
    class_rule: str
    num_computed: int
    num_scheduled: int
    num_tokens: int
    num_prompt_tokens: int
    tokens: list[int]
    drafts: int
    accepted_drafts: int | None = None
    sampled: list[int] = []
    padded_tail: bool = False
    last_state_block_idx: int | None = None
    outputs: dict[int, TensorRecord] = {}  # layer -> float32 [num_scheduled, dim]


class MetadataField(_Record):
    """One field of the metadata builder's result (section 4) for one cache group."""

    name: str
    value: TensorRecord | bool | int | float | str | dict[str, Any] | list[Any] | None


class Metadata(_Record):
    group: int
    fields: list[MetadataField]


class InvariantCheck(_Record):
    """How much one invariant was checked in a step and how far the worst number lay off.

    ``worst`` is the largest difference relative to the largest value of its tensor, over the
    comparisons made within a tolerance; exact comparisons have none.
    """

    invariant: Invariant
    compared: int
    worst: float | None = None


class Violation(_Record):
    """A broken invariant: what, where, and the numbers. Shown, never swallowed."""

    invariant: Invariant
    step: int
    phase: PhaseName
    message: str
    rule: str | None = None  # of the judge of recordings (docs/recording.md)
    request: str | None = None
    group: int | None = None
    layer: int | None = None
    state: StateKind | None = None
    block: int | None = None
    column: int | None = None
    expected: str | None = None
    found: str | None = None


class Step(_Record):
    """One engine step, from schedule to commit."""

    index: int
    arrivals: list[str]
    order: list[str]  # in the scheduler's output
    batch_order: list[str]  # in the worker's batch: decodes, short extends, prefills
    requests: dict[str, RequestStep]
    waiting: list[str]
    preempted: list[str]
    finished_reported: list[str]
    finished_after: list[str]
    num_computed_after: dict[str, int]
    actions: list[str] = []  # planned events that happened before this schedule, in words
    stuck: bool = False
    free_queue_after_alloc: list[int]
    free_count: int
    phases: list[Phase]
    metadata: list[Metadata]
    checks: list[InvariantCheck]
    violations: list[Violation]

    def phase(self, name: PhaseName) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)


class Recorded(_Record):
    """Where a run comes from that another engine made (docs/recording.md).

    It has the phases of every other run, but what was not recorded is empty: ``unknown`` names,
    by step, the phases of which nothing is known. Bytes are there only with ``states``. Its
    scenario describes the run as far as it is known; it cannot be computed from it.
    """

    engine: str
    engine_version: str
    states: bool
    free_known: bool  # whether the free queue was recorded
    unknown: dict[int, list[PhaseName]]
    left_out: dict[int, int] = {}  # by step: requests that run in it and are not drawn

    def knows(self, step: int, phase: PhaseName) -> bool:
        return phase not in self.unknown.get(step, [])


Contents = dict[tuple[int, StateKind, int], bytes]


class Trace(_Record):
    """A whole run: one of ours, or a recording of another engine's (``recorded``)."""

    format_version: int = FORMAT_VERSION
    scenario: Scenario
    scenario_hash: str
    backend: str
    versions: dict[str, str]
    states: list[StateSpec]
    initial_tables: Tables
    steps: list[Step]
    recorded: Recorded | None = None

    @property
    def violations(self) -> list[Violation]:
        return [violation for step in self.steps for violation in step.violations]

    @cached_property
    def spec_of(self) -> dict[tuple[int, StateKind], StateSpec]:
        return {(spec.layer, spec.state): spec for spec in self.states}

    def tables_after(self, step: int, phase: PhaseName) -> Tables:
        """Index data after a phase; the latest recorded at or before it."""
        for index in range(step, -1, -1):
            names = PHASES if index < step else PHASES[: PHASES.index(phase) + 1]
            for name in reversed(names):
                found = self.steps[index].phase(name).tables
                if found is not None:
                    return found
        return self.initial_tables

    def walk(self) -> Iterator[tuple[Step, Phase, Tables, Contents]]:
        """Every phase in order with the tables and the cache contents *after* it.

        The contents mapping is updated in place between items (copy it to keep it). A block
        never written is absent: caches start as zeros.
        """
        tables, contents = self.initial_tables, {}
        for step in self.steps:
            for phase in step.phases:
                tables = phase.tables or tables
                for change in phase.changes:
                    contents[change.layer, change.state, change.block] = change.raw
                yield step, phase, tables, contents

    def contents_after(self, step: int, phase: PhaseName) -> Contents:
        """Cache contents after a phase, by (layer, state, block)."""
        for at_step, at_phase, _, contents in self.walk():
            if at_step.index == step and at_phase.name == phase:
                return dict(contents)
        raise KeyError(f"no phase {phase!r} of step {step} in this trace")

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Raises pydantic's ValidationError for a text that is not a trace of this format."""
        return cls.model_validate_json(text)

    def recording(self) -> list[dict[str, Any]]:
        """The steps with the field names and meaning of ``tests/golden/engine.json``."""
        return [_recorded(step, self._tables_at_end(step)) for step in self.steps]

    def _tables_at_end(self, step: Step) -> tuple[Tables, Tables]:
        return (
            self.tables_after(step.index, "allocate"),
            self.tables_after(step.index, "commit"),
        )


# --------------------------------------------------------------------------------------
# Labels read from bytes (section 5.1, readable head)
# --------------------------------------------------------------------------------------


def window_rows(conv: np.ndarray, layout: str) -> list[int | None]:
    """Token position held by each row of a conv state; None for a row never written.

    ``conv`` is one block, SD ``[state_len, dim]`` or DS ``[dim, state_len]``: channel 0
    carries ``position + 1``.
    """
    labels = conv[:, 0] if layout == "SD" else conv[0]
    return [int(label) - 1 if label else None for label in labels]


def tokens_absorbed(temporal: np.ndarray) -> int:
    """How many tokens a temporal state ``[heads, head_dim, d_state]`` has taken in."""
    return int(temporal[0, 0, 0])


# --------------------------------------------------------------------------------------
# The recording format of a real engine
# --------------------------------------------------------------------------------------


def _recorded(step: Step, tables: tuple[Tables, Tables]) -> dict[str, Any]:
    allocated, ended = tables
    record: dict[str, Any] = {
        "step": step.index,
        "order": step.order,
        "reqs": {
            request: _recorded_request(step.requests[request], allocated.rows[request])
            for request in step.order
        },
        "registered": {str(block): prefix for block, prefix in sorted(ended.registered.items())},
        "free_queue_after_alloc": step.free_queue_after_alloc,
        "free_queue_end": ended.free_queue,
        "free_count": step.free_count,
        "finished_after": step.finished_after,
        "num_computed_after": {
            request: count
            for request, count in step.num_computed_after.items()
            if request not in step.finished_after
        },
    }
    for key in ("arrivals", "waiting", "finished_reported"):
        if getattr(step, key):
            record[key] = list(getattr(step, key))
    if step.preempted:
        record["preempted"] = sorted(step.preempted)  # recorded as a set
    if step.stuck:
        record["stuck"] = True
    return record


def _recorded_request(request: RequestStep, row: RowTables) -> dict[str, Any]:
    record: dict[str, Any] = {
        "event": request.event,
        "num_computed": request.num_computed,
        "num_scheduled": request.num_scheduled,
        "num_tokens": request.num_tokens,
        "drafts": request.drafts,
        "accepted_drafts": request.accepted_drafts,
        "sampled": len(request.sampled),
        "list": row.block_list,
        "worker_row": row.worker_row,
        "hashed_cols": row.hashed_cols,
        "last_state_block_idx": request.last_state_block_idx,
    }
    if request.padded_tail:
        record["padded_tail"] = True
    return record
