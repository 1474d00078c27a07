"""Widgets that stand where the view says, without taking a choice back that is being made.

The browser sets a widget whenever a run of the page says its value. A run that says all values
again, only because a live run has taken the place of a recorded one, would overrule a reader who
chooses in that moment: the choice is lost, or taken back by the browser's next report. So a
widget is told only what it does not show yet.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.common import user_key_from_element_id

_TOLD = "widgets-told"

Option = TypeVar("Option")


@dataclass
class _Told:
    """What the widgets of a session have been told."""

    undrawn: set[str] = field(default_factory=set)  # keys, by runs that may not have arrived
    labels: dict[str, str] = field(default_factory=dict)


def stand(key: str, value: Any, label: str = "") -> None:
    """Before a widget is drawn: have it stand at a value. ``label`` is the value's own text,
    where it changes while the value stays."""
    told: _Told = st.session_state.setdefault(_TOLD, _Told())
    stands = key in st.session_state and st.session_state[key] == value
    if stands and _reported(key) and key not in told.undrawn and told.labels.get(key, "") == label:
        return
    told.undrawn.add(key)  # a run broken off for a newer one may never have reached the browser
    told.labels[key] = label
    st.session_state[key] = value


def choice(key: str, options: Collection[Option]) -> Option | None:
    """In a callback: what the reader has chosen; None if it is none of the options.

    The browser reports labels. One that the page no longer offers, because it was pressed while
    another run of the page was on its way, comes through as the text of the label.
    """
    chosen = st.session_state[key]
    return chosen if chosen in options else None


def among(chosen: Any, options: Collection[Option], otherwise: Option) -> Option:
    """What a drawn widget says is chosen, if it is one of the options: see `choice`."""
    return chosen if chosen in options else otherwise


def _reported(key: str) -> bool:
    """Whether the browser has said where the widget stands, in the message that this run is for."""
    context = get_script_run_ctx()
    if context is None:
        return False
    reports = context.session_state.get_widget_states()
    return any(user_key_from_element_id(report.id) == key for report in reports)


def drawn() -> None:
    """After a run of a page that has come to its end."""
    told: _Told = st.session_state.setdefault(_TOLD, _Told())
    told.undrawn.clear()
