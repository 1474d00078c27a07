"""Layers × states: every copy of a step, done or not, and why, for every request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from mambaviz.history import rows_moved
from mambaviz.trace import (
    BlockCopy,
    CopyKind,
    Decision,
    Phase,
    PhaseName,
    StateKind,
    StateSpec,
    Step,
    Trace,
)
from mambaviz.viz.shapes import KIND_NAME, ONTO_ITSELF
from mambaviz.viz.tabs.html import go

COPYING: tuple[tuple[PhaseName, CopyKind], ...] = (
    ("pre-copy", "migrate"),
    ("post-copy", "checkpoint"),
)
STATES: tuple[StateKind, ...] = ("conv", "temporal")


@dataclass(frozen=True)
class Cell:
    """What became of one state of one layer: ``kind`` moved, stays, stopped or absent."""

    kind: str
    text: str


@dataclass(frozen=True)
class Line:
    """Layers that are alike in all cells: ``layers 0–2``."""

    group: int
    layers: tuple[int, ...]
    cells: tuple[Cell, ...]  # pre-copy conv, temporal, post-copy conv, temporal


@dataclass(frozen=True)
class RequestMatrix:
    request: str
    said: tuple[str, ...]  # one sentence a copy phase, or why there is nothing
    lines: tuple[Line, ...]


def matrices(trace: Trace, step: Step) -> tuple[RequestMatrix, ...]:
    """The copies of a step for every request of the run, also of those that decided nothing."""
    return tuple(_matrix(trace, step, plan.id) for plan in trace.scenario.requests)


def matrix_html(trace: Trace, step: Step, phase: PhaseName) -> str:
    """One table: a group of lines for each request, the phase on screen marked."""
    bodies = "".join(_body(trace, found, phase) for found in matrices(trace, step))
    return (
        f'<div class="matrix"><table><caption>Copies of step {step.index} by request, layer and '
        f"state, done or not, and why</caption>{_head(step, phase)}{bodies}</table></div>"
    )


# --------------------------------------------------------------------------------------
# What was decided
# --------------------------------------------------------------------------------------


def _matrix(trace: Trace, step: Step, request: str) -> RequestMatrix:
    if request not in step.requests:
        return RequestMatrix(request, (_absent(step, request),), ())
    said = tuple(_said(trace, step.phase(name), request) for name, _ in COPYING)
    specs: dict[int, list[StateSpec]] = {}
    for spec in trace.states:
        specs.setdefault(spec.layer, []).append(spec)
    whole = [
        Line(
            found[0].group,
            (layer,),
            tuple(
                _cell(trace, step.phase(name), request, layer, state, found)
                for name, _ in COPYING
                for state in STATES
            ),
        )
        for layer, found in sorted(specs.items())
    ]
    return RequestMatrix(request, said, tuple(_alike(whole)))


def _alike(lines: Sequence[Line]) -> Iterator[Line]:
    """Neighbouring layers of a group with the same cells become one line."""
    for (group, cells), run in groupby(lines, key=lambda line: (line.group, line.cells)):
        yield Line(group, tuple(layer for line in run for layer in line.layers), cells)


def _absent(step: Step, request: str) -> str:
    if request in step.preempted:
        return "Preempted in this step: its blocks are given back, there is nothing to copy."
    if request in step.waiting:
        return "Waiting: it holds no state, there is nothing to copy."
    return "Not in this step’s batch: there is nothing to copy."


def _decision(phase: Phase, request: str) -> Decision | None:
    return next((one for one in phase.decisions if one.request == request), None)


def _said(trace: Trace, phase: Phase, request: str) -> str:
    decision = _decision(phase, request)
    if decision is None:
        return _sentence(_no_decision(trace, phase), "")
    values = _values(decision)
    if not decision.copies:
        return _sentence(decision.outcome, values)
    columns = f"column {decision.src_col} → {decision.dst_col}"
    return _sentence(decision.outcome, f"{values}, {columns}" if values else columns)


def _sentence(outcome: str, values: str) -> str:
    said = outcome[:1].upper() + outcome[1:]
    return f"{said} ({values})." if values else f"{said}."


def _values(decision: Decision) -> str:
    """``running 7, new 8, aligned 8, bias 1``, as far as the decision has them."""
    return ", ".join(
        f"{name} {value}"
        for name in ("running", "new", "aligned", "bias")
        if (value := getattr(decision, name)) is not None
    )


def _no_decision(trace: Trace, phase: Phase) -> str:
    mode = trace.scenario.engine.mode
    if mode == "none":
        return "none mode has one block a request, so no state is copied between blocks"
    if mode == "all":
        return "in all mode the forward itself writes every boundary block, so nothing is copied"
    return f"nothing was decided in {phase.name}"


def _cell(
    trace: Trace,
    phase: Phase,
    request: str,
    layer: int,
    state: StateKind,
    specs: Sequence[StateSpec],
) -> Cell:
    if all(spec.state != state for spec in specs):
        return Cell("absent", "no such state")
    copy = next(
        (
            one
            for one in phase.copies
            if (one.request, one.layer, one.state) == (request, layer, state)
        ),
        None,
    )
    if copy is None:
        return Cell("stays", "nothing to copy")
    if copy.skipped is not None:
        return Cell("stopped", f"stopped by a guard: {copy.skipped}")
    if copy.onto_itself:
        said = f"stays: block {copy.dst_block} {ONTO_ITSELF}, {copy.num_bytes} B, none changes"
        return Cell("stays", said)
    return Cell("moved", _moved(trace, copy))


def _moved(trace: Trace, copy: BlockCopy) -> str:
    where = f"block {copy.src_block} → {copy.dst_block}"
    if copy.src_block == copy.dst_block:
        where = f"block {copy.src_block}, in place"
    rows = ""
    if copy.state == "conv" and copy.source is not None:
        moved = rows_moved(trace, copy)
        rows = f", rows {copy.bias}–{copy.bias + moved - 1}" if moved > 1 else f", row {copy.bias}"
    return f"{where}{rows}, {copy.num_bytes} B"


# --------------------------------------------------------------------------------------
# As a table
# --------------------------------------------------------------------------------------


def _here(name: PhaseName, phase: PhaseName) -> str:
    return ' class="here"' if name == phase else ""


def _head(step: Step, phase: PhaseName) -> str:
    phases = "".join(
        f'<th scope="colgroup" colspan="2"{_here(name, phase)}>'
        f"{go(step.index, name, f'{name}: {KIND_NAME[kind]}', now=name == phase)}</th>"
        for name, kind in COPYING
    )
    states = "".join(
        f'<th scope="col"{_here(name, phase)}>{state}</th>'
        for name, _ in COPYING
        for state in STATES
    )
    return (
        f'<thead><tr><th scope="col" rowspan="2">request</th><th scope="col" rowspan="2">layers'
        f"</th>{phases}</tr><tr>{states}</tr></thead>"
    )


def _body(trace: Trace, found: RequestMatrix, phase: PhaseName) -> str:
    """A request's lines: first what was decided, then each layer, or layers that are alike."""
    name = escape(found.request)
    if not found.lines:
        return (
            f'<tbody><tr><th scope="rowgroup">{name}</th><td></td>'
            f'<td colspan="4" class="stays">{escape(found.said[0])}</td></tr></tbody>'
        )
    said = "".join(
        f'<td colspan="2"{_here(at, phase)}>{escape(sentence)}</td>'
        for (at, _), sentence in zip(COPYING, found.said, strict=True)
    )
    head = f'<th scope="rowgroup" rowspan="{1 + len(found.lines)}">{name}</th>'
    grouped = len({spec.group for spec in trace.states}) > 1
    rows = "".join(_row(line, grouped, phase) for line in found.lines)
    return f'<tbody><tr>{head}<td class="faint">decision</td>{said}</tr>{rows}</tbody>'


_SIGN = {"moved": "→ ", "stopped": "✗ ", "stays": "", "absent": ""}


def _row(line: Line, grouped: bool, phase: PhaseName) -> str:
    first, last = line.layers[0], line.layers[-1]
    name = f"layer {first}" if first == last else f"layers {first}–{last}"
    name += f", group {line.group}" if grouped else ""
    cells = ""
    for index, (at, _) in enumerate(COPYING):
        conv, temporal = line.cells[2 * index : 2 * index + 2]
        if conv == temporal:
            cells += _cell_html(conv, at == phase, 2)
        else:
            cells += _cell_html(conv, at == phase) + _cell_html(temporal, at == phase)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _cell_html(cell: Cell, here: bool, width: int = 1) -> str:
    spans = f' colspan="{width}"' if width > 1 else ""
    text = f"{cell.text}, conv and temporal" if width > 1 and cell.kind == "stays" else cell.text
    return (
        f'<td class="{cell.kind}{" here" if here else ""}"{spans}>{_SIGN[cell.kind]}'
        f"{escape(text)}</td>"
    )
