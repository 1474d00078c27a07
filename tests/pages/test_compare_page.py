"""The Compare page's wiring: choices, lock, link and runs agree; what goes wrong is a sentence."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.comparisons import (
    DEFAULT_COMPARISON,
    FAULT,
    MODES,
    READY_MADE,
    RUNNERS,
    varied,
)
from mambaviz.pages import compare, compare_state, state, watch
from mambaviz.pages.compare_component import CompareState, reported
from mambaviz.pages.compare_sidebar import OWN, requests_table, shared, ways_of
from mambaviz.pages.compare_state import CompareView
from mambaviz.pages.packing import pack
from mambaviz.pages.runs import RunStore, recorded_run
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, ScenarioError
from tests.pages.test_runs import FakeEngine

DEFAULT = PRESETS[DEFAULT_PRESET]
# Not among what is recorded.
FAULTY = varied(PRESETS["plain-decode"], FAULT, "bias-off-by-one").model_copy(
    update={"name": "Mine"}
)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    fake = FakeEngine()
    store = RunStore(fake)
    for module in (watch, compare):
        monkeypatch.setattr(module, "run_store", lambda: store)
    yield fake
    fake.gate.set()


@pytest.fixture
def app(engine: FakeEngine) -> AppTest:
    st.cache_resource.clear()
    return AppTest.from_function(_page, default_timeout=30)


def _page() -> None:
    from mambaviz.pages import compare, state

    state.enter("Compare")
    compare.page()


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def settled(app: AppTest) -> AppTest:
    deadline = time.monotonic() + 10
    while any("Computing" in info.value for info in app.info):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        app.run()
    return app


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def test_the_first_comparison_is_there_at_once(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    assert engine.calls == [], "live runs start when the page has been drawn"
    assert not app.exception
    assert not app.warning
    assert app.selectbox(key="compared").value == DEFAULT_COMPARISON
    assert "<dt>middle</dt><dd>align</dd>" in html(app)
    assert address(app) == {}
    assert "recorded" in html(app)


def test_every_ready_made_run_is_recorded() -> None:
    """If this fails after a change of the engine: ``python -m mambaviz.pages.record``."""
    for comparison in READY_MADE.values():
        for scenario in comparison.scenarios:
            assert recorded_run(scenario) is not None, scenario.name


@pytest.mark.parametrize("slug", list(READY_MADE))
def test_choosing_a_comparison(app: AppTest, slug: str) -> None:
    app.run()
    app.selectbox(key="compared").select(slug).run()
    assert not app.exception
    assert address(app) == ({} if slug == DEFAULT_COMPARISON else {"compare": slug})
    for label in READY_MADE[slug].labels:
        assert f"<dd>{label.name}</dd>" in html(app)


def test_choosing_a_lock_looks_for_the_place_anew(app: AppTest) -> None:
    app.query_params["at"] = "3"
    app.run()
    app.selectbox(key="lock").select("A2").run()
    assert not app.exception
    assert address(app) == {"lock": "A2"}


def test_an_echo_of_an_old_address_changes_nothing(app: AppTest) -> None:
    app.run()
    app.selectbox(key="compared").select("layout").run()
    app.query_params.clear()
    app.run()
    assert app.selectbox(key="compared").value == "layout"


def test_choosing_a_layer_is_kept(app: AppTest) -> None:
    app.run()
    app.segmented_control(key="compare-layer").set_value(1).run()
    assert not app.exception
    assert address(app) == {"layer": "1"}


def test_a_step_that_no_run_has(app: AppTest) -> None:
    app.query_params["at"] = "99"
    app.run()
    assert [warning.value for warning in app.warning] == [
        "There is no step 99: the longest of these runs has 8, so its last is shown."
    ]


def test_one_scenario_in_other_ways(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    app.selectbox(key="change-base").select(DEFAULT.name).run()
    app.selectbox(key="change-what").select(RUNNERS.what).run()
    app.button(key="change-go").click().run()
    settled(app)
    assert not app.exception
    assert app.selectbox(key="compared").value == OWN
    runs = state.from_link(address(app))[0].compare.own
    assert [run.engine.runner for run in runs] == ["v1", "v2"]


def test_any_two_presets(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    app.selectbox(key="change-what").select("another scenario").run()
    app.selectbox(key="change-base").select(DEFAULT.name).run()
    app.selectbox(key="change-other").select(DEFAULT.name).run()
    assert any("one and the same scenario" in text.value for text in app.caption)
    other = PRESETS["plain-decode"]
    app.selectbox(key="change-other").select(other.name).run()
    app.button(key="change-go").click().run()
    settled(app)
    assert address(app) == {"runs": f"{DEFAULT_PRESET},plain-decode"}


def test_runs_of_ones_own_are_computed_and_shown(app: AppTest, engine: FakeEngine) -> None:
    app.query_params["runs"] = f"plain-decode,{pack(FAULTY)}"
    app.run()
    settled(app)
    assert not app.exception
    assert [backend for _, backend in engine.calls] == ["auto", "auto"]
    assert "live" in html(app)


def test_runs_that_are_done_between_two_looks_are_shown(
    app: AppTest, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page chooses what to show while they are computed, and looks again when they are done."""
    choose = compare.choose

    def slowly(view: state.PageState):
        chosen = choose(view)
        for job in chosen[1]:
            while job is not None and job.status == "running":
                time.sleep(0.01)
        return chosen

    monkeypatch.setattr(compare, "choose", slowly)
    app.query_params["runs"] = f"plain-decode,{pack(FAULTY)}"
    app.run()
    settled(app)
    assert "live" in html(app)


def test_long_runs_can_be_stopped(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    engine.gate.clear()
    app.query_params["runs"] = f"plain-decode,{pack(FAULTY)}"
    app.run()
    assert "Computing 2 runs" in app.info[0].value
    assert "What you see are still the runs before." in app.info[0].value
    app.button(key="compare-stop").click().run()
    assert [info.value for info in app.info] == [
        "These runs were stopped. What you see are the runs before."
    ]
    engine.gate.set()
    app.button(key="compare-run").click().run()
    settled(app)
    assert "live" in html(app)


def test_a_run_that_fails_leaves_what_is_on_screen(app: AppTest, engine: FakeEngine) -> None:
    app.run()
    engine.fails = ScenarioError("engine.mode = 'all': not on Tuesdays")
    app.query_params["runs"] = f"plain-decode,{pack(FAULTY)}"
    app.run()
    settled(app)
    assert [error.value for error in app.error] == [
        "engine.mode = 'all': not on Tuesdays. What you see are the runs before."
    ]
    engine.fails = None
    app.button(key="compare-retry").click().run()
    settled(app)
    assert not app.error


def test_a_lesson_link_hides_the_sidebar(app: AppTest) -> None:
    app.query_params["hide"] = "sidebar"
    app.run()
    assert not app.exception
    assert len(app.selectbox) == 0


# --------------------------------------------------------------------------------------
# The link and what the browser says
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        CompareView(),
        CompareView(ready="layout", at=2, phase="post-copy", lock="A", marks=False),
        CompareView(own=(DEFAULT, FAULTY), at=0, marks=True),
        CompareView(own=(DEFAULT, PRESETS["plain-decode"], FAULTY)),
    ],
)
def test_a_link_holds_the_whole_view(view: CompareView) -> None:
    shown = state.PageState(compare=view)
    read, problem = state.from_link(state.to_link(shown))
    assert problem == ""
    assert read == shown


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"compare": "apples"}, "asks for a comparison “apples”, which does not exist"),
        ({"runs": "plain-decode"}, "compares 1 run where 2 or 3 can be"),
        ({"runs": "plain-decode,xyz"}, "A scenario in this link is damaged"),
        ({"at": "-1"}, "no whole number from 0"),
        ({"after": "lunch"}, "is none of schedule"),
        ({"marks": "maybe"}, "neither on nor off"),
    ],
)
def test_a_damaged_link_is_said(params: dict[str, str], sentence: str) -> None:
    read, problem = state.from_link({**params, "lock": "A"})
    assert sentence in problem
    broken_runs = {"runs", "compare"} & params.keys()
    assert read.compare == (CompareView() if broken_runs else CompareView(lock="A"))


def test_differences_are_marked_where_they_are_few() -> None:
    assert not CompareView().marked
    assert CompareView(ready="layout").marked
    assert CompareView(marks=True).marked
    assert CompareView(lock="nobody").locked is None


def test_what_a_view_cannot_be() -> None:
    with pytest.raises(ValueError, match="no comparison"):
        CompareView(ready="apples")
    with pytest.raises(ValueError, match="at least 2"):
        CompareView(own=(DEFAULT,))


def test_a_report_counts_while_it_answers_to_the_wish() -> None:
    asked = {"run": "x", "wish": 1, "at": 3, "phase": "forward", "marks": True}
    view = {"at": 4, "phase": "commit", "marks": False, "asked": {"run": "x", "wish": 1}}
    assert reported(view, asked) == CompareState(4, "commit", False)
    assert reported(view, {**asked, "wish": 2}) is None
    assert reported({**view, "phase": "lunch"}, asked) is None
    for at in ("4", -1, True, 10**30):
        assert reported({**view, "at": at}, asked) is None
    assert reported("gone", asked) is None


def test_what_the_sidebar_says() -> None:
    scenarios = READY_MADE["cache-mode"].scenarios
    facts = dict(shared(scenarios))
    assert facts["block size"] == "4 tokens"
    assert facts["blocks"] == "31 + null"
    assert "cache mode" not in facts
    assert "<td>step 5</td>" in requests_table(scenarios)


def test_a_way_that_cannot_run_says_why() -> None:
    found, problem = ways_of(varied(DEFAULT, RUNNERS, "v2"), MODES, MODES.ways)
    assert [run.engine.mode for run in found] == ["none", "align"]
    assert problem.startswith("Not as all: engine.runner = 'v2'")


def test_the_readers_are_those_of_the_address() -> None:
    assert compare_state.READERS.keys() <= state.READERS.keys()


def test_sessions_share_what_is_drawn_as_long_as_one_looks_at_it() -> None:
    runs = [recorded_run(PRESETS[slug]) for slug in ("plain-decode", "shift-in-place")]
    found = [run for run in runs if run is not None]
    mine, yours = compare.together(found), compare.together(found)
    assert mine is yours
    first = mine.payload(None, 0)
    assert mine.payload(None, 0) is first
    assert compare.together(found[::-1]) is not mine
    gone = weakref.ref(mine)
    del mine, yours
    assert gone() is None
