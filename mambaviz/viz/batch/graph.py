"""Graph padding: the persistent memory behind the decode fields, row by row."""

from __future__ import annotations

from typing import Any

from mambaviz.batch_record import BatchRecord
from mambaviz.trace import TensorRecord
from mambaviz.viz.batch.text import clipped, width_of
from mambaviz.viz.scene import Body, Mark, Rect, Scene, Text

ROW, HEAD, LEFT = 24.0, 40.0, 132.0
MOST_ROWS = 16


def graph_scene(record: BatchRecord) -> Scene:
    """Real rows, padding rows, and the rows of the memory that this batch leaves unused."""
    graph = record.graph
    assert graph is not None, "only a batch with full graphs has a picture of them"
    rows = min(graph.limit, MOST_ROWS)
    marks = [_row_label(record, row) for row in range(rows)]
    x = LEFT
    for name, buffer in graph.buffers.items():
        width = _column_width(name, buffer, rows)
        marks += _column(record, name, buffer, x, width, rows)
        x += width + 10
    return Scene(max(x, 400.0), HEAD + rows * ROW + 4, tuple(marks))


def row_kind(record: BatchRecord, row: int) -> str:
    """``real``, ``padding`` (returned, does nothing) or ``unused`` (beyond what is returned)."""
    if row < len(record.batch.rows):
        return "real"
    return "padding" if row < len(record.rows) else "unused"


def _row_label(record: BatchRecord, row: int) -> Mark:
    kind = row_kind(record, row)
    name = clipped(record.batch.rows[row].request, 9) if kind == "real" else kind
    parts = (
        Text("s13 semi" if kind == "real" else "s13 m", 0, 16, name),
        Text("m s12", 72, 16, f"row {row}"),
    )
    return Mark(f"row-{row}", 2, HEAD + row * ROW, Body("", parts))


def _column(
    record: BatchRecord, name: str, buffer: TensorRecord, x: float, width: float, rows: int
) -> list[Mark]:
    head = (
        Text("s12 mono", 0, 12, name),
        Text("m s12", 0, 29, _head_note(record, name, buffer)),
    )
    marks = [Mark(f"field-{name}", x, 0, Body("", head, title=name))]
    for row in range(rows):
        kind = row_kind(record, row)
        box = (
            Rect("b", 0.5, 0.5, width - 1, ROW - 4, 4),
            Text("mid s13", width / 2, 15, cell_text(buffer, row)),
        )
        y = HEAD + row * ROW
        marks.append(Mark(f"{name}-{row}", x, y, Body(f"graph-cell {kind}", box)))
    return marks


def _head_note(record: BatchRecord, name: str, buffer: TensorRecord) -> str:
    size = ",".join(str(length) for length in buffer.shape)
    kept = ", same memory ✓" if name in record.keeps_address else ""
    return f"{buffer.dtype} [{size}]{kept}"


def cell_text(buffer: TensorRecord, row: int) -> str:
    """The memory's entry of one row, a row of ids in brackets."""
    value = _unfolded(buffer)[row]
    if isinstance(value, list):
        shown = " ".join(str(number) for number in value[:6])
        return f"[{shown}{' …' if len(value) > 6 else ''}]"
    return str(value)


def _unfolded(buffer: TensorRecord) -> list[Any]:
    missing = buffer.shape[0] - len(buffer.values)
    return [*buffer.values, *[buffer.fill] * missing]


def _column_width(name: str, buffer: TensorRecord, rows: int) -> float:
    texts = [cell_text(buffer, row) for row in range(rows)]
    note = f"{buffer.dtype} [{buffer.shape}], same memory ✓"
    widest = max(width_of(text, 13) for text in texts) + 12
    return max(widest, width_of(name, 13.6), width_of(note, 11.4))
