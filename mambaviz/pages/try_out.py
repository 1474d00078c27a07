"""Section "Try" of the Watch page: another accepted count, or one number overwritten by hand.

Both make a scenario out of the run on screen and set it beside the original on the Compare page.
The drawers ask for the step that the stage shows when they are opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from mambaviz.pages import state, widgets
from mambaviz.pages.compare_state import CompareView
from mambaviz.pages.plain import plain
from mambaviz.pages.runs import Run
from mambaviz.scenario import Edit, Scenario, ScenarioError, name_with
from mambaviz.trace import PhaseName, Step, TensorRecord, Trace
from mambaviz.variations import rewind, with_edit

_OPEN = "try_open"  # which drawer, or nothing
COUNT, EDIT = "count", "edit"


def buttons(run: Run | None) -> None:
    """The two doors, in the sidebar."""
    st.html("<h4>Try</h4>")
    drafts = run is not None and bool(verifications(run.trace))
    st.button(
        "Change the accepted count",
        on_click=_open,
        args=(COUNT,),
        width="stretch",
        disabled=not drafts,
        help=None if drafts else "This run verifies no drafts.",
    )
    st.button(
        "Edit a block id", on_click=_open, args=(EDIT,), width="stretch", disabled=run is None
    )


def _open(which: str) -> None:
    st.session_state[_OPEN] = which


def _close() -> None:
    st.session_state[_OPEN] = ""


def place(run: Run | None) -> bool:
    """Draw a drawer if one is open; True if so, since a page can have only one dialog."""
    which = st.session_state.get(_OPEN)
    if run is None or not which:
        return False
    (_count_drawer if which == COUNT else _edit_drawer)(run)
    return True


# --------------------------------------------------------------------------------------
# The accepted count
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verification:
    """One verification of drafts in a run: ``kept`` of ``drafts``."""

    step: int
    request: str
    drafts: int
    kept: int

    @property
    def words(self) -> str:
        return f"step {self.step}, {self.request}: keeps {self.kept} of {self.drafts}"


def verifications(trace: Trace) -> list[Verification]:
    return [
        Verification(step.index, name, request.drafts, request.accepted_drafts)
        for step in trace.steps
        for name, request in step.requests.items()
        if request.drafts and request.accepted_drafts is not None and not request.padded_tail
    ]


def nearest(found: list[Verification], step: int, request: str | None) -> int:
    """Index of the verification closest to what is on screen, of the request on screen first."""
    return min(
        range(len(found)),
        key=lambda index: (abs(found[index].step - step), found[index].request != request),
    )


@st.dialog("Change the accepted count", on_dismiss=_close)
def _count_drawer(run: Run) -> None:
    view, found = state.current(), verifications(run.trace)
    request = view.request or run.trace.scenario.requests[0].id
    close = nearest(found, view.step, request)
    said = st.selectbox(
        "Verification",
        found,
        index=close,
        format_func=lambda one: one.words,
        key="try-verification",
    )
    chosen = widgets.among(said, found, found[close])
    count = st.slider(
        "Drafts kept instead",
        0,
        chosen.drafts,
        value=chosen.kept,
        key=f"try-count {chosen.step} {chosen.request}",
    )
    name = plain(chosen.request)
    st.caption(
        f"With the token sampled last, {name} then accepts {count} + 1 = {count + 1}. "
        "Everything before stays as it was, everything after is computed anew."
    )
    _go(
        run,
        lambda: rewind(run.trace, chosen.step, chosen.request, count),
        chosen.step,
        "accept",
        "" if count != chosen.kept else "Choose another count than that of the run.",
    )


# --------------------------------------------------------------------------------------
# One number by hand
# --------------------------------------------------------------------------------------

ROW, TENSOR = "a block id in a table", "a metadata entry"


@st.dialog("Edit one number", on_dismiss=_close)
def _edit_drawer(run: Run) -> None:
    steps = len(run.trace.steps)
    shown = min(state.current().step, steps - 1)
    what = st.segmented_control("What", [ROW, TENSOR], default=ROW, key="try-what") or ROW
    said = int(st.number_input("Step", 0, steps - 1, value=shown, key="try-step"))
    number = widgets.among(said, range(steps), shown)
    step = run.trace.steps[number]
    chosen = _row_entry(run.trace, step) if what == ROW else _tensor_entry(step)
    if chosen is None:
        st.info(f"There is no such number in step {number}: choose another step.")
        return
    place_, old = chosen
    value = int(
        st.number_input("New value", -(2**31), 2**31 - 1, value=old, key=f"try-value {place_}")
    )
    st.caption(
        "The step then runs with this number, and the lamps say which invariant notices it. "
        + ("A table keeps it." if what == ROW else "The metadata of later steps is built anew.")
    )
    edit = Edit(step=number, value=value, **place_)
    _go(
        run,
        lambda: edited(run.trace.scenario, edit),
        number,
        "commit",
        "" if value != old else "Choose another number than the one that stands there.",
    )


Entry = tuple[dict[str, Any], int]  # where, as `Edit` names it, and what stands there


def _row_entry(trace: Trace, step: Step) -> Entry | None:
    rows = trace.tables_after(step.index, "allocate").rows
    if not rows:
        return None
    left, right = st.columns(2)
    name = left.selectbox("Request", list(rows), key="try-request")
    request = widgets.among(name, rows, next(iter(rows)))
    groups = trace.scenario.engine.num_mamba_groups
    group = 0
    if groups > 1:
        chosen = left.selectbox("Cache group", range(groups), key="try-group")
        group = widgets.among(chosen, range(groups), 0)
    row = rows[request].worker_row[group]
    running = min(rows[request].state_col or 0, len(row) - 1)
    said = right.selectbox(
        "Column",
        range(len(row)),
        index=running,
        format_func=lambda at: f"{at}: block {row[at]}",
        key=f"try-column {step.index} {request}",
    )
    column = widgets.among(said, range(len(row)), running)
    place_ = {"kind": "worker_row", "group": group, "request": request, "column": column}
    return place_, row[column]


def _tensor_entry(step: Step) -> Entry | None:
    tensors = {
        (metadata.group, field.name): field.value
        for metadata in step.metadata
        for field in metadata.fields
        if isinstance(field.value, TensorRecord) and _is_whole(field.value)
    }
    if not tensors:
        return None
    several = len(step.metadata) > 1
    tensor = st.selectbox(
        "Tensor",
        list(tensors),
        format_func=lambda key: f"{key[1]}, group {key[0]}" if several else key[1],
        key=f"try-tensor {step.index}",
    )
    group, name = widgets.among(tensor, tensors, next(iter(tensors)))
    record = tensors[group, name]
    index, values = [], record.values
    for axis, column in enumerate(st.columns(len(record.shape))):
        size = len(values)
        said = column.number_input(
            "Row" if axis == 0 and len(record.shape) > 1 else "Index",
            0,
            size - 1,
            key=f"try-index {name} {axis}",
        )
        at = widgets.among(int(said), range(size), 0)
        index.append(at)
        values = values[at]
    return {"kind": "metadata", "group": group, "field": name, "index": index}, int(values)


def _is_whole(record: TensorRecord) -> bool:
    """Integers or truth values, with an entry to overwrite and none left out."""
    kinds = ("int", "bool", "uint")
    return record.dtype.removeprefix("torch.").startswith(kinds) and all(record.shape)


def edited(scenario: Scenario, edit: Edit) -> Scenario:
    """The scenario with the edit, named by it, so that the Compare page can tell the two apart."""
    if edit.kind == "worker_row":
        words = f"block {edit.value} in column {edit.column} of {edit.request}, step {edit.step}"
    else:
        at = ", ".join(map(str, edit.index or []))
        words = f"{edit.field}[{at}] = {edit.value}, step {edit.step}"
    name = name_with(scenario.name, words)
    return with_edit(scenario, edit).model_copy(update={"name": name})


# --------------------------------------------------------------------------------------
# Off it goes
# --------------------------------------------------------------------------------------


def _go(run: Run, make: Callable[[], Scenario], step: int, phase: PhaseName, missing: str) -> None:
    """Two ways to see what comes of it; ``missing`` says what is still to be chosen."""
    scenario: Scenario | None = None
    try:
        scenario = None if missing else make()
    except ScenarioError as error:
        missing = str(error)
    if missing:
        st.caption(plain(missing))
    left, right = st.columns(2)
    if left.button(
        "Compare with the original",
        type="primary",
        width="stretch",
        disabled=scenario is None,
        key="try-compare",
    ):
        assert scenario is not None
        _close()
        view = CompareView(own=(run.trace.scenario, scenario), at=step, phase=phase)
        state.update(compare=view)
        state.go_to("Compare")
        st.rerun()
    if right.button("Watch it", width="stretch", disabled=scenario is None, key="try-watch"):
        assert scenario is not None
        _close()
        state.show(scenario)
        state.update(step=step, phase=phase)
        st.rerun()
