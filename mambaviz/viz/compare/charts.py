"""Small charts over the moments: one line a run, told apart by stroke and marker, not by colour."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mambaviz.viz.compare.sizes import SIZES as Z
from mambaviz.viz.scene import Body, Dot, Mark, Path, Primitive, Rect, Text
from mambaviz.viz.shapes import n

Value = int | None
STROKES = ("dotted", "solid", "dashed")  # of the runs from left to right


@dataclass(frozen=True)
class Chart:
    """Where things lie. ``labels`` name the moments, ``top`` is the value at the upper edge."""

    width: float
    labels: tuple[str, ...]
    ticks: tuple[int, ...]

    @property
    def top(self) -> int:
        return self.ticks[-1]

    @property
    def bottom(self) -> float:
        return Z.chart_height - Z.chart_bottom

    @property
    def right(self) -> float:
        return self.width - Z.chart_right

    def x(self, moment: int) -> float:
        last = max(len(self.labels) - 1, 1)
        return Z.chart_left + (self.right - Z.chart_left) * moment / last

    def y(self, value: int) -> float:
        room = self.bottom - Z.chart_top
        return self.bottom - room * value / self.top


def chart_for(width: float, labels: Sequence[str], lines: Sequence[Sequence[Value]]) -> Chart:
    highest = max((value for line in lines for value in line if value is not None), default=0)
    return Chart(width, tuple(labels), ticks(highest))


def ticks(highest: int) -> tuple[int, ...]:
    """Three to five round numbers from 0 to at least ``highest``."""
    rough = max(highest, 1) / 3
    power = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = next(m * power for m in (1, 2, 4, 5, 10) if m * power >= rough)
    return tuple(step * index for index in range(math.ceil(max(highest, 1) / step) + 1))


def chart_picture(
    chart: Chart, names: Sequence[str], lines: Sequence[Sequence[Value]]
) -> list[Mark]:
    """Everything but the moment on show."""
    marks = [*_axes(chart)]
    for index, line in enumerate(lines):
        marks.append(Mark(f"line{index}", 0, 0, _line(chart, STROKES[_style(index, lines)], line)))
    return [*marks, *_names(chart, names, lines)]


def now_marks(chart: Chart, moment: int) -> tuple[Mark, ...]:
    """The moment on show: a line through all values, its label set off."""
    line = Path("now-line", f"M0 {n(Z.chart_top - 4)}V{n(chart.bottom)}")
    x = chart.x(moment)
    label = (
        Rect("page", -11, -11, 22, 14),
        Text("mid move-text s125 bold", 0, 0, chart.labels[moment]),
    )
    return (
        Mark("now", x, 0, Body("", (line,), layer=1)),
        Mark("label", x, chart.bottom + 16, Body("", label, layer=2)),
    )


def _style(index: int, lines: Sequence[Sequence[Value]]) -> int:
    """Of two runs the first is solid, as the one the other is compared with."""
    return index if len(lines) > 2 else index + 1


def _axes(chart: Chart) -> Iterator[Mark]:
    for value in chart.ticks:
        y = chart.y(value)
        grid = Path("grid", f"M{n(Z.chart_left - 10)} 0H{n(chart.right)}")
        yield Mark(f"grid{value}", 0, y, Body("", (grid,), layer=0))
        label = Text("end m s12", Z.chart_left - 14, 4.2, spaced(value))
        yield Mark(f"tick{value}", 0, y, Body("", (label,), layer=2))
    count = len(chart.labels)
    every = max(1, math.ceil(count * 26 / (chart.right - Z.chart_left + 1)))
    for moment in range(0, count, every):
        text = Text("mid m s12", 0, 0, chart.labels[moment])
        yield Mark(f"x{moment}", chart.x(moment), chart.bottom + 16, Body("", (text,), layer=1))


def _line(chart: Chart, stroke: str, line: Sequence[Value]) -> Body:
    points = [
        (chart.x(moment), chart.y(value)) for moment, value in enumerate(line) if value is not None
    ]
    path = "M" + "L".join(f"{n(x)} {n(y)}" for x, y in points) if points else ""
    parts: list[Primitive] = [Path("stroke", path)]
    if len(points) <= 40:
        parts += [_marker(stroke, x, y) for x, y in points]
    return Body(f"series {stroke}", tuple(parts), layer=1)


def _marker(stroke: str, x: float, y: float) -> Primitive:
    if stroke == "solid":
        return Dot("marker", x, y, 3.6)
    if stroke == "dotted":
        return Rect("marker", x - 3.2, y - 3.2, 6.4, 6.4)
    return Path("marker", f"M{n(x)} {n(y - 4.6)}L{n(x + 4.4)} {n(y + 3.4)}H{n(x - 4.4)}z")


def _names(chart: Chart, names: Sequence[str], lines: Sequence[Sequence[Value]]) -> Iterator[Mark]:
    """Each run's name at the end of its line; runs that end alike share a place. The name of one
    that ends before the others stands above its line, out of theirs."""
    places: dict[tuple[int, int], list[str]] = {}
    for name, line in zip(names, lines, strict=True):
        end = max((moment for moment, value in enumerate(line) if value is not None), default=None)
        if end is not None:
            places.setdefault((end, line[end] or 0), []).append(name)
    last_end = len(chart.labels) - 1
    taken: list[tuple[float, float]] = []
    for (end, value), together in sorted(places.items(), key=lambda item: (-item[0][1], item[0])):
        x, y = chart.x(end) + 9, chart.y(value) + 4.2
        if end < last_end:
            x, y = x - 5, y - 13
        while any(abs(x - other) < 60 and abs(y - height) < 13 for other, height in taken):
            y += 13
        taken.append((x, y))
        text = Text("s125 semi halo", 0, 0, _fitting(together))
        yield Mark(f"name {value} {end}", x, y, Body("", (text,), layer=2))


def _fitting(names: Sequence[str], room: int = 10) -> str:
    text = ", ".join(names)
    if len(text) <= room:
        return text
    if len(names) > 1:
        return {2: "both", 3: "all three"}[len(names)]
    return text[: room - 1] + "…"


def spaced(value: int) -> str:
    """Thousands set apart by a narrow space."""
    return f"{value:,}".replace(",", "\u202f")
