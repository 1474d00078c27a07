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

from mambaviz.trace import Metadata, RequestStep, RowTables, Step, TensorRecord, Trace


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
class _Row:
    """One row of the batch, padding included (no request, no tokens)."""

    request: str | None
    computed: int
    query: int
    is_prefill: bool
    blocks: Sequence[int]
    accepted: int
    base: int  # tokens known at the last admission


def _problems(trace: Trace, step: Step, metadata: Metadata) -> Iterator[MetadataProblem]:
    found: dict[str, Any] = {field.name: field.value for field in metadata.fields}
    rows = _rows(trace, step, metadata.group, found["num_reqs"])
    prefills = [row for row in rows if row.is_prefill]
    # Padding rows stand last; among decodes alone they count as decodes.
    decodes = [row for row in rows if not row.is_prefill]
    wanted: dict[str, Any] = {
        "num_decodes": len(decodes),
        "num_prefills": len(prefills),
        "num_decode_tokens": sum(row.query for row in decodes),
        "num_prefill_tokens": sum(row.query for row in prefills),
        **_state_indices(trace, decodes, prefills, found),
    }
    if trace.scenario.engine.num_spec and decodes:
        wanted["num_accepted_tokens"] = [row.accepted for row in decodes]
    if prefills:
        wanted["has_initial_states_p"] = [row.computed > 0 for row in prefills]
        wanted |= _chunks(prefills, trace.scenario.layer.chunk_size)
    if trace.scenario.engine.mode == "all":
        wanted |= _columns(rows, prefills, trace.scenario.engine.block_size)
    if trace.scenario.engine.replayssm_buffer_len and decodes:
        wanted |= _ring(trace, decodes)
    owners = {"_d": decodes, "_p": prefills}
    for name, expected in wanted.items():
        members = owners.get(name[-2:], rows)
        yield from _compare(step.index, metadata.group, name, expected, found[name], members)


def _rows(trace: Trace, step: Step, group: int, num_reqs: int) -> list[_Row]:
    tables = trace.tables_after(step.index, "metadata").rows
    rows = [
        _row(trace, step.index, request, step.requests[request], tables[request], group)
        for request in step.batch_order
    ]
    width = max((len(row.blocks) for row in rows), default=0)
    padding = _Row(None, 0, 0, False, [0] * max(width, 1), 1, 0)
    return rows + [padding] * (num_reqs - len(rows))


def _row(
    trace: Trace, step: int, request: str, now: RequestStep, tables: RowTables, group: int
) -> _Row:
    return _Row(
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
    column = 0
    for position in range(1, tokens):
        column += position % block_size == 0
    return column


def _state_indices(
    trace: Trace, decodes: Sequence[_Row], prefills: Sequence[_Row], found: Mapping[str, Any]
) -> dict[str, Any]:
    engine = trace.scenario.engine

    def blocks(row: _Row, columns: int, first: int) -> list[int]:
        padded = [*row.blocks, *[0] * (first + columns)]
        return list(padded[first : first + columns])

    def start(row: _Row) -> int:
        if engine.mode != "align" or row.request is None:
            return 0
        return _column_of(row.computed + row.query, engine.block_size)

    if engine.mode == "all":
        # A table is as wide as the model is long; how wide, says the tensor.
        width = max(_width(found[f"state_indices_tensor_{part}"]) for part in "dp")
        return {
            "state_indices_tensor_d": [blocks(row, width, 0) for row in decodes],
            "state_indices_tensor_p": [blocks(row, width, 0) for row in prefills],
        }
    return {
        "state_indices_tensor_d": [blocks(row, 1 + engine.num_spec, start(row)) for row in decodes],
        "state_indices_tensor_p": [blocks(row, 1, start(row))[0] for row in prefills],
    }


def _width(tensor: TensorRecord) -> int:
    return tensor.shape[1] if len(tensor.shape) > 1 else 0


def _chunks(prefills: Sequence[_Row], chunk_size: int) -> dict[str, Any]:
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


def _columns(rows: Sequence[_Row], prefills: Sequence[_Row], B: int) -> dict[str, Any]:
    columns = {
        "block_idx_last_computed_token": [_column_of(row.computed, B) for row in rows],
        "block_idx_last_scheduled_token": [_column_of(row.computed + row.query, B) for row in rows],
    }
    if prefills:
        columns["block_idx_first_scheduled_token_p"] = [
            _column_of(row.computed + 1, B) for row in prefills
        ]
    return columns


def _ring(trace: Trace, decodes: Sequence[_Row]) -> dict[str, Any]:
    engine = trace.scenario.engine
    positions, flushes = [], []
    for row in decodes:
        anchor, at_boundary = row.base, False
        if engine.mode == "align":
            while anchor + engine.block_size - anchor % engine.block_size <= row.computed:
                anchor += engine.block_size - anchor % engine.block_size
            at_boundary = (row.computed + row.query) % engine.block_size == 0
        position = 0
        for _ in range(anchor, row.computed):
            position = (position + 1) % engine.replayssm_buffer_len
        full = position + 1 == engine.replayssm_buffer_len
        live = row.query > 0
        positions.append(position if live else 0)
        flushes.append(int(live and (full or row.computed < anchor or at_boundary)))
    return {"write_pos_d": positions, "is_flush_d": flushes}


# ------------------------------------------------------------------------------ comparison


def _compare(
    step: int, group: int, name: str, expected: Any, found: Any, members: Sequence[_Row]
) -> Iterator[MetadataProblem]:
    values = found.values if isinstance(found, TensorRecord) else found
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
