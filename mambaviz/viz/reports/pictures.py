"""The pictures of a report: rows before and after with what moves them, numbers, errors."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from mambaviz.trace import StateKind
from mambaviz.viz import shapes
from mambaviz.viz.compare.pictures import Marks, drawn_once
from mambaviz.viz.reports.exhibit import Around, Piece, Values
from mambaviz.viz.reports.sizes import SIZES as Z
from mambaviz.viz.scene import (
    Body,
    Dot,
    Mark,
    Path,
    Primitive,
    Rect,
    Text,
    heat_class,
    heat_letter,
)
from mambaviz.viz.shapes import n
from mambaviz.viz.views import RowStatus

Scale = tuple[float, ...]  # largest absolute value of each channel
NOTE_WIDTH = 18  # characters a line


# --------------------------------------------------------------------------------------
# The block around a phase
# --------------------------------------------------------------------------------------


@drawn_once
def block_picture(
    around: Around,
    right: Values,
    scale: Scale,
    state: StateKind,
    window: int,
    order: bool,
    note: tuple[tuple[str, str], ...],
) -> Iterator[Mark]:
    """The block's rows before and after, arrows between them, its numbers after.

    ``right`` are the numbers with the fix: others are framed. ``order`` numbers the rows of a
    copy in the order in which they are stored. ``note`` stands beside the numbers, as lines of
    class and text.
    """
    if state == "conv":
        yield from _strips(around, window, order)
    else:
        yield from _bars(around)
    yield from _heat(around.target, right, scale, state)
    for index, (cls, text) in enumerate(note):
        yield Mark(f"note{index}", Z.note, Z.heat + 12 + 17 * index, _text(cls, text))


def wrong_cells(found: Values, right: Values) -> list[tuple[int, int]]:
    return [
        (row, column)
        for row, values in enumerate(found)
        for column, value in enumerate(values)
        if value != right[row][column]
    ]


def _strips(around: Around, window: int, order: bool) -> Iterator[Mark]:
    source, target = around.source, around.target
    count = len(target.labels)
    cell = min(Z.cell, 330 / count)
    for row in range(count):
        middle = Z.left + (row + 0.5) * cell - 1.5
        yield Mark(
            f"row{row}", middle, 11, _text("mid m s12", f"row {row}" if cell > 38 else str(row))
        )
    moved = around.kind is not None
    whole = 0 if count <= window else None
    yield from _name(source, "before", Z.first, moved and source.block != target.block)
    yield from _name(target, "after", Z.second, False)
    yield from _rows(
        "up", source, Z.first, cell, around.reads if around.reads is not None else whole, window
    )
    yield from _rows(
        "down",
        target,
        Z.second,
        cell,
        around.writes if around.writes is not None else whole,
        window,
    )
    if moved:
        yield from _arrows(around, cell, order)
    lines = textwrap.wrap(around.words, NOTE_WIDTH) if count * cell > 200 else [around.words]
    for index, line in enumerate(lines[:6]):
        cls = "s125 semi wrong-text" if around.words.startswith("stopped") else "s125 semi"
        yield Mark(f"words{index}", Z.left + count * cell + 10, 40 + 17 * index, _text(cls, line))


def _name(piece: Piece, side: str, y: float, is_other: bool) -> Iterator[Mark]:
    chip = shapes.block_chip(piece.block, piece.role, Z.chip, Z.strip_height)
    yield Mark(f"chip-{side}", 0, y, chip)
    yield Mark(f"place-{side}", Z.chip + 7, y + 13, _text("s12 semi", piece.place))
    word = "source" if is_other else side
    yield Mark(f"side-{side}", Z.chip + 7, y + 28, _text("s12 m", word))


def _rows(
    name: str, piece: Piece, y: float, cell: float, offset: int | None, window: int
) -> Iterator[Mark]:
    for row, (label, status) in enumerate(zip(piece.labels, piece.statuses, strict=True)):
        inside = offset is None or offset <= row < offset + window
        shown: RowStatus = status if inside or status == "empty" else "old"
        body = shapes.token(label, shown, cell - 3, Z.strip_height, "s13")
        yield Mark(f"{name}{row}", Z.left + row * cell, y, body)
    if offset is None:
        return
    rows = min(window, len(piece.labels) - offset)
    frame = Rect("window", -3, -3, rows * cell + 3, Z.strip_height + 6, 5)
    yield Mark(f"{name}-window", Z.left + offset * cell, y, Body("", (frame,), layer=2))


def _arrows(around: Around, cell: float, order: bool) -> Iterator[Mark]:
    """From every row that is copied to where it goes; dashed where another token arrived."""
    source, target, bias = around.source, around.target, around.bias
    count = len(target.labels) - bias
    for row in range(count):
        came = target.values[row] == source.values[row + bias]
        start = Z.left + (row + bias + 0.5) * cell - 1.5
        end = Z.left + (row + 0.5) * cell - 1.5
        top, bottom = Z.first + Z.strip_height + 4, Z.second - 5
        length = math.hypot(end - start, bottom - top)
        dx, dy = (end - start) / length, (bottom - top) / length
        line = f"M{n(start)} {n(top)}L{n(end - 7 * dx)} {n(bottom - 7 * dy)}"
        parts: list[Primitive] = [
            Path("line", line),
            shapes.arrow_head(end, bottom, dx, dy),
        ]
        if order:
            x, y = (start + end) / 2, (top + bottom) / 2
            parts += [Dot("order", x, y, 9), Text("mid s12 bold", x, y + 4.2, str(count - row))]
        cls = "copy" if came else "copy skipped"
        yield Mark(f"arrow{row}", 0, 0, Body(cls, tuple(parts), layer=3))
        half = cell / 2 - 4
        band = f"M{n(start - half)} {n(top)}H{n(start + half)}L{n(end + half)} {n(bottom)}"
        ribbon = (Path("band", f"{band}H{n(end - half)}z"),)
        yield Mark(f"band{row}", 0, 0, Body("ribbon" if came else "ribbon bad", ribbon, layer=0))


def _bars(around: Around) -> Iterator[Mark]:
    """A temporal state has no rows: the tokens that it has taken in."""
    source, target = around.source, around.target
    moved = around.kind is not None
    yield from _name(source, "before", Z.first, moved and source.block != target.block)
    yield from _name(target, "after", Z.second, False)
    most = max(source.absorbed or 0, target.absorbed or 0, 1)
    pitch = min(Z.token, (Z.bars - 60) / most)
    for name, piece, y in (("up", source, Z.first), ("down", target, Z.second)):
        count = max(piece.absorbed or 0, 0)
        for token in range(count):
            label = str(token) if pitch >= 17 else ""
            body = shapes.token(label, "generated", pitch - 1.5, Z.strip_height, "s12", 2)
            yield Mark(f"{name}{token}", Z.left + token * pitch, y, body)
        yield Mark(
            f"{name}-h", Z.left + count * pitch + 8, y + 21, _text("s14 bold", f"h({count})")
        )
    if moved:
        came = target.values == source.values
        x, top, bottom = Z.left + 30, Z.first + Z.strip_height + 4, Z.second - 5
        parts = (
            Path("line", f"M{n(x)} {n(top)}V{n(bottom - 7)}"),
            shapes.arrow_head(x, bottom, 0, 1),
        )
        yield Mark("arrow", 0, 0, Body("copy" if came else "copy skipped", parts, layer=3))
    cls = "s125 semi wrong-text" if around.words.startswith("stopped") else "s125 semi"
    yield Mark(
        "words",
        Z.left + 46,
        (Z.first + Z.second + Z.strip_height) / 2 + 4,
        _text(cls, around.words),
    )


def _heat(piece: Piece, right: Values, scale: Scale, state: StateKind) -> Iterator[Mark]:
    """The block's numbers after the phase."""
    wrong = wrong_cells(piece.values, right)
    first = wrong[0] if wrong else None
    columns = len(piece.values[0])
    for column in range(columns):
        name = (
            ("channel" if state == "conv" else "state") + f" {column}"
            if not column
            else str(column)
        )
        x = Z.left + (column + 0.5) * Z.heat_cell - 1.5
        yield Mark(f"head{column}", x, Z.heads, _text("mid m s12", name))
    for row, values in enumerate(piece.values[: Z.most_rows]):
        y = Z.heat + row * Z.heat_row
        name = f"row {row}" if state == "conv" else f"channel {row}"
        yield Mark(f"line{row}", Z.left - 14, y + 15, _text("end m s12", name))
        for column, value in enumerate(values):
            strength = scale[column if state == "conv" else row]
            body = _number(value, strength, (row, column) in wrong)
            yield Mark(f"cell{row}-{column}", Z.left + column * Z.heat_cell, y, body)
    if first is not None and first[0] < Z.most_rows:
        x = Z.left + (first[1] + 0.5) * Z.heat_cell - 1.5
        y = Z.heat + (first[0] + 0.5) * Z.heat_row - 1
        yield Mark("circle", x, y, _CIRCLE)


def _ellipse(wide: float, high: float) -> str:
    arc = f"{n(wide)} {n(high)} 0 1 0"
    return f"M{n(-wide)} 0a{arc} {n(2 * wide)} 0a{arc} {n(-2 * wide)} 0"


_CIRCLE = Body("circled", (Path("line", _ellipse(Z.heat_cell / 2 + 7, Z.heat_row / 2 + 4)),), 3)


@lru_cache(maxsize=8192)
def _number(value: float, scale: float, wrong: bool) -> Body:
    width, height = Z.heat_cell - 3, Z.heat_row - 2
    letter = heat_letter(value, 2 * scale)  # half as strong: numbers stand on it
    parts = (
        Rect(heat_class(letter), 0, 0, width, height, 3),
        *((Rect("hurt", 1, 1, width - 2, height - 2, 3),) if wrong else ()),
        Text("mid s13", width / 2, height / 2 + 4.6, written(value)),
    )
    return Body("number wrong" if wrong else "number", parts, title=f"{value:g}")


def written(value: float) -> str:
    """Two decimals, with a minus sign."""
    return f"{value:.2f}".replace("-", "−")


@lru_cache(maxsize=8192)
def _text(cls: str, text: str) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=2)


def scale_of(scales: np.ndarray) -> Scale:
    return tuple(float(value) for value in scales)


# --------------------------------------------------------------------------------------
# What it does to the output
# --------------------------------------------------------------------------------------


def errors_picture(errors: Sequence[float | None]) -> Marks:
    """A bar a step: the largest error of a kept token."""
    marks: list[Mark] = []
    ticks = _ticks(max((e for e in errors if e is not None), default=0.0))
    bottom = Z.chart_height - Z.chart_bottom
    room, wide = bottom - Z.chart_top, Z.chart_width - Z.chart_left - 4
    for tick in ticks:
        y = bottom - room * tick / ticks[-1]
        grid = Path("grid", f"M{n(Z.chart_left)} 0H{n(Z.chart_width)}")
        marks.append(Mark(f"grid{tick:g}", 0, y, Body("", (grid,), layer=0)))
        marks.append(
            Mark(f"tick{tick:g}", Z.chart_left - 6, y + 4, _text("end m s12", f"{tick:g}"))
        )
    pitch = wide / max(len(errors), 1)
    bar = min(pitch * 0.6, 30)
    word = "step " if pitch > 44 else ""
    for step, error in enumerate(errors):
        x = Z.chart_left + (step + 0.5) * pitch
        marks.append(Mark(f"step{step}", x, bottom + 15, _text("mid m s12", f"{word}{step}")))
        if error:
            height = max(room * error / ticks[-1], 1.5)
            body = Body(
                "error", (Rect("", -bar / 2, -height, bar, height, 1.5),), title=f"{error:g}"
            )
            marks.append(Mark(f"bar{step}", x, bottom, body))
        shown = "–" if error is None else "0" if error == 0 else f"{error:.2g}"
        top = bottom - (room * error / ticks[-1] if error else 0) - 5
        marks.append(Mark(f"value{step}", x, top, _text("mid s12 semi", shown)))
    return tuple(marks)


def _ticks(highest: float) -> list[float]:
    """Up to four round numbers from 0 to at least ``highest``; 0 and 1 where nothing is wrong."""
    if highest == 0:
        return [0.0, 1.0]
    rough = highest / 3
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [step * index for index in range(math.ceil(highest / step - 1e-9) + 1)]
