"""Sizes of the pictures that stand side by side, in pixels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompareSizes:
    """Widths are those of a panel's inside; two runs have wider panels than three."""

    width_of_three: float = 364
    width_of_two: float = 562
    left: float = 27  # where column 0 begins; request names stand before it
    pitch: float = 42  # from column to column, never wider for three runs
    wide_pitch: float = 58  # the same for two
    least_pitch: float = 40  # never narrower: more columns scroll
    heading: float = 17  # y of the first row; column numbers stand above
    row: float = 47
    block_height: float = 41
    strip: float = 30
    strip_words: float = 82  # to the right of the tokens
    token: float = 25  # pitch, never wider
    token_height: float = 23
    found_left: float = 52
    found: float = 77  # pitch of the boundaries
    found_row: float = 34
    found_most: int = 4  # boundaries that are drawn
    chart_height: float = 152
    chart_left: float = 46
    chart_right: float = 70  # room for the runs' names
    chart_bottom: float = 24
    chart_top: float = 8


SIZES = CompareSizes()
