"""The address of a session: the browser gets it until it has it, and its history is left alone."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pytest
from streamlit.runtime.state import QueryParamsProxy
from streamlit.testing.v1 import AppTest

HERE, THERE, ON = ({"step": step, "phase": "schedule"} for step in "345")


def _page() -> None:
    import streamlit as st

    from mambaviz.pages import state

    wanted = st.session_state.pop("wanted", None)
    if wanted == "history":  # as the frame says it
        state.went_to(st.query_params.to_dict())
    elif wanted is not None:
        state.follow(step=wanted)
    state.current()


@pytest.fixture
def app() -> AppTest:
    """At step 4, having been opened at step 3."""
    page = AppTest.from_function(_page)
    page.query_params.update(HERE)
    page.run()
    page.session_state["wanted"] = 4
    page.run()
    assert address(page) == THERE
    return page


def address(page: AppTest) -> dict[str, str]:
    return dict(parse_qsl(urlencode(page.query_params, doseq=True)))


def browser_at(page: AppTest, query: dict[str, str]) -> AppTest:
    """A run for which the browser reports this address."""
    page.query_params.clear()
    page.query_params.update(query)
    return page.run()


def test_an_address_that_was_lost_on_its_way_is_sent_again(app: AppTest) -> None:
    for _ in range(2):
        assert address(browser_at(app, HERE)) == THERE


def test_once_the_browser_has_it_only_the_frame_says_that_it_went_back(app: AppTest) -> None:
    browser_at(app, THERE)
    assert address(browser_at(app, HERE)) == HERE, "the history is not written over"
    assert app.session_state["session"].state.step == 4, "nor does the address say anything"
    app.session_state["wanted"] = "history"
    assert address(browser_at(app, HERE)) == HERE
    assert app.session_state["session"].state.step == 3


def test_where_the_browser_is_already_it_is_not_sent_to(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser_at(app, THERE)
    sent: list[object] = []
    send = QueryParamsProxy.from_dict

    def noted(params: QueryParamsProxy, query: dict[str, str]) -> None:
        sent.append(query)
        send(params, query)

    monkeypatch.setattr(QueryParamsProxy, "from_dict", noted)
    app.session_state["wanted"] = "history"
    browser_at(app, HERE)
    assert sent == []
    app.session_state["wanted"] = 5
    browser_at(app, HERE)
    assert sent == [ON]
