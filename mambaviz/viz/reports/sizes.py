"""Sizes of the Reports page's pictures, in pixels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportSizes:
    width: float = 562  # of a run's picture
    left: float = 112  # where rows begin; the block and its name stand before
    chip: float = 46
    cell: float = 55  # of a conv row, never wider
    strip_height: float = 32
    first: float = 18  # y of the upper strip
    second: float = 92  # y of the lower one
    heads: float = 144  # y of the channels' names
    heat: float = 152  # y of the first row of numbers
    heat_cell: float = 62
    heat_row: float = 22
    most_rows: int = 6  # of numbers that are drawn
    note: float = 382  # x of the notes beside the numbers
    least_height: float = 262  # notes need it too
    token: float = 22  # pitch of the tokens in a temporal state, never wider
    bars: float = 330  # width of all of them
    chart_width: float = 372
    chart_height: float = 134
    chart_left: float = 34
    chart_top: float = 20
    chart_bottom: float = 22


SIZES = ReportSizes()
