"""The Explorer page: every scenario of a small scope, and the shortest one that breaks."""

from __future__ import annotations

import streamlit as st

from mambaviz.explore.command import progress_line
from mambaviz.explore.findings import Findings, Order
from mambaviz.pages import explorer_sidebar, shell, state
from mambaviz.pages.assets import EXPLORER_STYLE
from mambaviz.pages.explorations import BOUND, BusyError, Exploration, ExplorationStore
from mambaviz.pages.explorer_state import ExplorerView
from mambaviz.pages.plain import plain
from mambaviz.pages.sessions import session_name
from mambaviz.scenario import Scenario, ScenarioError
from mambaviz.trace import PhaseName
from mambaviz.viz import explored

POLL_SECONDS = 1.0
_BUSY = "explorer_busy"  # why nothing was started


@st.cache_resource
def exploration_store() -> ExplorationStore:
    """Explorations of all sessions."""
    return ExplorationStore()


def page() -> None:
    view = state.current()
    shell.frame(view)
    st.html(f"<style>{EXPLORER_STYLE.read_text(encoding='utf-8')}</style>")
    if "sidebar" not in view.hide:
        explorer_sidebar.place(view.explorer)
    order, problem = _order(view.explorer)
    one = exploration_store().find(order) if order is not None else None
    findings = one.findings if one is not None else None
    with st.container(key="explorer-say"):
        st.html(explored.say_html(view.explorer.shown, view.explorer.fault, order, findings))
    with st.container(key="messages"):
        _messages(problem)
        if order is not None:
            _controls(order, one, may_start=not problem)
    if order is not None and findings is not None:
        _result(order, findings)
    else:
        st.html(explored.plan_html(view.explorer.shown, view.explorer.fault))


def _order(view: ExplorerView) -> tuple[Order | None, str]:
    """What is asked, and why it cannot be explored here, if so."""
    try:
        order = view.order
        return order, BOUND.problem(order.scope)
    except ScenarioError as error:
        return None, str(error)


def _messages(problem: str) -> None:
    for sentence in (state.notice(), st.session_state.get(explorer_sidebar.PROBLEM, "")):
        if sentence:
            st.warning(plain(sentence), icon=":material/info:")
    busy = st.session_state.pop(_BUSY, "")
    for sentence in (problem, busy):
        if sentence:
            st.error(f"{plain(sentence)}.", icon=":material/error:")


# --------------------------------------------------------------------------------------
# Start, stop, go on
# --------------------------------------------------------------------------------------


def _controls(order: Order, one: Exploration | None, *, may_start: bool) -> None:
    if one is None:
        _start_button("Start", order, disabled=not may_start)
    elif one.status == "running":
        _follow(one)
    elif one.status == "stopped":
        how_far = "" if one.progress is None else f" It had come to {progress_line(one.progress)}."
        why = f"{one.problem}: it was stopped." if one.problem else "Stopped."
        with st.container(horizontal=True, vertical_alignment="center"):
            st.info(plain(f"{why}{how_far}"), icon=":material/stop_circle:")
            _start_button("Go on", order)
    elif one.status == "failed":
        with st.container(horizontal=True, vertical_alignment="center"):
            st.error(f"{plain(one.problem.rstrip('.'))}.", icon=":material/error:")
            _start_button("Try again", order)


def _start_button(label: str, order: Order, *, disabled: bool = False) -> None:
    st.button(
        label,
        key="explorer-start",
        type="primary",
        disabled=disabled,
        on_click=_start,
        args=(order,),
    )


def _start(order: Order) -> None:
    """Callback: start it, or say why not."""
    try:
        exploration_store().start(order, session_name())
    except BusyError as error:
        st.session_state[_BUSY] = str(error)


@st.fragment(run_every=POLL_SECONDS)
def _follow(one: Exploration) -> None:
    if one.status != "running":
        st.rerun()
    store, session = exploration_store(), session_name()
    store.look(one, session)
    with st.container(horizontal=True, vertical_alignment="center", key="explorer-running"):
        st.html(explored.progress_html(one.progress))
        st.button("Stop", key="explorer-stop", on_click=store.stop, args=(one, session))


# --------------------------------------------------------------------------------------
# What came of it
# --------------------------------------------------------------------------------------


def _result(order: Order, findings: Findings) -> None:
    st.html(explored.counts_html(order, findings))
    if findings.trace is None:
        return
    scenario = findings.trace.scenario
    left, right = st.columns([66, 34], gap="medium")
    with left:
        st.html(explored.steps_html(findings))
    with right:
        with st.container(horizontal=True, key="explorer-out"):
            st.button(
                "Open on Watch",
                type="primary",
                key="explorer-watch",
                on_click=_open,
                args=(scenario, *findings.place),
            )
            st.download_button(
                "Save JSON",
                lambda: scenario.model_dump_json(exclude_defaults=True, indent=1),
                file_name="shortest.json",
                mime="application/json",
                on_click="ignore",
            )
        st.html(explored.scenario_html(scenario))


def _open(scenario: Scenario, step: int, phase: PhaseName) -> None:
    """Callback: the scenario on the Watch page, at the step that was found."""
    state.show(scenario)
    state.update(step=step, phase=phase)
    state.go_to("Watch")
