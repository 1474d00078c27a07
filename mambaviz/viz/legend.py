"""The one legend, drawn with the same shapes as the pictures it explains."""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.trace import Role
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Path, Primitive, Text
from mambaviz.viz.theme import LETTER
from mambaviz.viz.views import RowStatus

ROLE_NAME: dict[Role, str] = {
    "cached": "cached boundary",
    "running": "running",
    "previous": "running until now",
    "speculative": "speculative scratch",
    "null": "null block",
    "retired": "retired",
    "free": "free",
}
TOKEN_NAME: dict[RowStatus, str] = {
    "prompt": "prompt",
    "generated": "generated",
    "pending": "draft",
    "accepted": "draft accepted",
    "rejected": "draft rejected",
}
HEIGHT = 16


@dataclass(frozen=True)
class Item:
    width: float
    body: Body
    text: str


def items() -> list[Item | None]:
    """Roles, tokens, the copy arrow; None is a dividing line."""
    roles: list[Item | None] = [_role(role, name) for role, name in ROLE_NAME.items()]
    tokens = [_token(status, name) for status, name in TOKEN_NAME.items()]
    return [*roles, None, *tokens, None, _arrow()]


def _role(role: Role, name: str) -> Item:
    parts: list[Primitive] = shapes.block_frame(role, 22, HEIGHT, 4)
    if LETTER[role]:
        parts.append(Text("mid s12 bold", 11.5, 12.2, LETTER[role]))
    return Item(22, Body(shapes.block_class(role), tuple(parts)), name)


def _token(status: RowStatus, name: str) -> Item:
    return Item(20, shapes.token("7", status, 20, HEIGHT), name)


def _arrow() -> Item:
    body = Body("copy", (Path("line", "M2 8H18"), shapes.arrow_head(24, 8, 1, 0)))
    return Item(26, body, "copied in this phase")
