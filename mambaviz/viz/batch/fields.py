"""What the builder returns: every field, its value in pieces that know what they point to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mambaviz.attention.fields import FIELDS, FieldInfo, ValueKind
from mambaviz.batch_record import BatchRecord, Pointer
from mambaviz.trace import MetadataField, Role, TensorRecord

Part = Literal["both parts", "decode rows", "prefill rows"]
MOST_NUMBERS = 20
MOST_ROWS = 8
MOST_NULLS = 4  # columns of a row that are written out though they are null

# Fields that share a line, in the order of the lines; the part says whose rows they hold.
LINES: tuple[tuple[Part, tuple[str, ...]], ...] = (
    ("both parts", ("num_decodes", "num_prefills")),
    ("both parts", ("num_decode_tokens", "num_prefill_tokens")),
    ("both parts", ("num_reqs",)),
    ("both parts", ("seq_lens",)),
    ("both parts", ("block_idx_last_computed_token",)),
    ("both parts", ("block_idx_last_scheduled_token",)),
    ("both parts", ("block_idx_last_scheduled_token_prev_step",)),
    ("decode rows", ("query_start_loc_d",)),
    ("decode rows", ("num_accepted_tokens",)),
    ("decode rows", ("state_indices_tensor_d",)),
    ("decode rows", ("write_pos_d", "is_flush_d")),
    ("decode rows", ("bc_pre_scratch",)),
    ("decode rows", ("replayssm_scratch",)),
    ("prefill rows", ("query_start_loc_p",)),
    ("prefill rows", ("has_initial_states_p",)),
    ("prefill rows", ("state_indices_tensor_p",)),
    ("prefill rows", ("num_computed_tokens_p",)),
    ("prefill rows", ("block_idx_first_scheduled_token_p",)),
    ("prefill rows", ("num_state_writes_p",)),
    ("prefill rows", ("cu_chunk_seqlen_p",)),
    ("prefill rows", ("seq_idx_p", "last_chunk_indices_p")),
    ("prefill rows", ("nums_dict",)),
    ("prefill rows", ("batch_ptr",)),
    ("prefill rows", ("token_chunk_offset_ptr",)),
    ("prefill rows", ("chunk_size", "prep_initial_states")),
)


@dataclass(frozen=True)
class Piece:
    """A part of a value: text, the batch row it is about, the table cell it points to."""

    text: str
    row: int | None = None
    cell: Pointer | None = None
    role: Role | None = None


@dataclass(frozen=True)
class Field:
    """One field of the result, ready to be written down."""

    name: str
    pieces: tuple[Piece, ...]
    kind: str  # dtype and shape
    meaning: str
    rule: str
    present: str
    section: str
    memory: str  # whether its memory is the same as in the build before
    cells: tuple[Pointer, ...]  # all that it points to


@dataclass(frozen=True)
class Line:
    part: Part
    fields: tuple[Field, ...]


def lines(record: BatchRecord) -> list[Line]:
    """The fields that have content, as the page lists them."""
    there = {field.name: field for field in record.metadata.fields if field.value is not None}
    found = []
    for part, names in LINES:
        fields = tuple(_field(record, there[name]) for name in names if name in there)
        if fields:
            found.append(Line(part, fields))
    return found


def empty_fields(record: BatchRecord) -> list[str]:
    """Fields that are None for this batch."""
    return [field.name for field in record.metadata.fields if field.value is None]


def _field(record: BatchRecord, field: MetadataField) -> Field:
    info, points = FIELDS[field.name], record.points.get(field.name, [])
    return Field(
        name=field.name,
        pieces=tuple(_pieces(record, field, info)),
        kind=kind_of(field.value),
        meaning=info.meaning,
        rule=rule_in(info.rule, record.batch.mode),
        present=info.present,
        section=info.section,
        memory=_memory(record, field),
        cells=tuple(point for point in points if point is not None),
    )


def kind_of(value: Any) -> str:
    """``int32 [3,3]``, ``int``, ``dict``."""
    if isinstance(value, TensorRecord):
        return f"{value.dtype} [{','.join(str(size) for size in value.shape)}]"
    return type(value).__name__


def rule_in(rule: str, mode: str) -> str:
    """Of a rule that differs by mode, the part that applies."""
    by_mode = [part for part in rule.split("; ") if part.startswith(f"{mode}: ")]
    return by_mode[0].removeprefix(f"{mode}: ") if by_mode else rule


def _memory(record: BatchRecord, field: MetadataField) -> str:
    if not isinstance(field.value, TensorRecord) or 0 in field.value.shape:
        return ""
    if field.name in record.keeps_address:
        return "same memory as in the build before"
    return "new memory at each build"


# --------------------------------------------------------------------------------------
# Values in pieces
# --------------------------------------------------------------------------------------


def _pieces(record: BatchRecord, field: MetadataField, info: FieldInfo) -> Iterator[Piece]:
    value = field.value
    if isinstance(value, dict):
        yield Piece(_programs(value))
    elif not isinstance(value, TensorRecord):
        yield Piece(str(value))
    elif 0 in value.shape:
        yield Piece("no rows")
    elif info.kind is ValueKind.SCRATCH:
        yield Piece("scratch, no meaning before the kernel")
    elif len(value.shape) == 2:
        yield from _matrix(record, field.name, value)
    else:
        yield from _vector(record, field.name, value, info)


def _programs(value: dict[str, Any]) -> str:
    """``8: nums [1, 2], tot 3``: a width of tiles and how many programs it makes."""
    return "; ".join(
        f"{width}: nums {programs['nums']['values']}, tot {programs['tot']}"
        for width, programs in value.items()
    )


def _matrix(record: BatchRecord, name: str, value: TensorRecord) -> Iterator[Piece]:
    """Rows of block ids, each in brackets; nulls at the end of a long row are folded."""
    points = record.points.get(name, [])
    first, width = _first_row(record, name, value), value.shape[1]
    for row, ids in enumerate(value.values[:MOST_ROWS]):
        used = max((column + 1 for column, block in enumerate(ids) if block), default=0)
        shown = width if width <= MOST_NULLS else min(width, used + 1)
        yield Piece("[")
        for column in range(shown):
            point = points[row * width + column]
            yield _block(record, ids[column], first + row, point)
        yield Piece("…]" if shown < width else "]")
    if len(value.values) > MOST_ROWS:
        yield Piece(f" … {len(value.values) - MOST_ROWS} rows more")


def _vector(
    record: BatchRecord, name: str, value: TensorRecord, info: FieldInfo
) -> Iterator[Piece]:
    points, first = record.points.get(name, []), _first_row(record, name, value)
    per_row = _is_per_row(record, value, info)
    yield Piece("[")
    for index, number in enumerate(value.values[:MOST_NUMBERS]):
        if index:
            yield Piece(" " if info.kind is ValueKind.BLOCK_ID else ", ")
        point = points[index] if index < len(points) else None
        row = first + index if per_row else None
        if info.kind is ValueKind.BLOCK_ID:
            yield _block(record, number, row, point)
        else:
            yield Piece(str(number), row, point)
    yield Piece(_end(value))


def _end(value: TensorRecord) -> str:
    if value.fill is not None and value.shape[0] > len(value.values):
        separator = ", " if value.values else ""
        return f"{separator}{value.fill}, …]".replace("-", "−")
    return ", …]" if len(value.values) > MOST_NUMBERS else "]"


def _block(record: BatchRecord, block: int, row: int | None, point: Pointer | None) -> Piece:
    role: Role | None = "null" if block == 0 else None
    if point is not None:
        role = record.rows[point.row].roles[point.column]
    return Piece("∅" if block == 0 else str(block), row, point, role or "free")


def _first_row(record: BatchRecord, name: str, value: TensorRecord) -> int:
    """The batch row of the first entry: of prefill fields the first prefill."""
    return len(record.rows) - value.shape[0] if name.endswith("_p") else 0


def _is_per_row(record: BatchRecord, value: TensorRecord, info: FieldInfo) -> bool:
    """Whether an entry stands for a row of the batch."""
    return info.shape.startswith(("[R]", "[D]", "[P]")) and value.shape[0] <= len(record.rows)
