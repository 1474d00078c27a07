"""The contents of every block that a phase changed, before and after, changed cells framed.

A row of a conv grid is a token (in the DS layout too, where a token's bytes do not lie side by
side); a row of a temporal grid is one channel of one head. Colours have a fixed scale for each
channel over the whole run, so a colour means the same number in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mambaviz.trace import StateKind, StateSpec, Trace
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Heat, Mark, Path, Primitive, Rect, Text, heat_letter
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import CHANGES as Z
from mambaviz.viz.views import ChangedState, ChangeView, Label

Scales = dict[tuple[int, StateKind], np.ndarray]  # per channel, largest absolute value


def scales_of(trace: Trace) -> Scales:
    """Largest absolute value of each channel of each state over the run.

    conv: ``[dim]``, temporal: ``[heads * head_dim]``.
    """
    scales: Scales = {}
    for step in trace.steps:
        for phase in step.phases:
            for change in phase.changes:
                spec = trace.spec_of[change.layer, change.state]
                grid = as_grid(spec, change.raw, trace.scenario.engine.layout)
                axis = 0 if change.state == "conv" else 1  # channels: columns, or rows
                values = np.nan_to_num(np.abs(grid)).max(axis=axis)
                key = (change.layer, change.state)
                scales[key] = np.maximum(scales.get(key, np.zeros_like(values)), values)
    return scales


def as_grid(spec: StateSpec, raw: bytes, layout: str) -> np.ndarray:
    """One block as a table: conv ``[state_len, dim]``, temporal ``[channels, d_state]``, float32.

    Empty ``raw`` stands for a block never written: zeros.
    """
    values = spec.decode(raw) if raw else np.zeros(spec.shape, dtype=np.float32)
    if spec.state == "temporal":
        return values.reshape(-1, spec.shape[-1])
    return values if layout == "SD" else values.T


@dataclass(frozen=True)
class _Grid:
    """One state of one block at one time."""

    values: np.ndarray
    raw: tuple[str, ...]  # hex of each cell, row by row


def changes(
    views: tuple[ChangeView, ...], trace: Trace, scales: Scales
) -> tuple[tuple[Mark, ...], float]:
    """The marks of all changed blocks side by side, and their width."""
    marks: list[Mark] = []
    for index, view in enumerate(views):
        marks += _block(view, index * Z.pitch, trace, scales)
    return tuple(marks), Z.pitch * max(len(views), 1) + 12


def _block(view: ChangeView, x: float, trace: Trace, scales: Scales) -> Iterator[Mark]:
    key = f"{view.block}"
    yield Mark(f"chip{key}", x + 12, 0, shapes.block_chip(view.block, view.role, 42, 22))
    where = f"of {view.request}, column {view.column}" if view.request else "held by nobody"
    yield Mark(f"of{key}", x + 62, 15, _text("m s125", where))
    for side, offset in (("before", 0.0), ("after", Z.after)):
        yield Mark(f"{side}{key}", x + Z.left + offset, 36, _text("m s12", side))
    for changed in view.states:
        yield from _state(view, changed, x, trace, scales)


def _text(cls: str, text: str) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=2)


def _state(
    view: ChangeView, changed: ChangedState, x: float, trace: Trace, scales: Scales
) -> Iterator[Mark]:
    spec = trace.spec_of[view.layer, changed.state]
    layout = trace.scenario.engine.layout
    before = _grid(spec, changed.before, layout)
    after = _grid(spec, changed.after, layout)
    rows, columns = (min(size, Z.most) for size in after.values.shape)
    tall = Z.conv_room if changed.state == "conv" else Z.room
    cell = min(Z.cell, tall / rows, Z.room / columns)
    y = Z.conv if changed.state == "conv" else Z.temporal
    scale = scales[view.layer, changed.state]
    differs = np.array(after.raw).reshape(after.values.shape) != np.array(before.raw).reshape(
        before.values.shape
    )
    for side, grid, left in (
        ("before", before, x + Z.left),
        ("after", after, x + Z.left + Z.after),
    ):
        name = f"{changed.state}-{side}{view.block}"
        yield Mark(name, left, y, _heat_body(grid, rows, columns, cell, scale, changed.state, view))
        label = changed.label_before if side == "before" else changed.label_after
        marked = differs if side == "after" else np.zeros_like(differs)
        yield from _labels(name, label, changed.state, rows, cell, left, y, marked)
    frame = Path("changed", outline(differs[:rows, :columns], cell))
    body = Body("frame", (frame,), layer=2)
    yield Mark(f"{changed.state}-frame{view.block}", x + Z.left + Z.after, y, body)


def _grid(spec: StateSpec, raw: bytes, layout: str) -> _Grid:
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[spec.dtype]
    count = int(np.prod(spec.shape))
    cells = np.frombuffer(raw or bytes(count * size), dtype=np.uint8).reshape(*spec.shape, size)
    if spec.state == "conv" and layout == "DS":
        cells = cells.transpose(1, 0, 2)
    # Most significant byte first, as one writes a number down.
    return _Grid(
        values=as_grid(spec, raw, layout),
        raw=tuple(bytes(cell[::-1]).hex() for cell in cells.reshape(count, size)),
    )


def _heat_body(
    grid: _Grid,
    rows: int,
    columns: int,
    cell: float,
    scale: np.ndarray,
    state: StateKind,
    view: ChangeView,
) -> Body:
    letters = []
    for row in range(rows):
        line = grid.values[row, :columns]
        scales = scale[:columns] if state == "conv" else [scale[row]] * columns
        letters.append(
            "".join(heat_letter(float(v), float(s)) for v, s in zip(line, scales, strict=True))
        )
    inside = [(row, column) for row in range(rows) for column in range(columns)]
    width = grid.values.shape[1]
    parts: tuple[Primitive, ...] = (
        Heat(
            0,
            0,
            cell,
            tuple(letters),
            tuple(f"{grid.values[place]:.4g}" for place in inside),
            tuple(grid.raw[row * width + column] for row, column in inside),
        ),
        Rect("border", 0, 0, columns * cell, rows * cell),
    )
    title = f"{state} state of block {view.block}"
    if (rows, columns) != grid.values.shape:
        whole = " × ".join(str(size) for size in grid.values.shape)
        title += f", the first {rows} × {columns} of {whole} numbers"
    return Body("heat", parts, layer=1, block=view.block, title=title)


def _labels(
    name: str,
    label: Label,
    state: StateKind,
    rows: int,
    cell: float,
    left: float,
    y: float,
    marked: np.ndarray,
) -> Iterator[Mark]:
    if state == "temporal":
        text = "empty" if label.absorbed is None else f"h({label.absorbed})"
        cls = "end s12 semi" if marked.any() else "end m s12"
        yield Mark(f"{name}-h", left - 3, y + 12, _text(cls, text))
        return
    for row in range(rows):
        if cell < 11 and row % 2:
            continue  # every second label is all that fits
        token = label.rows[row] if row < len(label.rows) else None
        cls = "end s12 semi" if marked[row].any() else "end m s12"
        text = "–" if token is None else f"t{token}"
        yield Mark(f"{name}-{row}", left - 3, y + row * cell + cell / 2 + 4.2, _text(cls, text))


def outline(cells: np.ndarray, size: float) -> str:
    """The border around the true cells of ``[rows, columns]``, as a path; empty if none is."""
    padded = np.pad(cells, 1)
    path = []
    for row, column in zip(*np.nonzero(cells), strict=True):
        x, y = column * size, row * size
        if not padded[row, column + 1]:
            path.append(f"M{n(x)} {n(y)}h{n(size)}")
        if not padded[row + 2, column + 1]:
            path.append(f"M{n(x)} {n(y + size)}h{n(size)}")
        if not padded[row + 1, column]:
            path.append(f"M{n(x)} {n(y)}v{n(size)}")
        if not padded[row + 1, column + 2]:
            path.append(f"M{n(x + size)} {n(y)}v{n(size)}")
    return "".join(path)
