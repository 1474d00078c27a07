"""The state of one request and layer: conv windows as strips, temporal states as bars.

In a copy phase the upper strip is the source before it, the lower one the target after it, and
ribbons lead the moved rows from one to the other, displaced by the bias. In the forward they
are the same block before and after. Else the blocks that hold the window stand alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from mambaviz.viz import shapes
from mambaviz.viz.lanes import ends_of
from mambaviz.viz.scene import Body, Links, Mark, Path, Rect, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import STATE as Z
from mambaviz.viz.views import NO_BYTES, BarView, CopyView, StateView, StripView

LETTER = 6.4  # px, the mean width of one in the notes


@lru_cache(maxsize=4096)
def state(view: StateView) -> tuple[Mark, ...]:
    """The marks of the state stage."""
    if view.note:
        return tuple(_absent(view.note))
    return (*_conv(view), *_temporal(view))


def _absent(note: str) -> Iterator[Mark]:
    """Why there is no state, in the middle of the place where it will be."""
    lines = [("mid s14 semi", f"No state on show: {note}.")]
    if note == NO_BYTES:
        lines.append(
            ("mid m s125", "Lists, rows, columns, counts and copies are as the engine had them.")
        )
    else:
        lines += [
            ("mid m s125", "A request has state only while it owns blocks."),
            (
                "mid m s125",
                "On the Watch page, the tab Block life-line shows what each block holds.",
            ),
        ]
    for index, (cls, text) in enumerate(lines):
        yield Mark(
            f"note{index or ''}", Z.width / 2, Z.height / 2 - 30 + 22 * index, _text(cls, text)
        )


@lru_cache(maxsize=4096)
def _text(cls: str, text: str, layer: int = 2) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=layer)


@lru_cache(maxsize=4096)
def _told(cls: str, text: str, letter: float = 6.4) -> Body:
    """Text over grid lines, on a ground of its own; a letter is about so many pixels wide."""
    ground = Rect("page", -2, -11, letter * len(text) + 4, 15)
    return Body("", (ground, Text(cls, 0, 0, text)), layer=2)


# --------------------------------------------------------------------------------------
# Conv window
# --------------------------------------------------------------------------------------


def _conv(view: StateView) -> Iterator[Mark]:
    if view.states == "temporal":
        yield Mark("conv-none", 0, 40, _text("m s125", "This layer keeps no conv state."))
        return
    if not view.strips:
        yield Mark("conv-none", 0, 40, _text("m s125", "No running block yet."))
    rows = max((len(strip.rows) for strip in view.strips), default=0)
    pitch = min(Z.cell, Z.strips / rows) if rows else Z.cell
    for row in range(rows):
        name = f"row {row}" if pitch > 40 else str(row)
        yield Mark(f"head{row}", _row_x(row, pitch) + pitch / 2 - 1.5, 12, _text("mid m s12", name))
    for place, strip in enumerate(view.strips):
        y = Z.first if place == 0 else Z.second
        yield from _strip(strip, place, y, pitch, view)
        yield from _window_note(strip, place, y, view)
    if len(view.strips) == 2:
        yield from _ribbons(view, pitch)
    if view.copy is not None:
        yield from _bias(view.copy, pitch)
        yield from _copy_note(view.copy)


def _row_x(row: int, pitch: float) -> float:
    return Z.left + 1.5 + row * pitch


def _strip(strip: StripView, place: int, y: float, pitch: float, view: StateView) -> Iterator[Mark]:
    side = f"{'ab'[place]}{strip.block}"  # another block's rows are other marks
    chip = shapes.block_chip(strip.block, strip.role, 46, Z.cell_height, wrong=strip.wrong)
    yield Mark(f"chip-{side}", 0, y, chip)
    yield Mark(f"col-{side}", 53, y + 13, _text("s125 semi", f"col {strip.column}"))
    yield Mark(f"caption-{side}", 53, y + 27, _text("m s12", strip.caption))
    # Source row of each row that moved; the lower strip's rows slide in from there.
    sources = {target: source for source, target in view.ribbons} if place else {}
    for row, (token, status) in enumerate(strip.rows):
        label = "–" if token is None else f"t{token}"
        body = shapes.token(label, status, pitch - 3, Z.cell_height, "s13")
        origin = (_row_x(sources[row], pitch), Z.first) if row in sources else None
        yield Mark(f"{side}-{row}", _row_x(row, pitch), y, body, origin)
    if strip.window is not None:
        first, length = strip.window
        length = min(length, len(strip.rows) - first)
        frame = Rect("window", 0, 0, length * pitch + 2, Z.cell_height + 6, 5)
        x = _row_x(first, pitch) - 2.5
        moved = view.copy is not None and place == 1
        origin = (_row_x(view.copy.bias, pitch) - 2.5, Z.first - 3) if moved and view.copy else None
        body = Body("", (frame,), layer=2)
        yield Mark(f"window-{side}", x, y - 3, body, origin)


def _ribbons(view: StateView, pitch: float) -> Iterator[Mark]:
    top, bottom = Z.first + Z.cell_height + 4, Z.second - 4
    cls = "ribbon copied" if view.copy else "ribbon"
    for source, target in view.ribbons:
        x, to, width = _row_x(source, pitch) + 1, _row_x(target, pitch) + 1, pitch - 6
        band = Path(
            "band",
            f"M{n(x)} {top}H{n(x + width)}L{n(to + width)} {bottom}H{n(to)}z",
        )
        yield Mark(f"ribbon{target}", 0, 0, Body(cls, (band,), layer=0))
        middle, end = x + width / 2, to + width / 2
        length = ((end - middle) ** 2 + (bottom - top) ** 2) ** 0.5
        dx, dy = (end - middle) / length, (bottom - top) / length
        line = Path("thin line", f"M{n(middle)} {top}L{n(end - dx * 6)} {n(bottom - dy * 6)}")
        head = shapes.arrow_head(end, bottom, dx, dy, 8)
        cls_line = "copy" if view.copy else "shift"
        links = Links(ends=ends_of(view.strips[0].block, view.strips[1].block))
        yield Mark(f"move{target}", 0, 0, Body(cls_line, (line, head), layer=1, links=links))


def _bias(copy: CopyView, pitch: float) -> Iterator[Mark]:
    if copy.bias == 0 or not copy.conv_rows:
        return
    x, origin = _row_x(copy.bias, pitch) - 2.5, _row_x(0, pitch) - 2.5
    y = Z.first + 52
    parts = (
        Path("bias line", f"M{n(x - 2)} {y}H{n(origin + 8)}"),
        shapes.arrow_head(origin + 3, y, -1, 0),
        Path("measure", f"M{n(x)} {y - 16}v24M{n(origin)} {y - 16}v24"),
        Text("end move-text s13 bold", origin - 8, y + 4.5, f"bias {copy.bias}"),
    )
    yield Mark("bias", 0, 0, Body("copy", parts, layer=2))


def _window_note(strip: StripView, place: int, y: float, view: StateView) -> Iterator[Mark]:
    side, copy = "ab"[place], view.copy
    if strip.window is None:
        lines = ["nothing written", ""]
    else:
        lines = [f"window at row {strip.window[0]}", ""]
    if copy is not None and place == 0 and strip.window:
        lines[1] = f"accepted {copy.bias + 1} − 1" if copy.kind == "migrate" else _why_row(view)
    if copy is not None and place == 1:
        kept = len(strip.rows) - copy.conv_rows
        lines[1] = _kept(copy.conv_rows, kept) if copy.conv_rows else ""
    if copy is None and place == 0 and strip.window and strip.window[0]:
        lines[1] = f"accepted {strip.window[0] + 1} − 1"
    for index, text in enumerate(lines):
        if text:
            cls = "s125 semi" if index == 0 else "m s12"
            yield Mark(f"note-{side}{index}", Z.right, y + 13 + 14 * index, _text(cls, text))


def _why_row(view: StateView) -> str:
    """The checkpoint's bias differs from accepted − 1 where more was accepted than it saves."""
    assert view.copy is not None
    if view.accepted - 1 == view.copy.bias:
        return f"accepted {view.accepted} − 1"
    return f"aligned − running = {view.copy.bias}"


def _kept(moved: int, kept: int) -> str:
    if kept == 0:
        return "all rows come over"
    return f"row {moved} kept" if kept == 1 else f"rows {moved}–{moved + kept - 1} kept"


def _copy_note(copy: CopyView) -> Iterator[Mark]:
    if copy.conv_skipped:
        lines = _lines(f"✗ {copy.conv_skipped}", Z.width - Z.right)
        top = Z.first + 63 - 7 * len(lines)
        for index, line in enumerate(lines):
            body = _text("wrong-text s125 semi", line)
            yield Mark(f"amount{index or ''}", Z.right, top + 14 * index, body)
        return
    rows = f"{copy.conv_rows} row" + ("" if copy.conv_rows == 1 else "s")
    up = 7 if copy.in_place else 0
    text = _text("move-text s125 semi", f"{rows}, {copy.conv_bytes} B")
    yield Mark("amount", Z.right, Z.first + 59 - up, text)
    if copy.in_place:
        text = _text("move-text s125 semi", "read, then write")
        yield Mark("order", Z.right, Z.first + 66, text)


# --------------------------------------------------------------------------------------
# Temporal state
# --------------------------------------------------------------------------------------


def _temporal(view: StateView) -> Iterator[Mark]:
    split = Path("axis", f"M0 0H{n(Z.width)}")
    yield Mark("split", 0, Z.split, Body("", (split,), layer=0))
    yield Mark("title", 0, 160, _text("s135 semi", "Temporal state"))
    if view.states == "conv":
        none = _text("m s125", "This layer keeps no temporal state.")
        yield Mark("temporal-none", 0, 160 + 28, none)
        return
    legend = "one bar a block, one cell for each token it has absorbed"
    yield Mark("legend", 118, 160, _text("m s125", legend))
    bars, ruler = view.bars, _Ruler(view.fold, view.cell)
    pitch = Z.bars_height / max(5, len(bars))
    yield from _block_lines(view, ruler)
    rows = {bar.column: Z.bars + index * pitch for index, bar in enumerate(bars)}
    for bar in bars:
        origin = _slides_from(bar, view.copy, rows)
        yield from _bar(bar, rows[bar.column], ruler, origin, tight=pitch < 34)
    if view.copy is not None:
        yield from _temporal_arrow(view.copy, bars, pitch, ruler)


@dataclass(frozen=True)
class _Ruler:
    """Where the tokens of the bars lie; the same for all bars of a step."""

    fold: int  # tokens in front that are one cell
    cell: float

    def at(self, position: int) -> float:
        """Left edge of a token's cell."""
        front = Z.fold_width if self.fold else 0
        return Z.left + front + max(position - self.fold, 0) * self.cell

    def end(self, bar: BarView) -> float:
        return self.at(bar.absorbed) if bar.absorbed else Z.left


def _slides_from(bar: BarView, copy: CopyView | None, rows: dict[int, float]) -> float | None:
    """The y of the bar whose temporal state this one got in this phase."""
    if copy is None or copy.temporal_skipped or bar.column != copy.dst_col:
        return None
    return rows.get(copy.temporal_col) if copy.temporal_col != copy.dst_col else None


def _block_lines(view: StateView, ruler: _Ruler) -> Iterator[Mark]:
    line = Path("grid", f"M0 0V{n(Z.bars_height - 4)}")
    yield Mark("grid-left", Z.left, 169, Body("", (line,), layer=0))
    position = view.fold or view.block_size
    while (x := ruler.at(position)) < Z.left + Z.bars_width + 72:
        yield Mark(f"grid{position}", x, 169, Body("strong", (line,), layer=0))
        position += view.block_size


def _bar(
    bar: BarView, y: float, ruler: _Ruler, slides_from: float | None, *, tight: bool
) -> Iterator[Mark]:
    key = f"{bar.block}-{bar.column}" if bar.role in ("retired", "null") else f"{bar.block}"
    chip = shapes.block_chip(bar.block, bar.role, 46, Z.bar_height, wrong=bar.wrong, kept=bar.kept)
    yield Mark(f"bar{key}", 0, y, chip)
    yield Mark(f"bar{key}-col", 53, y + 16, _text("s125 semi", f"col {bar.column}"))
    if bar.role == "null":
        return
    note = _bar_note(bar)
    x = Z.left
    if not bar.holder and not bar.stale:
        yield from _bar_cells(bar, key, y, ruler, slides_from)
        x = ruler.end(bar)
    head = "empty" if bar.absorbed is None else f"h({bar.absorbed})"
    if bar.holder:
        head = f"taken by {bar.holder}"
    elif bar.stale:
        head = f"old h({bar.absorbed})"
    cls = "halo s14 bold" if not (bar.holder or bar.stale or bar.absorbed is None) else "m s125"
    body = _text(cls, head) if "halo" in cls else _told(cls, head)
    yield Mark(f"bar{key}-h", x + 6, y + 17, body)
    if bar.was is not None and bar.role != "retired":
        beside = (7.3 * len(head) + 8, 17) if tight else (0, 31)
        body = _text("m halo s12", f"was h({bar.was})")
        yield Mark(f"bar{key}-was", x + 6 + beside[0], y + beside[1], body)
    if note:
        at = x + 6 + 7.3 * len(head) + 8 + (56 if tight and bar.was is not None else 0)
        yield Mark(f"bar{key}-note", at, y + 17, _told("m s12", note, 6.1))


def _bar_note(bar: BarView) -> str:
    if bar.holder or bar.stale:
        return "" if bar.holder else "bytes of an earlier owner"
    rejected = sum(status == "rejected" for status in bar.cells)
    if rejected:
        return "with a rejected draft" if rejected == 1 else f"with {rejected} rejected drafts"
    return ""


def _bar_cells(
    bar: BarView, key: str, y: float, ruler: _Ruler, slides_from: float | None
) -> Iterator[Mark]:
    width, height = ruler.cell - 1, Z.bar_height - 6
    count, fold = bar.absorbed or 0, ruler.fold

    def cell(name: str, x: float, body: Body) -> Mark:
        origin = None if slides_from is None else (x, slides_from + 3)
        return Mark(f"bar{key}-{name}", x, y + 3, body, origin)

    if fold and count:
        text = f"0–{min(count, fold) - 1}" if min(count, fold) > 1 else "0"
        body = shapes.token(text, "prompt", Z.fold_width - 1, height, "s12", 2)
        yield cell("fold", Z.left + 0.5, body)
    for position, status in enumerate(bar.cells, start=fold):
        body = shapes.token(str(position), status, width, height, "s12", 2)
        yield cell(f"t{position}", ruler.at(position) + 0.5, body)


def _lines(text: str, room: float) -> list[str]:
    """A reason broken to fit beside the picture."""
    return textwrap.wrap(text, max(12, int(room / LETTER)))


def _temporal_arrow(
    copy: CopyView, bars: tuple[BarView, ...], pitch: float, ruler: _Ruler
) -> Iterator[Mark]:
    places = {bar.column: index for index, bar in enumerate(bars)}
    source, target = places.get(copy.temporal_col), places.get(copy.dst_col)
    if target is not None and copy.temporal_stays:
        text = f"stays: copied {shapes.ONTO_ITSELF}, {copy.temporal_bytes} B"
        x = ruler.end(bars[target]) + 60
        yield Mark(
            "stays", x, Z.bars + target * pitch + 17, _told("move-text s125 semi", text, 6.6)
        )
        return
    if target is None or source == target:
        return
    missing = source is None
    source = len(bars) - 1 if source is None else source
    middle = Z.bar_height / 2
    y_from, y_to = Z.bars + source * pitch + middle, Z.bars + target * pitch + middle
    starts = [ruler.end(bars[index]) + 50 for index in (source, target)]
    # A note behind a bar on the way must not be crossed: the arrow runs outside the longest.
    between = range(min(source, target), max(source, target) + 1)
    out = max(402.0, max(ruler.end(bars[index]) for index in between) + 66)
    out = min(out, Z.width - 14)
    corner = 6 if y_to > y_from else -6
    line = (
        f"M{n(starts[0])} {n(y_from)}H{n(out - 6)}q6 0 6 {corner}V{n(y_to - corner)}"
        f"q0 {corner} -6 {corner}H{n(starts[1] + 6)}"
    )
    skipped = bool(copy.temporal_skipped) or missing
    cls = "copy skipped" if skipped else "copy"
    parts = (Path("line", line), shapes.arrow_head(starts[1], y_to, -1, 0))
    links = Links(ends=ends_of(copy.temporal_block, copy.dst_block))
    yield Mark("arrow", 0, 0, Body(cls, parts, layer=1, links=links))
    yield from _arrow_note(copy, out, (y_from + y_to) / 2)


def _arrow_note(copy: CopyView, x: float, y: float) -> Iterator[Mark]:
    name = shapes.KIND_NAME[copy.kind]
    total = f"column {copy.src_col} + {copy.bias} = {copy.temporal_col}"
    if copy.bias == 0:
        total = f"column {copy.temporal_col}"
    below = f"✗ {copy.temporal_skipped}" if copy.temporal_skipped else f"{copy.temporal_bytes} B"
    cls = "wrong-text" if copy.temporal_skipped else "move-text"
    width = 16 + 7.6 * len(name)
    parts = (
        *shapes.pill(name, width, 20),
        Text(f"{cls} s13 semi", 0, 37, total),
        *(
            Text(f"{cls} s12", 0, 53 + 14 * index, text)
            for index, text in enumerate(_lines(below, Z.width - x - 10))
        ),
    )
    if x + 10 + width <= Z.width:
        yield Mark("arrow-note", x + 10, y - 28, Body("move", parts, layer=2))
        return
    parts = (
        *shapes.pill(name, width, 20),
        Text(f"end {cls} s13 semi halo", width, -6, f"{total}, {below}"),
    )
    yield Mark("arrow-note", Z.width - width - 2, 150, Body("move", parts, layer=2))
