"""The sidebar of the Explorer page: which scope, its ranges, the mistake, what is looked for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from mambaviz.explore.queries import QUERIES, AskedQuery
from mambaviz.explore.scope import Scope, parse_scope
from mambaviz.faults import FAULTS
from mambaviz.pages import shell, state, widgets
from mambaviz.pages.explorer_state import SCOPES, ExplorerView
from mambaviz.scenario import ScenarioError

OWN = "own"  # the entry of the scope list for ranges that were edited
NO_FAULT = "none"
BREACH = "a broken invariant"
PROBLEM = "explorer_problem"  # what was wrong with an edited range
LONGEST = 200  # characters of a range


@dataclass(frozen=True)
class Range:
    """A field of a scope to edit: whole numbers, or (``words``) some of a few words."""

    name: str
    label: str
    words: bool = False


AT_HAND = (
    (Range("block_sizes", "Block sizes"), Range("num_specs", "Drafts")),
    (Range("num_requests", "Requests"), Range("prompt_lens", "Prompt tokens")),
    (Range("max_tokens", "Output tokens"), Range("steps", "Steps")),
)
MORE = (
    (Range("modes", "Cache modes", words=True), Range("runners", "Runners", words=True)),
    (Range("layouts", "Layouts", words=True), Range("events", "Events", words=True)),
    (Range("event_steps", "Events at steps"), Range("arrivals", "Later ones arrive at")),
    (Range("num_blocks", "Blocks in the cache"), Range("mamba_groups", "Groups")),
    (Range("replayssm_buffer_lens", "ReplaySSM buffers"),),
)


def place(view: ExplorerView) -> None:
    with st.sidebar:
        with st.container(key="side-scenario"):
            _scope(view)
            _fault(view)
            _find(view)
            st.html("<h4>Ranges: every combination is tried</h4>")
            _rows(view, AT_HAND)
            with st.popover("More ranges", width="stretch"):
                _rows(view, MORE)
                _switches(view)
        with st.container(key="side-foot"):
            st.download_button(
                "Save scope",
                lambda: _as_json(view.shown),
                file_name="scope.json",
                mime="application/json",
                on_click="ignore",
                width="stretch",
                help="For the command line: python -m mambaviz explore --scope scope.json",
            )
            shell.copy_link()


def _as_json(scope: Scope) -> str:
    return json.dumps(scope.model_dump(mode="json", exclude_defaults=True), indent=1) + "\n"


# --------------------------------------------------------------------------------------
# What is explored
# --------------------------------------------------------------------------------------


def _scope(view: ExplorerView) -> None:
    own = view.own is not None
    widgets.stand("explorer-scope", OWN if own else view.scope)
    st.selectbox(
        "Scope",
        [*SCOPES, OWN] if own else [*SCOPES],
        key="explorer-scope",
        help=view.shown.story or None,
        on_change=_take_scope,
    )


def _take_scope() -> None:
    name = widgets.choice("explorer-scope", SCOPES)
    if name is not None:
        _show(scope=name, own=None)


_FAULTS = (NO_FAULT, *FAULTS)


def _fault(view: ExplorerView) -> None:
    widgets.stand("explorer-fault", view.fault or NO_FAULT)
    st.selectbox(
        "Fault",
        _FAULTS,
        key="explorer-fault",
        help="none: the rules as they are" if view.fault is None else FAULTS[view.fault].what,
        on_change=_take_fault,
    )


def _take_fault() -> None:
    fault = widgets.choice("explorer-fault", _FAULTS)
    if fault is not None:
        _show(fault=None if fault == NO_FAULT else fault)


_FINDS = (BREACH, *QUERIES)


def _find(view: ExplorerView) -> None:
    query = view.query
    widgets.stand("explorer-find", BREACH if query is None else query.name)
    st.selectbox(
        "Look for",
        _FINDS,
        key="explorer-find",
        help="The shortest scenario in which it happens."
        if query is None
        else f"The shortest scenario that has a step with {query.words}.",
        on_change=_take_find,
    )
    if query is None or QUERIES[query.name].number is None:
        return
    widgets.stand("explorer-number", query.number)
    st.number_input(
        "n", min_value=0, max_value=64, step=1, key="explorer-number", on_change=_take_number
    )


def _take_find() -> None:
    name = widgets.choice("explorer-find", _FINDS)
    if name is not None:
        _show(find=None if name == BREACH else str(AskedQuery.parse(name)))


def _take_number() -> None:
    query, number = state.current().explorer.query, st.session_state["explorer-number"]
    if query is not None and number is not None:
        _show(find=f"{query.name}={number}")


def _show(**changes: Any) -> None:
    st.session_state[PROBLEM] = ""
    state.say("")
    state.update(explorer=state.current().explorer.changed(**changes))


# --------------------------------------------------------------------------------------
# Ranges
# --------------------------------------------------------------------------------------


def _rows(view: ExplorerView, rows: Sequence[Sequence[Range]]) -> None:
    for row in rows:
        for column, one in zip(st.columns(len(row), gap="xsmall"), row, strict=True):
            widgets.stand(_key(one), range_text(getattr(view.shown, one.name)))
            column.text_input(
                one.label,
                key=_key(one),
                max_chars=LONGEST,
                help=_allowed(one),
                on_change=partial(_take_range, one),
            )


def _key(one: Range) -> str:
    return f"explorer {one.name}"


def _allowed(one: Range) -> str:
    schema = Scope.model_json_schema()["properties"][one.name]
    item = schema.get("items", schema)
    if one.words:
        return f"Some of {', '.join(item['enum'])}."
    bounds = f"{item['minimum']} to {item['maximum']}"
    return f"{bounds}." if item is schema else f"{bounds}; for instance 2, 4 or 1-5."


def range_text(values: int | Sequence[int | str]) -> str:
    """``1-5, 8``: a list as the reader writes it."""
    if isinstance(values, int):
        return str(values)
    parts: list[list[int | str]] = []
    for value in values:
        last = parts[-1][-1] if parts else None
        if isinstance(value, int) and isinstance(last, int) and value == last + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(
        f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )


def range_values(one: Range, text: str) -> list[int] | list[str]:
    """The values of a written range. Raises ScenarioError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if one.words:
        return parts
    values: list[int] = []
    for part in parts:
        found = re.fullmatch(r"(\d{1,3})(?:\s*[-–]\s*(\d{1,3}))?", part, re.ASCII)
        if found is None:
            raise ScenarioError(
                f"{one.label} {text[:40]!r}: wanted are whole numbers such as 2, 4 or 1-5"
            )
        values += range(int(found[1]), int(found[2] or found[1]) + 1)
    return values


def _take_range(one: Range) -> None:
    """Callback: take over an edited range, or say what is wrong with it and change nothing."""
    scope = state.current().explorer.shown
    try:
        values: Any = range_values(one, st.session_state[_key(one)])
        if one.name == "steps":
            values = values[0] if len(values) == 1 else values
        _take(scope, **{one.name: values})
    except ScenarioError as error:
        st.session_state[PROBLEM] = f"This range was not taken: {error}."


def _take(scope: Scope, **changes: Any) -> None:
    """Raises ScenarioError for values that a scope cannot have."""
    data = {**scope.model_dump(mode="json"), "name": OWN, "story": "", **changes}
    own = parse_scope(json.dumps(data))
    ready = [name for name, known in SCOPES.items() if known == _named(own, known)]
    if ready:
        _show(scope=ready[0], own=None)
    else:
        _show(own=own)


def _named(scope: Scope, like: Scope) -> Scope:
    return scope.model_copy(update={"name": like.name, "story": like.story})


def _switches(view: ExplorerView) -> None:
    key = "explorer-shared"
    widgets.stand(key, True in view.shown.shared_prefix)
    st.checkbox(
        "Prompts shared, too",
        key=key,
        help="A later request’s prompt may begin like the first one’s.",
        on_change=lambda: _take(
            state.current().explorer.shown,
            shared_prefix=[False, True] if st.session_state[key] else [False],
        ),
    )
    aside = "explorer-aside"
    widgets.stand(aside, view.shown.set_padded_first_tokens_aside)
    st.checkbox(
        "Set padded first tokens aside",
        key=aside,
        help="A one-token prompt padded like a decode is known to be unsound, and found first.",
        on_change=lambda: _take(
            state.current().explorer.shown,
            set_padded_first_tokens_aside=st.session_state[aside],
        ),
    )
