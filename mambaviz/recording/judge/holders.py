"""Whose lists a block stands in, as far as they were recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from mambaviz.recording.held import Place
from mambaviz.recording.steps import GroupRows, Lists, Row

MOST_NAMED = 8  # in a sentence


class Holders:
    """The lists of the last allocation that was recorded.

    ``complete``: no list is missing, so a block that stands in none is held by nobody.
    """

    def __init__(self) -> None:
        self.lists: dict[str, GroupRows] = {}
        self.complete = False
        self._count: Counter[int] = Counter()  # lists that a block stands in
        self._names: dict[int, dict[str, None]] = {}  # whose lists those are
        self._group: dict[int, int] = {}  # of every block that stood in a list, the last one

    def forget(self) -> None:
        """Lists may have changed without a line."""
        self.lists, self._count, self._names, self.complete = {}, Counter(), {}, False

    def take(self, blocks: Lists) -> list[str]:
        """Go on to the lists after an allocation; the names of those that changed."""
        changed = [n for n, rows in blocks.lists.items() if self.lists.get(n) is not rows]
        gone = [name for name in self.lists if name not in blocks.lists]
        for name in (*changed, *gone):
            ids = _ids(self.lists.get(name, ()))
            self._count.subtract(ids)
            for block in ids:
                self._names[block].pop(name, None)
        for name in changed:
            ids = _ids(blocks.lists[name])
            self._count.update(ids)
            for block in ids:
                self._names.setdefault(block, {})[name] = None
        self.lists = dict(blocks.lists)
        self.complete = self.complete or blocks.whole
        return changed

    def regroup(self, rows: GroupRows) -> list[Place]:
        """Note which group each block of a list is in; the places that blocks have left."""
        left: list[Place] = []
        for group, row in enumerate(rows):
            for block in row or ():
                before = self._group.get(block)
                if before != group:
                    self._group[block] = group
                    if before is not None:
                        left.append((before, block))
        return left

    def count(self, block: int) -> int:
        """How often a block stands in a list."""
        return self._count[block]

    def of(self, block: int) -> list[str]:
        """The requests in whose lists a block stands."""
        return sorted(self._names.get(block, ()))

    def is_shared(self, block: int) -> bool:
        """Whether it stands in the lists of several requests."""
        return len(self._names.get(block, ())) > 1

    def named(self, block: int, besides: str = "") -> str:
        """The requests in whose lists a block stands, in words; ``besides`` is left out."""
        names = self._names.get(block, {})
        found = sorted(islice((name for name in names if name != besides), MOST_NAMED))
        left = len(names) - len(found) - (besides in names)
        return " and ".join([*found, f"{left} more"] if left else found)

    def group_of(self, block: int) -> int | None:
        """The cache group in whose lists a block stood last."""
        return self._group.get(block)


def _ids(rows: Iterable[Row | None]) -> list[int]:
    return [block for row in rows for block in row or () if block]
