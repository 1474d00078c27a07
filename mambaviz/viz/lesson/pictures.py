"""The pictures of a lesson: one request, large enough for the last row of a lecture room.

The same views as on the stage, less of them: tokens over the worker row with this phase's
copies, the conv window, and the temporal states that take part. A picture here is a list of
marks in pixels of its own size, which ``SIZES`` gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.trace import Role
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import LESSON as Z
from mambaviz.viz.theme import LETTER
from mambaviz.viz.views import (
    BarView,
    BlockView,
    CopyView,
    LaneView,
    RowStatus,
    StateView,
    StripView,
    TokenStatus,
)

MOST_COLUMNS = 10  # a longer row shows its last ones, where the work is
MOST_BARS = 3


def _label(cls: str, text: str, layer: int = 2) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=layer)


def _token(label: str, status: RowStatus, width: float, height: float, size: int) -> Body:
    parts: list[Primitive] = [Rect("", 0.5, 0.5, width - 1, height - 1, 3)]
    if status == "reused":
        parts.append(Rect("edge", 0.5, 0.5, 5, height - 1, 1.5))
    if status == "rejected":
        parts.append(Path("strike", f"M2 {n(height - 2)}L{n(width - 2)} 2"))
    parts.append(Text(f"mid l{size} semi", width / 2, height / 2 + size * 0.35, label))
    return Body(f"tk {status}", tuple(parts))


# --------------------------------------------------------------------------------------
# Tokens over blocks
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Where the columns on show lie."""

    first: int
    count: int
    per_column: int  # tokens that a column covers
    covering: int  # columns of the row that cover tokens

    @property
    def width(self) -> float:
        return min(Z.column, Z.lane_width / max(self.count, 1))

    @property
    def token(self) -> float:
        return self.width / self.per_column

    def left(self, column: int) -> float:
        return (column - self.first) * self.width

    def center(self, column: int) -> float:
        inside = max(self.first, min(column, self.first + self.count - 1))
        return self.left(inside) + self.width / 2

    def at(self, token: int) -> float:
        return self.left(0) + token * self.token

    def shows(self, token: int) -> bool:
        covered = min(self.first + self.count, self.covering)
        return self.first * self.per_column <= token < covered * self.per_column


def columns_of(view: LaneView, per_column: int, covering: int | None = None) -> Columns:
    """The last columns of a row; at least as many as at full size fill the picture.

    ``covering`` columns cover tokens, None for all: in none mode only the first does.
    """
    needed = max(len(view.cells), -(-len(view.tokens) // per_column), 1)
    shown = max(min(needed, MOST_COLUMNS), int(Z.lane_width // Z.column))
    first = max(0, needed - shown)
    return Columns(first, shown, per_column, first + shown if covering is None else covering)


def lane(view: LaneView, columns: Columns) -> tuple[Mark, ...]:
    return (
        *_heading(columns),
        *_tokens(view.tokens, columns),
        *_query(view, columns),
        *_row(view.cells, columns),
        *_note(view),
        *(mark for copy in view.copies for mark in _copy(copy, columns)),
    )


def _heading(columns: Columns) -> Iterator[Mark]:
    line = Path("", f"M0 0V{n(Z.block - Z.edge)}")
    for column in range(columns.first, columns.first + columns.count):
        name = _label("mid m l17 semi", f"column {column}")
        yield Mark(f"col{column}", columns.center(column), 16, name)
        edge = Body("column-edge", (line,), layer=0)
        yield Mark(f"edge{column}", columns.left(column), Z.edge, edge)


def _tokens(tokens: tuple[TokenStatus, ...], columns: Columns) -> Iterator[Mark]:
    size = 17 if columns.token >= 30 else 12
    every = 1 if columns.token >= 20 else max(2, round(26 / columns.token))
    for position, status in enumerate(tokens):
        if columns.shows(position):
            label = str(position) if position % every == 0 else ""
            body = _token(label, status, max(columns.token - 2, 2), Z.token_height, size)
            yield Mark(f"t{position}", columns.at(position) + 1, Z.token, body)
    end = (columns.first + columns.count) * columns.per_column
    rest = [at for at in range(len(tokens), end, every) if columns.shows(at)]
    places = [columns.at(position) + columns.token / 2 for position in rest]
    yield Mark("later", 0, Z.token + Z.token_height / 2, shapes.dots(places, 0))


def _query(view: LaneView, columns: Columns) -> Iterator[Mark]:
    if view.query is None:
        return
    y = Z.token + Z.token_height + 3
    start = max(columns.at(view.query.start), 0) + 2
    end = min(columns.at(view.query.end), Z.lane_width) - 2
    bracket = Path("bracket", f"M0 0v6H{n(end - start)}v-6")
    yield Mark("query", start, y, Body("", (bracket,)))
    width = len(view.query.text) * 8.2
    before = end + 10 + width > Z.lane_width
    x, cls = (start - 8, "end m l17") if before else (end + 8, "m l17")
    ground = Rect("page", -width - 2 if before else -2, -15, width + 4, 20)
    text = Text(cls, 0, 0, view.query.text)
    yield Mark("query-text", x, y + 13, Body("", (ground, text), layer=2))


def _row(cells: tuple[BlockView, ...], columns: Columns) -> Iterator[Mark]:
    for cell in cells:
        if cell.column < columns.first:
            continue
        gone = cell.role in ("retired", "null")
        name = f"c{cell.column}" if gone else f"b{cell.block}"
        body = _block(cell, columns.width - 5)
        yield Mark(name, columns.left(cell.column) + 2.5, Z.block, body)


def _block(cell: BlockView, width: float) -> Body:
    height, cls = Z.block_height, shapes.block_class(cell.role, cell.wrong)
    middle = height / 2 + 7.5
    parts = shapes.block_frame(cell.role, width, height)
    if cell.role == "retired":  # here the line has room to go all across
        parts[-1] = Path("strike", f"M3 {n(height - 3)}L{n(width - 3)} 3")
    if cell.role == "null":
        parts.append(Text("mid l20 semi", width / 2, middle, "∅ 0"))
        return Body(cls, tuple(parts), block=0, title="the null block: nothing is kept here")
    window = shapes.window_text(cell.window, cell.offset) if cell.window else ""
    fits = bool(window) and width > 130
    line, left = (28.0 if fits else middle), (14 if cell.role == "cached" else 8)
    parts.append(Text("id l235", left, line, str(cell.block)))
    beside = left + 13.2 * len(str(cell.block)) + 5
    parts.append(Text("l20 semi", beside, line, LETTER[cell.role]))
    parts.append(Text("end l21 semi", width - 9, line, _state_text(cell)))
    if fits:
        parts.append(Text("win l155", left, 53.5, window))
    if cell.wrong:
        parts += shapes.wrong_mark(width - 5, 4, 10)
    broken = ", an invariant is broken here" if cell.wrong else ""
    return Body(cls, tuple(parts), block=cell.block, title=f"block {cell.block}{broken}")


def _state_text(cell: BlockView) -> str:
    if not cell.state:
        return ""
    if cell.holder:
        return "taken"
    if cell.absorbed is None:
        return "empty"
    return f"old h({cell.absorbed})" if cell.stale else f"h({cell.absorbed})"


def _note(view: LaneView) -> Iterator[Mark]:
    if view.note:
        yield Mark("note", 8, Z.block + 38, _label("m l17", view.note))


def _copy(copy: CopyView, columns: Columns) -> Iterator[Mark]:
    target = columns.center(copy.dst_col)
    source, beyond = columns.center(copy.src_col), columns.center(copy.temporal_col)
    side, far = (-1 if at < target else 1 for at in (source, beyond))
    both = copy.has_conv and copy.has_temporal and copy.temporal_block != copy.dst_block
    nested = both and (far == side or copy.in_place)  # below each other, the temporal one outside
    if copy.has_conv:
        ends = (source - side * 14 * nested, target + side * (34 if nested else 20))
        if copy.in_place:
            ends = (target + 12, target - 60)
        rows = f"rows slide by {copy.bias}" if copy.bias else "rows as they are"
        yield _arrow("conv", ends, copy.conv_skipped, rows, nested, 19)
    if copy.has_temporal and copy.temporal_block != copy.dst_block:
        apart = 40 if copy.in_place else 6 if nested else 20
        ends = (beyond + far * 14 * (nested and not copy.in_place), target + far * apart)
        column = f"{copy.src_col} + {copy.bias}" if copy.bias else str(copy.temporal_col)
        told = f"from column {column}"
        yield _arrow("temporal", ends, copy.temporal_skipped, told, nested, 46 if nested else 19)


def _arrow(
    name: str, ends: tuple[float, float], skipped: str, how: str, nested: bool, depth: float
) -> Mark:
    """An arrow below the row with its words under it; of two below each other only the name."""
    y = Z.block + Z.block_height + 4
    told = f"{name} ✗ {skipped}" if skipped else name if nested else f"{name}, {how}"
    half = 4.2 * len(told)
    middle = min(max(sum(ends) / 2, half), Z.lane_width - half)
    parts = (
        *shapes.under_arrow(*ends, y, depth, y + 3),
        Text("mid l17 semi wide-halo", middle, y + depth + (5.5 if nested else 24), told),
    )
    return Mark(f"arrow-{name}", 0, 0, Body("copy skipped" if skipped else "copy", parts, layer=2))


# --------------------------------------------------------------------------------------
# Conv window
# --------------------------------------------------------------------------------------


def conv_title(view: StateView) -> str:
    copy = view.copy
    if copy is None or not copy.has_conv:
        return "the last inputs, a row for each token"
    if copy.conv_skipped:
        return f"not copied: {copy.conv_skipped}"
    last = copy.conv_rows - 1
    if copy.bias == 0:
        return f"rows 0–{last} come over as they are"
    return f"rows {copy.bias}–{copy.bias + last} slide to rows 0–{last}"


def conv(view: StateView) -> tuple[Mark, ...]:
    if view.note or not view.strips:
        text = view.note or "no running block yet"
        return (Mark("none", 0, 30, _label("m l17", text)),)
    rows = max(len(strip.rows) for strip in view.strips)
    pitch = min(Z.cell + 4, (Z.conv_width - Z.left - 6) / max(rows, 1))
    marks: list[Mark] = []
    for place, strip in enumerate(view.strips):
        marks += _strip(strip, place, pitch, view)
    if len(view.strips) == 2:
        marks += _ribbons(view, pitch)
    if view.copy and view.copy.bias and view.copy.conv_rows:
        marks += _bias(view.copy.bias, pitch)
    return tuple(marks)


def _strip(strip: StripView, place: int, pitch: float, view: StateView) -> Iterator[Mark]:
    y, side = (Z.first, Z.second)[place], f"{'ab'[place]}{strip.block}"
    yield Mark(f"chip-{side}", 0, y, _chip(strip.block, strip.role, strip.wrong))
    sources = {target: source for source, target in view.ribbons} if place else {}
    for row, (token, status) in enumerate(strip.rows):
        label = "–" if token is None else f"t{token}"
        body = _token(label, status, pitch - 4, Z.cell_height, 19 if pitch > 50 else 12)
        origin = (Z.left + sources[row] * pitch, Z.first) if row in sources else None
        yield Mark(f"{side}-{row}", Z.left + row * pitch, y, body, origin)
    if strip.window is not None:
        first, length = strip.window
        length = min(length, len(strip.rows) - first)
        frame = Rect("window", 0, 0, length * pitch + 2, Z.cell_height + 6, 5)
        x = Z.left + first * pitch - 3
        moved = view.copy is not None and place == 1
        origin = (Z.left + view.copy.bias * pitch - 3, Z.first - 3) if moved and view.copy else None
        yield Mark(f"window-{side}", x, y - 3, Body("", (frame,), layer=2), origin)


def _chip(block: int, role: Role, wrong: bool) -> Body:
    chip = shapes.block_chip(block, role, Z.chip, Z.cell_height, wrong=wrong)
    parts = tuple(
        Text("mid l20 bold", part.x, Z.cell_height / 2 + 7, part.text)
        if isinstance(part, Text)
        else part
        for part in chip.parts
    )
    return Body(chip.cls, parts, chip.layer, chip.block, chip.title)


def _ribbons(view: StateView, pitch: float) -> Iterator[Mark]:
    top, bottom = Z.first + Z.cell_height + 4, Z.second - 5
    for source, target in view.ribbons:
        x, to, width = Z.left + source * pitch + 2, Z.left + target * pitch + 2, pitch - 8
        band = Path("band", f"M{n(x)} {top}H{n(x + width)}L{n(to + width)} {bottom}H{n(to)}z")
        yield Mark(f"ribbon{target}", 0, 0, Body("ribbon", (band,), layer=0))
        middle, end = x + width / 2, to + width / 2
        length = ((end - middle) ** 2 + (bottom - top) ** 2) ** 0.5
        dx, dy = (end - middle) / length, (bottom - top) / length
        line = Path("line", f"M{n(middle)} {top}L{n(end - dx * 8)} {n(bottom - dy * 8)}")
        head = shapes.arrow_head(end, bottom, dx, dy, 11)
        yield Mark(f"move{target}", 0, 0, Body("copy" if view.copy else "shift", (line, head)))


def _bias(bias: int, pitch: float) -> Iterator[Mark]:
    x, origin, y = Z.left + bias * pitch - 2, Z.left - 2, Z.first + Z.cell_height + 33
    parts = (
        Path("bias line", f"M{n(x - 2)} {y}H{n(origin + 10)}"),
        shapes.arrow_head(origin + 4, y, -1, 0, 11),
        Path("measure", f"M{n(x)} {y - 28}v42M{n(origin)} {y - 28}v42"),
        Text("end move-text l20 bold", origin - 10, y + 6, f"bias {bias}"),
    )
    yield Mark("bias", 0, 0, Body("copy", parts, layer=2))


# --------------------------------------------------------------------------------------
# Temporal states
# --------------------------------------------------------------------------------------


def temporal_title(view: StateView) -> str:
    copy = view.copy
    if copy is None or not copy.has_temporal:
        return "a cell for each token that has gone in"
    if copy.temporal_skipped:
        return f"not copied: {copy.temporal_skipped}"
    if copy.temporal_block == copy.dst_block:
        return "stays where it is"
    if copy.bias == 0:
        return f"copied whole, from column {copy.temporal_col}"
    return f"copied whole, from column {copy.src_col} + {copy.bias} = {copy.temporal_col}"


def temporal(view: StateView) -> tuple[Mark, ...]:
    if view.note:
        return ()
    bars = bars_shown(view)
    ruler = _ruler(bars, view)
    places = {bar.column: Z.bar_top + index * Z.bar_pitch for index, bar in enumerate(bars)}
    marks: list[Mark] = list(_grid(view, ruler))
    for bar in bars:
        marks += _bar(bar, places, ruler, view.copy)
    if view.copy is not None:
        marks += _between(view.copy, bars, places, ruler)
    return tuple(marks)


def bars_shown(view: StateView) -> tuple[BarView, ...]:
    """The bars of a copy, else the running one and what stands beside it; by column."""
    copy = view.copy
    wanted = (copy.dst_col, copy.temporal_col, copy.src_col) if copy else ()
    weight = ("running", "previous", "speculative", "cached", "free", "retired", "null")

    def order(bar: BarView) -> tuple[int, int, int]:
        first = wanted.index(bar.column) if bar.column in wanted else len(wanted)
        return first, weight.index(bar.role), bar.column

    return tuple(sorted(sorted(view.bars, key=order)[:MOST_BARS], key=lambda bar: bar.column))


@dataclass(frozen=True)
class _Ruler:
    fold: int  # tokens in front that are one cell
    cell: float

    def at(self, position: int) -> float:
        front = Z.fold if self.fold else 0
        return Z.bars_left + front + max(position - self.fold, 0) * self.cell


def _ruler(bars: tuple[BarView, ...], view: StateView) -> _Ruler:
    longest = max((bar.absorbed or 0 for bar in bars), default=0)
    fold = view.fold
    while (longest - fold) * Z.least_bar_cell > Z.bars_width - (Z.fold if fold else 0):
        fold += view.block_size
    room = Z.bars_width - (Z.fold if fold else 0)
    return _Ruler(fold, min(Z.bar_cell, room / max(longest - fold, 1)))


def _grid(view: StateView, ruler: _Ruler) -> Iterator[Mark]:
    line = Path("grid", f"M0 0V{n(MOST_BARS * Z.bar_pitch - 10)}")
    position = ruler.fold or view.block_size
    while (x := ruler.at(position)) < Z.bars_left + Z.bars_width:
        yield Mark(f"grid{position}", x, 4, Body("strong", (line,), layer=0))
        position += view.block_size


def _bar(
    bar: BarView, places: dict[int, float], ruler: _Ruler, copy: CopyView | None
) -> Iterator[Mark]:
    y, key = places[bar.column], f"{bar.column}"
    yield Mark(f"chip{key}", 0, y, _chip(bar.block, bar.role, bar.wrong))
    yield Mark(f"col{key}", 76, y + 26, _label("l18 semi", f"col {bar.column}"))
    if bar.role == "null":
        return
    x = Z.bars_left
    if not bar.holder and not bar.stale and bar.absorbed:
        slid = copy is not None and not copy.temporal_skipped and bar.column == copy.dst_col
        source = places.get(copy.temporal_col) if slid and copy else None
        yield from _cells(bar, y, None if source == y else source, ruler)
        x = ruler.at(bar.absorbed)
    head = "empty" if bar.absorbed is None else f"h({bar.absorbed})"
    if bar.holder or bar.stale:
        head = f"taken by {bar.holder}" if bar.holder else f"old h({bar.absorbed})"
    yield Mark(f"h{key}", x + 9, y + 28, _label("halo l21 bold", head))
    if bar.was is not None and bar.role != "retired":
        yield Mark(f"was{key}", x + 9, y + 47, _label("m halo l155", f"was h({bar.was})"))


def _cells(bar: BarView, y: float, source: float | None, ruler: _Ruler) -> Iterator[Mark]:
    top, height, fold = 6, Z.cell_height - 13, ruler.fold

    def cell(name: str, x: float, body: Body) -> Mark:
        origin = None if source is None else (x, source + top)
        return Mark(f"{bar.column}-{name}", x, y + top, body, origin)

    absorbed = bar.absorbed or 0
    if fold:
        text = f"0–{min(absorbed, fold) - 1}"
        yield cell("fold", Z.bars_left, _token(text, "prompt", Z.fold - 3, height, 15))
    shown = bar.cells[len(bar.cells) - (absorbed - fold) :] if absorbed > fold else ()
    for position, status in enumerate(shown, start=fold):
        body = _token(str(position), status, ruler.cell - 3, height, 15 if ruler.cell > 24 else 12)
        yield cell(f"t{position}", ruler.at(position), body)


def _between(
    copy: CopyView, bars: tuple[BarView, ...], places: dict[int, float], ruler: _Ruler
) -> Iterator[Mark]:
    source, target = places.get(copy.temporal_col), places.get(copy.dst_col)
    if source is None or target is None or source == target:
        return
    ends = {bar.column: ruler.at(bar.absorbed or 0) + 68 for bar in bars}
    out = min(max(ends.values()) + 62, Z.temporal_width - 8)
    middle = Z.cell_height / 2
    y_from, y_to = source + middle, target + middle
    turn = 8 if y_to > y_from else -8
    line = (
        f"M{n(ends[copy.temporal_col])} {n(y_from)}H{n(out - 8)}q8 0 8 {turn}V{n(y_to - turn)}"
        f"q0 {turn} -8 {turn}H{n(ends[copy.dst_col] + 8)}"
    )
    cls = "copy skipped" if copy.temporal_skipped else "copy"
    head = shapes.arrow_head(ends[copy.dst_col], y_to, -1, 0, 12)
    yield Mark("arrow", 0, 0, Body(cls, (Path("line", line), head)))
