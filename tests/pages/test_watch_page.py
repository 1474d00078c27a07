"""The Watch page's wiring: widgets, state and address agree; what goes wrong is a sentence.

The stage itself runs in a browser (tests/browser); here it reports nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.pages import state, watch
from mambaviz.pages.runs import RunStore
from mambaviz.pages.sidebar import BACKEND_LABELS, OWN, facts, requests_table
from mambaviz.pages.state import BACKEND_CHOICES
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, ScenarioError, build
from tests.pages.test_runs import FakeEngine
from tests.pages.test_state import OWN as OWN_SCENARIO

# Another run, but one that the recorded steps of the fake engine fit.
MINE = build(
    {**PRESETS["plain-decode"].model_dump(), "name": "Mine", "faults": ["bias-off-by-one"]}
)

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """An engine that answers at once, in place of the real one."""
    fake = FakeEngine()
    store = RunStore(fake)
    monkeypatch.setattr(watch, "run_store", lambda: store)
    yield fake
    fake.gate.set()


@pytest.fixture
def app(engine: FakeEngine) -> AppTest:
    st.cache_resource.clear()
    return AppTest.from_file(APP, default_timeout=30)


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def settled(app: AppTest) -> AppTest:
    """Run the page again until the live run is no longer on its way."""
    deadline = time.monotonic() + 10
    while any(info.value.startswith(("Computing", "Drawing")) for info in app.info):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        app.run()
    return app


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def test_the_recorded_default_is_there_at_once(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    assert not app.exception
    assert app.selectbox(key="preset").value == DEFAULT_PRESET
    assert "recorded" in html(app)
    assert engine.calls == [], "the live run starts when the page has been drawn"
    assert address(app) == {}


def test_choosing_a_preset_changes_scenario_and_address(app: AppTest) -> None:
    app.query_params["step"] = "3"
    app.run()
    app.selectbox(key="preset").select("shift-in-place").run()
    assert not app.exception
    assert address(app) == {"preset": "shift-in-place"}
    assert PRESETS["shift-in-place"].content_hash[:7] in html(app)


def test_choosing_a_back_end_is_kept_in_the_address(app: AppTest) -> None:
    app.run()
    app.selectbox(key="backend").select("reference").run()
    assert address(app) == {"backend": "reference"}
    app.selectbox(key="preset").select("plain-decode").run()
    assert address(app) == {"preset": "plain-decode", "backend": "reference"}


def test_a_link_fills_the_widgets(app: AppTest) -> None:
    app.query_params["preset"] = "plain-decode"
    app.query_params["backend"] = "reference"
    app.run()
    assert app.selectbox(key="preset").value == "plain-decode"
    assert app.selectbox(key="backend").value == "reference"
    assert not app.warning


def test_an_address_edited_by_hand_wins(app: AppTest) -> None:
    app.run()
    app.query_params["preset"] = "plain-decode"
    app.run()
    assert app.selectbox(key="preset").value == "plain-decode"


def test_an_echo_of_an_old_address_changes_nothing(app: AppTest) -> None:
    """A click can come with the address from before the last change, however late."""
    app.run()
    app.selectbox(key="preset").select("plain-decode").run()
    app.query_params.clear()
    app.run()
    assert app.selectbox(key="preset").value == "plain-decode"


def test_the_reader_stepping_is_no_wish(app: AppTest) -> None:
    app.run()
    session = app.session_state["session"]
    number, place = session.wish, app.session_state["wish"]
    session.state = session.state.changed(step=3)  # as `follow` does
    app.run()
    assert session.wish == number
    assert app.session_state["wish"] == place
    app.selectbox(key="preset").select("plain-decode").run()
    assert session.wish > number
    assert app.session_state["wish"].place.step == 2


def test_a_damaged_link_says_so_in_one_sentence(app: AppTest) -> None:
    app.query_params["phase"] = "lunch"
    app.run()
    assert [warning.value for warning in app.warning] == [
        "This link's phase “lunch” is none of schedule, allocate, pre-copy, metadata, forward, "
        "accept, post-copy, commit, so it is left out."
    ]
    assert address(app) == {}


def test_a_step_beyond_the_end_says_so(app: AppTest) -> None:
    app.query_params["step"] = "99"
    app.run()
    assert [warning.value for warning in app.warning] == [
        "There is no step 99: this run has 5, so the last one is shown."
    ]


def test_a_scenario_of_ones_own_is_computed(app: AppTest, engine: FakeEngine) -> None:
    app.query_params["run"] = state.pack(MINE)
    app.run()
    settled(app)
    assert not app.exception
    assert engine.calls == [(MINE.content_hash, "auto")]
    assert app.selectbox(key="preset").value == OWN
    assert "live" in html(app)


def test_a_long_run_can_be_stopped_and_taken_up_again(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    engine.gate.clear()
    app.query_params["run"] = state.pack(MINE)
    app.run()
    assert "still the run before" in app.info[0].value
    app.button(key="stop").click().run()
    assert [info.value for info in app.info] == [
        "This run was stopped. What you see is the run before."
    ]
    engine.gate.set()
    app.button(key="run-it").click().run()
    settled(app)
    assert "live" in html(app)


def test_a_run_that_fails_leaves_what_is_on_screen(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    engine.fails = ScenarioError("engine.mode = 'all': not on Tuesdays")
    app.query_params["run"] = state.pack(MINE)
    app.run()
    settled(app)
    assert [error.value for error in app.error] == [
        "engine.mode = 'all': not on Tuesdays. What you see is the run before."
    ]
    engine.fails = None
    app.button(key="retry").click().run()
    settled(app)
    assert not app.error
    assert "live" in html(app)


def test_the_editor_says_what_is_wrong_and_applies_what_is_right(
    app: AppTest, engine: FakeEngine
) -> None:
    app.run()
    next(button for button in app.button if button.label == "Edit scenario").click().run()
    assert [success.value for success in app.success] == ["This scenario can run."]
    number(app, "block size").set_value(0).run()
    assert [error.value for error in app.error] == ["engine.block_size = 0: allowed 1 to 65536"]
    assert any("see the sentence" in text.value for text in app.markdown)
    assert named(app, "Apply").disabled
    number(app, "block size").set_value(8).run()
    assert not app.error
    named(app, "Apply").click().run()
    settled(app)
    assert not app.exception
    assert not app.success, "the drawer is closed"
    assert state.unpack(address(app)["run"]).engine.block_size == 8
    assert len(engine.calls) == 1


def test_cancelling_the_editor_changes_nothing(app: AppTest) -> None:
    app.run()
    next(button for button in app.button if button.label == "Edit scenario").click().run()
    number(app, "block size").set_value(8).run()
    named(app, "Cancel").click().run()
    assert address(app) == {}
    assert not app.success


def test_a_lesson_link_leaves_parts_out(app: AppTest) -> None:
    app.query_params["hide"] = "sidebar,tabs"
    app.run()
    assert not app.exception
    assert len(app.selectbox) == 0
    assert len(app.tabs) == 0


def test_what_the_sidebar_says_of_a_run() -> None:
    shown = dict(facts(PRESETS[DEFAULT_PRESET]))
    assert shown["conv kernel"] == "4 → window 3"
    assert shown["conv rows kept"] == "3 + 2 = 5"
    assert shown["blocks"] == "15 + null"
    table = requests_table(PRESETS[DEFAULT_PRESET])
    assert "2, 3, 1" in table
    assert "3, 1, 3" in table
    assert ("fault", "bias-off-by-one") in facts(OWN_SCENARIO)
    assert "25% of drafts" in requests_table(OWN_SCENARIO)


def test_every_back_end_has_a_name() -> None:
    assert tuple(BACKEND_LABELS) == BACKEND_CHOICES


def number(app: AppTest, label: str):
    return next(widget for widget in app.number_input if widget.label == label)


def named(app: AppTest, label: str):
    return next(widget for widget in app.button if widget.label == label)
