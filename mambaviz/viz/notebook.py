"""What a notebook shows: the app's own drawings as files, tables as plain HTML.

Every function takes a trace or a record and returns a `Picture` or a `Table`. Both are complete
without scripts: a picture is an SVG and its words, a table is bare HTML and text. `play` adds a
figure that moves, where the program that shows the notebook can draw one.

    show, lanes, state, film, play      the stage of a run
    legend                              what its marks mean
    changed, byte_ranges                what a phase wrote
    decisions, metadata, steps          the same as rows of text
    split, chunks, ring, graph          one batch of the metadata builder
    launched, orders                    one launch of a kernel
    lines, table                        numbers over the steps, and any numbers at all
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from mambaviz.batch_record import BatchRecord
from mambaviz.glossary import TERMS
from mambaviz.launches.record import LaunchRecord
from mambaviz.trace import PHASES, PhaseName, StateKind, Trace
from mambaviz.viz import changes as changed_blocks
from mambaviz.viz import tables
from mambaviz.viz.batch import words as batch_words
from mambaviz.viz.batch.chunks import chunk_scene
from mambaviz.viz.batch.graph import graph_scene
from mambaviz.viz.batch.ring import ring_scene
from mambaviz.viz.batch.split import split_scene
from mambaviz.viz.charts import stage_figure
from mambaviz.viz.compare.charts import Value, chart_for, chart_picture
from mambaviz.viz.compare.sizes import SIZES
from mambaviz.viz.kernels import words as launch_words
from mambaviz.viz.kernels.strips import bytes_scene, orders_scene
from mambaviz.viz.legend import ROLE_NAME, TOKEN_NAME
from mambaviz.viz.legend import items as legend_items
from mambaviz.viz.scene import Body, Mark, Scene, Text
from mambaviz.viz.stamp import Place
from mambaviz.viz.svg import exported, lanes_scene, moved, state_scene, to_svg
from mambaviz.viz.tabs.byte_ranges import byte_scene
from mambaviz.viz.views import Frame, frame_at, group_of
from mambaviz.viz.words import words

Stop = tuple[int, PhaseName]  # a moment of a run

MARGIN = 12.0
TITLE_HEIGHT = 34.0
LETTER = 8.0  # of a title's type, on the wide side
SPARE = 48.0  # no browser measures the text here, and fonts differ in width


# --------------------------------------------------------------------------------------
# What a cell returns
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """An SVG, what it says in words, and perhaps a figure that moves."""

    svg: str
    text: str
    figure: go.Figure | None = None

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """All forms at once: a program shows the richest that it can."""
        bundle: dict[str, Any] = {"image/svg+xml": self.svg, "text/plain": self.text}
        if self.figure is not None:
            bundle["application/vnd.plotly.v1+json"] = self.figure.to_plotly_json()
        return bundle


@dataclass(frozen=True)
class Table:
    """Rows of text. No colour says anything here: code hosts strip all style."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{escape(name)}</th>" for name in self.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
            for row in self.rows
        )
        caption = f"<p><b>{escape(self.caption)}</b></p>\n" if self.caption else ""
        body = f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>"
        return f"{caption}<table>\n{body}\n</table>"

    def __repr__(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        text = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
        return "\n".join([self.caption, *text] if self.caption else text)


def table(caption: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> Table:
    """Any numbers as a table; None is shown as a dash. Raises ValueError for a ragged row."""
    heads = tuple(str(name) for name in head)
    lines = tuple(tuple("–" if cell is None else str(cell) for cell in row) for row in rows)
    for line in lines:
        if len(line) != len(heads):
            raise ValueError(f"a row of {len(line)} cells under {len(heads)} headings: {line}")
    return Table(caption, heads, lines)


# --------------------------------------------------------------------------------------
# The stage of a run
# --------------------------------------------------------------------------------------


def show(
    trace: Trace, step: int, phase: PhaseName, request: str | None = None, layer: int = 0
) -> Picture:
    """Tokens and blocks of all requests, the state of one, and the sentence of the phase.

    Raises KeyError for a step, phase, request or layer that the run does not have.
    """
    chosen = request or _first(trace)
    svg = exported(trace, Place(step, phase, chosen, layer), stamped=False)
    return Picture(svg, _sentence(frame_at(trace, step, phase), chosen, layer))


def lanes(
    trace: Trace, step: int, phase: PhaseName, request: str | None = None, layer: int = 0
) -> Picture:
    """Tokens and blocks alone."""
    chosen = request or _first(trace)
    frame = frame_at(trace, step, phase)
    where = f"step {step}, {phase}"
    return _titled(where, _sentence(frame, chosen, layer), lanes_scene(frame, chosen, layer))


def state(
    trace: Trace, step: int, phase: PhaseName, request: str | None = None, layer: int = 0
) -> Picture:
    """Conv window and temporal states of one request alone."""
    chosen = request or _first(trace)
    frame = frame_at(trace, step, phase)
    where = f"step {step}, {phase}"
    return _titled(where, _sentence(frame, chosen, layer), state_scene(frame, chosen, layer))


def film(
    trace: Trace, stops: Sequence[Stop], request: str | None = None, layer: int = 0
) -> Picture:
    """Several moments below each other, each under its headline."""
    chosen = request or _first(trace)
    parts, said = [], []
    for step, phase in stops:
        frame = frame_at(trace, step, phase)
        headline = f"step {step}, {phase}: {words(frame, chosen, layer).headline}"
        parts.append((headline, lanes_scene(frame, chosen, layer)))
        said.append(f"step {step}, {phase}. {_sentence(frame, chosen, layer)}")
    return Picture(to_svg(_stacked(parts), " ".join(said)), "\n".join(said))


def play(trace: Trace, step: int, request: str | None = None, layer: int = 0) -> Picture:
    """One step, phase by phase: a figure with a slider where one can be drawn, else the film."""
    still = film(trace, [(step, phase) for phase in PHASES if _moves(trace, step, phase)], request)
    return Picture(still.svg, still.text, stage_figure(trace, step, request=request, layer=layer))


def _moves(trace: Trace, step: int, phase: PhaseName) -> bool:
    """Whether a phase leaves blocks or tables other than it found them, or settles the tokens."""
    found = trace.steps[step].phase(phase)
    return bool(found.changes or found.copies or phase in ("schedule", "allocate", "accept"))


def _first(trace: Trace) -> str:
    return trace.scenario.requests[0].id


def _sentence(frame: Frame, request: str, layer: int) -> str:
    told = words(frame, request, layer)
    return f"{told.headline} {told.plain}"


def legend() -> Picture:
    """Every kind of block and token, with what the glossary says about it."""
    marks: list[Mark] = []
    told: list[str] = []
    y, width = 4.0, 0.0
    for item in legend_items(ROLE_NAME, TOKEN_NAME, ("wrong",), copies=False):
        if item is None:
            y += 10
            continue
        meaning = TERMS[item.term].meaning
        marks.append(Mark(f"sign-{item.term}", MARGIN, y, item.body))
        line = Body("", (Text("s125 semi", 0, 0, item.text), Text("s125", 90, 0, meaning)), layer=2)
        marks.append(Mark(f"says-{item.term}", MARGIN + 40, y + 12.5, line))
        told.append(f"{item.text}: {meaning}")
        width = max(width, MARGIN + 130 + LETTER * 0.95 * len(meaning))
        y += 24
    text = "\n".join(told)
    return Picture(to_svg(Scene(width + MARGIN, y, tuple(marks)), " ".join(told)), text)


def _titled(title: str, text: str, scene: Scene, *, cls: str = "", more_css: str = "") -> Picture:
    svg = to_svg(_stacked([(title, scene)]), text, cls=cls, more_css=more_css)
    return Picture(svg, f"{title.rstrip('.')}. {text}")


def _stacked(parts: Iterable[tuple[str, Scene]]) -> Scene:
    """Scenes below each other, each under a title."""
    marks: list[Mark] = []
    y, width = 4.0, 0.0
    for index, (title, scene) in enumerate(parts):
        head = Body("", (Text("s14 semi", 0, 0, title),), layer=2)
        marks.append(Mark(f"title{index}", MARGIN, y + 18, head))
        marks += moved(scene.marks, MARGIN, y + TITLE_HEIGHT, f"{index}-")
        width = max(width, scene.width + SPARE, LETTER * len(title))
        y += TITLE_HEIGHT + scene.height + 10
    return Scene(width + 2 * MARGIN, y, tuple(marks))


# --------------------------------------------------------------------------------------
# What a phase wrote
# --------------------------------------------------------------------------------------


def changed(trace: Trace, step: int, phase: PhaseName, layer: int = 0) -> Picture:
    """The contents of every block that a phase changed, before and after."""
    frame = frame_at(trace, step, phase)
    views = frame.changes(layer)
    marks, width = changed_blocks.changes(views, trace, changed_blocks.scales_of(trace))
    blocks = ", ".join(str(view.block) for view in views) or "no block"
    height = max((mark.y for mark in marks), default=0) + 40
    title = f"step {step}, {phase}, layer {layer}: changed {blocks}"
    return _titled(title, "Changed cells are framed.", Scene(width, height, marks))


def byte_ranges(
    trace: Trace,
    step: int,
    phase: PhaseName,
    request: str | None = None,
    state: StateKind = "conv",
    layer: int = 0,
) -> Picture:
    """Which bytes a copy read and which it wrote. Raises ValueError where nothing was copied."""
    chosen = request or _first(trace)
    found = [
        copy
        for copy in trace.steps[step].phase(phase).copies
        if (copy.request, copy.state, copy.layer) == (chosen, state, layer) and not copy.skipped
    ]
    if not found:
        raise ValueError(f"step {step}, {phase}: no {state} state of {chosen} is copied")
    copy, layout = found[0], trace.scenario.engine.layout
    scene = byte_scene(copy, trace.spec_of[layer, state], layout)
    title = f"layout {layout}: block {copy.src_block} → block {copy.dst_block}, bias {copy.bias}"
    text = f"{copy.num_bytes} bytes of the {state} state move."
    return _titled(title, text, scene, cls="bytes", more_css=_drawing_rules("tabs/tabs.css"))


# --------------------------------------------------------------------------------------
# A run as rows of text
# --------------------------------------------------------------------------------------


def decisions(trace: Trace, step: int, phase: PhaseName) -> Table:
    """The decision table of a phase: value, rule, and the number of each request."""
    found = tables.why(frame_at(trace, step, phase))
    rows = [(row.name, row.how, *row.values) for row in found.rows]
    return table(f"step {step}, {phase}", ("value", "how", *found.requests), rows)


def metadata(trace: Trace, step: int, *names: str, group: int = 0) -> Table:
    """What the builder made in a step; with ``names`` only these fields."""
    found = tables.metadata(frame_at(trace, step, "metadata"), group)
    rows = [
        (row.name, " ".join(cell.text for cell in row.cells), row.kind)
        for row in found.rows
        if not names or row.name in names
    ]
    return table(f"metadata of step {step}", ("field", "value", "dtype and shape"), rows)


def steps(trace: Trace, *phases: PhaseName, request: str | None = None, layer: int = 0) -> Table:
    """The headline of some phases of every step."""
    chosen = request or _first(trace)
    rows = []
    for step in trace.steps:
        heads = [words(frame_at(trace, step.index, p), chosen, layer).headline for p in phases]
        rows.append((step.index, *heads))
    return table(trace.scenario.name, ("step", *phases), rows)


def blocks(trace: Trace, step: int, phase: PhaseName, request: str, layer: int = 0) -> Table:
    """A request's row, column by column: id, role and what the bytes say."""
    frame = frame_at(trace, step, phase)
    view = frame.lane(request, group_of(trace, layer), layer)
    rows = [
        (
            cell.column,
            cell.block,
            view.block_list[cell.column] if cell.column < len(view.block_list) else None,
            cell.role,
            None if cell.absorbed is None else f"h({cell.absorbed})",
        )
        for cell in view.cells
    ]
    head = ("column", "worker's row", "scheduler's list", "role", "state in the bytes")
    return table(f"{request} after {phase} of step {step}", head, rows)


# --------------------------------------------------------------------------------------
# One batch, one launch
# --------------------------------------------------------------------------------------


def split(record: BatchRecord) -> Picture:
    """Which row counts as what, and the rule that decided it."""
    return _of_batch(record, split_scene(record))


def chunks(record: BatchRecord) -> Picture:
    """How the prefill is cut into chunks and conv programs; only for a batch with prefills."""
    return _of_batch(record, chunk_scene(record))


def ring(record: BatchRecord) -> Picture:
    """The ReplaySSM ring over the steps that follow."""
    return _of_batch(record, ring_scene(record))


def graph(record: BatchRecord) -> Picture:
    """The memory of a captured graph, row by row; only for a batch with full graphs."""
    return _of_batch(record, graph_scene(record))


def _of_batch(record: BatchRecord, scene: Scene) -> Picture:
    text = " ".join(batch_words.sentences(record))
    style = _drawing_rules("batch/batch.css")
    return _titled(batch_words.headline(record), text, scene, more_css=style)


def fields(record: BatchRecord, *names: str) -> Table:
    """Fields of the builder's result for one batch; all that have content without ``names``."""
    rows = [
        (found.name, tables.value_text(found.value))
        for found in record.metadata.fields
        if found.value is not None and (not names or found.name in names)
    ]
    return table(record.batch.name, ("field", "value"), rows)


def launched(record: LaunchRecord, key: str | None = None) -> Picture:
    """What one program of a launch read and wrote; the most telling one without ``key``."""
    program = record.program(key) if key else record.first
    title = launch_words.selected(record, program.row, program.state)
    scene = bytes_scene(record, program)
    style = _drawing_rules("kernels/kernels.css")
    return _titled(title, program.why, scene, more_css=style)


def orders(record: LaunchRecord) -> Picture:
    """A shift in place done in several orders. Raises ValueError for a launch without one."""
    program = record.first
    if not program.orders:
        raise ValueError("no program of this launch shifts a window in place")
    window, running = record.inputs.conv_kernel - 1, record.inputs.running(program.row)
    scene = orders_scene(program.orders, program.bias, window, running)
    said = "; ".join(
        f"{strip.name}: {'right' if strip.right else 'wrong'}" for strip in program.orders
    )
    style = _drawing_rules("kernels/kernels.css")
    return _titled("the same shift in different orders", said, scene, more_css=style)


# --------------------------------------------------------------------------------------
# Numbers over the steps
# --------------------------------------------------------------------------------------


def lines(title: str, names: Sequence[str], runs: Sequence[Sequence[Value]]) -> Picture:
    """One line a run over its steps, told apart by stroke and marker."""
    longest = max(len(run) for run in runs)
    padded = [[*run, *[None] * (longest - len(run))] for run in runs]
    chart = chart_for(SIZES.width_of_two, [str(step) for step in range(longest)], padded)
    scene = Scene(
        chart.width + 60, SIZES.chart_height + 10, tuple(chart_picture(chart, names, padded))
    )
    said = "; ".join(
        f"{name}: {', '.join(map(str, run))}" for name, run in zip(names, runs, strict=True)
    )
    return _titled(title, said, scene, more_css=_drawing_rules("compare/compare.css"))


_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DRAWS = re.compile(r"\b(?:fill|stroke)\b")


@cache
def _drawing_rules(sheet: str) -> str:
    """The rules of a page's style sheet that give shapes their look, without its layout."""
    text = (Path(__file__).parent / sheet).read_text(encoding="utf-8")
    rules = _RULE.findall(_COMMENT.sub("", text))
    return "\n".join(f"{where.strip()} {{{what}}}" for where, what in rules if _DRAWS.search(what))
