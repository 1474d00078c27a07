"""Whether the browser session that a page is run for is still there."""

from __future__ import annotations

from mambaviz.pages.sessions import GRACE, Presence


def test_a_connection_lost_for_a_moment_is_no_closed_tab() -> None:
    connected, now = {"one"}, [0.0]
    present = Presence(connected.__contains__, lambda: now[0])
    assert present("one")
    connected.clear()
    assert present("one")
    now[0] = GRACE - 1
    assert present("one")
    connected.add("one")
    assert present("one")
    connected.clear()
    now[0] = 2 * GRACE - 2
    assert present("one")
    now[0] = 3 * GRACE
    assert not present("one")
