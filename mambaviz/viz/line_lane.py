"""A request as one line, where there are too many to show each whole: its row and its copies.

The columns are those of `mambaviz.viz.lanes`; a block says its id, its letter and ``h(n)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from mambaviz.viz import lanes, shapes
from mambaviz.viz.lanes import Axis, Parts
from mambaviz.viz.scene import Body, Group, Links, Mark, Path, Rect, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import LANES as Z
from mambaviz.viz.views import BlockView, CopyView, LaneView

FLOOR = Z.line_block + Z.line_block_height  # where arrows leave the row


def lane_parts(view: LaneView, axis: Axis) -> Parts:
    """The marks of one line in parts, each drawn once for what it shows; y from its own top."""
    kind = view.copies[0].kind if view.copies else ""
    return (
        _gutter(view.name, kind, view.note),
        _row(view.cells, axis),
        _arrows(view.copies, axis),
    )


@lru_cache(maxsize=2048)
def _gutter(request: str, kind: str, note: str) -> tuple[Mark, ...]:
    return tuple(_gutter_marks(request, kind, note))


def _gutter_marks(request: str, kind: str, note: str) -> Iterator[Mark]:
    ground = Rect("page", -8, 0, Z.left + 6, Z.line_height - 1)
    yield Mark("gutter", 0, 0, Body("", (ground,), layer=3))
    name = request if len(request) <= 3 else request[:2] + "…"
    size = "s14" if len(name) == 1 else "s12"
    parts = (
        Rect("", 0.5, 0.5, 25, 19, 6),
        Text(f"mid {size} bold", 13, shapes.baseline(20, size), name),
    )
    badge = Body("badge", parts, layer=3, title=f"request {request}")
    yield Mark("badge", 4, Z.line_block, badge)
    if kind:
        sign = Group("event", 0, 0, shapes.event_sign(kind))
        yield Mark("kind", 35, Z.line_block + 2, Body("", (sign,), layer=3, title=kind))
    if note:
        text = Body("", (Text("m s125", 0, 0, note),), layer=3)  # stays in view like the name
        yield Mark("note", Z.left + 8, Z.line_block + 14.5, text)


@lru_cache(maxsize=2048)
def _row(cells: tuple[BlockView, ...], axis: Axis) -> tuple[Mark, ...]:
    return tuple(mark for cell in cells for mark in _cell(cell, axis))


def _cell(cell: BlockView, axis: Axis) -> Iterator[Mark]:
    x = axis.lefts[cell.column] + 2
    width = axis.lefts[cell.column + 1] - axis.lefts[cell.column] - 4
    gone = cell.role in ("retired", "null")  # named as in a whole lane, so that blocks slide
    name = f"c{cell.column}" if gone else f"b{cell.block}"
    body = lanes.block_body(cell, width, Z.line_block_height)
    yield Mark(name, x, Z.line_block, body)
    if cell.role == "running":
        outline = Rect("outline", 1.5, 1.5, width - 3, Z.line_block_height - 3, 5)
        mark = shapes.wrong_mark(width - 4, 3) if cell.wrong else []
        cls = "running wrong" if cell.wrong else "running"
        yield Mark("running", x, Z.line_block, Body(cls, (outline, *mark), layer=2))


@lru_cache(maxsize=1024)
def _arrows(copies: tuple[CopyView, ...], axis: Axis) -> tuple[Mark, ...]:
    return tuple(mark for copy in copies for mark in _copy(copy, axis))


def _copy(copy: CopyView, axis: Axis) -> Iterator[Mark]:
    """Both arrows in the gap below the row, each from the column it reads."""
    target = axis.center(copy.dst_col)
    for name, column, skipped in (
        ("conv", copy.src_col, copy.conv_skipped),
        ("temporal", copy.temporal_col, copy.temporal_skipped),
    ):
        source = axis.center(column)
        if column == copy.dst_col or not copy.has(name):
            continue  # in place: the sign beside the name says so
        side = 1 if source > target else -1
        end = target + side * 8
        line = f"M{n(source)} {FLOOR}v4H{n(end)}v-1"
        parts = (Path("line", line), shapes.arrow_head(end, FLOOR - 2, 0, -1, 6))
        cls = "copy skipped" if skipped else "copy"
        block = copy.src_block if name == "conv" else copy.temporal_block
        links = Links(ends=lanes.ends_of(block, copy.dst_block))
        yield Mark(f"arrow-{name}", 0, 0, Body(cls, parts, layer=2, title=skipped, links=links))
