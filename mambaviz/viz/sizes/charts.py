"""Charts of a report: bytes a layer, memory over length, crossings over block size.

Native Plotly figures, since nothing here moves from step to step. Lines are told apart by stroke
and by a name at their end; fills by a pattern and a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from mambaviz.sizes.facts import binary, decimal
from mambaviz.sizes.memory import GIB
from mambaviz.sizes.report import STEPS, Report
from mambaviz.sizes.settings import MODES
from mambaviz.viz import theme
from mambaviz.viz.theme import ThemeName

HEIGHT = 232
MOST_TICKS = 6
NAME_HEIGHT = 0.1  # of a line at its end, as a part of the chart's height
STROKES = ("dot", "solid", "dash")
OTHER_DRAFTS = (0, 3, 7)


def bytes_per_layer(report: Report, style: ThemeName = "light") -> go.Figure:
    """One page of a recurrent layer and one of an attention layer, stacked, on the same axis."""
    palette = theme.THEMES[style]
    page, alignment = report.page, report.alignment
    padding = alignment.padding if alignment else 0
    recurrent, attention = "recurrent", "attention"
    parts = [
        (recurrent, "temporal", page.temporal_bytes, palette.negative, ""),
        (recurrent, "conv", page.conv_bytes, palette.positive, ""),
        (recurrent, "padding", padding, palette.null.fill, "/"),
    ]
    if alignment and report.token:
        tokens = f"{alignment.block:,} tokens of KV"
        parts.append((attention, tokens, alignment.attention_page, palette.strong, "."))
    figure = go.Figure()
    for row, name, size, colour, pattern in parts:
        if size:
            figure.add_bar(
                x=[size],
                y=[row],
                name=f"{name} {size:,}",
                orientation="h",
                width=0.6,
                marker={
                    "color": colour,
                    "line": {"color": palette.text, "width": 1},
                    "pattern": {"shape": pattern, "fgcolor": palette.hatch, "size": 6},
                },
                hovertemplate=f"{name}: {size:,} bytes<extra></extra>",
            )
    figure.update_layout(barmode="stack", yaxis={"autorange": "reversed"})
    figure.update_xaxes(tickformat="~s", ticksuffix="B", rangemode="tozero")
    return _dressed(figure, "One page of each kind of layer, in bytes", style, legend=True)


def memory_over_length(report: Report, style: ThemeName = "light") -> go.Figure:
    """Bytes that one request holds at most in each mode, up to twice the chosen length."""
    palette = theme.THEMES[style]
    figure = go.Figure()
    ends = []
    for mode, stroke in zip(MODES, STROKES, strict=True):
        points = report.memory_curve(mode)
        chosen = mode == report.settings.mode
        figure.add_scatter(
            x=[tokens for tokens, _ in points],
            y=[held / GIB for _, held in points],
            name=mode,
            mode="lines",
            line={
                "dash": stroke,
                "shape": "hv",
                "width": 3 if chosen else 1.75,
                "color": palette.text if chosen else palette.strong,
            },
            customdata=[binary(held) for _, held in points],
            hovertemplate=f"{mode}, %{{x:,}} tokens: %{{customdata}}<extra></extra>",
        )
        ends.append(End(points[-1][0], points[-1][1] / GIB, mode, chosen))
    _name_ends(figure, ends, style)
    _mark(figure, report.settings.sequence, f"{report.settings.sequence:,}", style)
    figure.update_xaxes(title="tokens of the request", tickformat="~s", rangemode="tozero")
    figure.update_yaxes(title="GiB", rangemode="tozero")
    return _dressed(figure, "Memory of one request", style)


def crossings_over_block(report: Report, style: ThemeName = "light") -> go.Figure:
    """Crossings for a thousand decode steps against the block size, both on logarithmic axes."""
    palette = theme.THEMES[style]
    figure = go.Figure()
    ends = []
    for drafts in _drafts_drawn(report.drafts):
        points = report.crossing_curve(drafts)
        chosen = drafts == report.drafts
        figure.add_scatter(
            x=[block for block, _ in points],
            y=[rate for _, rate in points],
            mode="lines",
            line={
                "dash": "solid" if chosen else "dot",
                "width": 3 if chosen else 1.75,
                "color": palette.text if chosen else palette.strong,
            },
            customdata=[decimal(rate) for _, rate in points],
            hovertemplate=f"S = {drafts}, block %{{x:,}}: %{{customdata}}<extra></extra>",
        )
        ends.append(End(points[-1][0], points[-1][1], f"S = {drafts}", chosen))
    _name_ends(figure, ends, style, logarithmic=True)
    _mark(figure, report.block, f"block {report.block:,}", style, logarithmic=True)
    blocks = [block for block, _ in report.crossing_curve(report.drafts)]
    ticks = _powers(blocks[0], blocks[-1])
    figure.update_xaxes(
        title="block size in tokens",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,}" for tick in ticks],
    )
    figure.update_yaxes(type="log", dtick=1, tickformat="~g")
    title = f"Crossings in {STEPS:,} decode steps, {report.settings.acceptance:.0%} accepted"
    return _dressed(figure, title, style)


def _drafts_drawn(drafts: int) -> list[int]:
    """The chosen number and two others far enough from it to be told apart."""
    others = [other for other in OTHER_DRAFTS if abs(other - drafts) > 1 or other == drafts]
    return sorted({drafts, *others})


def _powers(first: int, last: int) -> list[int]:
    """Powers of two in the range, few enough to be read: every one, every second, …"""
    powers = [2**n for n in range(64) if first <= 2**n <= last]
    return powers[:: 1 + (len(powers) - 1) // MOST_TICKS]


@dataclass(frozen=True)
class End:
    """Where a line ends, and what it is called."""

    x: float
    y: float
    name: str
    chosen: bool


def _name_ends(
    figure: go.Figure, ends: Sequence[End], style: ThemeName, logarithmic: bool = False
) -> None:
    """Each line's name where it ends; names of lines that end together stand above each other."""
    palette = theme.THEMES[style]
    scale: Callable[[float], float] = math.log10 if logarithmic else float
    back: Callable[[float], float] = _power_of_ten if logarithmic else float
    values = [y for line in figure.data if line.mode == "lines" for y in line.y]
    low, high = scale(min(values)) if logarithmic else 0.0, scale(max(values))
    apart = NAME_HEIGHT * (high - low)
    place = -math.inf
    for end in sorted(ends, key=lambda end: end.y):
        place = max(scale(end.y), place + apart)
        figure.add_scatter(
            x=[end.x],
            y=[back(place)],
            mode="text",
            text=[f" <b>{end.name}</b>" if end.chosen else f" {end.name}"],
            textposition="middle right",
            textfont={"color": palette.text, "size": theme.TYPE["small"][0]},
            cliponaxis=False,
            hoverinfo="skip",
        )


def _power_of_ten(exponent: float) -> float:
    return 10.0**exponent


def _mark(
    figure: go.Figure, x: float, text: str, style: ThemeName, logarithmic: bool = False
) -> None:
    """A line at what is chosen."""
    palette = theme.THEMES[style]
    figure.add_vline(x=x, line={"color": palette.move.line, "width": 1.5})
    figure.add_annotation(
        x=math.log10(x) if logarithmic else x,  # where a logarithmic axis has it
        y=1,
        yref="paper",
        yanchor="bottom",
        text=text,
        showarrow=False,
        font={"color": palette.move.text, "size": theme.TYPE["small"][0]},
    )


def _dressed(figure: go.Figure, title: str, style: ThemeName, legend: bool = False) -> go.Figure:
    palette = theme.THEMES[style]
    small = theme.TYPE["small"][0]
    figure.update_layout(
        title={"text": f"<b>{title}</b>", "font": {"size": theme.TYPE["title"][0]}, "x": 0},
        title_y=0.98,
        title_yanchor="top",
        font={"family": theme.SANS, "size": small, "color": palette.muted},
        title_font_color=palette.text,
        paper_bgcolor=palette.background,
        plot_bgcolor=palette.background,
        height=HEIGHT,
        margin={"l": 52, "r": 68, "t": 48, "b": 38},
        showlegend=legend,
        dragmode=False,
        hoverlabel={"bgcolor": palette.panel, "font": {"color": palette.text}},
        uirevision="sizes",
    )
    if legend:
        figure.update_layout(
            legend={
                "traceorder": "normal",
                "y": -0.2,
                "yanchor": "top",
                "x": 0,
                "font": {"size": small, "color": palette.text},
                "itemclick": False,
                "itemdoubleclick": False,
            },
            margin={"l": 76, "r": 24, "t": 32, "b": 86},
        )
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(
            gridcolor=palette.line,
            zerolinecolor=palette.line,
            linecolor=palette.strong,
            fixedrange=True,
            title_standoff=4,
            title_font_size=small,
        )
    return figure
