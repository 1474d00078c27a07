"""The pictures of a run beside others: block lists, the tokens of one request, prefixes found."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ParamSpec, cast

from mambaviz.differences import Fact
from mambaviz.prefix_hits import Admission
from mambaviz.viz import shapes
from mambaviz.viz.compare.rows import ListCell, ListRow
from mambaviz.viz.compare.sizes import SIZES as Z
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import LETTER

P = ParamSpec("P")
Marks = tuple[Mark, ...]
_DIGIT = 7.9  # width of a digit of a block id


def drawn_once(draw: Callable[P, Iterator[Mark]]) -> Callable[P, Marks]:
    @lru_cache(maxsize=8192)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Marks:
        return tuple(draw(*args, **kwargs))

    return cast("Callable[P, Marks]", drawn)


@dataclass(frozen=True)
class Panel:
    """How much room a run has; the same for all runs, so that columns stand under each other."""

    width: float
    pitch: float
    columns: int

    @property
    def lists_width(self) -> float:
        return max(self.width, Z.left + self.columns * self.pitch)

    def left_of(self, column: int) -> float:
        return Z.left + column * self.pitch

    @property
    def block(self) -> float:
        return self.pitch - 3


def panel_for(runs: int, columns: int) -> Panel:
    width, widest = (Z.width_of_two, Z.wide_pitch) if runs < 3 else (Z.width_of_three, Z.pitch)
    room = (width - Z.left) / max(columns, 1)
    return Panel(width, max(Z.least_pitch, min(widest, room)), max(columns, 1))


# --------------------------------------------------------------------------------------
# Block lists
# --------------------------------------------------------------------------------------


@drawn_once
def heading(panel: Panel) -> Iterator[Mark]:
    """Column numbers above the rows."""
    for column in range(panel.columns):
        middle = panel.left_of(column) + panel.pitch / 2 - 1
        yield Mark(f"col{column}", middle, 11, _text("mid m s12", str(column)))


@drawn_once
def list_row(row: ListRow, index: int, panel: Panel) -> Iterator[Mark]:
    """One request's list; ``index`` counts the rows from the top. Its name stands beside the
    picture, where it stays when a long list is scrolled."""
    y = Z.heading + index * Z.row
    if row.note:
        yield Mark(f"note{index}", Z.left + 6, y + 25, _text("m s125", row.note))
    for cell in row.cells:
        # A live block keeps its name, so that moved scratch slides.
        name = f"{index}b{cell.block}" if cell.block else f"{index}null{cell.column}"
        yield Mark(name, panel.left_of(cell.column), y, cell_body(cell, panel.block))


@lru_cache(maxsize=4096)
def cell_body(cell: ListCell, width: float) -> Body:
    """A block with its id, letter and ``h(n)``."""
    parts = shapes.block_frame(cell.role, width, Z.block_height)
    middle = width / 2 + (2 if cell.role == "cached" else 0)
    if cell.role == "null":
        parts.append(Text("mid s14 semi", width / 2, Z.block_height / 2 + 5, "∅"))
        return Body("bk null", tuple(parts), block=0, title="the null block: nothing is kept here")
    letter = LETTER[cell.role]
    left = middle - (_DIGIT * len(str(cell.block)) + (11 if letter else 0)) / 2
    parts.append(Text("s14 bold", left, 17.5, str(cell.block)))
    if letter:
        parts.append(Text("s12 semi", left + _DIGIT * len(str(cell.block)) + 3, 17.5, letter))
    parts.append(Text(f"mid {_state_size(cell.state)} semi", middle, 34, cell.state))
    title = f"block {cell.block}, {cell.role}, column {cell.column}: {cell.state}"
    cls = shapes.block_class(cell.role, cell.wrong)
    return Body(cls, tuple(parts), block=cell.block, title=title)


def _state_size(state: str) -> str:
    return "s125" if len(state) <= 5 else "s12"


@drawn_once
def marked(
    rows: tuple[str, ...],
    differing: frozenset[Fact],
    cells: frozenset[tuple[str, int]],
    panel: Panel,
) -> Iterator[Mark]:
    """A line under every id and every ``h(n)`` in which the runs differ.

    ``rows`` are the requests from top to bottom, ``cells`` the places that have a block here.
    """
    for kind, below in (("blocks", 20.5), ("state", 38.2)):
        for index, request in enumerate(rows):
            for column in range(panel.columns):
                fact = Fact(kind, request, f"column {column}")  # type: ignore[arg-type]
                if fact in differing and (request, column) in cells:
                    x, y = panel.left_of(column), Z.heading + index * Z.row + below
                    yield Mark(f"{kind}{index}:{column}", x, y, _under(panel.block))


@lru_cache(maxsize=16)
def _under(width: float) -> Body:
    return Body("differs", (Path("", f"M8 0H{n(width - 8)}"),), layer=2, title="differs")


# --------------------------------------------------------------------------------------
# The tokens of one request
# --------------------------------------------------------------------------------------


@drawn_once
def strip(row: ListRow, words: tuple[str, str], panel: Panel) -> Iterator[Mark]:
    """Its tokens, and in two short lines beside them what was reused and what is computed."""
    yield Mark("name", 2, 18, _text(_name_size(row.request), short_name(row.request)))
    room = panel.width - Z.left - Z.strip_words
    count = len(row.tokens)
    pitch = min(Z.token, room / count) if count else Z.token
    gap = 2 if pitch >= 12 else 0
    every = 1 if pitch >= 18 else math.ceil(26 / pitch)
    for position, status in enumerate(row.tokens):
        x = Z.left + position * pitch
        label = str(position) if every == 1 else ""
        body = shapes.token(label, status, pitch - gap, Z.token_height, radius=3 if gap else 0)
        yield Mark(f"t{position}", x, 2, body)
        if every > 1 and position % every == 0:  # wider than its token: on top of the others
            yield Mark(f"n{position}", x + pitch / 2, 18, _text("mid s12 halo", str(position)))
    after = Z.left + count * pitch + 8
    for index, text in enumerate(words):
        cls = "s125 semi m" if index == 0 else "s125 m"
        yield Mark(f"words{index}", after, 12 + 15 * index, _text(cls, text))


# --------------------------------------------------------------------------------------
# Prefixes found
# --------------------------------------------------------------------------------------


def boundaries(admissions: Collection[Admission]) -> tuple[int, ...]:
    """The token counts after which any run has a state of these tokens, and one further; the
    last ones where there are many."""
    sizes = {one.block_size for one in admissions if one.found}
    counts = {found.tokens for one in admissions for found in one.found}
    if not counts:
        return ()
    step = min(sizes)
    return tuple(range(step, max(counts) + step + 1, step))[-Z.found_most :]


def found_height(runs: int) -> float:
    return 20 + runs * Z.found_row


def found_picture(names: Sequence[str], admissions: Sequence[Admission | None]) -> Marks:
    """A row a run, a column a boundary: the block that holds the state there, the taken ringed."""
    columns = boundaries([one for one in admissions if one is not None])
    marks: list[Mark] = []
    for column, tokens in enumerate(columns):
        x = Z.found_left + (column + 0.5) * Z.found - 2
        marks.append(Mark(f"after{column}", x, 12, _text("mid m s125", f"after {tokens}")))
    for index, (name, admission) in enumerate(zip(names, admissions, strict=True)):
        y = 20 + index * Z.found_row
        marks.append(Mark(f"run{index}", 0, y + 18, _text("s135 semi", _clipped(name, 7))))
        for column, tokens in enumerate(columns):
            body = _found_cell(admission, tokens)
            marks.append(Mark(f"{index}:{column}", Z.found_left + column * Z.found, y, body))
    return tuple(marks)


def _found_cell(admission: Admission | None, tokens: int) -> Body:
    width, height = Z.found - 6, 27.0
    found = (
        None
        if admission is None
        else next((one for one in admission.found if one.tokens == tokens), None)
    )
    if found is None or admission is None:
        parts: tuple[Primitive, ...] = (
            Rect("nothing", 0.5, 0.5, width - 1, height - 1, 5),
            Text("mid m s125", width / 2, 17.5, "–"),
        )
        return Body("", parts, layer=0)
    shown = shapes.block_frame("cached", width, height)
    shown += [
        Text("s14 bold", 11, 18.2, str(found.block)),
        Text("s12 semi", 11 + _DIGIT * len(str(found.block)) + 4, 18.2, "C"),
        Text("end s125 semi", width - 6, 18.2, f"h({tokens})"),
    ]
    if tokens == admission.reused:
        shown.append(Rect("taken", -2.5, -2.5, width + 5, height + 5, 7))
    title = f"block {found.block}, registered for the first {tokens} tokens of {found.owner}"
    return Body("bk cached", tuple(shown), block=found.block, title=title)


# --------------------------------------------------------------------------------------
# Texts
# --------------------------------------------------------------------------------------


def short_name(name: str) -> str:
    return _clipped(name, 3)


def _clipped(name: str, room: int) -> str:
    return name if len(name) <= room else name[: room - 1] + "…"


def _name_size(name: str) -> str:
    return "s16 bold" if len(name) <= 2 else "s13 bold"


def _text(cls: str, text: str) -> Body:
    return Body("", (Text(cls, 0, 0, text),), layer=2)
