"""Messages about what is computed, each with the button that changes it."""

from __future__ import annotations

import streamlit as st

from mambaviz.pages.plain import plain


def under_way(text: str, key: str) -> bool:
    """Whether the reader has pressed Stop."""
    with _row():
        st.info(text, icon=":material/hourglass_top:")
        return st.button("Stop", key=key)


def stopped(text: str, label: str, key: str) -> bool:
    """Whether the reader wants to go on after all."""
    with _row():
        st.info(text, icon=":material/stop_circle:")
        return st.button(label, key=key)


def failed(problem: str, label: str, key: str, still: str = "") -> bool:
    """Whether the reader wants to try again, or something else. ``still``: what is on screen."""
    with _row():
        st.error(f"{plain(sentence(problem))}{still}", icon=":material/error:")
        return st.button(label, key=key)


def _row() -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center")


def sentence(problem: str) -> str:
    """As a sentence begins and ends; what begins with a field, begins as it is written."""
    if "." not in problem.partition(" ")[0]:
        problem = problem[:1].upper() + problem[1:]
    return f"{problem.rstrip('.')}."
