"""The Sizes page: from a model's config to blocks, bytes and microseconds."""

from __future__ import annotations

from functools import cache

import streamlit as st

from mambaviz.pages import shell, sizes_sidebar, state
from mambaviz.pages.assets import SIZES_STYLE
from mambaviz.pages.plain import plain
from mambaviz.pages.sizes_state import SizesView
from mambaviz.sizes.copy_rates import CopyRate, measured
from mambaviz.sizes.families import SizesError
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.report import Report, size
from mambaviz.sizes.settings import Settings
from mambaviz.sizes.warnings import warnings
from mambaviz.viz.sizes import charts, tables
from mambaviz.viz.theme import ThemeName

_LAST = "sizes_report"  # the report on screen


def page() -> None:
    view = state.current()
    shell.frame(view)
    st.html(f"<style>{SIZES_STYLE.read_text(encoding='utf-8')}</style>")
    report, problem = report_of(view.sizes)
    if "sidebar" not in view.hide:
        sizes_sidebar.place(view.sizes, report if not problem else None)
    st.session_state[_LAST] = report
    with st.container(key="sizes-say"):
        st.html(tables.say_html(report))
    with st.container(key="messages"):
        _messages(problem)
    notes = tables.notes_html(warnings(report), "warning")
    notes += tables.notes_html(report.model.assumed, "note")
    if notes:
        st.html(notes)
    left, right = st.columns([62, 38], gap="medium")
    with left:
        st.html(tables.tables_html(report))
    with right:
        _charts(report)
        if view.sizes.own is None:
            st.html(tables.about_html(MODELS[view.sizes.model]))


def report_of(view: SizesView) -> tuple[Report, str]:
    """The report, or the one before and a sentence on why there is none for this view."""
    rates, _ = rates_here()
    try:
        return size(view.shown, view.settings, rates), ""
    except SizesError as error:
        before = st.session_state.get(_LAST) or size(view.shown, Settings(), rates)
        return before, f"{error}. What you see is {before.model.name} as it was before"


@cache
def rates_here() -> tuple[tuple[CopyRate, ...], str]:
    """Measured copy rates, or a sentence on why there are none."""
    try:
        return measured(), ""
    except ValueError as error:
        return (), str(error)


def _messages(problem: str) -> None:
    said = (state.notice(), sizes_sidebar.PASTING.problem, rates_here()[1])
    for sentence in said:
        if sentence:
            st.warning(plain(sentence), icon=":material/info:")
    if problem:
        st.error(f"{plain(problem)}.", icon=":material/error:")


def _charts(report: Report) -> None:
    style: ThemeName = "dark" if st.context.theme.type == "dark" else "light"
    drawn = {
        "bytes": charts.bytes_per_layer,
        "memory": charts.memory_over_length,
        "crossings": charts.crossings_over_block,
    }
    for name, draw in drawn.items():
        st.plotly_chart(
            draw(report, style),
            key=f"sizes-chart-{name}",
            theme=None,
            config={"displayModeBar": False},
        )
