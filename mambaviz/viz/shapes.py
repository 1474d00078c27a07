"""The few things every picture is made of: a token, a block, an arrow, a pill.

Each returns a `Body` or primitives in coordinates of their own. The classes are those of
``stage/marks.css``.
"""

from __future__ import annotations

from functools import cache

from mambaviz.trace import CopyKind, Role
from mambaviz.viz.scene import Body, Dot, Path, Primitive, Rect, Text
from mambaviz.viz.theme import LETTER
from mambaviz.viz.views import Rows, RowStatus

KIND_NAME: dict[CopyKind, str] = {"migrate": "MIGRATE", "checkpoint": "CHECKPOINT"}
ONTO_ITSELF = "onto itself"  # of a copy whose source and target are the same bytes


@cache
def token(
    label: str, status: RowStatus, width: float, height: float, size: str = "s12", radius: float = 3
) -> Body:
    """A token as a small box. A rejected draft is struck through; one found in the cache has the
    edge of a cached block."""
    parts: list[Primitive] = [Rect("", 0.5, 0.5, width - 1, height - 1, radius)]
    if status == "reused":
        parts.append(Rect("edge", 0.5, 0.5, 3, height - 1, min(radius, 1.5)))
    if status == "rejected":
        parts.append(Path("strike", f"M2 {n(height - 2)}L{n(width - 2)} 2"))
    if label:
        parts.append(Text(f"mid {size}", width / 2, baseline(height, size), label))
    return Body(f"tk {status}", tuple(parts))


def baseline(height: float, size: str) -> float:
    """Where text of a size class stands so that digits look centred in a box of that height."""
    pixels = {"s12": 12, "s13": 13, "s14": 14, "s16": 16}[size]
    return height / 2 + pixels * 0.355


def block_frame(
    role: Role, width: float, height: float, radius: float = 5, *, kept: bool = False
) -> list[Primitive]:
    """The outline of a block in its role, with its pattern; the running one's is heavy. A retired
    one that the pool keeps cached (``kept``) has the edge of a cached one too."""
    inset = {"running": 1.5, "previous": 1.0}.get(role, 0.75)
    parts: list[Primitive] = [
        Rect("b", inset, inset, width - 2 * inset, height - 2 * inset, radius)
    ]
    if role == "cached" or kept:
        parts.append(Rect("edge", inset, inset, 5, height - 2 * inset, 2.5))
    if role == "speculative":
        parts.append(Rect("dots", 2, 2, width - 4, height - 4, radius - 1))
    if role == "retired":
        low = min(height - 3, 24)  # of a tall block only the line with id and state
        parts.append(Path("strike", f"M3 {n(low)}L{n(width - 3)} 3"))
    return parts


@cache
def block_chip(
    block: int, role: Role, width: float, height: float, *, wrong: bool = False, kept: bool = False
) -> Body:
    """A block as a small sign with its id and letter, beside a strip or a bar."""
    parts = block_frame(role, width, height, kept=kept)
    letter = LETTER["cached" if kept else role]
    text = letter if role == "null" else f"{block} {letter}".strip()
    middle = width / 2 + (2 if role == "cached" or kept else 0)
    parts.append(Text("mid s13 bold", middle, height / 2 + 4.7, text))
    if wrong:
        parts += wrong_mark(width - 3, 3, 7)
    return Body(block_class(role, wrong), tuple(parts), block=block)


@cache
def pin(block: int, role: Role, width: float, height: float, *, kept: bool = False) -> Body:
    """A block id on the ruler, where its ``h(n)`` belongs."""
    parts: list[Primitive] = [Rect("b", 0, 0, width, height, 3)]
    if role == "cached" or kept:
        parts.append(Rect("edge", 0, 0, 4, height, 2))
    middle = width / 2 + (1.5 if role == "cached" or kept else 0)
    parts.append(Text("mid s12 bold", middle, height / 2 + 3.4, str(block)))
    return Body(f"pin {block_class(role)}", tuple(parts), layer=2, block=block)


def block_class(role: Role, wrong: bool = False) -> str:
    return f"bk {role}" + (" wrong" if wrong else "")


def window_text(rows: Rows, offset: int) -> str:
    """``[t5 t6 t7] @1``; rows that go on from each other are shortened where room is short."""
    if not rows:
        return ""
    names = ["–" if row is None else f"t{row}" for row in rows]
    text = "[" + " ".join(names) + "]"
    first, last = rows[0], rows[-1]
    room = 15 - (len(f" @{offset}") if offset else 0)
    if len(text) > room and first is not None and last is not None and len(rows) > 2:
        in_order = rows == tuple(range(first, last + 1))
        text = f"[t{first}–{last}]" if in_order else f"[t{first} … t{last}]"
    return f"{text} @{offset}" if offset else text


def arrow_head(x: float, y: float, dx: float, dy: float, size: float = 8) -> Path:
    """A filled triangle whose tip is at (x, y), pointing along the unit vector (dx, dy)."""
    back_x, back_y = x - dx * size, y - dy * size
    side_x, side_y = -dy * size / 2, dx * size / 2
    return Path(
        "head",
        f"M{n(x)} {n(y)}L{n(back_x + side_x)} {n(back_y + side_y)}"
        f"L{n(back_x - side_x)} {n(back_y - side_y)}z",
    )


def under_arrow(x_from: float, x_to: float, y: float, depth: float, tip: float) -> list[Primitive]:
    """An arrow that leaves a row downwards, runs below it and comes up again: a copy in the row."""
    corner = min(5.0, abs(x_to - x_from) / 2)
    side = 1 if x_to > x_from else -1
    floor = y + depth
    line = (
        f"M{n(x_from)} {n(y)}V{n(floor - corner)}q0 {n(corner)} {n(side * corner)} {n(corner)}"
        f"H{n(x_to - side * corner)}q{n(side * corner)} 0 {n(side * corner)} {n(-corner)}"
        f"V{n(tip + 6)}"
    )
    return [Path("line", line), arrow_head(x_to, tip, 0, -1)]


def wrong_mark(x: float, y: float, radius: float = 8) -> list[Primitive]:
    """A cross on a diamond around (x, y): in the corner of what an invariant names."""
    arm = radius * 0.27
    diamond = f"M{n(x)} {n(y - radius)}l{n(radius)} {n(radius)}l{n(-radius)} {n(radius)}"
    cross = (
        f"M{n(x - arm)} {n(y - arm)}l{n(2 * arm)} {n(2 * arm)}"
        f"M{n(x + arm)} {n(y - arm)}l{n(-2 * arm)} {n(2 * arm)}"
    )
    return [Path("wrong-disc", f"{diamond}l{n(-radius)} {n(-radius)}z"), Path("wrong-cross", cross)]


def pill(text: str, width: float, height: float) -> list[Primitive]:
    return [
        Rect("pill", 0, 0, width, height, height / 2),
        Text("pill-text mid s12 bold", width / 2, height / 2 + 4.2, text),
    ]


# --------------------------------------------------------------------------------------
# Signs of the overview and the phase chips
# --------------------------------------------------------------------------------------

EVENTS: dict[str, str] = {
    "migrate": "copy into a new running block",
    "checkpoint": "copy to a block boundary",
    "boundary": "block boundary reached",
    "hit": "prefix found in the cache",
    "preempted": "request preempted",
    "wrong": "invariant broken",
}


@cache
def event_sign(event: str) -> tuple[Primitive, ...]:
    """An event as a sign of 17 × 16 pixels, in the colour the surroundings give it."""
    match event:
        case "migrate":
            return (Path("sign", "M4.2 8h8.6M9.4 4.6L12.8 8L9.4 11.4"),)
        case "checkpoint":
            return (Path("sign", "M8.5 3v6.2M5.4 6.6L8.5 9.7L11.6 6.6M4.2 12.6h8.6"),)
        case "boundary":
            return (Path("sign thick", "M8.5 3.2v9.6"),)
        case "hit":
            return (Path("sign", "M5.4 3.6v8.8M11.6 3.6v8.8M5.4 8h6.2"),)
        case "preempted":
            return (Path("sign", "M6 4v8M11 4v8"),)
        case "wrong":
            return (Path("sign", "M5 4.5l7 7M12 4.5l-7 7"),)
        case _:
            raise KeyError(f"no sign for the event {event!r}; there are {', '.join(EVENTS)}")


def dots(xs: list[float], y: float) -> Body:
    """Positions nobody has reached yet."""
    return Body("later", tuple(Dot("", x, y, 1.3) for x in xs), layer=0)


def n(number: float) -> str:
    """A coordinate inside a path."""
    return f"{round(number, 2):g}"
