"""Two runs of a page that are at work on one session's state take turns at it."""

from __future__ import annotations

import threading

import pytest
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState

from mambaviz.pages import session_lock


@pytest.fixture(autouse=True)
def _only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    make = SafeSessionState.__init__
    monkeypatch.setattr(SafeSessionState, "__init__", getattr(make, "__wrapped__", make))
    for _ in range(2):
        session_lock.share()


def test_a_run_that_is_broken_off_waits_for_the_newer_one() -> None:
    state, seen = SessionState(), []
    older, newer = (SafeSessionState(state, lambda: None) for _ in range(2))
    reading = threading.Thread(target=lambda: seen.append(older.filtered_state))
    with newer._lock:
        reading.start()
        reading.join(timeout=0.2)
        assert seen == []
        newer["found"] = 1
    reading.join(timeout=10)
    assert seen == [{"found": 1}]


def test_other_sessions_do_not_wait() -> None:
    one, other = (SafeSessionState(SessionState(), lambda: None) for _ in range(2))
    assert one._lock is not other._lock
