"""The Reports page's wiring: list, search, link, score and the way to the Watch page agree."""

from __future__ import annotations

import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.pages import reports, reports_sidebar
from mambaviz.pages.reports_component import SKIPPED, ReportState, reported
from mambaviz.pages.reports_state import ReportsView
from mambaviz.pages.state import PageState, from_link, to_link
from mambaviz.reports import REPORTS
from tests.project.sources import ROOT


def script() -> None:
    from mambaviz.pages import reports, state

    state.enter("Reports")
    reports.page()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=60)


def shown(app: AppTest) -> str:
    return " ".join(str(element.proto) for element in app.get("bidi_component"))


def test_the_default_is_there_at_once(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert app.radio[0].options == [f"**{r.id}** {r.name}" for r in REPORTS.values()]
    assert app.radio[0].value == "S03"
    assert not app.warning
    assert dict(app.query_params) == {}


@pytest.mark.parametrize("name", ["S20", "S33", "S08"])
def test_a_report_opens_from_a_link(app: AppTest, name: str) -> None:
    app.query_params["report"] = name
    app.run()
    assert not app.exception
    assert app.radio[0].value == name
    watch = next(one for one in app.button if one.label == "Open on Watch")
    assert watch.disabled == (REPORTS[name].scenario is None)


def test_a_choice_is_a_link(app: AppTest) -> None:
    app.run()
    app.radio[0].set_value("S11").run()
    assert not app.exception
    assert dict(app.query_params) == {"report": "S11"}


def test_search_finds_by_word_and_by_kernel(app: AppTest) -> None:
    app.run()
    app.text_input[0].set_value("plan_chunks").run()
    found = [option.split()[0] for option in app.radio[0].options]
    assert found == ["**S21**", "**S36**"]
    assert app.radio[0].value is None  # S03 stays on show
    app.text_input[0].set_value("zebra").run()
    assert not app.exception
    assert not app.radio
    assert "No report has “zebra” in it" in " ".join(e.proto.body for e in app.get("html"))


def test_every_report_is_found_by_its_id_and_words() -> None:
    for name, report in REPORTS.items():
        assert name in reports_sidebar.find(name.lower())
        assert name in reports_sidebar.find(f"{report.name} {report.fault_name or ''}")
    assert reports_sidebar.find("") == list(REPORTS)


def test_open_on_watch_shows_the_run_with_the_fault(app: AppTest) -> None:
    app.query_params["report"] = "S03"
    app.run()
    next(one for one in app.button if one.label == "Open on Watch").click().run()
    session = app.session_state["session"]
    assert session.wanted_page == "Watch"
    assert session.state.scenario == REPORTS["S03"].faulty_scenario
    assert (session.state.step, session.state.phase) == (1, "post-copy")


def test_a_step_beyond_the_run_is_said(app: AppTest) -> None:
    app.query_params["report-step"] = "40"
    app.run()
    assert not app.exception
    assert [one.value for one in app.warning] == [
        "There is no step 40: these runs have 4 steps, so the last is shown."
    ]


def test_the_page_opens_without_torch() -> None:
    code = (
        "import sys; from mambaviz.pages.reports import payload_of; payload_of('S03'); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == 0


# ------------------------------------------------------------------------------ state and link


def test_a_view_goes_through_its_link() -> None:
    for view in (
        ReportsView(),
        ReportsView(report="S11", at=2, phase="pre-copy", revealed=True),
        ReportsView(at=0),
    ):
        state = PageState(museum=view)
        assert from_link(to_link(state)) == (state, "")


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"report": "S99", "report-step": "2"}, "asks for a report “S99”, which is none of the 22"),
        ({"report-step": "-1"}, "report-step “-1” is no whole number"),
        ({"report-phase": "lunch"}, "report-phase “lunch” is none of schedule"),
        ({"revealed": "maybe"}, "revealed “maybe” is neither yes nor no"),
    ],
)
def test_a_damaged_link_says_so(params: dict[str, str], sentence: str) -> None:
    state, problem = from_link(params)
    assert sentence in problem
    assert state.museum == ReportsView()


def test_an_unknown_report_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no report 'S99'"):
        ReportsView(report="S99")


# ------------------------------------------------------------------------------ what comes back

ASKED = {"run": "S03", "wish": 1}


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ({"at": 1, "phase": "forward", "guess": None}, ReportState(1, "forward", None)),
        ({"at": 1, "phase": "forward", "guess": SKIPPED}, ReportState(1, "forward", SKIPPED)),
        ({"at": 1, "phase": "lunch", "guess": None}, None),
        ({"at": -1, "phase": "forward", "guess": None}, None),
        ({"at": 1, "phase": "forward", "guess": "2"}, None),
        ({"at": "1", "phase": "forward", "guess": None}, None),
        ({"at": 10**30, "phase": "forward", "guess": None}, None),
        ({"at": 1, "phase": "forward", "guess": 10**30}, None),
    ],
)
def test_what_the_browser_says_is_checked(
    view: dict[str, object], found: ReportState | None
) -> None:
    assert reported({**view, "asked": ASKED}, ASKED) == found
    assert reported({**view, "asked": {"run": "S03", "wish": 0}}, ASKED) is None


def test_only_guesses_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, int] = {}
    monkeypatch.setattr(reports, "guesses", lambda: made)
    assert reports.score() == ""
    made["S20"] = SKIPPED
    assert reports.score() == ""
    made["S03"] = reports.payload_of("S03").answer
    made["S33"] = (reports.payload_of("S33").answer + 1) % 4
    assert reports.score() == "1 of 2 predicted right"
