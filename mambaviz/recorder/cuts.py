"""Lists that mostly grow, written as what follows their common beginning (docs/recording.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Cut = dict[str, Any]


class Cuts:
    """Remembers each request's lists, one a group, and cuts the next ones."""

    def __init__(self) -> None:
        self._last: dict[str, list[list[int] | None]] = {}

    def __contains__(self, request: str) -> bool:
        return request in self._last

    @property
    def requests(self) -> list[str]:
        return list(self._last)

    def last(self, request: str, group: int) -> list[int]:
        return (self._last[request][group] if request in self._last else None) or []

    def forget(self, request: str) -> None:
        self._last.pop(request, None)

    def clear(self) -> None:
        """After lines were lost nothing is known to the reader any more."""
        self._last.clear()

    def changed(self, request: str, lists: Sequence[list[int] | None]) -> list[Cut | None] | None:
        """One cut a group, or None where nothing changed. ``lists`` are kept, not copied."""
        before = self._last.get(request)
        self._last[request] = list(lists)
        if before is None:
            return [None if ids is None else {"ids": ids} for ids in lists]
        if before == list(lists):
            return None
        return [
            None if ids is None else _cut(old or [], ids)
            for old, ids in zip(before, lists, strict=True)
        ]


def _cut(old: list[int], new: list[int]) -> Cut:
    pairs = zip(old, new, strict=False)
    common = min(len(old), len(new))
    start = next((column for column, (was, now) in enumerate(pairs) if was != now), common)
    return {"start": start, "ids": new[start:]} if start else {"ids": new}
