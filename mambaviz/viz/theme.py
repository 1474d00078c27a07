"""Every colour, size and font of the project, for both themes.

Nothing else in the project holds a colour: style sheets use the CSS variables made here, the
plotly figures and Streamlit's own theme take the same values. Hues are Okabe and Ito's, lines
darkened in the light theme so that outlines reach a contrast of 3:1; texts reach 4.5:1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from mambaviz.trace import Role

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True)
class Ink:
    """The colours of one role: its line, what fills it, and text on that fill."""

    line: str
    fill: str
    text: str


@dataclass(frozen=True)
class Palette:
    """All colours of one theme. Field names become CSS variables (``--cached-fill``)."""

    background: str
    panel: str
    sunken: str
    line: str
    strong: str
    text: str
    muted: str
    faint: str
    cached: Ink
    running: Ink
    speculative: Ink
    null: Ink
    retired: Ink
    free: Ink
    move: Ink  # copies, bias, changed cells, selection, now
    wrong: Ink  # a broken invariant, wrong bytes, a copy stopped by a guard
    on_move: str
    ok: str
    hatch: str
    token_prompt: str
    token_generated: str
    token_line: str
    positive: str
    negative: str
    middle: str  # a heat value of zero

    def variables(self) -> Iterator[tuple[str, str]]:
        """CSS variable names, without the dashes in front, and their values."""
        for field in fields(self):
            name, value = field.name.replace("_", "-"), getattr(self, field.name)
            if isinstance(value, Ink):
                yield name, value.line
                yield f"{name}-fill", value.fill
                yield f"{name}-text", value.text
            else:
                yield name, value


LIGHT = Palette(
    background="#FFFFFF",
    panel="#F6F8FA",
    sunken="#EDF1F5",
    line="#D5DBE3",
    strong="#7C8796",
    text="#18212C",
    muted="#4E5A69",
    faint="#66717F",
    cached=Ink("#008A64", "#CFEDE1", "#00533C"),
    running=Ink("#B87400", "#FFE7B8", "#5C3900"),
    speculative=Ink("#A9578A", "#F8E8F1", "#6A2750"),
    null=Ink("#8490A0", "#F1F3F6", "#5A6675"),
    retired=Ink("#8691A0", "#F3F5F7", "#596473"),
    free=Ink("#8490A0", "none", "#66717F"),
    move=Ink("#0072B2", "#E2F0F9", "#005C90"),
    wrong=Ink("#D55E00", "#FDEBDD", "#A84400"),
    on_move="#FFFFFF",
    ok="#00805D",
    hatch="#B4BCC7",
    token_prompt="#DCE2E9",
    token_generated="#FFFFFF",
    token_line="#8A95A4",
    positive="#8A5A2B",
    negative="#3F6796",
    middle="#F7F7F5",
)

DARK = Palette(
    background="#0E1117",
    panel="#161B24",
    sunken="#1F2631",
    line="#303947",
    strong="#76839A",
    text="#EEF2F7",
    muted="#B3BECC",
    faint="#97A3B3",
    cached=Ink("#2DBE93", "#0C382B", "#9BE8CE"),
    running=Ink("#E69F00", "#473306", "#FFDC94"),
    speculative=Ink("#DB8DBB", "#3B2032", "#F5C5DF"),
    null=Ink("#6A7688", "#1A202A", "#A5B0BF"),
    retired=Ink("#657184", "#1B212B", "#A5B0BF"),
    free=Ink("#6A7688", "none", "#97A3B3"),
    move=Ink("#56B4E9", "#10303F", "#8FD0F5"),
    wrong=Ink("#FF8A47", "#43230F", "#FFB38A"),
    on_move="#06202E",
    ok="#2DBE93",
    hatch="#566273",
    token_prompt="#3A4453",
    token_generated="#11161E",
    token_line="#7B8799",
    positive="#D9A066",
    negative="#7FA8DC",
    middle="#1B212A",
)

THEMES: dict[ThemeName, Palette] = {"light": LIGHT, "dark": DARK}

# The letter that stands beside a role's colour: never colour alone.
LETTER: dict[Role, str] = {
    "null": "∅",
    "cached": "C",
    "running": "R",
    "previous": "r",
    "speculative": "S",
    "retired": "",
    "free": "",
}

# A standalone SVG has no page to inherit a font from.
# Streamlit brings the first. Elsewhere a picture takes what is there: system-ui comes late, for on
# Linux it may be a font so wide that labels run into what stands beside them.
SANS = (
    '"Source Sans","Source Sans 3","Source Sans Pro","Segoe UI",Roboto,"Helvetica Neue",Arial,'
    '"Liberation Sans",system-ui,sans-serif'
)
MONO = '"Source Code Pro",ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace'

# Type: size and line in pixels.
TYPE: dict[str, tuple[float, float]] = {
    "headline": (20, 26),
    "sentence": (14.5, 20),
    "title": (14, 18),
    "body": (13, 16),
    "second": (12.5, 16),
    "small": (12, 16),
}

# The same for a lesson, which is read from the last row of a lecture room.
LESSON_TYPE: dict[str, tuple[float, float]] = {
    "lesson-headline": (31, 38),
    "lesson-sentence": (20, 28),
    "lesson-title": (18, 24),
    "lesson-small": (16, 20),
}

# Motion, in milliseconds at speed 1.
MOTION: dict[str, int] = {
    "fade": 120,  # what changed, in a phase without a copy
    "draw": 200,  # a copy's arrow
    "slide": 400,  # rows and bars along the ribbons
    "frame": 150,  # around the changed cells
    "column": 300,  # the running column and moved scratch
    "rest": 600,  # before the next phase while playing
}
EASING = "cubic-bezier(.2,0,0,1)"


@dataclass(frozen=True)
class LaneSizes:
    """Tokens and blocks, in pixels: a ruler, pins, the list, the worker row, arrows below."""

    left: float = 62  # where column 0 begins; labels stand before it
    column: float = 92  # never narrower: a block has to be readable
    wide_column: float = 108  # where ids and token counts have three digits
    token: float = 23
    width: float = 614  # of the panel's picture; longer runs scroll
    heading: float = 16
    ruler: float = 3  # y of the tokens inside a lane
    token_height: float = 22
    pin: float = 39
    pin_width: float = 21
    pin_height: float = 14
    list: float = 72
    list_height: float = 15
    block: float = 89
    block_height: float = 43
    arrows: float = 134  # y where arrows leave the row
    height: float = 177
    small_block: float = 6  # the same in the lane of a request that is not selected
    small_arrows: float = 51
    small_height: float = 98
    line_block: float = 1  # the same where it is one line of a crowd
    line_block_height: float = 20
    line_height: float = 25


@dataclass(frozen=True)
class StateSizes:
    """The state of one request and layer, in pixels: two conv strips above temporal bars."""

    width: float = 518
    height: float = 358
    left: float = 98  # where row 0 and token 0 begin
    strips: float = 295  # width of all conv rows together
    cell: float = 59  # a conv row is never wider
    cell_height: float = 32
    first: float = 20  # y of the upper strip
    second: float = 98  # y of the lower one
    right: float = 407  # x of the notes beside the strips
    split: float = 142
    bars: float = 172  # y of the first temporal bar
    bars_height: float = 180
    bar_cell: float = 18
    wide_bar_cell: float = 25  # from token 100 on
    bar_height: float = 24
    bars_width: float = 234  # tokens that do not fit here fold into one cell in front
    fold_width: float = 36  # of that cell


@dataclass(frozen=True)
class ChangeSizes:
    """Contents before and after, in pixels: conv above temporal, blocks side by side."""

    height: float = 190
    left: float = 45  # of the first grid; row labels stand before it
    after: float = 96  # from the grid before to the grid after
    pitch: float = 195  # from block to block
    conv: float = 42  # y of the conv grid
    conv_room: float = 75
    temporal: float = 127
    room: float = 60  # width of a grid, and height of the temporal one
    cell: float = 15  # never larger
    most: int = 12  # rows and columns that are drawn; larger tensors show their first ones


@dataclass(frozen=True)
class BatchSizes:
    """The pictures of the Metadata page, in pixels."""

    row: float = 27  # of the split, beside the editor's rows
    heading: float = 35  # y of the first row; the editor's head stands beside
    tokens: float = 120  # width of the split's query tokens
    query_token: float = 16  # never wider
    classes: float = 134  # x of the class pills
    pill: float = 58
    reasons: float = 204  # x of the reasons
    split_width: float = 536
    plan_width: float = 1150
    plan_left: float = 133  # where the first token begins; labels stand before it
    token: float = 38  # pitch of the chunk plan's tokens, never wider
    least_token: float = 9  # never narrower: a longer plan scrolls
    table_left: float = 60
    block: float = 58  # pitch of the block table's columns
    least_block: float = 34
    block_width: float = 326
    block_row: float = 36
    ring_cell: float = 26
    dial: float = 70  # radius


@dataclass(frozen=True)
class KernelSizes:
    """The pictures of the Kernels page, in pixels."""

    width: float = 546  # of the bytes
    left: float = 74  # where strips begin; their names stand before
    strip: float = 468
    cell_height: float = 25
    gap: float = 9  # between strips
    bracket: float = 28  # room of a bracket with its text
    offsets: float = 16
    orders_width: float = 536
    orders_left: float = 154
    orders_strip: float = 270  # width of the rows together
    order_cell: float = 50  # never wider
    order_height: float = 28
    order_pitch: float = 38


@dataclass(frozen=True)
class LessonSizes:
    """The pictures of a lesson, in pixels: tokens over blocks, conv window, temporal states."""

    lane_width: float = 1200
    lane_height: float = 232
    column: float = 200  # never wider
    edge: float = 27  # y where a column's boundary begins
    token: float = 30
    token_height: float = 36
    block: float = 92
    block_height: float = 66
    conv_width: float = 520
    conv_height: float = 166
    left: float = 94  # where row 0 begins
    cell: float = 72  # a conv row is never wider
    cell_height: float = 42
    first: float = 6  # y of the upper strip
    second: float = 118
    chip: float = 66
    temporal_width: float = 600
    temporal_height: float = 176
    bars_left: float = 147
    bars_width: float = 310
    bar_top: float = 6
    bar_pitch: float = 56
    bar_cell: float = 28  # never wider
    least_bar_cell: float = 19
    fold: float = 58  # the cell of the tokens that do not fit


@dataclass(frozen=True)
class LifeSizes:
    """Block life-lines, in pixels: a row is a block, a step is eight phases wide."""

    width: float = 1140  # of the whole picture; narrower windows scroll
    left: float = 62  # where step 0 begins; the blocks stand before it
    step: float = 216  # never wider
    least_step: float = 88  # never narrower
    most_steps: int = 12  # a longer run is shown in parts of so many
    head: float = 20  # y of the first row
    row: float = 26
    chip: float = 46
    bar: float = 20
    inset: float = 3  # of the bar in its row
    sign: float = 18  # from this width of a phase on signs are drawn whole


@dataclass(frozen=True)
class ByteSizes:
    """Byte ranges of a copy, in pixels: two strips of memory, source above target."""

    left: float = 66  # where byte 0 lies; the blocks' names stand before it
    strip: float = 470
    bar: float = 20
    first: float = 2  # y of the source
    second: float = 52  # y of the target
    height: float = 108
    most_rows: int = 64  # more are not divided by lines
    least_tick: int = 34  # between two numbers below


LANES = LaneSizes()
KERNELS = KernelSizes()
LESSON = LessonSizes()
BATCH = BatchSizes()
STATE = StateSizes()
CHANGES = ChangeSizes()
LIVES = LifeSizes()
BYTES = ByteSizes()


def css(selector: str) -> str:
    """Style rules that set every token on ``selector``; ``data-theme="dark"`` is the dark theme."""
    light = _declarations(LIGHT) + constants()
    return f"{selector}{{{light}}}\n{selector}[data-theme=dark]{{{_declarations(DARK)}}}"


def css_following(selector: str) -> str:
    """The same for a picture in the page, which follows the page's theme by itself."""
    pairs = zip(LIGHT.variables(), DARK.variables(), strict=True)
    tokens = "".join(
        f"--{name}:{light};" if light == dark else f"--{name}:light-dark({light},{dark});"
        for (name, light), (_, dark) in pairs
    )
    return f"{selector}{{{tokens}{constants()}}}"


def css_of(selector: str, theme: ThemeName) -> str:
    """The same for one theme, as a standalone picture needs it."""
    return f"{selector}{{{_declarations(THEMES[theme])}{constants()}}}"


def written_out(css: str, theme: ThemeName) -> str:
    """A style sheet with the tokens' values in place of the variables. Raises KeyError for a
    variable that is no token."""
    values = dict(THEMES[theme].variables())
    return re.sub(r"var\(--([\w-]+)\)", lambda found: values[found[1]], css)


def _declarations(palette: Palette) -> str:
    return "".join(f"--{name}:{value};" for name, value in palette.variables())


def constants() -> str:
    """Sizes and fonts, the same in both themes."""
    return f"{_sizes(TYPE)}--mono:{MONO};"


def lesson_constants() -> str:
    """The sizes that a lesson has besides."""
    return _sizes(LESSON_TYPE)


def _sizes(types: dict[str, tuple[float, float]]) -> str:
    return "".join(
        f"--{name}-size:{size}px;--{name}-line:{line}px;" for name, (size, line) in types.items()
    )
