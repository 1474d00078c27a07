"""The tabs below the stage: details of the step and phase on screen."""

from __future__ import annotations

from html import escape

import streamlit as st

from mambaviz import log
from mambaviz.history import History, frame_of
from mambaviz.lifelines import owners_of
from mambaviz.pages import tab_bar, truth_tab, widgets
from mambaviz.pages.runs import Run
from mambaviz.pages.stage_component import StageState
from mambaviz.pages.state import RUN_TABS
from mambaviz.pages.tab_component import CHOSEN, chosen_block, figure
from mambaviz.provenance import provenance
from mambaviz.trace import BlockCopy, StateSpec, Step, Trace
from mambaviz.viz.legend import ROLE_NAME
from mambaviz.viz.shapes import KIND_NAME, ONTO_ITSELF
from mambaviz.viz.tabs.byte_ranges import copy_picture, range_words
from mambaviz.viz.tabs.html import nothing, patterns
from mambaviz.viz.tabs.lifelines import lifelines_html
from mambaviz.viz.tabs.matrix import matrix_html
from mambaviz.viz.tabs.provenance import provenance_html
from mambaviz.viz.theme import LETTER

MOST_BYTES = 1024  # of one block's state that are written out


def place(run: Run, shown: StageState, session: str) -> None:
    """Only the open tab is made. ``session`` names the browser session to the run store."""
    matrix, lives, origin, truth, hex_dump, step_log = tab_bar.place(RUN_TABS)
    step = run.trace.steps[shown.step]
    if matrix.open:
        with matrix:
            _figure("matrix", matrix_html(run.trace, step, shown.phase), run)
    if lives.open:
        with lives:
            _figure("lives", block_lives(run, shown), run)
    if origin.open:
        with origin:
            _origin(run, shown)
    if truth.open:
        with truth:
            truth_tab.place(run, shown.step, session)
    if hex_dump.open:
        with hex_dump:
            _figure("bytes", changed_bytes(run.trace, shown, run.history), run)
    if step_log.open:
        with step_log:
            _log(run, step)


def _figure(name: str, html: str, run: Run) -> None:
    figure(html, key=f"tab-{name}", run=run.trace.scenario_hash)


def _log(run: Run, step: Step) -> None:
    st.code("\n".join(log.step_lines(step)), language=None)
    st.download_button(
        "Save the whole log",
        lambda: "\n".join(log.run_lines(run.trace)),
        file_name=f"run-{run.trace.scenario_hash[:7]}.txt",
        on_click="ignore",
    )


# --------------------------------------------------------------------------------------
# One block: its life, and where its state comes from
# --------------------------------------------------------------------------------------


def block_lives(run: Run, shown: StageState) -> str:
    """The life-lines, and in words the life of the block that is looked at; as HTML."""
    block = looked_at(run, shown)
    return lifelines_html(run.trace, run.lives, shown.step, shown.phase, block)


def looked_at(run: Run, shown: StageState) -> int | None:
    """The block chosen in this run, else the running block of the selected request."""
    return chosen_block(run.trace.scenario_hash) or running_block(run, shown)


def running_block(run: Run, shown: StageState) -> int | None:
    """Of the selected request, or of the one that the phase is about; None: it has none."""
    first = run.trace.scenario.requests[0].id
    name = shown.request or run.payload.request_at(shown.step, shown.phase) or first
    row = run.history.row(name, frame_of(shown.step, shown.phase))
    if row is None or row.state_col is None:
        return None
    ids = row.worker_row[_group(run.trace, shown.layer)]
    return ids[row.state_col] or None if row.state_col < len(ids) else None


def _group(trace: Trace, layer: int) -> int:
    return next(spec.group for spec in trace.states if spec.layer == layer)


def blocks_on_screen(run: Run, shown: StageState) -> dict[int, str]:
    """Every block that holds something after the phase, with its role and its place in words."""
    tables = run.history.tables[frame_of(shown.step, shown.phase)]
    owners, found = owners_of(tables), {}
    for block, role in enumerate(tables.block_roles):
        if block == 0 or role == "free":
            continue
        places = " and ".join(
            f"{owner.request} column {owner.column}" for owner in owners.get(block, ())
        )
        found[block] = f"{block} {LETTER[role]}: {ROLE_NAME[role]}, {places or 'unowned'}"
    return found


def _origin(run: Run, shown: StageState) -> None:
    options, block = blocks_on_screen(run, shown), looked_at(run, shown)
    if not options:
        figure(
            nothing("No block holds anything yet: step on to the first forward."),
            key="tab-origin",
            run=run.trace.scenario_hash,
        )
        return
    if block is None or block not in options:
        block = next(iter(options))
    run_hash = run.trace.scenario_hash

    def choose() -> None:
        chosen = widgets.choice("origin-block", options)
        if chosen is not None:
            st.session_state[CHOSEN] = (run_hash, chosen)

    st.session_state["origin-block"] = block
    st.selectbox(
        "Block",
        list(options),
        key="origin-block",
        format_func=lambda found: options.get(found, str(found)),
        on_change=choose,
        width=320,
    )
    _figure("origin", block_origin(run, shown, block), run)


def block_origin(run: Run, shown: StageState, block: int) -> str:
    """Where the state of a block comes from, in the selected layer; as HTML."""
    frame = frame_of(shown.step, shown.phase)
    origin = provenance(run.history, frame, block, shown.layer)
    return provenance_html(origin, run.history.tables[frame].block_roles[block])


# --------------------------------------------------------------------------------------
# Bytes
# --------------------------------------------------------------------------------------


def changed_bytes(trace: Trace, shown: StageState, history: History) -> str:
    """What the phase's copies read and wrote in the layer, and every byte that changed; as HTML."""
    phase = trace.steps[shown.step].phase(shown.phase)
    copies = [copy for copy in phase.copies if copy.layer == shown.layer and copy.target]
    changes = [change for change in phase.changes if change.layer == shown.layer]
    if not changes and not copies:
        return nothing(
            f"The phase {shown.phase} of step {shown.step} changed no bytes of layer {shown.layer}."
        )
    before = frame_of(shown.step, shown.phase) - 1
    parts = []
    for change in changes:
        spec = trace.spec_of[change.layer, change.state]
        old = history.raw((change.layer, change.state, change.block), before)
        parts.append(
            f"<section><h5>block {change.block}, {change.state} state, {spec.dtype} "
            f"{escape(str(spec.shape))}</h5>{hex_table(spec, old, change.raw)}</section>"
        )
    opened = "" if copies else " open"
    dump = f"<details{opened}><summary>Bytes in hex, before and after</summary>"
    dump += f'<div class="hex">{"".join(parts)}</div></details>'
    pictures = "".join(_picture(trace, copy) for copy in copies)
    if copies:
        pictures = (
            '<p class="note">Filled: the bytes that a copy read (upper strip) and wrote (lower '
            f"strip), in layer {shown.layer}.</p>{pictures}"
        )
    return f'{patterns()}<div class="copies">{pictures}</div>{dump}'


def _picture(trace: Trace, copy: BlockCopy) -> str:
    """The byte ranges of a copy, drawn and said."""
    assert copy.source is not None
    assert copy.target is not None
    said = (
        f"{copy.num_bytes} bytes, from {range_words(copy.source)} of block {copy.src_block} "
        f"to {range_words(copy.target)} of block {copy.dst_block}, bias {copy.bias}"
    )
    if copy.onto_itself:
        said += f": {ONTO_ITSELF}, so no byte changes"
    picture = copy_picture(
        copy, trace.spec_of[copy.layer, copy.state], trace.scenario.engine.layout
    )
    name = f"{KIND_NAME[copy.kind]} of {copy.request}, {copy.state} state"
    told = f"<figcaption><b>{escape(name)}</b><br>{escape(said)}</figcaption>"
    return f"<figure>{told}{picture}</figure>"


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
        '<table><thead><tr><th scope="col">byte</th><th scope="col">before</th>'
        '<th scope="col">after, changed bytes framed</th></tr></thead>'
        f"<tbody>{lines}</tbody></table>{more}"
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
