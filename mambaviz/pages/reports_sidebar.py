"""The sidebar of the Reports page: the list of reports, found by word or kernel."""

from __future__ import annotations

from html import escape

import streamlit as st

from mambaviz.pages import shell, state, widgets
from mambaviz.pages.plain import plain
from mambaviz.pages.reports_state import ReportsView
from mambaviz.pages.state import PageState
from mambaviz.reports import REPORTS, Report

SEARCH = "report-search"
LIST = "report-list"


def place(view: PageState) -> None:
    report = view.museum.shown
    with st.sidebar:
        with st.container(key="side-reports"):
            _list(view)
        with st.container(key="side-foot"):
            st.button(
                "Open on Watch",
                key="report-on-watch",
                on_click=open_on_watch,
                disabled=report.faulty_scenario is None,
                help="No run replays this report." if report.faulty_scenario is None else None,
                width="stretch",
            )
            shell.copy_link()
            origin = "recorded" if report.scenario is not None else "asked of the function alone"
            st.html(f'<p class="mv-foot"><span>{escape(origin)}</span></p>')


def _list(view: PageState) -> None:
    words = st.text_input("Reports", key=SEARCH, placeholder="Find by word or kernel")
    shown = find(words)
    if not shown:
        st.html(
            f'<p class="mv-story">No report has “{escape(words[:40])}” in it. '
            "A word of its symptom, a fault or a kernel finds one.</p>"
        )
        return
    here = view.museum.report
    widgets.stand(LIST, here if here in shown else None)
    st.radio(
        "Report",
        shown,
        key=LIST,
        format_func=lambda name: f"**{name}** {plain(REPORTS[name].name)}",
        on_change=_choose,
        label_visibility="collapsed",
    )
    if len(shown) < len(REPORTS):
        st.html(f'<p class="mv-story">{len(shown)} of {len(REPORTS)} reports</p>')


def find(words: str) -> list[str]:
    """Ids of the reports in which every word occurs, in any case."""
    asked = words.lower().split()
    return [
        name for name, report in REPORTS.items() if all(word in _text(report) for word in asked)
    ]


def _text(report: Report) -> str:
    """All that a report can be found by: its prose, its setting, the fault and where it acts."""
    fault = report.fault
    parts = [report.id, report.name, report.title, report.symptom, report.cause, report.lesson]
    parts += [report.mode, report.runner, report.layout, report.url, report.fault_name or ""]
    parts += [fault.room, fault.where, fault.what] if fault is not None else []
    return " ".join(parts).lower()


def _choose() -> None:
    name = widgets.choice(LIST, REPORTS)
    if name is not None:
        state.say("")
        state.update(museum=ReportsView(report=name))


def open_on_watch() -> None:
    """Callback: the run with the fault on the Watch page, at the step and phase on show."""
    museum = state.current().museum
    scenario = museum.shown.faulty_scenario
    if scenario is None:
        return
    at = st.session_state.get("report-place", (museum.report, 0, "schedule"))
    state.show(scenario)
    if at[0] == museum.report:
        state.update(step=at[1], phase=at[2])
    state.go_to("Watch")
