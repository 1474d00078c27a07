"""Tokens and blocks: a lane for each request, ruler and block table on one axis.

From top to bottom a lane holds the tokens with the query's bracket, pins that say which block
holds which ``h(n)``, the scheduler's list above the worker's row (differences outlined), and
this phase's copies as arrows. A column is as wide as the tokens it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ParamSpec, cast

from mambaviz.trace import Trace
from mambaviz.viz import alt, shapes
from mambaviz.viz.scene import Body, Group, Links, Mark, Path, Primitive, Rect, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import LANES as Z
from mambaviz.viz.theme import LETTER
from mambaviz.viz.views import (
    BlockView,
    CopyView,
    LaneView,
    QueryView,
    TokenStatus,
    layers_of,
)


@dataclass(frozen=True)
class Axis:
    """Where columns and tokens lie in all lanes of a group; the same over the whole run."""

    lefts: tuple[float, ...]  # of the columns, and the right end of the last
    token: float  # width of a token
    per_column: int  # tokens that a column covers
    covering: int  # columns that cover tokens; scratch behind them covers none

    @property
    def columns(self) -> int:
        return len(self.lefts) - 1

    @property
    def width(self) -> float:
        return max(self.lefts[-1], Z.width)

    def center(self, column: int) -> float:
        """Middle of a column; one outside the row lies just past its end."""
        column = max(0, min(column, self.columns - 1))
        return (self.lefts[column] + self.lefts[column + 1]) / 2

    def at(self, tokens: int) -> float:
        """Where the state after this many tokens belongs on the ruler."""
        return self.lefts[0] + tokens * self.token

    @property
    def every(self) -> int:
        """Narrow tokens carry a number only at every so many positions."""
        return 1 if self.token >= 16 else max(2, round(22 / self.token))


def axis_of(trace: Trace, group: int) -> Axis:
    """The axis for one cache group of a run."""
    engine = trace.scenario.engine
    longest = most_tokens(trace)
    columns = max(
        (
            max(len(row.worker_row[group]), len(row.block_list[group]))
            for step in trace.steps
            for phase in step.phases
            if phase.tables is not None
            for row in phase.tables.rows.values()
        ),
        default=1,
    )
    if engine.mode == "none" and layers_of(trace, group):
        return _one_column(longest, columns)
    crowded = engine.num_blocks > 100 and longest >= 100  # ids and h(n) of three digits
    least = Z.wide_column if crowded else Z.column
    return _even_columns(engine.block_size, max(columns, 1), least)


def most_tokens(trace: Trace) -> int:
    return max(
        (
            running.num_computed + running.num_scheduled
            for step in trace.steps
            for running in step.requests.values()
        ),
        default=1,
    )


def _one_column(tokens: int, columns: int) -> Axis:
    """none mode: everything is in column 0; the scratch columns behind it cover no tokens."""
    room = Z.width - Z.left - (columns - 1) * Z.column
    width = min(max(tokens * 8, room), tokens * Z.token)
    width = max(width, Z.column)
    lefts = [Z.left, Z.left + width]
    lefts += [lefts[-1] + Z.column * (index + 1) for index in range(columns - 1)]
    return Axis(tuple(lefts), width / tokens, tokens, 1)


def _even_columns(block_size: int, columns: int, least: float) -> Axis:
    room = Z.width - Z.left
    most = int(room // least)  # so many columns fit at once
    token = min(Z.token, max(8.0, room / (block_size * min(columns, most))))
    width = max(least, block_size * token)
    shown = max(columns, int(room // width))  # the axis goes on to the panel's edge
    lefts = tuple(Z.left + index * width for index in range(shown + 1))
    return Axis(lefts, width / block_size, block_size, shown)


# --------------------------------------------------------------------------------------
# The lane
# --------------------------------------------------------------------------------------


def heading(axis: Axis) -> list[Mark]:
    """Column numbers above all lanes."""
    return [
        Mark(f"col{column}", axis.center(column), 11, _label("mid m s12 semi", f"column {column}"))
        for column in range(axis.columns)
    ]


Parts = tuple[tuple[Mark, ...], ...]


def lane(view: LaneView, axis: Axis, small: bool) -> tuple[Mark, ...]:
    """The marks of one lane, y from its own top; ``small`` leaves row and arrows."""
    return tuple(mark for part in lane_parts(view, axis, small) for mark in part)


def lane_parts(view: LaneView, axis: Axis, small: bool) -> Parts:
    """The same in parts, each drawn once for what it shows: an equal part is the same object."""
    block_y = Z.small_block if small else Z.block
    row = _row(view.cells, axis, block_y)
    arrows = _arrows(view.copies, axis, Z.small_arrows if small else Z.arrows)
    gutter = _gutter(
        view.name,
        bool(view.cells),
        any(cell.state for cell in view.cells),
        view.batch_row,
        view.note,
        small,
    )
    if small:
        return gutter, row, arrows
    settled = view.query.start if view.query else len(view.tokens)
    return (
        gutter,
        _boundaries(axis),
        _tokens(view.tokens, axis, settled),
        _query(view.query, axis),
        _pins(view.cells, axis),
        _list(view.block_list, tuple(cell.block for cell in view.cells), axis),
        row,
        arrows,
    )


Marks = tuple[Mark, ...]
P = ParamSpec("P")


def _drawn_once(draw: Callable[P, Iterator[Mark]]) -> Callable[P, Marks]:
    @lru_cache(maxsize=2048)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Marks:
        return tuple(draw(*args, **kwargs))

    return cast("Callable[P, Marks]", drawn)


def _label(cls: str, text: str, layer: int = 2) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=layer)


@_drawn_once
def _gutter(
    request: str, has_row: bool, has_state: bool, batch_row: int | None, note: str, small: bool
) -> Iterator[Mark]:
    height = Z.small_height if small else Z.height
    yield Mark("gutter", 0, 0, Body("", (Rect("page", -8, -4, Z.left + 6, height - 2),), layer=3))
    name = request if len(request) <= 4 else request[:3] + "…"
    size = "s16" if len(name) == 1 else "s13"
    width = 25 if len(name) < 3 else 43
    badge = Body(
        "badge",
        (
            Rect("", 0.5, 0.5, width, 25, 6),
            Text(f"mid {size} bold", 0.5 + width / 2, shapes.baseline(26, size), name),
        ),
        layer=3,
        title=f"request {request}",
    )
    yield Mark("badge", 4, Z.small_block + 8 if small else 1, badge)
    row = "row" if batch_row is None else f"row {batch_row}"
    labels = [("row", row, Z.small_block + 25 if small else 114.5)] if has_row else []
    if not small and has_row:
        labels.append(("list", "list", 83.5))
    if not small and has_state:
        labels.append(("pins", "h(n) in", 50))
    for key, text, y in labels:
        if key == "row" and small:
            continue  # the badge stands there
        yield Mark(f"label-{key}", 55, y, _label("end m s125", text, layer=3))
    if note:
        y = (Z.small_block if small else Z.block) + 26
        # Stays in view like the name, wherever the columns have been scrolled to.
        yield Mark("note", Z.left + 8, y, _label("m s125", note, layer=3))


@_drawn_once
def _boundaries(axis: Axis) -> Iterator[Mark]:
    end = axis.lefts[axis.covering] if axis.covering < axis.columns else axis.width
    places, x = [], axis.lefts[0] + axis.token / 2
    while x < end - 4:
        places.append(x)
        x += axis.token * axis.every
    yield Mark("later", 0, 14, shapes.dots(places, 0))
    line = Body("column-edge", (Path("", "M0 0V86"),), layer=0)
    last = axis.covering + (axis.covering < axis.columns)  # the panel's own edge ends the axis
    for column in range(last):
        yield Mark(f"edge{column}", axis.lefts[column], 0, line)


@_drawn_once
def _tokens(tokens: tuple[TokenStatus, ...], axis: Axis, settled: int) -> Iterator[Mark]:
    """``settled`` tokens in front will not change any more in this step."""
    first = _whole_columns(axis, settled)
    for column in range(first):
        statuses = tokens[column * axis.per_column : (column + 1) * axis.per_column]
        body = _column_body(statuses, column * axis.per_column, axis)
        yield Mark(f"tokens{column}", axis.lefts[column], Z.ruler, body)
    gap = _gap(axis)
    for position in range(first * axis.per_column, len(tokens)):
        body = _token_body(position, tokens[position], axis)
        yield Mark(f"t{position}", axis.at(position) + gap, Z.ruler, body)


LONG_AXIS = 16  # columns; a longer run draws what is long past a column at a time


def _whole_columns(axis: Axis, settled: int) -> int:
    return max(0, settled // axis.per_column - 2) if axis.columns > LONG_AXIS else 0


def _gap(axis: Axis) -> float:
    return 1 if axis.token >= 16 else 0


def _token_body(position: int, status: TokenStatus, axis: Axis) -> Body:
    label = str(position) if position % axis.every == 0 else ""
    return shapes.token(label, status, axis.token - 2 * _gap(axis), Z.token_height)


@lru_cache(maxsize=4096)
def _column_body(statuses: tuple[TokenStatus, ...], first: int, axis: Axis) -> Body:
    """The tokens of a whole column as one body."""
    parts: list[Primitive] = []
    for index, status in enumerate(statuses):
        body = _token_body(first + index, status, axis)
        x = index * axis.token + _gap(axis)
        parts.append(Group(body.cls, x, 0, body.parts))
    return Body("column", tuple(parts))


@_drawn_once
def _query(query: QueryView | None, axis: Axis) -> Iterator[Mark]:
    if query is None:
        return
    start, end = axis.at(query.start) + 2, axis.at(query.end) - 2
    bracket = Path("bracket", f"M0 0v6H{n(end - start)}v-6")
    yield Mark("query", start, 27, Body("", (bracket,), layer=1))
    width = len(query.text) * 5.7
    reach = end + 8 + width  # past the axis, or past what one sees without scrolling
    before = reach > axis.width or (reach > Z.width >= end and start - width > Z.left)
    x, cls = (start - 6, "end m s12") if before else (end + 8, "m s12")
    # Over a column's edge, but below the tokens.
    ground = Rect("page", -2 - width if before else -2, -9, width + 4, 12)
    yield Mark("query-text", x, 35, Body("", (ground, Text(cls, 0, 0, query.text)), layer=2))


@_drawn_once
def _pins(row: tuple[BlockView, ...], axis: Axis) -> Iterator[Mark]:
    """Which block holds the state after n tokens; the weightiest role on top where two do."""
    stacked: dict[int, list[BlockView]] = {}
    seen: set[int] = set()
    live_first = sorted(row, key=lambda cell: (cell.role == "retired", cell.column))
    for cell in live_first:
        if cell.absorbed and not cell.holder and not cell.stale and cell.block not in seen:
            seen.add(cell.block)
            stacked.setdefault(cell.absorbed, []).append(cell)
    for tokens, cells in stacked.items():
        middle = axis.at(tokens)
        for level, cell in enumerate(sorted(cells, key=_pin_order)[:2]):
            width = Z.pin_width + 6 * (cell.block > 99)
            body = shapes.pin(cell.block, cell.role, width, Z.pin_height, kept=cell.kept)
            yield Mark(f"pin{cell.block}", middle - width / 2, Z.pin + level * 15, body)
        if len(cells) > 2:
            more = _label("m s12 halo", f"+{len(cells) - 2}")
            yield Mark(f"pins{tokens}", middle + width / 2 + 2, Z.pin + 26, more)


def _pin_order(cell: BlockView) -> tuple[int, int]:
    order = ("cached", "running", "previous", "speculative", "retired", "free", "null")
    return order.index(cell.role), cell.column


@_drawn_once
def _list(block_list: tuple[int, ...], row: tuple[int, ...], axis: Axis) -> Iterator[Mark]:
    for column, block in enumerate(block_list):
        x = axis.lefts[column] + 3
        width = axis.lefts[column + 1] - axis.lefts[column] - 6
        row_block = row[column] if column < len(row) else None
        yield Mark(f"list{column}", x, Z.list, _list_cell(block, row_block, width))


def _list_cell(block: int, row_block: int | None, width: float) -> Body:
    middle, y = width / 2, 11.8
    if block == row_block:
        text = str(block) if block else "∅"
        parts: tuple[Primitive, ...] = (
            Rect("", 0, 0, width, Z.list_height, 3),
            Text("mid m s12", middle, y, text),
        )
        return Body("list", parts, block=block or None)
    text = "∅ dropped" if not block else f"{block}, row {row_block}"
    parts = (
        Rect("hatched", 0, 0, width, Z.list_height, 3),
        Rect("page", middle - 33, 1.5, 66, 12, 2),
        Text("mid s12 semi", middle, 11.5, text),
    )
    said = f"block {block}" if block else "the null block: it has let go of this column"
    title = f"the scheduler’s list has {said}; the worker’s row keeps block {row_block}"
    return Body("list differs", parts, block=block or None, title=title)


# --------------------------------------------------------------------------------------
# Worker row
# --------------------------------------------------------------------------------------


@_drawn_once
def _row(row: tuple[BlockView, ...], axis: Axis, y: float) -> Iterator[Mark]:
    for cell in row:
        x = axis.lefts[cell.column] + 2
        width = axis.lefts[cell.column + 1] - axis.lefts[cell.column] - 4
        # A live block keeps its name, so that moved scratch slides. An id that the list has let
        # go of stays at its column, where it may stand more than once.
        gone = cell.role in ("retired", "null")
        name = f"c{cell.column}" if gone else f"b{cell.block}"
        yield Mark(name, x, y, block_body(cell, width, Z.block_height))
        if cell.role == "running":  # a mark of its own, so that it slides when the column advances
            outline = Rect("outline", 1.5, 1.5, width - 3, Z.block_height - 3, 5)
            mark = shapes.wrong_mark(width - 4, 3) if cell.wrong else []
            cls = "running wrong" if cell.wrong else "running"
            yield Mark("running", x, y, Body(cls, (outline, *mark), layer=2))


@lru_cache(maxsize=4096)
def block_body(cell: BlockView, width: float, height: float) -> Body:
    """A block with its id, letter, ``h(n)`` and window, all but the id read from its bytes."""
    if cell.role == "null":
        outline = Rect("b", 0.75, 0.75, width - 1.5, height - 1.5, 5)
        return Body(
            "bk null",
            (outline, Text("mid s135 semi", width / 2, height / 2 + 4.7, "∅ 0")),
            block=0,
            title=alt.block(cell),
        )
    parts = shapes.block_frame(cell.role, width, height, kept=cell.kept)
    left = 12 if cell.role == "cached" or cell.kept else 8
    line = height / 2 + 4.2 if cell.role == "speculative" else 19
    told = bool(cell.window) and height > 30  # a low block is one line
    if not told:
        line = height / 2 + 4.2
    parts += _first_line(cell, left, width, line)
    if told:
        parts.append(Text("win s12", left, 36, shapes.window_text(cell.window, cell.offset)))
    if cell.wrong and cell.role != "running":  # the running outline carries it
        parts += shapes.wrong_mark(width - 4, 3)
    bare = " bare" if cell.role == "running" else ""
    cls = shapes.block_class(cell.role, cell.wrong) + bare
    return Body(cls, tuple(parts), 1, cell.block, alt.block(cell), _links(cell))


def _links(cell: BlockView) -> Links | None:
    """The tokens behind a block's bytes; none where they are of an earlier or another owner."""
    if cell.holder or cell.stale or not cell.state:
        return None
    window = tuple(token for token in cell.window if token is not None)
    return Links(cell.absorbed or 0, window)


def _first_line(cell: BlockView, left: float, width: float, y: float) -> Iterator[Primitive]:
    """Id, letter and state; three digits each are set smaller, so that they keep apart.

    The letter stands where the id ends in a wide font: a machine without the page's own has one.
    """
    letter = LETTER["cached" if cell.kept else cell.role]
    block, state = str(cell.block), _state_text(cell)
    needed = left + 9 * len(block) + (13 if letter else 0) + 8 * len(state) + 14
    close = needed > width
    digit, right = (9.1, 5) if close else (10.8, 8)
    yield Text("id close" if close else "id", left, y, block)
    if letter:
        cls = "kept s12 semi" if cell.kept else "s12 semi"
        yield Text(cls, left + digit * len(block) + 2.4, y, letter)
    if close:
        state = "old" if cell.stale else state.replace(" has it", "’s")
    yield Text("end s12 semi" if close else "end s135 semi", width - right, y, state)


def _state_text(cell: BlockView) -> str:
    if not cell.state:
        return ""
    if cell.holder:
        return f"{cell.holder} has it" if len(cell.holder) <= 3 else "taken"
    if cell.absorbed is None:
        return "" if cell.window else "empty"
    return f"old h({cell.absorbed})" if cell.stale else f"h({cell.absorbed})"


# --------------------------------------------------------------------------------------
# Copies
# --------------------------------------------------------------------------------------


@_drawn_once
def _arrows(copies: tuple[CopyView, ...], axis: Axis, y: float) -> Iterator[Mark]:
    for copy in copies:
        yield from _copy_arrows(copy, axis, y)
        name = shapes.KIND_NAME[copy.kind]
        width = 16 + 7.6 * len(name)
        body = Body("move", tuple(shapes.pill(name, width, 18)), layer=3)
        yield Mark("kind", 4, y + 3, body)
        bias = f"bias = {copy.bias}" + (", in place" if copy.in_place else "")
        yield Mark("bias", 12, y + 35, _label("move-text s125 semi", bias, layer=3))


def _copy_arrows(copy: CopyView, axis: Axis, y: float) -> Iterator[Mark]:
    conv, temporal = _arrow_ends(copy, axis)
    for name, (x_from, x_to), depth, skipped in (
        ("conv", conv, 12, copy.conv_skipped),
        ("temporal", temporal, 29, copy.temporal_skipped),
    ):
        if not copy.has(name):
            continue
        if name == "temporal" and copy.temporal_stays:
            yield Mark("stays", axis.center(copy.dst_col), y + 29, _stays(copy))
            continue
        text = f"{name} ✗ {skipped}" if skipped else name
        parts = [
            *shapes.under_arrow(x_from, x_to, y, depth, y),
            Text("mid s12 semi wide-halo", (x_from + x_to) / 2, y + depth + 4.3, text),
        ]
        cls = "copy skipped" if skipped else "copy"
        source = copy.src_block if name == "conv" else copy.temporal_block
        links = Links(ends=ends_of(source, copy.dst_block))
        body = Body(cls, tuple(parts), layer=2, title=skipped, links=links)
        yield Mark(f"arrow-{name}", 0, 0, body)


def _stays(copy: CopyView) -> Body:
    """Under the block that the temporal state lies in already: it is copied onto itself."""
    sign = Path("line", "M-51 -5a5 5 0 1 1 -6 0")
    head = shapes.arrow_head(-51, -6.5, -0.35, -0.94, 6)
    text = Text("mid s12 semi wide-halo", 2, 4.3, "temporal stays")
    title = f"the temporal state is copied {shapes.ONTO_ITSELF}: no byte changes"
    links = Links(ends=ends_of(copy.temporal_block, copy.dst_block))
    return Body("copy", (text, sign, head), layer=2, title=title, links=links)


def ends_of(source: int | None, target: int | None) -> tuple[int, ...]:
    """The blocks that a copy leads from and to, as far as they exist."""
    return tuple(block for block in (source, target) if block)


def _arrow_ends(copy: CopyView, axis: Axis) -> tuple[tuple[float, float], tuple[float, float]]:
    """Start and end of the conv and the temporal arrow; the temporal one runs outside."""
    target = axis.center(copy.dst_col)
    source, beyond = axis.center(copy.src_col), axis.center(copy.temporal_col)
    if copy.src_col == copy.dst_col:
        end = max(target - 36, 104)
        return (target + 25, max(target - 25, end + 11)), (beyond, end)
    side = 1 if source > target else -1
    if copy.temporal_col == copy.src_col:  # both from one block: nest them
        return (source - side * 10, target + side * 12), (source + side * 4, target - side * 6)
    same_side = (beyond > target) == (source > target)
    conv = (source - side * 4, target + side * (12 if same_side else 19))
    reach = -12 if same_side else 19
    end = target + (reach if beyond > target else -reach)
    return conv, (beyond, max(end, 96))
