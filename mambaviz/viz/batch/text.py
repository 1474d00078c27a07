"""Text that has to fit into a box: the longest wording that does."""

from __future__ import annotations

from collections.abc import Sequence

CHARACTER = 0.47  # mean width of one, in units of the type size


def width_of(text: str, size: float) -> float:
    """About how many pixels a text takes; no font is measured."""
    return len(text) * size * CHARACTER


def fitting(wordings: Sequence[str], room: float, size: float) -> str:
    """The first wording that fits into ``room`` pixels; empty if none does."""
    return next((text for text in wordings if width_of(text, size) <= room), "")


def clipped(text: str, length: int) -> str:
    """A name cut to ``length`` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"
