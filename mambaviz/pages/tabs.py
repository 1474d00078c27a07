"""The tabs below the stage: details of the phase on screen, as tables and text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import streamlit as st

from mambaviz import log
from mambaviz.pages.runs import Run
from mambaviz.pages.stage_component import StageState
from mambaviz.trace import (
    PHASES,
    BlockCopy,
    ByteRange,
    Contents,
    PhaseName,
    StateKind,
    StateSpec,
    Step,
    Trace,
)

MOST_BYTES = 1024  # of one block's state that are written out


def place(run: Run, shown: StageState) -> None:
    matrix, hex_dump, step_log = st.tabs(
        ["Layers × states", "Bytes", "Log"], key="tab", on_change="rerun"
    )
    step = run.trace.steps[shown.step]
    if matrix.open:
        with matrix:
            st.html(copy_matrix(step))
    if hex_dump.open:
        with hex_dump:
            st.html(changed_bytes(run.trace, shown))
    if step_log.open:
        with step_log:
            st.code("\n".join(log.step_lines(step)), language=None)
            st.download_button(
                "Save the whole log",
                lambda: "\n".join(log.run_lines(run.trace)),
                file_name=f"run-{run.trace.scenario_hash[:7]}.txt",
                on_click="ignore",
            )


# --------------------------------------------------------------------------------------
# Layers × states
# --------------------------------------------------------------------------------------


def copy_matrix(step: Step) -> str:
    """Every copy of the step by layer and state, done or skipped with the reason; as HTML."""
    parts: list[str] = []
    for phase in step.phases:
        for decision in phase.decisions:
            copies = [copy for copy in phase.copies if copy.request == decision.request]
            title = f"{phase.name}, request {decision.request}"
            parts.append(
                f"<h5>{escape(title)}</h5><p>{escape(log.decision_text(decision))}</p>"
                f"{_matrix(copies)}"
            )
    if not parts:
        return '<p class="mv-nothing">No copy was decided on in this step.</p>'
    return f'<div class="mv-matrix">{"".join(f"<section>{part}</section>" for part in parts)}</div>'


def _matrix(copies: list[BlockCopy]) -> str:
    if not copies:
        return ""
    cells = {(copy.layer, copy.state): copy for copy in copies}
    layers = sorted({layer for layer, _ in cells})
    states: tuple[StateKind, ...] = ("conv", "temporal")
    head = "".join(f"<th>{state}</th>" for state in states)
    rows = "".join(
        f"<tr><th>layer {layer}</th>"
        + "".join(_matrix_cell(cells.get((layer, state))) for state in states)
        + "</tr>"
        for layer in layers
    )
    return f'<table class="mv-table"><tr><th></th>{head}</tr>{rows}</table>'


def _matrix_cell(copy: BlockCopy | None) -> str:
    if copy is None:
        return "<td>–</td>"
    if copy.skipped is not None:
        return f'<td class="mv-skipped">✗ skipped: {escape(copy.skipped)}</td>'
    text = f"block {copy.src_block} → {copy.dst_block}, {copy.num_bytes} B"
    return f'<td class="mv-moved">{escape(text)}</td>'


# --------------------------------------------------------------------------------------
# Bytes
# --------------------------------------------------------------------------------------


def changed_bytes(trace: Trace, shown: StageState) -> str:
    """Every state block of the layer that the phase changed, byte by byte; as HTML."""
    phase = trace.steps[shown.step].phase(shown.phase)
    changes = [change for change in phase.changes if change.layer == shown.layer]
    if not changes:
        return (
            f'<p class="mv-nothing">The phase {escape(shown.phase)} of step {shown.step} changed '
            f"no bytes of layer {shown.layer}.</p>"
        )
    before = contents_before(trace, shown.step, shown.phase)
    copies = [copy for copy in phase.copies if copy.layer == shown.layer]
    parts = []
    for change in changes:
        spec = trace.spec_of[change.layer, change.state]
        old = before.get((change.layer, change.state, change.block), bytes(len(change.raw)))
        moved = [c for c in copies if c.state == change.state and c.dst_block == change.block]
        ranges = "".join(f"<p>{escape(_moved(copy))}</p>" for copy in moved if copy.target)
        parts.append(
            f"<section><h5>block {change.block}, {change.state} state, {spec.dtype} "
            f"{escape(str(spec.shape))}</h5>{ranges}{hex_table(spec, old, change.raw)}</section>"
        )
    return f'<div class="mv-bytes">{"".join(parts)}</div>'


def contents_before(trace: Trace, step: int, phase: PhaseName) -> Contents:
    """Cache contents before a phase; empty before the first of a run."""
    position = PHASES.index(phase)
    if position:
        return trace.contents_after(step, PHASES[position - 1])
    return trace.contents_after(step - 1, PHASES[-1]) if step else {}


def _moved(copy: BlockCopy) -> str:
    assert copy.source is not None
    assert copy.target is not None
    return (
        f"{copy.kind.upper()}: {copy.num_bytes} bytes from block {copy.src_block} "
        f"({_range(copy.source)}) to {_range(copy.target)}, bias {copy.bias}"
    )


def _range(part: ByteRange) -> str:
    first = f"bytes {part.start} to {part.start + part.length - 1}"
    return first if part.rows == 1 else f"{first} of {part.rows} rows, {part.stride} bytes apart"


def hex_table(spec: StateSpec, old: bytes, new: bytes) -> str:
    """Before and after, a line for each innermost row of the state; changed bytes are marked."""
    width = len(new) // _product(spec.shape[:-1])
    lines = "".join(
        f"<tr><td>{start:04x}</td><td>{_hex(old, new, start, width, mark=False)}</td>"
        f"<td>{_hex(new, old, start, width, mark=True)}</td></tr>"
        for start in range(0, min(len(new), MOST_BYTES), width)
    )
    left_out = len(new) - MOST_BYTES
    more = f"<p>… and {left_out} bytes more</p>" if left_out > 0 else ""
    return (
        "<table><tr><th>byte</th><th>before</th><th>after, changed bytes framed</th></tr>"
        f"{lines}</table>{more}"
    )


def _product(shape: list[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _hex(raw: bytes, other: bytes, start: int, width: int, *, mark: bool) -> str:
    def byte(at: int) -> str:
        text = f"{raw[at]:02x}"
        return f"<mark>{text}</mark>" if mark and raw[at] != other[at] else text

    return " ".join(byte(at) for at in range(start, start + width))


def phases_with_changes(step: Step) -> Iterator[PhaseName]:
    for phase in step.phases:
        if phase.changes:
            yield phase.name
