"""How fast state copies were, where it was measured: the fast pre-copy of `mambaviz.speeds`.

Without a measurement there is no time to be told, and none is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mambaviz.speeds import RESULTS, committed

LARGER_AT_MOST = 8  # times as many bytes as the copy whose time is asked for


@dataclass(frozen=True)
class CopyRate:
    """One measured launch: states of ``crossing`` requests moved in ``layers`` layers."""

    name: str
    crossing: int
    layers: int
    layout: str
    bytes: int
    microseconds: float
    source: str

    @property
    def bytes_per_microsecond(self) -> float:
        return self.bytes / self.microseconds


def measured(path: Path = RESULTS) -> tuple[CopyRate, ...]:
    """All cases that were measured; empty where there is no measurement.

    Raises ValueError, with a sentence, for a file that is not what a measurement writes.
    """
    if not path.exists():
        return ()
    found = committed(path)
    if isinstance(found, str):
        raise ValueError(found)
    source = f"{found.device}, benchmarks/results/{path.name}"
    return tuple(
        CopyRate(c.name, c.crossing, c.layers, c.layout, c.bytes, c.precopy.us, source)
        for c in found.cases
        if c.precopy is not None
    )


def nearest(rates: Sequence[CopyRate], copied: float, layout: str) -> CopyRate | None:
    """The measured launch whose bytes are nearest, as a ratio; of that layout if there is one.

    None if all of them copy far more: a small copy is ruled by its launch, not by a rate. A rate
    holds for larger copies, since the card is busy then.
    """
    usable = [rate for rate in rates if copied * LARGER_AT_MOST >= rate.bytes]
    same = [rate for rate in usable if rate.layout == layout]
    return min(
        same or usable,
        key=lambda rate: max(rate.bytes / copied, copied / rate.bytes),
        default=None,
    )
