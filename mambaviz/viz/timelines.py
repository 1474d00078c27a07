"""Pictures as differences from frame to frame, the way the browser takes them.

The same token, block or arrow occurs in many frames, so bodies are kept once and frames name
them by number; a channel lists only what changed since the frame before. ``stage/timeline.js``
reads them back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mambaviz.viz.scene import Body, Mark, body_json, short

Json = Any


class Table:
    """Values kept once, named by number."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.values: list[Json] = []

    def number(self, key: Hashable, value: Json) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.values)
            self.values.append(value)
        return found

    def number_of(self, key: Hashable, make: Callable[[], Json]) -> int:
        """The same for a value that takes a while to make."""
        found = self.numbers.get(key)
        return self.number(key, make()) if found is None else found


class Bodies(Table):
    """Bodies by number. Most come from a cache, so the same object is asked for again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, tuple[int, Body]] = {}  # by identity; holds the body alive

    def of(self, body: Body) -> int:
        found = self.known.get(id(body))
        if found is None:
            number = self.numbers.get(body)
            if number is None:
                number = self.number(body, body_json(body))
            found = self.known[id(body)] = (number, body)
        return found[0]


class _Part:
    """One part of a picture as it was last."""

    def __init__(self) -> None:
        self.marks: tuple[Mark, ...] = ()
        self.named: dict[str, Mark] = {}

    def change(self, marks: tuple[Mark, ...], gone: list[str], put: list[Mark]) -> None:
        after = {mark.name: mark for mark in marks}
        gone += [name for name in self.named if name not in after]
        put += [mark for mark in marks if not _same(mark, self.named.get(mark.name))]
        self.marks, self.named = marks, after


class Channel:
    """One picture through the run: what changes at which frame."""

    def __init__(self, bodies: Bodies, names: Table) -> None:
        self.bodies, self.names = bodies, names
        self.parts: list[_Part] = []
        self.changes: dict[int, list[Json]] = {}

    def add(self, frame: int, parts: Sequence[tuple[Mark, ...]]) -> None:
        """The picture at a frame. Parts keep their places; an unchanged one is the same object."""
        while len(self.parts) < len(parts):
            self.parts.append(_Part())
        gone: list[str] = []
        put: list[Mark] = []
        for held, marks in zip(self.parts, parts, strict=True):
            if marks is not held.marks:
                held.change(marks, gone, put)
        if gone or put:
            left = set(gone) - {mark.name for mark in put}
            names = [self.names.number(name, name) for name in gone if name in left]
            self.changes[frame] = [names, [self._entry(mark) for mark in put]]

    def _entry(self, mark: Mark) -> list[Json]:
        name = self.names.number(mark.name, mark.name)
        entry = [name, self.bodies.of(mark.body), short(mark.x), short(mark.y)]
        return entry if mark.origin is None else [*entry, *(short(at) for at in mark.origin)]


def _same(mark: Mark, other: Mark | None) -> bool:
    if other is None:
        return False
    place = (mark.x, mark.y, mark.origin) == (other.x, other.y, other.origin)
    return place and (mark.body is other.body or mark.body == other.body)
