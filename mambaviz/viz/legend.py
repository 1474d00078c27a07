"""The one legend, drawn with the same shapes as the pictures it explains."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mambaviz.trace import Role
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Path, Primitive, Text
from mambaviz.viz.theme import LETTER
from mambaviz.viz.views import RowStatus

ROLE_NAME: dict[Role, str] = {
    "cached": "cached",
    "running": "running",
    "previous": "until now",
    "speculative": "speculative",
    "null": "null",
    "retired": "retired",
    "free": "free",
}
TOKEN_NAME: dict[RowStatus, str] = {
    "prompt": "prompt",
    "reused": "reused",
    "ahead": "to come",
    "generated": "generated",
    "pending": "draft",
    "accepted": "accepted",
    "rejected": "rejected",
}
SIGN_NAME: dict[str, str] = {
    "migrate": "migrate",
    "checkpoint": "checkpoint",
    "boundary": "boundary",
    "hit": "prefix hit",
    "preempted": "preempted",
}
HEIGHT = 16


@dataclass(frozen=True)
class Item:
    width: float
    body: Body
    text: str
    term: str  # of the glossary


def items(
    roles: Collection[Role],
    statuses: Collection[RowStatus],
    events: Collection[str] = (),
    *,
    copies: bool = True,
) -> list[Item | None]:
    """Roles, tokens and the overview's signs, or the copy arrow, as far as a run has them; None is
    a dividing line. Without ``copies`` there is no arrow to explain."""
    blocks = [_role(role, name) for role, name in ROLE_NAME.items() if role in roles]
    tokens = [_token(status, name) for status, name in TOKEN_NAME.items() if status in statuses]
    if "wrong" in events:
        blocks.append(_wrong())
    signs = [_sign(event, name) for event, name in SIGN_NAME.items() if event in events]
    if copies and not {"migrate", "checkpoint"} & set(events):
        signs = [_arrow(), *signs]  # else the two signs stand for the arrows
    return [*blocks, None, *tokens, *([None, *signs] if signs else [])]


def _role(role: Role, name: str) -> Item:
    parts: list[Primitive] = shapes.block_frame(role, 22, HEIGHT, 4)
    if LETTER[role]:
        parts.append(Text("mid s12 bold", 11.5, 12.2, LETTER[role]))
    return Item(22, Body(shapes.block_class(role), tuple(parts)), name, role)


def _wrong() -> Item:
    parts = [*shapes.block_frame("free", 22, HEIGHT, 4), *shapes.wrong_mark(18, 6, 6)]
    return Item(24, Body("bk wrong", tuple(parts)), "broken", "wrong")


def _sign(event: str, name: str) -> Item:
    return Item(17, Body(f"event {event}", shapes.event_sign(event)), name, event)


def _token(status: RowStatus, name: str) -> Item:
    return Item(20, shapes.token("7", status, 20, HEIGHT), name, status)


def _arrow() -> Item:
    body = Body("copy", (Path("line", "M2 8H18"), shapes.arrow_head(24, 8, 1, 0)))
    return Item(26, body, "copy", "bias")
