"""The state of a session has one lock.

Streamlit gives each run of a page a lock of its own. Where a run is broken off for a newer one,
both are at work for a moment, on the same state: the older one can then meet a dictionary that
the newer one changes under it, and ends with a traceback in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps

from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState

# By the state's id, since it can hold nothing more itself. A state that comes later under the id of
# one that has gone takes over its lock, which is free by then.
_LOCKS: dict[int, threading.RLock] = {}


def share() -> None:
    """From now on, for all sessions; again, it does nothing."""
    make = SafeSessionState.__init__
    if hasattr(make, "__wrapped__"):
        return

    @wraps(make)
    def make_with_shared_lock(
        self: SafeSessionState, state: SessionState, yield_callback: Callable[[], None]
    ) -> None:
        make(self, state, yield_callback)
        lock = _LOCKS.setdefault(id(state), threading.RLock())
        object.__setattr__(self, "_lock", lock)  # Streamlit's own way around its __setattr__

    SafeSessionState.__init__ = make_with_shared_lock  # type: ignore[method-assign]
