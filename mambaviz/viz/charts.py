"""Plotly figures of a run for notebooks: `Trace` in, `plotly.graph_objects.Figure` out.

`stage_figure` is the stage with a frame for each phase. Charts take their colours from `theme`.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mambaviz.trace import PHASES, PhaseName, StateKind, Trace
from mambaviz.viz import theme
from mambaviz.viz.changes import as_grid, scales_of
from mambaviz.viz.svg import picture
from mambaviz.viz.theme import ThemeName
from mambaviz.viz.views import NOTHING, frame_at


def block_heatmap(
    trace: Trace,
    step: int,
    phase: PhaseName,
    block: int,
    *,
    layer: int = 0,
    state: StateKind = "conv",
    style: ThemeName = "light",
) -> go.Figure:
    """The contents of one block after a phase, each channel on its own scale over the run.

    conv: one row a token (``[state_len, dim]``), temporal: one row a channel of a head
    (``[heads * head_dim, d_state]``); numbers as text. Raises KeyError for a phase, layer or
    state the trace does not have, ValueError for a block outside the pool.
    """
    total = trace.scenario.engine.num_blocks
    if not 0 <= block < total:
        raise ValueError(f"block {block}: the pool has blocks 0 to {total - 1}")
    frame = frame_at(trace, step, phase)
    raw = frame.contents.get((layer, state, block), b"")
    grid = as_grid(trace.spec_of[layer, state], raw, trace.scenario.engine.layout)
    scale = scales_of(trace).get((layer, state), np.ones(grid.shape[1 if state == "conv" else 0]))
    scale = np.where(scale > 0, scale, 1)
    shown = grid / (scale if state == "conv" else scale[:, None])
    label = frame.labels.get((layer, block), NOTHING)
    if state == "conv":
        rows = [
            f"row {row}: " + (f"t{token}" if token is not None else "–")
            for row, token in enumerate(label.rows or (None,) * len(grid))
        ]
    else:
        dim = trace.spec_of[layer, state].shape[1]
        rows = [f"head {row // dim}, channel {row % dim}" for row in range(len(grid))]
    figure = go.Figure(
        go.Heatmap(
            z=shown,
            y=rows,
            x=[str(column) for column in range(grid.shape[1])],
            text=[[f"{value:.3g}" for value in row] for row in grid],
            texttemplate="%{text}",
            hovertemplate="%{y}, column %{x}: %{text}<extra></extra>",
            zmin=-1,
            zmax=1,
            colorscale=heat_scale(style),
            showscale=False,
            xgap=1,
            ygap=1,
        )
    )
    head = f"h({label.absorbed})" if label.absorbed is not None else "never written"
    title = f"block {block}, {state}, layer {layer}, after {phase} of step {step}: {head}"
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(width=150 + 80 * grid.shape[1], height=90 + 36 * len(grid))
    return themed(figure, title, style)


def stage_figure(
    trace: Trace,
    step: int,
    *,
    request: str | None = None,
    layer: int = 0,
    style: ThemeName = "light",
) -> go.Figure:
    """One step as a figure with a frame for each phase, a slider and a play button.

    Every frame is the scene that the browser component draws and `mambaviz.viz.svg` writes,
    laid under the axes as an image, so that a notebook shows the same picture without a page.
    Raises KeyError for a step or request that the run does not have.
    """
    pictures = {
        phase: picture(trace, step, phase, request=request, layer=layer, style=style)
        for phase in PHASES
    }
    width, height = _size(pictures[PHASES[0]])
    figure = go.Figure(
        # An image alone gives a figure no axes: one point, not to be seen, does.
        data=[go.Scatter(x=[0], y=[0], mode="markers", marker={"opacity": 0}, hoverinfo="skip")],
        frames=[
            go.Frame(name=phase, layout={"images": [_image(svg, width, height)]})
            for phase, svg in pictures.items()
        ],
    )
    themed(figure, f"step {step}", style)
    hidden = {"visible": False, "fixedrange": True}
    figure.update_layout(
        images=[_image(pictures[PHASES[0]], width, height)],
        xaxis={**hidden, "range": [0, width]},
        yaxis={**hidden, "range": [-height, 0], "scaleanchor": "x"},
        width=width + 24,
        height=height + 150,
        margin={"l": 12, "r": 12, "t": 40, "b": 12},
        sliders=[_phase_slider()],
        updatemenus=[_play_button()],
        showlegend=False,
    )
    return figure


def _size(svg: str) -> tuple[float, float]:
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


def _image(svg: str, width: float, height: float) -> dict[str, Any]:
    data = base64.b64encode(svg.encode()).decode()
    place = {"x": 0, "y": 0, "xref": "x", "yref": "y", "sizex": width, "sizey": height}
    return {"source": f"data:image/svg+xml;base64,{data}", "layer": "below", **place}


_AT_ONCE = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}


def _phase_slider() -> dict[str, Any]:
    steps = [{"label": phase, "method": "animate", "args": [[phase], _AT_ONCE]} for phase in PHASES]
    return {"steps": steps, "currentvalue": {"visible": False}, "len": 0.85, "x": 0.12}


def _play_button() -> dict[str, Any]:
    rest = theme.MOTION["rest"] + theme.MOTION["slide"]
    timing = {"mode": "immediate", "fromcurrent": True, "frame": {"duration": rest, "redraw": True}}
    button = {"label": "play", "method": "animate", "args": [None, timing]}
    return {"type": "buttons", "buttons": [button], "x": 0.08, "y": 0, "yanchor": "top"}


def heat_scale(style: ThemeName) -> list[list[float | str]]:
    """Sign by hue, size by strength, as in the stage."""
    palette = theme.THEMES[style]
    return [[0.0, palette.negative], [0.5, palette.middle], [1.0, palette.positive]]


def themed(figure: go.Figure, title: str, style: ThemeName) -> go.Figure:
    """Fonts, colours and margins of the project; axes and colours stay from step to step."""
    palette = theme.THEMES[style]
    figure.update_layout(
        title={"text": title, "font": {"size": theme.TYPE["title"][0]}},
        font={"family": theme.SANS, "size": theme.TYPE["body"][0], "color": palette.text},
        paper_bgcolor=palette.background,
        plot_bgcolor=palette.background,
        margin={"l": 90, "r": 16, "t": 40, "b": 32},
        uirevision="stage",
    )
    return figure
