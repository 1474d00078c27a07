"""The Reports page: public bug reports as replays, with the fault and with the fix."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from mambaviz.pages import reports_sidebar, shell, state
from mambaviz.pages.plain import plain
from mambaviz.pages.reports_component import SKIPPED, ReportState, exhibit
from mambaviz.pages.runs import recorded_run
from mambaviz.pages.state import PageState
from mambaviz.pages.wishes import standing
from mambaviz.reports import REPORTS, Replay
from mambaviz.reports.recorded import recorded_numbers
from mambaviz.scenario import Scenario
from mambaviz.trace import Trace
from mambaviz.viz.reports.payload import ReportPayload, report_payload

GUESSES = "report-guesses"  # of this session: by report the first guess, SKIPPED for none


def page() -> None:
    view = state.current()
    shell.frame(view)
    if "sidebar" not in view.hide:
        reports_sidebar.place(view)
    with st.container(key="messages"):
        payload = payload_of(view.museum.report)
        if state.notice():
            st.warning(plain(state.notice()), icon=":material/info:")
        elif beyond(payload, view):
            st.warning(beyond(payload, view), icon=":material/info:")
    _exhibit()


@lru_cache(maxsize=len(REPORTS))
def payload_of(report: str) -> ReportPayload:
    return report_payload(replay_of(report))


def replay_of(name: str) -> Replay:
    """A report's replay from the recordings: nothing is computed, torch stays out."""
    report = REPORTS[name]
    numbers = recorded_numbers()[name]
    if report.scenario is None or report.faulty_scenario is None:
        return Replay(report, None, None, numbers)
    return Replay(report, _trace(report.scenario), _trace(report.faulty_scenario), numbers)


def _trace(scenario: Scenario) -> Trace:
    run = recorded_run(scenario)
    if run is None:
        raise FileNotFoundError(
            f"the run “{scenario.name}” is not recorded as it now is; "
            "python -m mambaviz.pages.record reports records it"
        )
    return run.trace


def beyond(payload: ReportPayload, view: PageState) -> str:
    """A sentence if the view asks for a step that the runs do not have."""
    at = view.museum.at
    if at is None or at < payload.steps or not payload.steps:
        return ""
    return f"There is no step {at}: these runs have {payload.steps} steps, so the last is shown."


@st.fragment
def _exhibit() -> None:
    """Alone when a step or a guess is reported: the sidebar does not depend on it."""
    view = state.current()
    museum = view.museum
    payload = payload_of(museum.report)
    place = _place(payload, view)
    st.session_state["report-place"] = (museum.report, place.at, place.phase)
    shown = exhibit(
        payload,
        key="report",
        wish=standing("report-wish", payload.run, place, state.session().wish),
        score=score(),
        hidden=[part for part in ("transport", "panels") if part in view.hide],
    )
    if shown == place:
        return
    st.session_state["report-place"] = (museum.report, shown.at, shown.phase)
    if shown.guess is not None and museum.report not in guesses():
        guesses()[museum.report] = shown.guess
        follow(museum.report, shown)
        st.rerun(scope="fragment")  # the score is another
    follow(museum.report, shown)


def follow(report: str, shown: ReportState) -> None:
    """Take over where the reader has stepped to, and whether the fault has been shown."""
    museum = state.current().museum
    if museum.report == report:
        revealed = museum.revealed or shown.guess is not None
        state.follow(museum=museum.changed(at=shown.at, phase=shown.phase, revealed=revealed))


def _place(payload: ReportPayload, view: PageState) -> ReportState:
    museum = view.museum
    at = payload.at if museum.at is None else min(museum.at, max(payload.steps - 1, 0))
    guess = guesses().get(museum.report, SKIPPED if museum.revealed else None)
    return ReportState(at, museum.phase or payload.phase, guess)


# --------------------------------------------------------------------------------------
# Predict first
# --------------------------------------------------------------------------------------


def guesses() -> dict[str, int]:
    """The first guess of every report that this session has answered."""
    return st.session_state.setdefault(GUESSES, {})


def score() -> str:
    """``2 of 3 predicted right``; empty before the first guess."""
    tried = {name: guess for name, guess in guesses().items() if guess != SKIPPED}
    if not tried:
        return ""
    right = sum(guess == payload_of(name).answer for name, guess in tried.items())
    return f"{right} of {len(tried)} predicted right"
