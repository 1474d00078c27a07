"""How fast state copies were, where it was measured: ``benchmarks/results``.

Measurements are data: a JSON file of cases where there is one, else the table of the page beside
it. Without either there is no time to be told, and none is made up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
MIB = 2**20

_NAME = re.compile(
    r"(?P<crossing>\d+) of (?P<requests>\d+) requests, (?P<layers>\d+) layers? of "
    r"(?P<mib>[\d.]+) MiB, conv (?P<rows>\d+)×(?P<dim>\d+), (?P<layout>SD|DS)"
    r"(?:, bias (?P<bias>\d+))?"
)


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


def measured(results: Path = RESULTS) -> tuple[CopyRate, ...]:
    """All usable cases, of the first card that was measured; empty where there is none.

    Raises ValueError for a JSON file that is not what a measurement writes.
    """
    for path in sorted(results.glob("kernels-*.json")):
        return tuple(_from_json(path))
    for path in sorted(results.glob("kernels-*.md")):
        return tuple(_from_table(path))
    return ()


def nearest(rates: Sequence[CopyRate], copied: float, layout: str) -> CopyRate | None:
    """The measured launch of that layout whose bytes are nearest, as a ratio."""
    same = [rate for rate in rates if rate.layout == layout]
    return min(
        same,
        key=lambda rate: max(rate.bytes / copied, copied / rate.bytes),
        default=None,
    )


def _from_json(path: Path) -> Iterator[CopyRate]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        source = f"{data['device']}, benchmarks/results/{path.name}"
        cases = [(case["name"], float(case["fast_us"])) for case in data["cases"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: not what a measurement writes ({error!r})") from None
    for name, microseconds in cases:
        yield from _case(name, microseconds, source)


def _from_table(path: Path) -> Iterator[CopyRate]:
    """Rows of the tables whose last column but one is the kernel's µs, median first."""
    text = path.read_text(encoding="utf-8")
    device = re.search(r"^(.+?)[;,]", text.partition("\n")[2].strip())
    source = f"{device[1] if device else path.stem}, benchmarks/results/{path.name}"
    column: int | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "case":
            column = next(
                (i for i, cell in enumerate(cells) if re.fullmatch(r"precopy( µs)?", cell)), None
            )
        elif column is not None and column < len(cells):
            number = re.match(r"[\d.]+(?= \()", cells[column])
            if number and "%" not in cells[column]:
                yield from _case(cells[0], float(number[0]), source)


def _case(name: str, microseconds: float, source: str) -> Iterator[CopyRate]:
    """Nothing for a name that says no sizes: another kind of case."""
    found = _NAME.match(name)
    if found is None or microseconds <= 0:
        return
    rows = int(found["rows"]) - int(found["bias"] or 0)
    state = float(found["mib"]) * MIB + rows * int(found["dim"]) * 2  # conv rows are bfloat16
    crossing, layers = int(found["crossing"]), int(found["layers"])
    moved = round(crossing * layers * state)
    yield CopyRate(name, crossing, layers, found["layout"], moved, microseconds, source)
