"""Charts of a report: bytes a layer, memory over length, crossings over block size.

Native Plotly figures, since nothing here moves from step to step. Lines are told apart by stroke
and by a name at their end; fills by a pattern and a name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from mambaviz.sizes.facts import binary, decimal
from mambaviz.sizes.memory import GIB
from mambaviz.sizes.report import STEPS, Report
from mambaviz.sizes.settings import MODES
from mambaviz.viz import theme
from mambaviz.viz.theme import ThemeName

HEIGHT = 232
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
    return _dressed(figure, "Bytes of one page, layer by layer", style, legend=True)


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
        ends.append((points[-1][0], points[-1][1] / GIB, mode, chosen))
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
        ends.append((points[-1][0], points[-1][1], f"S = {drafts}", chosen))
    _name_ends(figure, ends, style, logarithmic=True)
    _mark(figure, report.block, f"block {report.block:,}", style, logarithmic=True)
    figure.update_xaxes(title="block size in tokens", type="log", dtick=1, tickformat=",")
    figure.update_yaxes(type="log", dtick=1, tickformat="~g")
    title = f"Crossings in {STEPS:,} decode steps, {report.settings.acceptance:.0%} accepted"
    return _dressed(figure, title, style)


def _drafts_drawn(drafts: int) -> list[int]:
    """The chosen number and two others far enough from it to be told apart."""
    others = [other for other in OTHER_DRAFTS if abs(other - drafts) > 1 or other == drafts]
    return sorted({drafts, *others})


def _name_ends(
    figure: go.Figure,
    ends: Sequence[tuple[float, float, str, bool]],
    style: ThemeName,
    logarithmic: bool = False,
) -> None:
    """Each line's name where it ends; lines that end together share a place."""
    palette = theme.THEMES[style]
    top = max(y for _, y, _, _ in ends)
    places: dict[float, list[tuple[float, float, str, bool]]] = {}
    for end in sorted(ends, key=lambda end: end[1]):
        near = next((y for y in places if _close(y, end[1], top, logarithmic)), end[1])
        places.setdefault(near, []).append(end)
    for together in places.values():
        bold = any(chosen for *_, chosen in together)
        names = ", ".join(name for _, _, name, _ in together)
        figure.add_scatter(
            x=[together[-1][0]],
            y=[together[-1][1]],
            mode="text",
            text=[f" <b>{names}</b>" if bold else f" {names}"],
            textposition="middle right",
            textfont={"color": palette.text, "size": theme.TYPE["small"][0]},
            cliponaxis=False,
            hoverinfo="skip",
        )


def _close(one: float, two: float, top: float, logarithmic: bool) -> bool:
    if logarithmic:
        return max(one, two) < 1.25 * min(one, two)
    return abs(one - two) < 0.09 * top


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
