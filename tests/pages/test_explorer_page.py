"""The Explorer page's wiring: ranges, faults, queries and the address; start, stop, result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.explore.scope import Scope, find_scope
from mambaviz.faults import FAULTS, METADATA
from mambaviz.pages import explorer
from mambaviz.pages.explorations import ExplorationStore
from mambaviz.pages.explorer_sidebar import Range, range_text, range_values
from mambaviz.pages.explorer_state import ExplorerView
from mambaviz.pages.state import PageState, from_link, to_link
from mambaviz.scenario import ScenarioError
from tests.pages.test_explorations import FOREVER, ended, saying

SMALL = Scope(block_sizes=[4], num_specs=[1], prompt_lens=[3], max_tokens=[4], steps=3)
PATIENCE = 120  # seconds: a busy machine, which imports torch


def script() -> None:
    from mambaviz.pages import explorer, state

    state.enter("Explorer")
    explorer.page()


@pytest.fixture
def app() -> Iterator[AppTest]:
    explorer.exploration_store.clear()
    yield AppTest.from_function(script, default_timeout=60)
    explorer.exploration_store.clear()


def use(store: ExplorationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "exploration_store", lambda: store)


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def headline(app: AppTest) -> str:
    return html(app).partition("<h1>")[2].partition("</h1>")[0]


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def opened(app: AppTest, view: ExplorerView) -> AppTest:
    for name, text in to_link(PageState(explorer=view)).items():
        app.query_params[name] = text
    return app.run()


def test_scope_fault_query_and_ranges_are_in_the_address(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert headline(app) == "Does every scenario keep every invariant?"
    assert "36 combinations" in html(app)
    assert address(app) == {}
    app.selectbox(key="explorer-scope").set_value("small").run()
    app.selectbox(key="explorer-fault").set_value("bias-off-by-one").run()
    assert "the accepted-token bias is one too large" in html(app)
    app.selectbox(key="explorer-find").set_value("bias").run()
    app.number_input(key="explorer-number").set_value(3).run()
    assert address(app) == {"scope": "small", "fault": "bias-off-by-one", "find": "bias=3"}
    app.text_input(key="explorer block_sizes").set_value("2-4").run()
    view, problem = from_link(address(app))
    assert problem == ""
    assert view.explorer.own is not None
    assert view.explorer.own.block_sizes == [2, 3, 4]
    app.text_input(key="explorer block_sizes").set_value("2, 4").run()
    assert address(app)["scope"] == "small"  # as it was
    assert not app.exception


def test_a_wrong_range_changes_nothing_and_is_said(app: AppTest) -> None:
    app.run()
    for text, says in [("two", "whole numbers"), ("65", "64"), ("", "block_sizes")]:
        app.text_input(key="explorer block_sizes").set_value(text).run()
        assert says in app.warning[0].value
        assert address(app) == {}
        assert app.text_input(key="explorer block_sizes").value == "2-4"
    assert not app.exception


def test_what_cannot_be_explored_here_is_said_and_not_started(app: AppTest) -> None:
    opened(app, ExplorerView(scope="proof"))
    assert "too many for this page" in app.error[0].value
    assert app.button(key="explorer-start").disabled
    app.selectbox(key="explorer-scope").set_value("tiny").run()
    app.selectbox(key="explorer-fault").set_value("ds-copied-flat").run()
    assert "it needs" in app.error[0].value
    silent = next(name for name, one in FAULTS.items() if set(one.noticed_by) == {METADATA})
    opened(app, ExplorerView(fault=silent))
    assert "No invariant sees it" in html(app)
    assert not app.exception


@pytest.mark.parametrize("name", ["scope", "ranges", "fault", "find"])
def test_a_damaged_link_opens_what_is_left_of_it(name: str) -> None:
    view, problem = from_link({name: "nonsense"})
    assert view.explorer == ExplorerView()
    assert problem.startswith(("This link", "The scope in this link"))


def test_running_stopped_and_failed(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ExplorationStore(FOREVER)
    use(store, monkeypatch)
    app.run()
    app.button(key="explorer-start").click().run()
    one = store.find(ExplorerView().order)
    assert one is not None
    end = time.monotonic() + PATIENCE
    while one.progress is None and time.monotonic() < end:
        time.sleep(0.05)
    app.run()
    assert "30 scenarios, 1 of 4 parts, 100 a second, 3 s left at this depth" in html(app)
    app.button(key="explorer-stop").click().run()
    ended(one)
    assert "It had come to runs of 2 steps" in app.info[0].value
    assert app.button(key="explorer-start").label == "Go on"

    use(ExplorationStore(saying('{"refused": "this cannot be"}')), monkeypatch)
    app.run()
    app.button(key="explorer-start").click().run()
    end = time.monotonic() + PATIENCE
    while not app.error and time.monotonic() < end:
        time.sleep(0.1)
        app.run()
    assert app.error[0].value == "this cannot be."
    assert app.button(key="explorer-start").label == "Try again"
    assert not app.exception


def explored(app: AppTest, view: ExplorerView) -> None:
    opened(app, view)
    app.button(key="explorer-start").click().run()
    end = time.monotonic() + PATIENCE
    while 'class="mv-counts"' not in html(app) and time.monotonic() < end:
        time.sleep(0.2)
        app.run()
    assert not app.exception


def test_a_hit_is_told_and_opens_on_watch(app: AppTest) -> None:
    explored(app, ExplorerView(own=SMALL, fault="bias-off-by-one"))
    told = html(app)
    assert headline(app).startswith("After ")
    assert "What the forward reads is the state" in told or "A block registered" in told
    assert "BROKEN" in told
    assert "all agree" in told
    app.button(key="explorer-watch").click().run()
    view = app.session_state["session"].state
    assert view.custom is not None
    assert view.custom.faults == ["bias-off-by-one"]
    assert app.session_state["session"].wanted_page == "Watch"


def test_a_scope_that_holds_says_how_many_that_was(app: AppTest) -> None:
    explored(app, ExplorerView(own=SMALL))
    assert headline(app).startswith("The scope holds: ")
    assert not [button for button in app.button if button.key == "explorer-watch"]


def test_ranges_as_they_are_written() -> None:
    sizes = Range("block_sizes", "Block sizes")
    for values in ([1, 2, 3, 5], [2, 4], [7], [3, 2], [1, 2]):
        assert range_values(sizes, range_text(values)) == values
    assert range_text([1, 2, 3, 5]) == "1-3, 5"
    assert range_values(Range("modes", "Modes", words=True), "align, all") == ["align", "all"]
    with pytest.raises(ScenarioError):
        range_values(sizes, "1..3")


def test_the_link_holds_every_scope_there_is() -> None:
    for fault in (None, "stale-column"):
        view = PageState(
            explorer=ExplorerView(own=find_scope("modes"), fault=fault, find="migrate")
        )
        assert from_link(to_link(view)) == (view, "")
    assert json.dumps(to_link(PageState())) == "{}"
