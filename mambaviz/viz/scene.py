"""The one drawing description: named shapes with positions, roles and links.

A `Scene` is computed once in Python; the browser component, the SVG writer and a plotly figure
draw the same one. It knows six primitives and no colour: a shape carries CSS classes, and
``stage/marks.css`` gives the classes their look from the tokens of `theme`.

    Scene ── Mark (name, place, where it comes from)
               └── Body (classes, primitives, block it stands for)

A mark is what moves and what is told apart between two phases, by its name; a body is what it
looks like, in coordinates of its own, so that the same token anywhere is the same body.
Coordinates are pixels, y downwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = list[Any]


@dataclass(frozen=True, slots=True)
class Rect:
    cls: str
    x: float
    y: float
    w: float
    h: float
    r: float = 0


@dataclass(frozen=True, slots=True)
class Text:
    cls: str
    x: float
    y: float  # baseline
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    cls: str
    d: str


@dataclass(frozen=True, slots=True)
class Dot:
    cls: str
    x: float
    y: float
    r: float


@dataclass(frozen=True, slots=True)
class Heat:
    """A grid of square cells. A cell is a letter: ``.`` zero, ``a`` to ``j`` positive from weak
    to strong, ``A`` to ``J`` negative. ``values`` and ``raw`` say each cell as a number and as
    the hex digits of its bytes, row by row, for whoever points at it."""

    x: float
    y: float
    cell: float
    rows: tuple[str, ...]
    values: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Primitives with classes and a place in common."""

    cls: str
    x: float
    y: float
    parts: tuple[Primitive, ...]


Primitive = Rect | Text | Path | Dot | Heat | Group


@dataclass(frozen=True, slots=True)
class Links:
    """What a body is about besides its block, so that pointing at one thing marks the others.

    ``absorbed`` tokens went into a block's temporal state, ``window`` are the positions in its
    conv window; ``ends`` are the blocks that an arrow leads from and to.
    """

    absorbed: int = 0
    window: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """What a mark looks like. ``layer`` orders bodies from back (0) to front (3)."""

    cls: str
    parts: tuple[Primitive, ...]
    layer: int = 1
    block: int | None = None  # the physical block it stands for
    title: str = ""  # said by a tooltip and a screen reader
    links: Links | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A body at a place. One with an ``origin`` slides in from there while a copy is shown."""

    name: str
    x: float
    y: float
    body: Body
    origin: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scene:
    width: float
    height: float
    marks: tuple[Mark, ...]

    def named(self, name: str) -> Mark:
        """The mark of that name. Raises KeyError, naming what there is."""
        for mark in self.marks:
            if mark.name == name:
                return mark
        raise KeyError(f"no mark {name!r}; there are {', '.join(m.name for m in self.marks)}")

    def texts(self) -> list[str]:
        """Every text in the picture, in drawing order."""
        return [text for mark in self.marks for text in _texts(mark.body.parts)]


def _texts(parts: tuple[Primitive, ...]) -> list[str]:
    found = []
    for part in parts:
        if isinstance(part, Text):
            found.append(part.text)
        elif isinstance(part, Group):
            found += _texts(part.parts)
    return found


def heat_cells(heat: Heat) -> list[tuple[str, float, float]]:
    """Class and corner of every cell of a heat grid."""
    return [
        (heat_class(letter), heat.x + column * heat.cell, heat.y + row * heat.cell)
        for row, letters in enumerate(heat.rows)
        for column, letter in enumerate(letters)
    ]


def heat_class(letter: str) -> str:
    """``a`` to ``j`` are the classes ``p1`` to ``p10``, ``A`` to ``J`` ``n1`` to ``n10``."""
    if letter == ".":
        return "z"
    return f"p{ord(letter) - 96}" if letter.islower() else f"n{ord(letter) - 64}"


def heat_letter(value: float, scale: float) -> str:
    """The letter for a value on a scale that ends at ``scale``; a NaN counts as strongest."""
    if value == 0:
        return "."
    strength = abs(value) / scale if scale else 1.0
    step = min(10, max(1, round(strength * 10))) if strength == strength else 10
    return chr((64 if value < 0 else 96) + step)


# --------------------------------------------------------------------------------------
# As JSON, for the browser: short, since a long run holds many of them
# --------------------------------------------------------------------------------------


def primitive_json(part: Primitive) -> Json:
    match part:
        case Rect(cls, x, y, w, h, r):
            return ["r", cls, short(x), short(y), short(w), short(h), short(r)]
        case Text(cls, x, y, text):
            return ["t", cls, short(x), short(y), text]
        case Path(cls, d):
            return ["p", cls, d]
        case Dot(cls, x, y, r):
            return ["c", cls, short(x), short(y), short(r)]
        case Heat(x, y, cell, rows, values, raw):
            grid = [short(x), short(y), short(cell), list(rows)]
            return ["h", *grid, " ".join(values), " ".join(raw)]
        case Group(cls, x, y, parts):
            return ["g", cls, short(x), short(y), [primitive_json(inner) for inner in parts]]


def body_json(body: Body) -> Json:
    links = body.links
    return [
        body.layer,
        body.cls,
        [primitive_json(part) for part in body.parts],
        body.block,
        body.title,
        *([[links.absorbed, links.window, links.ends]] if links else []),
    ]


def short(number: float) -> float:
    """Hundredths of a pixel are enough; whole numbers lose their point."""
    rounded = round(number, 2)
    return int(rounded) if rounded == int(rounded) else rounded
