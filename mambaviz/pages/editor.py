"""The scenario editor: a drawer over the page in which every knob of a scenario can be turned.

The drawer is open while the session says so, so a page that reruns under it does not close it.
Its widgets hold a `Draft`; whatever is wrong is said at the top and beside the field, and
nothing on the page changes before Apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mambaviz.faults import FAULTS
from mambaviz.limits import MOST_UPLOAD_MB, USUAL
from mambaviz.pages import state
from mambaviz.pages.editor_data import (
    EVENT_HELP,
    EVENT_KINDS,
    KNOBS,
    REQUEST_HELP,
    Draft,
    EventRow,
    FieldError,
    Knob,
    RequestRow,
    read_draft,
    rows_from,
    to_draft,
)
from mambaviz.pages.plain import plain
from mambaviz.scenario import Scenario, ScenarioError, parse
from mambaviz.workload import within

Marks = dict[str, DeltaGenerator]  # by field: where to say that it is the wrong one
Row = TypeVar("Row", RequestRow, EventRow)

_OPEN = "editor_open"
_SEED = "editor_seed"  # the draft that the widgets started from
_TAKE = "editor_take"  # counts the drafts that the widgets were filled with
_UPLOAD_PROBLEM = "editor_upload_problem"


def open_with(scenario: Scenario) -> None:
    """Callback: open the drawer on this scenario."""
    st.session_state[_OPEN] = True
    _fill(to_draft(scenario))


def close() -> None:
    st.session_state[_OPEN] = False


def place() -> None:
    """Draw the drawer if it is open. The last thing on a page: only one dialog can be."""
    if st.session_state.get(_OPEN):
        _drawer()


@st.dialog("Edit scenario", width=760, position="right", on_dismiss=close)
def _drawer() -> None:
    draft = _draft_to_edit()
    verdict, buttons = st.container(), st.container(horizontal=True)
    marks: Marks = {}
    engine, requests, events, layer = st.tabs(["Engine", "Requests", "Events and faults", "Layers"])
    with engine:
        _names(draft)
        _knobs(draft, "engine", marks)
    with requests:
        draft.requests = _requests_table(draft, marks)
    with events:
        draft.events = _events_table(draft, marks)
        _faults(draft)
    with layer:
        _knobs(draft, "layer", marks)
    scenario = _judge(draft, verdict, marks)
    with buttons:
        _buttons(scenario)


# --------------------------------------------------------------------------------------
# The draft behind the widgets
# --------------------------------------------------------------------------------------


def _fill(draft: Draft) -> None:
    """Fill the widgets anew: a widget keeps its value by its key, so new contents get new keys."""
    st.session_state[_SEED] = draft
    st.session_state[_TAKE] = st.session_state.get(_TAKE, 0) + 1
    st.session_state[_UPLOAD_PROBLEM] = ""


def _key(name: str) -> str:
    return f"editor {st.session_state[_TAKE]} {name}"


def _draft_to_edit() -> Draft:
    """A copy of the seed for the widgets to write into."""
    seed: Draft = st.session_state[_SEED]
    return Draft(**{item.name: getattr(seed, item.name) for item in fields(Draft)})


def _judge(draft: Draft, place: DeltaGenerator, marks: Marks) -> Scenario | None:
    """Say what is wrong with the draft, at the top and beside the field, or that it can run."""
    try:
        scenario = read_draft(draft)
    except FieldError as error:
        place.error(plain(str(error)), icon=":material/error:")
        if error.field in marks:
            marks[error.field].markdown(":red[:material/arrow_upward: see the sentence at the top]")
        return None
    upload_problem = st.session_state[_UPLOAD_PROBLEM]
    if upload_problem:
        place.error(plain(upload_problem), icon=":material/error:")
    else:
        place.success("This scenario can run.", icon=":material/check:")
    return scenario


# --------------------------------------------------------------------------------------
# Widgets
# --------------------------------------------------------------------------------------


def _names(draft: Draft) -> None:
    left, right = st.columns([1, 2])
    draft.name = left.text_input("name", draft.name, key=_key("name"), help="Shown in the sidebar.")
    draft.story = right.text_input(
        "story", draft.story, key=_key("story"), help="One sentence on what is to be seen."
    )


def _knobs(draft: Draft, section: str, marks: Marks) -> None:
    knobs = [knob for knob in KNOBS if knob.section == section]
    plain = [knob for knob in knobs if knob.kind != "switch"]
    switches = [knob for knob in knobs if knob.kind == "switch"]
    draft.settings = dict(draft.settings)
    for group, width in ((plain, 3), (switches, 3)):
        for start in range(0, len(group), width):
            for column, knob in zip(st.columns(width), group[start : start + width], strict=False):
                with column:
                    draft.settings[knob.path] = _knob(knob, draft.settings[knob.path])
                    marks[knob.path] = st.empty()


def _knob(knob: Knob, value: Any) -> Any:
    """The widget of one knob. No bounds in it: what is out of range gets our sentence."""
    key, hint = _key(knob.path), f"{knob.help} Allowed: {knob.allowed}."
    if knob.kind == "choice":
        return st.selectbox(knob.label, knob.choices, knob.choices.index(value), key=key, help=hint)
    if knob.kind == "switch":
        return st.toggle(knob.label, value, key=key, help=hint)
    if knob.kind == "text":
        return st.text_input(knob.label, value, key=key, help=hint)
    empty = "no limit" if knob.kind == "optional number" else "a number"
    return st.number_input(knob.label, value=value, step=1, key=key, help=hint, placeholder=empty)


def _requests_table(draft: Draft, marks: Marks) -> list[RequestRow]:
    columns = {
        name: _number(name, hint)
        if name in ("prompt_len", "arrive", "max_tokens")
        else st.column_config.TextColumn(name, help=hint)
        for name, hint in REQUEST_HELP.items()
    }
    rows = _table("requests", draft.requests, RequestRow, columns)
    _mark_rows("requests", rows, marks)
    st.caption(
        "Add a row at the bottom. Point at a heading for what a column takes. "
        "Lists are used in turn: accept 2,0,1 keeps two drafts, then none, then one."
    )
    return rows


def _events_table(draft: Draft, marks: Marks) -> list[EventRow]:
    columns = {
        "step": _number("step", EVENT_HELP["step"]),
        "kind": st.column_config.SelectboxColumn(
            "kind", help=EVENT_HELP["kind"], options=list(EVENT_KINDS)
        ),
        "request": st.column_config.TextColumn("request", help=EVENT_HELP["request"]),
    }
    rows = _table("events", draft.events, EventRow, columns)
    _mark_rows("events", rows, marks)
    return rows


def _number(name: str, hint: str) -> Any:
    return st.column_config.NumberColumn(name, help=hint, step=1)


def _table(name: str, rows: Sequence[Row], kind: type[Row], columns: dict[str, Any]) -> list[Row]:
    """An editable table of dataclass rows; its columns have types even while it is empty."""
    import pandas as pd  # half a second that the first picture need not wait for

    types = {
        item.name: "Int64" if item.type in ("int", "int | None") else "object"
        for item in fields(kind)
    }
    given = pd.DataFrame([asdict(row) for row in rows], columns=list(types)).astype(types)
    edited = st.data_editor(
        given,
        key=_key(name),
        num_rows="dynamic",
        column_config=columns,
        hide_index=True,
        width="stretch",
    )
    cells = edited.astype(object)
    return rows_from(cells.where(cells.notna(), None).to_dict("records"), kind)


def _mark_rows(table: str, rows: Sequence[Any], marks: Marks) -> None:
    """One place below the table for whatever row is wrong: its sentence names the row."""
    below = st.empty()
    marks[table] = below
    marks.update({f"{table}[{index}]": below for index in range(len(rows))})


def _faults(draft: Draft) -> None:
    draft.faults = st.multiselect(
        "faults",
        list(FAULTS),
        draft.faults,
        key=_key("faults"),
        help="Mistakes to switch on, so that the invariants can be watched catching them.",
    )
    for name in draft.faults:
        st.caption(f"**{name}**, {FAULTS[name].where}: {FAULTS[name].what}.")


def _buttons(scenario: Scenario | None) -> None:
    if st.button("Apply", type="primary", disabled=scenario is None) and scenario is not None:
        state.show(scenario)
        close()
        st.rerun()
    if st.button("Cancel"):
        close()
        st.rerun()
    st.download_button(
        "Save JSON",
        lambda: scenario.model_dump_json(indent=2) if scenario else "",
        file_name="scenario.json",
        mime="application/json",
        disabled=scenario is None,
        on_click="ignore",
    )
    with st.popover("Open JSON"):
        st.file_uploader(
            "A scenario file",
            type="json",
            max_upload_size=MOST_UPLOAD_MB,
            key=_key("upload"),
            on_change=_take_upload,
        )


def _take_upload() -> None:
    """Callback: fill the widgets from a file, or say what is wrong with it."""
    file = st.session_state.get(_key("upload"))
    if file is None:
        return
    try:
        scenario = read_upload(file.getvalue())
    except ScenarioError as error:
        st.session_state[_UPLOAD_PROBLEM] = f"{file.name}: {error}"
        return
    _fill(to_draft(scenario))


def read_upload(raw: bytes) -> Scenario:
    """A scenario from an uploaded file. Raises ScenarioError with one sentence."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("this file is not UTF-8 text, so it cannot be a scenario") from None
    return within(parse(text), USUAL)
