"""The Kernels page's wiring: widgets, launch, address and pictures agree.

What needs a hand on a cell, a key or a pointer is tested in a real browser (tests/browser).
"""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.launches.inputs import DEFAULT_LAUNCH, LAUNCHES, LaunchError, build
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import recorded
from mambaviz.pages import launch_editor, runs
from mambaviz.pages.kernels_state import KernelsView
from mambaviz.pages.state import PageState, from_link, to_link
from mambaviz.viz.kernels import words
from tests.pages.test_runs import FakeEngine


def script() -> None:
    from mambaviz.pages import kernels, state

    state.enter("Kernels")
    kernels.page()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page alone; runs of the Watch page are the recorded ones."""
    st.cache_resource.clear()
    store = runs.RunStore(FakeEngine())
    monkeypatch.setattr("mambaviz.pages.watch.run_store", lambda: store)
    return AppTest.from_function(script, default_timeout=60)


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def pictures(app: AppTest) -> str:
    return " ".join(str(element.proto) for element in app.get("bidi_component"))


def headline(app: AppTest) -> str:
    return html(app).partition("<h1>")[2].partition("</h1>")[0]


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def press(app: AppTest, label: str) -> AppTest:
    return next(found for found in app.button if found.label == label).click().run()


def setting(app: AppTest, label: str) -> Any:
    return next(found for found in app.number_input if found.label == label)


def messages(app: AppTest) -> str:
    return " ".join(found.value for found in (*app.error, *app.warning))


def test_the_default_is_there_at_once(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))
    assert "recorded" in html(app)
    assert address(app) == {}
    assert not app.error


@pytest.mark.parametrize("slug", LAUNCHES)
def test_every_preset_opens_from_a_link(app: AppTest, slug: str) -> None:
    app.query_params["launch"] = slug
    app.run()
    assert not app.exception
    assert headline(app) == words.headline(recorded(slug))
    assert app.selectbox(key="launch-preset").value == slug
    assert app.selectbox(key="launch-kernel").value == LAUNCHES[slug].kernel


def test_another_kernel_opens_its_first_preset(app: AppTest) -> None:
    app.run()
    app.selectbox(key="launch-kernel").select("precopy").run()
    assert address(app) == {"launch": "into-a-new-block"}
    app.selectbox(key="launch-kernel").select("postprocess").run()
    assert address(app) == {}


def test_an_edit_waits_for_the_launch(app: AppTest) -> None:
    app.run()
    setting(app, "block size").set_value(5).run()
    assert "block size was 4, now 5: not launched yet" in html(app)
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))
    press(app, "Launch")
    assert not app.exception
    assert list(address(app)) == ["inputs"]
    assert "live, " in html(app)
    assert "block size was 4, now 5</small>" in html(app)
    assert headline(app) != words.headline(recorded(DEFAULT_LAUNCH))


def test_a_preset_is_launched_live_on_request(app: AppTest) -> None:
    app.run()
    press(app, "Launch")
    assert "live, " in html(app)
    assert address(app) == {}
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))


def test_what_cannot_be_launched_gets_its_sentence(app: AppTest) -> None:
    app.run()
    setting(app, "columns").set_value(4).run()
    assert "a row has 4 columns" in messages(app)
    assert "What you see is the launch before." in messages(app)
    launch = next(found for found in app.button if found.label == "Launch")
    assert launch.disabled


def test_mistakes_are_switches_and_a_part_of_the_link(app: AppTest) -> None:
    app.run()
    app.toggle(key="launch-broken-unordered-shift").set_value(True).run()
    assert address(app) == {"broken": "unordered-shift"}
    assert headline(app).startswith("Built wrong (unordered shift): 6 of 24 programs")
    assert "What catches it" in pictures(app)
    app.toggle(key="launch-broken-unordered-shift").set_value(False).run()
    assert address(app) == {}
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))


def test_a_step_of_watch_is_taken(app: AppTest) -> None:
    app.run()
    press(app, "Take from Watch, step 2")
    assert not app.exception
    assert headline(app) == "8 programs: 8 moved bytes."
    assert list(address(app)) == ["inputs"]


def test_pasted_text_that_is_no_launch_is_said(app: AppTest) -> None:
    app.run()
    app.text_area(key="launch-paste").set_value('{"rows": []}').run()
    press(app, "Use it")
    assert "What was pasted was not taken" in messages(app)
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))


def test_rows_are_added_and_removed(app: AppTest) -> None:
    app.run()
    press(app, "Add a row")
    assert headline(app).startswith("28 programs")
    press(app, "Remove the last")
    press(app, "Remove the last")
    assert headline(app).startswith("20 programs")


def test_the_fast_kernel_is_asked_for_by_link(app: AppTest) -> None:
    app.query_params["path"] = "fast"
    app.run()
    assert not app.exception
    assert "postprocess_mamba_pieces_kernel" in pictures(app)
    assert headline(app) == words.headline(recorded(DEFAULT_LAUNCH))


def test_a_fast_kernel_that_is_not_there_is_said(app: AppTest) -> None:
    app.query_params["path"] = "fast"
    app.query_params["launch"] = "a-list-of-copies"
    app.run()
    assert "There is no fast kernel for" in messages(app)


def test_the_measurements_have_their_section(app: AppTest) -> None:
    app.run()
    assert "How fast on a GPU" in pictures(app)


# --------------------------------------------------------------------------------------
# The view as a link
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        KernelsView(),
        KernelsView(launch="into-a-new-block", program="3-1"),
        KernelsView(mistakes=("unordered-shift", "no-bounds-check"), fast=True),
        KernelsView(own=build({**LAUNCHES[DEFAULT_LAUNCH].model_dump(), "padding": 8})),
    ],
)
def test_a_link_gives_the_same_view(view: KernelsView) -> None:
    back, problem = from_link(to_link(PageState(kernels=view)))
    assert (back.kernels, problem) == (view, "")


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"launch": "nothing"}, "asks for a launch “nothing”"),
        ({"inputs": "AAAA"}, "The launch in this link is damaged"),
        ({"program": "first"}, "no batch row and state such as 1-0"),
        ({"broken": "everything"}, "This link breaks “everything”"),
        ({"path": "slow"}, "neither fast nor readable"),
    ],
)
def test_a_damaged_link_is_said(params: dict[str, str], sentence: str) -> None:
    state, problem = from_link(params)
    assert sentence in problem
    assert state.kernels == KernelsView()


def test_mistakes_stand_in_one_order_in_a_link() -> None:
    view = KernelsView(mistakes=tuple(reversed(MISTAKES)))
    assert to_link(PageState(kernels=view))["broken"] == ",".join(MISTAKES)


# --------------------------------------------------------------------------------------
# The editor's text
# --------------------------------------------------------------------------------------


def test_block_ids_are_read_as_they_are_written() -> None:
    assert launch_editor.read_blocks("1, 2, -3", "row 0") == [1, 2, -3]
    assert launch_editor.read_blocks("[1 2; −3]", "row 0") == [1, 2, -3]
    assert launch_editor.read_blocks(None, "row 0") == []
    with pytest.raises(LaunchError, match="row 0, block-table row: 'x' is no block id"):
        launch_editor.read_blocks("1, x", "row 0")


def test_the_first_difference_is_told() -> None:
    before = LAUNCHES[DEFAULT_LAUNCH]
    data = before.model_dump()
    data["rows"][4]["blocks"] = [16, 17, 18, 19]
    assert launch_editor.difference(before, build(data)) == "column 3 of E was 0, now 19"
    data = before.model_dump()
    data["rows"][0]["accepted"] = 1
    assert launch_editor.difference(before, build(data)) == "accepted of A was 2, now 1"
    assert launch_editor.difference(before, before) == ""
