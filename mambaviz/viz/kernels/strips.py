"""Blocks as strips of cells: what is read, what is written, before and after, and in what order.

A conv strip has a cell for each token row; in the DS layout the strip has a line for each channel,
since there a row of memory is a channel. A temporal strip is one cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mambaviz.launches.record import (
    BlockImage,
    Damage,
    LaunchRecord,
    OrderStrip,
    ProgramRecord,
    StateLayout,
    label_texts,
)
from mambaviz.trace import ByteRange
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Scene, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import KERNELS as Z
from mambaviz.viz.views import RowStatus


@dataclass(frozen=True)
class _Cells:
    """A block's content as text: lines of cells, and what a tooltip says of each cell."""

    lines: tuple[tuple[str, ...], ...]
    titles: tuple[str, ...]  # by column
    first: int  # byte of the first cell in its tensor
    step: int  # bytes from column to column


def _cells(record: LaunchRecord, state: StateLayout, block: int, raw: bytes) -> _Cells:
    values = state.decode(raw)
    labels = label_texts(state, state.labels(raw, record.inputs.layout))
    first = block * state.stride
    if state.kind == "temporal":
        return _Cells((tuple(labels),), (_numbers(values.reshape(-1)),), first, state.num_bytes)
    by_token = values if record.inputs.layout == "SD" else values.T
    titles = tuple(_numbers(row) for row in by_token)
    if record.inputs.layout == "SD":
        return _Cells((tuple(labels),), titles, first, state.shape[1] * state.elem_size)
    lines = tuple(
        tuple(labels) if channel == 0 else tuple(f"{value:g}".replace("-", "−") for value in row)
        for channel, row in enumerate(values)
    )
    return _Cells(lines, titles, first, state.elem_size)


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}".replace("-", "−") for value in values)


# --------------------------------------------------------------------------------------
# The bytes of one program
# --------------------------------------------------------------------------------------


def bytes_scene(
    record: LaunchRecord, program: ProgramRecord, damage: Damage | None = None
) -> Scene:
    """What a program read and wrote: source before, target before and after, the damaged one."""
    state = record.states[program.state]
    marks: list[Mark] = []
    y = 0.0
    for strip in _strips(record, program, damage):
        cells = _cells(record, state, strip.block, strip.raw)
        y += Z.bracket if strip.read is not None else Z.gap
        marks += _strip(strip, cells, y)
        height = len(cells.lines) * Z.cell_height
        if strip.read is not None:
            marks.append(_bracket(strip, cells, strip.read, y, "reads", -1))
        y += height
        if strip.offsets:
            marks.append(_offsets(cells, y))
            y += Z.offsets
        if strip.write is not None:
            marks.append(_bracket(strip, cells, strip.write, y, "writes", 1))
            y += Z.bracket
    return Scene(Z.width, y + 4, tuple(marks))


@dataclass(frozen=True)
class _Strip:
    name: str
    note: str
    block: int
    raw: bytes
    against: bytes | None = None  # cells that differ from this are framed
    read: ByteRange | None = None
    write: ByteRange | None = None
    offsets: bool = False
    wrong: bool = False


def _strips(
    record: LaunchRecord, program: ProgramRecord, damage: Damage | None
) -> Iterator[_Strip]:
    src, dst = program.src_block, program.dst_block
    source = _image(record.blocks, program.state, src)
    target = _image(record.blocks, program.state, dst)
    moves = program.source is not None
    if source is not None and src is not None:
        shown = program.source if moves else None
        write = program.target if src == dst and moves else None
        note = "before" if src == dst else "source"
        yield _Strip(
            f"block {src}", note, src, source.raw_before, read=shown, write=write, offsets=moves
        )
    if target is None or dst is None:
        return
    if src != dst:
        yield _Strip(f"block {dst}", "before", dst, target.raw_before)
    if moves:
        yield _Strip(
            f"block {dst}",
            "after",
            dst,
            target.raw_after,
            against=target.raw_before,
            write=program.target if src != dst else None,
            offsets=src != dst,
        )
    hurt = _image(damage.blocks, program.state, dst) if damage is not None else None
    if hurt is not None:
        yield _Strip(
            f"block {dst}", "built wrong", dst, hurt.raw_after, against=hurt.raw_before, wrong=True
        )


def _image(blocks: Sequence[BlockImage], state: int, block: int | None) -> BlockImage | None:
    return next((one for one in blocks if (one.state, one.block) == (state, block)), None)


def _strip(strip: _Strip, cells: _Cells, y: float) -> Iterator[Mark]:
    middle = y + len(cells.lines) * Z.cell_height / 2
    label = (Text("s125 semi", 0, -2, strip.name), Text("s12 m", 0, 13, strip.note))
    cls = "strip-name wrong-name" if strip.wrong else "strip-name"
    yield Mark(f"name-{strip.name}-{strip.note}", 0, middle, Body(cls, label))
    columns = len(cells.lines[0])
    width = Z.strip / columns
    for line, texts in enumerate(cells.lines):
        for column, text in enumerate(texts):
            box = Rect("", 0.75, 0.75, width - 1.5, Z.cell_height - 1.5, 2)
            size = "s13" if len(cells.lines) == 1 else "s12"
            place = (width / 2, shapes.baseline(Z.cell_height, size))
            changed = _differs(strip, cells, column, line)
            kind = ("hurt" if strip.wrong else "new") if changed else ""
            fill = _touched(strip, cells, column)
            body = Body(
                f"byte-cell {kind} {fill}".strip(),
                (box, Text(f"mid {size}", *place, text)),
                layer=2 if kind else 1,
                title=f"{strip.name} {strip.note}, cell {column}: {cells.titles[column]}",
            )
            name = f"cell-{strip.note}-{strip.block}-{line}-{column}"
            yield Mark(name, Z.left + column * width, y + line * Z.cell_height, body)


def _differs(strip: _Strip, cells: _Cells, column: int, line: int) -> bool:
    """Whether a cell's bytes are other than they were, or should be."""
    if strip.against is None:
        return False
    columns = len(cells.lines[0])
    start = (column + line * columns) * cells.step
    return strip.raw[start : start + cells.step] != strip.against[start : start + cells.step]


def _touched(strip: _Strip, cells: _Cells, column: int) -> str:
    read = strip.read is not None and _in_range(strip.read, cells, column)
    write = strip.write is not None and _in_range(strip.write, cells, column)
    return "both" if read and write else "read" if read else "written" if write else ""


def _in_range(span: ByteRange, cells: _Cells, column: int) -> bool:
    """Of the first line; the others are alike."""
    return span.start <= column * cells.step < span.start + span.length


def _bracket(strip: _Strip, cells: _Cells, span: ByteRange, y: float, verb: str, side: int) -> Mark:
    """A bracket over (-1) or under (1) the columns of a byte range, with its addresses."""
    columns = len(cells.lines[0])
    width = Z.strip / columns
    start = Z.left + span.start / cells.step * width
    end = Z.left + (span.start + span.length) / cells.step * width
    gap, tip = 4 * side, 11 * side
    path = f"M{n(start + 1)} {n(gap)}V{n(tip)}H{n(end - 1)}V{n(gap)}"
    first = cells.first + span.start
    text = f"{verb} bytes {first}–{first + span.length - 1}"
    if span.rows > 1:
        text += f", and so in {span.rows - 1} more rows, {span.stride} B apart"
    middle = (start + end) / 2
    half = len(text) * 3.1
    middle = min(max(middle, Z.left + half), Z.left + Z.strip - half)
    parts: tuple[Primitive, ...] = (
        Path("line", path),
        Text("mid s125 semi", middle, tip + (-5 if side < 0 else 14), text),
    )
    return Mark(f"{verb}-{strip.note}", 0, y, Body("span", parts, layer=3))


def _offsets(cells: _Cells, y: float) -> Mark:
    """The byte at every edge between two cells."""
    columns = len(cells.lines[0])
    width = Z.strip / columns
    every = 1 if width > 34 else 2
    parts = tuple(
        Text(f"m s12 {_anchor(column, columns)}", column * width, 13, str(byte))
        for column in range(0, columns + 1, every)
        if (byte := cells.first + column * cells.step) >= 0
    )
    return Mark(f"offsets-{n(y)}", Z.left, y, Body("", parts))


def _anchor(column: int, columns: int) -> str:
    return "" if column == 0 else "end" if column == columns else "mid"


# --------------------------------------------------------------------------------------
# Orders of a shift
# --------------------------------------------------------------------------------------


def orders_scene(strips: Sequence[OrderStrip], bias: int, window: int, running: int) -> Scene:
    """The same shift done in several orders; rows that come out wrong are framed.

    ``window`` rows are what a forward reads; tokens from ``running`` on were drafts.
    """
    columns = len(strips[0].rows)
    width = min(Z.order_cell, Z.orders_strip / columns)
    heads = [
        Mark(
            f"row-{column}",
            Z.orders_left + column * (width + 4) + width / 2,
            12,
            Body("", (Text("mid m s12", 0, 0, f"row {column}" if width > 40 else str(column)),)),
        )
        for column in range(columns)
    ]
    marks = list(heads)
    right = strips[1].rows
    for index, strip in enumerate(strips):
        y = 22 + index * Z.order_pitch
        marks += _order(strip, index, y, width, bias, window, running, right)
    return Scene(Z.orders_width, 22 + len(strips) * Z.order_pitch, tuple(marks))


def _order(
    strip: OrderStrip,
    index: int,
    y: float,
    width: float,
    bias: int,
    window: int,
    running: int,
    right: Sequence[int | None],
) -> Iterator[Mark]:
    label = (Text("s125 semi", 0, 12, strip.name), Text("s12 m", 0, 26, strip.note))
    yield Mark(f"order-{index}", 0, y, Body("", label))
    kept = len(strip.rows) - bias
    wrong = [row for row in range(kept) if index and strip.rows[row] != right[row]]
    for row, token in enumerate(strip.rows):
        old = row < bias if index == 0 else row >= kept
        status = "old" if old else _status(token, running)
        text = "–" if token is None else "?" if token < 0 else f"t{token}"
        x = Z.orders_left + row * (width + 4)
        body = shapes.token(text, status, width, Z.order_height, "s13")
        yield Mark(f"order-{index}-{row}", x, y, body)
        if row in wrong:
            frame = Rect("hurt-frame", -1.5, -1.5, width + 3, Z.order_height + 3, 4)
            yield Mark(f"wrong-{index}-{row}", x, y, Body("", (frame,), layer=3))
    if index == 1:
        frame = Rect("window", -3, -3, window * (width + 4) + 2, Z.order_height + 6, 5)
        yield Mark("window", Z.orders_left, y, Body("", (frame,), layer=2))
    said = "" if index == 0 else _verdict(strip, index, wrong, overlaps=kept > bias)
    if said:
        x = Z.orders_left + len(strip.rows) * (width + 4) + 10
        cls = "s125 semi wrong-text" if not strip.right else "s125 m"
        yield Mark(f"said-{index}", x, y + 18, Body("", (Text(cls, 0, 0, said),)))


def _status(token: int | None, running: int) -> RowStatus:
    if token is None:
        return "empty"
    return "accepted" if token >= running else "generated"


def _verdict(strip: OrderStrip, index: int, wrong: Sequence[int], *, overlaps: bool) -> str:
    if strip.right:
        return "as it should be" if index == 1 else "right, by luck" if overlaps else "right too"
    if not wrong:
        return "wrong bytes"
    rows = ", ".join(str(row) for row in wrong)
    return f"row{'' if len(wrong) == 1 else 's'} {rows} lost"
