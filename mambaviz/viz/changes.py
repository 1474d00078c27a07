"""The contents of every block that a phase changed, before and after, changed cells framed.

A row of a conv grid is a token (in the DS layout too, where a token's bytes do not lie side by
side); a row of a temporal grid is one channel of one head. Colours have a fixed scale for each
channel over the whole run, so a colour means the same number in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from mambaviz.trace import StateKind, StateSpec, Trace
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Heat, Mark, Path, Rect, Text, heat_letter
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
class _Tensor:
    """How a block's bytes are read and coloured; tensors that are read alike are equal."""

    state: StateKind
    dtype: str
    shape: tuple[int, ...]
    layout: str
    scale: bytes  # of the channels, float32
    spec: StateSpec = field(compare=False)


@dataclass(frozen=True)
class _Grid:
    """One state of one block at one time, drawn."""

    raw: np.ndarray  # [all rows, all columns], a cell's bytes as a number
    body: Body
    rows: int  # that are drawn
    columns: int
    cell: float


def changes(
    views: tuple[ChangeView, ...], trace: Trace, scales: Scales
) -> tuple[tuple[Mark, ...], float]:
    """The marks of all changed blocks side by side, and their width."""
    marks: list[Mark] = []
    for index, view in enumerate(views):
        marks += _block(view, index * Z.pitch, trace, scales)
    return tuple(marks), Z.pitch * max(len(views), 1) + 12


def _block(view: ChangeView, x: float, trace: Trace, scales: Scales) -> Iterator[Mark]:
    yield Mark(f"chip{view.block}", x + 12, 0, shapes.block_chip(view.block, view.role, 42, 22))
    where = f"of {view.request}, column {view.column}" if view.request else "held by nobody"
    yield Mark(f"of{view.block}", x, 0, _heading(where))
    for changed in view.states:
        yield from _state(view, changed, x, trace, scales)


@lru_cache(maxsize=1024)
def _heading(where: str) -> Body:
    sides = (("before", 0.0), ("after", Z.after))
    names = (Text("m s12", Z.left + offset, 36, side) for side, offset in sides)
    return Body("", (Text("m s125", 62, 15, where), *names), layer=2)


def _state(
    view: ChangeView, changed: ChangedState, x: float, trace: Trace, scales: Scales
) -> Iterator[Mark]:
    spec = trace.spec_of[view.layer, changed.state]
    layout = trace.scenario.engine.layout
    scale = scales[view.layer, changed.state].tobytes()
    tensor = _Tensor(spec.state, spec.dtype, tuple(spec.shape), layout, scale, spec)
    before = _grid(tensor, changed.before, view.block)
    after = _grid(tensor, changed.after, view.block)
    y = Z.conv if changed.state == "conv" else Z.temporal
    differs = after.raw != before.raw
    differing = tuple(differs.any(axis=1).tolist())
    for side, grid, left in (
        ("before", before, x + Z.left),
        ("after", after, x + Z.left + Z.after),
    ):
        name = f"{changed.state}-{side}{view.block}"
        yield Mark(name, left, y, grid.body)
        label = changed.label_before if side == "before" else changed.label_after
        marked = differing if side == "after" else (False,) * len(differing)
        labels = _labels(changed.state, label, grid.rows, grid.cell, marked)
        yield Mark(f"{name}-labels", left - 3, y, labels)
    frame = Path("changed", outline(differs[: grid.rows, : grid.columns], grid.cell))
    body = Body("frame", (frame,), layer=2)
    yield Mark(f"{changed.state}-frame{view.block}", x + Z.left + Z.after, y, body)


# What a phase finds before it is what an earlier one left behind: each content is drawn once.
@lru_cache(maxsize=4096)
def _grid(tensor: _Tensor, raw: bytes, block: int) -> _Grid:
    spec = tensor.spec
    values = as_grid(spec, raw, tensor.layout)
    codes = _codes(spec, raw, tensor.layout)
    rows, columns = (min(size, Z.most) for size in values.shape)
    tall = Z.conv_room if spec.state == "conv" else Z.room
    cell = min(Z.cell, tall / rows, Z.room / columns)
    scales = np.frombuffer(tensor.scale, dtype=np.float32)
    by_cell = scales[None, :] if spec.state == "conv" else scales[:, None]
    inside = values[:rows, :columns]
    heat = Heat(
        0,
        0,
        cell,
        _letters(inside, np.broadcast_to(by_cell, values.shape)[:rows, :columns]),
        tuple(f"{value:.4g}" for value in inside.ravel().tolist()),
        tuple(f"{code:0{2 * codes.itemsize}x}" for code in codes[:rows, :columns].ravel().tolist()),
    )
    title = f"{spec.state} state of block {block}"
    if (rows, columns) != values.shape:
        whole = " × ".join(str(size) for size in values.shape)
        title += f", the first {rows} × {columns} of {whole} numbers"
    border = Rect("border", 0, 0, columns * cell, rows * cell)
    body = Body("heat", (heat, border), layer=1, block=block, title=title)
    return _Grid(codes, body, rows, columns, cell)


def _codes(spec: StateSpec, raw: bytes, layout: str) -> np.ndarray:
    """The same table as `as_grid`, each cell as the number that its bytes are."""
    kind = {"float32": "<u4", "float16": "<u2", "bfloat16": "<u2"}[spec.dtype]
    if not raw:
        codes = np.zeros(spec.shape, dtype=kind)
    else:
        codes = np.frombuffer(raw, dtype=kind).reshape(spec.shape)
    if spec.state == "temporal":
        return codes.reshape(-1, spec.shape[-1])
    return codes if layout == "SD" else codes.T


def _letters(values: np.ndarray, scales: np.ndarray) -> tuple[str, ...]:
    """Both ``[rows, columns]``; a row as a string of letters (`mambaviz.viz.scene.Heat`)."""
    pairs = zip(values.tolist(), scales.tolist(), strict=True)
    return tuple("".join(map(heat_letter, line, ends)) for line, ends in pairs)


@lru_cache(maxsize=8192)
def _labels(
    state: StateKind, label: Label, rows: int, cell: float, marked: tuple[bool, ...]
) -> Body:
    """What stands left of a grid: tokens of a conv state's rows, or the h(n); bold where a row
    (of all, drawn or not) has changed."""
    if state == "temporal":
        text = "empty" if label.absorbed is None else f"h({label.absorbed})"
        return Body("", (Text(_weight(any(marked)), 0, 12, text),), layer=2)
    texts = []
    for row in range(0, rows, 1 if cell >= 11 else 2):  # every second one where no more fit
        token = label.rows[row] if row < len(label.rows) else None
        text = "–" if token is None else f"t{token}"
        texts.append(Text(_weight(marked[row]), 0, cell / 2 + 4.2 + row * cell, text))
    return Body("", tuple(texts), layer=2)


def _weight(changed: bool) -> str:
    return "end s12 semi" if changed else "end m s12"


def outline(cells: np.ndarray, size: float) -> str:
    """The border around the true cells of ``[rows, columns]``, as a path; empty if none is."""
    return _outline(cells.tobytes(), cells.shape, size)


@lru_cache(maxsize=1024)
def _outline(cells: bytes, shape: tuple[int, int], size: float) -> str:
    inside = np.frombuffer(cells, dtype=bool).reshape(shape)
    padded = np.pad(inside, 1)
    path = []
    for row, column in zip(*np.nonzero(inside), strict=True):
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
