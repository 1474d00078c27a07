"""The browser session that a page is run for: its name, and whether it is still there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

GRACE = 10.0  # seconds in which a lost connection is not yet a closed tab


def session_name() -> str:
    """A name for this browser session, which runs and explorations are counted by."""
    context = get_script_run_ctx()
    if context is not None and runtime.exists():
        return context.session_id
    return str(st.session_state.setdefault("session_name", uuid.uuid4().hex))


def is_connected(session: str) -> bool:
    """Whether the session's browser tab is open now. Where no server runs, as in a test, it is."""
    return not runtime.exists() or bool(runtime.get_instance().is_active_session(session))


class Presence:
    """Whether a session is still there, if asked for again and again.

    A connection that is lost for a moment does not count: the page comes back to what it had.
    """

    def __init__(
        self,
        connected: Callable[[str], bool] = is_connected,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connected = connected
        self._clock = clock
        self._lost: dict[str, float] = {}  # session: since when

    def __call__(self, session: str) -> bool:
        if self._connected(session):
            self._lost.pop(session, None)
            return True
        since = self._lost.setdefault(session, self._clock())
        if self._clock() - since < GRACE:
            return True
        self._lost.pop(session, None)
        return False
