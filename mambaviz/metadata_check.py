"""The metadata of a run, derived anew from its trace: one row and one token at a time (section 4).

Some mistakes of a builder harm no state here, because the kernels of this engine are kinder than
others: they leave an empty query alone, they start a prefill from the state it has. No invariant
of section 1 sees such a mistake, but section 4 says what each field must hold. So this module
works the fields out again, by counting and not by formula, and says where the trace has another
value. It shares no code with the builder: it reads the scheduler's classes and the worker's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mambaviz.trace import (
    Metadata,
    MetadataField,
    RequestStep,
    RowTables,
    Step,
    TensorRecord,
    Trace,
)


@dataclass(frozen=True)
class MetadataProblem:
    """An entry of a field that is not what section 4 says.

    ``row`` is the row of the field, counted from 0, None for a plain number; ``request`` whose
    row that is, None for a padding row or an entry that is no row's.
    """

    step: int
    group: int
    field: str
    row: int | None
    request: str | None
    expected: str
    found: str

    @property
    def message(self) -> str:
        place = "" if self.row is None else f"[{self.row}]"
        whose = f" ({self.request})" if self.request else ""
        return f"{self.field}{place}{whose} should be {self.expected}, is {self.found}"


def metadata_problems(trace: Trace) -> list[MetadataProblem]:
    """Everything in a run's metadata that contradicts section 4; empty for a right run."""
    return [
        problem
        for step in trace.steps
        for metadata in step.metadata
        for problem in _problems(trace, step, metadata)
    ]


# --------------------------------------------------------------------------------- one step


@dataclass(frozen=True)
class BuilderFacts:
    """The settings that a builder's result depends on.

    ``chunk_size`` is None where it is not known, ``replayssm_buffer_len`` 0 without a ring.
    """

    mode: str
    block_size: int
    num_spec: int
    chunk_size: int | None
    replayssm_buffer_len: int = 0


@dataclass(frozen=True)
class BatchRow:
    """One row of the batch, padding included (no request, no tokens)."""

    request: str | None
    computed: int
    query: int
    is_prefill: bool
    blocks: Sequence[int]
    accepted: int
    base: int  # tokens known at the last admission


def batch_problems(
    facts: BuilderFacts,
    batch: Sequence[BatchRow],
    step: int,
    group: int,
    fields: Sequence[MetadataField],
    *,
    counts_given: bool = True,
) -> Iterator[MetadataProblem]:
    """What in one build's result contradicts section 4; fields that are missing are left out.

    ``batch`` are the live rows in order; padding is added up to the result's ``num_reqs``. A
    builder that was not given the accepted counts returns none, which does no harm while all of
    them are 1.
    """
    found: dict[str, Any] = {field.name: field.value for field in fields}
    rows = _padded(batch, found.get("num_reqs") or len(batch))
    prefills = [row for row in rows if row.is_prefill]
    # Padding rows stand last; among decodes alone they count as decodes.
    decodes = [row for row in rows if not row.is_prefill]
    wanted: dict[str, Any] = {
        "num_decodes": len(decodes),
        "num_prefills": len(prefills),
        "num_decode_tokens": sum(row.query for row in decodes),
        "num_prefill_tokens": sum(row.query for row in prefills),
        **_state_indices(facts, decodes, prefills, found),
    }
    lengths = {
        "seq_lens": [row.computed + row.query for row in rows],
        "query_start_loc_d": _starts(decodes),
        "query_start_loc_p": _starts(prefills),
        "num_computed_tokens_p": [row.computed for row in prefills],
    }
    wanted |= {name: value for name, value in lengths.items() if found.get(name) is not None}
    if facts.num_spec and decodes and (counts_given or any(row.accepted > 1 for row in decodes)):
        wanted["num_accepted_tokens"] = [row.accepted for row in decodes]
    if prefills:
        wanted["has_initial_states_p"] = [row.computed > 0 for row in prefills]
        if facts.chunk_size is not None:
            wanted |= _chunks(prefills, facts.chunk_size)
    if facts.mode == "all":
        wanted |= _columns(rows, prefills, facts.block_size)
    if facts.replayssm_buffer_len and decodes:
        wanted |= _ring(facts, decodes)
    owners = {"_d": decodes, "_p": prefills}
    for name, expected in wanted.items():
        if name in found:
            members = owners.get(name[-2:], rows)
            yield from _compare(step, group, name, expected, found[name], members)


def _problems(trace: Trace, step: Step, metadata: Metadata) -> Iterator[MetadataProblem]:
    engine = trace.scenario.engine
    facts = BuilderFacts(
        engine.mode,
        engine.block_size,
        engine.num_spec,
        trace.scenario.layer.chunk_size,
        engine.replayssm_buffer_len,
    )
    tables = trace.tables_after(step.index, "metadata").rows
    batch = [
        _row(trace, step.index, request, step.requests[request], tables[request], metadata.group)
        for request in step.batch_order
    ]
    return batch_problems(facts, batch, step.index, metadata.group, metadata.fields)


def _padded(batch: Sequence[BatchRow], num_reqs: int) -> list[BatchRow]:
    width = max((len(row.blocks) for row in batch), default=0)
    padding = BatchRow(None, 0, 0, False, [0] * max(width, 1), 1, 0)
    return [*batch, *[padding] * (num_reqs - len(batch))]


def _row(
    trace: Trace, step: int, request: str, now: RequestStep, tables: RowTables, group: int
) -> BatchRow:
    return BatchRow(
        request,
        now.num_computed,
        now.num_scheduled,
        now.row_class == "prefill",
        tables.worker_row[group],
        tables.num_accepted,
        _base(trace, step, request),
    )


def _base(trace: Trace, step: int, request: str) -> int:
    for index in range(step, -1, -1):
        found = trace.steps[index].requests.get(request)
        if found is not None and found.event != "running":
            return found.num_tokens
    raise ValueError(f"request {request} runs in step {step} but was never admitted")


# ------------------------------------------------------------------------ fields, by counting


def _column_of(tokens: int, block_size: int) -> int:
    """Column of the last of some tokens."""
    return len(range(block_size, tokens, block_size))  # the boundaries before it


def _state_indices(
    facts: BuilderFacts,
    decodes: Sequence[BatchRow],
    prefills: Sequence[BatchRow],
    found: Mapping[str, Any],
) -> dict[str, Any]:

    def blocks(row: BatchRow, columns: int, first: int) -> list[int]:
        padded = [*row.blocks, *[0] * (first + columns)]
        return list(padded[first : first + columns])

    def start(row: BatchRow) -> int:
        if facts.mode != "align" or row.request is None:
            return 0
        return _column_of(row.computed + row.query, facts.block_size)

    if facts.mode == "all":
        # A table is as wide as the model is long; how wide, says the tensor.
        width = max(_width(found.get(f"state_indices_tensor_{part}")) for part in "dp")
        return {
            "state_indices_tensor_d": [blocks(row, width, 0) for row in decodes],
            "state_indices_tensor_p": [blocks(row, width, 0) for row in prefills],
        }
    return {
        "state_indices_tensor_d": [blocks(row, 1 + facts.num_spec, start(row)) for row in decodes],
        "state_indices_tensor_p": [blocks(row, 1, start(row))[0] for row in prefills],
    }


def _width(tensor: TensorRecord | None) -> int:
    return tensor.shape[1] if tensor is not None and len(tensor.shape) > 1 else 0


def _starts(rows: Sequence[BatchRow]) -> list[int]:
    """Where each row's query begins in the flat batch, and where the last one ends."""
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + row.query)
    return starts


def _chunks(prefills: Sequence[BatchRow], chunk_size: int) -> dict[str, Any]:
    starts: list[int] = []
    owners: list[int] = []
    last: list[int] = []
    flat = 0
    for index, row in enumerate(prefills):
        for token in range(row.query):
            if token == 0 or (row.computed + token) % chunk_size == 0:
                starts.append(flat)
                owners.append(index)
            flat += 1
        last.append(len(starts) - 1)
    return {
        "cu_chunk_seqlen_p": [*starts, flat],
        "seq_idx_p": owners,
        "last_chunk_indices_p": last,
    }


def _columns(rows: Sequence[BatchRow], prefills: Sequence[BatchRow], B: int) -> dict[str, Any]:
    columns = {
        "block_idx_last_computed_token": [_column_of(row.computed, B) for row in rows],
        "block_idx_last_scheduled_token": [_column_of(row.computed + row.query, B) for row in rows],
    }
    if prefills:
        columns["block_idx_first_scheduled_token_p"] = [
            _column_of(row.computed + 1, B) for row in prefills
        ]
    return columns


def _ring(facts: BuilderFacts, decodes: Sequence[BatchRow]) -> dict[str, Any]:
    positions, flushes = [], []
    for row in decodes:
        anchor, at_boundary = row.base, False
        if facts.mode == "align":
            boundaries = range(0, row.computed + 1, facts.block_size)
            anchor = max(anchor, boundaries[-1])
            at_boundary = (row.computed + row.query) % facts.block_size == 0
        position = len(range(anchor, row.computed)) % facts.replayssm_buffer_len
        full = position + 1 == facts.replayssm_buffer_len
        live = row.query > 0
        positions.append(position if live else 0)
        flushes.append(int(live and (full or row.computed < anchor or at_boundary)))
    return {"write_pos_d": positions, "is_flush_d": flushes}


# ------------------------------------------------------------------------------ comparison


def _corner(expected: Any, lengths: Sequence[int]) -> Any:
    if not lengths or not isinstance(expected, list):
        return expected
    return [_corner(entry, lengths[1:]) for entry in expected[: lengths[0]]]


def _compare(
    step: int, group: int, name: str, expected: Any, found: Any, members: Sequence[BatchRow]
) -> Iterator[MetadataProblem]:
    values = found.values if isinstance(found, TensorRecord) else found
    if isinstance(found, TensorRecord) and found.fill is None and not found.holds_all:
        expected = _corner(expected, found.held)  # a recording has the first entries only
    if not isinstance(expected, list):
        if values != expected:
            yield MetadataProblem(step, group, name, None, None, str(expected), str(values))
        return
    if values is None or len(values) != len(expected):
        yield MetadataProblem(step, group, name, None, None, str(expected), str(values))
        return
    by_row = len(expected) == len(members) and name not in ("seq_idx_p", "cu_chunk_seqlen_p")
    for row, (right, entry) in enumerate(zip(expected, values, strict=True)):
        if entry != right:
            request = members[row].request if by_row else None
            yield MetadataProblem(step, group, name, row, request, str(right), str(entry))
