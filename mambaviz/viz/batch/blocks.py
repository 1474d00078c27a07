"""Where the metadata points: the block table of the batch, every cell a mark of its own."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.batch_record import BatchRecord
from mambaviz.trace import Role
from mambaviz.viz import shapes
from mambaviz.viz.batch.text import clipped
from mambaviz.viz.scene import Body, Mark, Primitive, Rect, Scene, Text
from mambaviz.viz.theme import BATCH, LETTER

CELL_HEIGHT = 29.0
HEAD = 22.0


def cell_name(row: int, column: int) -> str:
    """The name of a cell's mark; the fields' values refer to it."""
    return f"cell-{row}-{column}"


def block_scene(record: BatchRecord) -> Scene:
    """Rows are requests, columns logical blocks; padding rows are empty."""
    columns = max((len(row.blocks) for row in record.batch.rows), default=1)
    pitch = max(
        BATCH.least_block, min(BATCH.block, (BATCH.block_width - BATCH.table_left) / columns)
    )
    marks = [
        Mark(
            f"column-{column}",
            BATCH.table_left + column * pitch + (pitch - 6) / 2,
            12,
            Body("", (Text("mid m s125", 0, 0, f"col {column}" if pitch > 44 else str(column)),)),
        )
        for column in range(columns)
    ]
    for index in range(len(record.rows)):
        marks += _row(record, index, pitch)
    width = max(BATCH.block_width, BATCH.table_left + columns * pitch + 2)
    return Scene(width, HEAD + len(record.rows) * BATCH.block_row, tuple(marks))


def _row(record: BatchRecord, index: int, pitch: float) -> Iterator[Mark]:
    y, found = HEAD + index * BATCH.block_row, record.rows[index]
    name = "pad" if found.request is None else clipped(found.request, 3)
    label = (
        Text("s14 bold" if found.request else "s13 m", 0, 20, name),
        Text(
            "m s12",
            20 if len(name) == 1 else 27,
            20,
            f"row {index}" if len(name) < 3 else str(index),
        ),
    )
    yield Mark(f"row-{index}", 2, y, Body("row-name", label, title=found.request or "padding row"))
    if found.request is None:
        text = Text("m s12", 0, 20, "null blocks")
        yield Mark(f"padding-{index}", BATCH.table_left, y, Body("", (text,)))
        return
    for column, block in enumerate(record.batch.rows[index].blocks):
        yield Mark(
            cell_name(index, column),
            BATCH.table_left + column * pitch,
            y,
            cell(block, found.roles[column], pitch - 6, CELL_HEIGHT),
        )


def cell(block: int, role: Role | None, width: float, height: float) -> Body:
    """A block with its id and letter, and a ring around it that shows while it is pointed at."""
    ring = Rect("ring", -3, -3, width + 6, height + 6, 8)
    if role is None:
        parts: list[Primitive] = [Rect("plain", 0.5, 0.5, width - 1, height - 1, 5)]
        letter, cls = "", "bk"
    else:
        parts, letter, cls = (
            shapes.block_frame(role, width, height),
            LETTER[role],
            shapes.block_class(role),
        )
    text = letter if role == "null" else f"{block} {letter}".strip() if width > 38 else str(block)
    weight = "s13" if role is None else "s13 bold"
    middle = width / 2 + (2 if role == "cached" else 0)
    label = Text(f"mid {weight}", middle, height / 2 + 4.7, text)
    return Body(f"{cls} cell", (*parts, label, ring), block=block)
