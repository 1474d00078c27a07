"""The sidebar of the Learn page: the tour's stops, or the topics of the questions."""

from __future__ import annotations

import streamlit as st

from mambaviz import tour
from mambaviz.pages import shell, sidebar, state, widgets
from mambaviz.pages.learn_state import CHOICES, MIXED, LearnView
from mambaviz.pages.state import PageState
from mambaviz.questions import TOPICS

MODE = "learn-mode"
LIST = "learn-list"
TOUR, QUESTIONS = "Tour", "Questions"


def place(view: PageState) -> None:
    learn = view.learn
    with st.sidebar:
        with st.container(key="side-learn"):
            widgets.stand(MODE, TOUR if learn.topic is None else QUESTIONS)
            st.segmented_control(
                "Learn",
                (TOUR, QUESTIONS),
                key=MODE,
                on_change=_choose_mode,
                label_visibility="collapsed",
                width="stretch",
            )
            _stops(learn) if learn.topic is None else _topics(learn, learn.topic)
        with st.container(key="side-foot"):
            if learn.topic is not None:
                sidebar.backend(view)
            shell.copy_link()
            st.html(f'<p class="mv-foot"><span>{how_far(learn)}</span></p>')


def _stops(learn: LearnView) -> None:
    widgets.stand(LIST, learn.stop)
    st.radio(
        "Stops",
        tour.NAMES,
        key=LIST,
        format_func=stop_label,
        captions=["✓" if name in learn.seen else "" for name in tour.NAMES],
        on_change=_choose_stop,
        label_visibility="collapsed",
    )


# What changes while the page is open, as which stops are seen, stands in the captions: a choice is
# reported by its label, and one that has just changed would not be known again.


def stop_label(name: str) -> str:
    return f"**{tour.NAMES.index(name) + 1}** {tour.BY_NAME[name].title}"


def _topics(learn: LearnView, topic: str) -> None:
    widgets.stand(f"{LIST}-topic", topic)
    st.radio(
        "Topics",
        CHOICES,
        key=f"{LIST}-topic",
        format_func=topic_label,
        captions=[topic_score(learn, name) for name in CHOICES],
        on_change=_choose_topic,
        label_visibility="collapsed",
    )


def topic_label(name: str) -> str:
    return "Mixed" if name == MIXED else TOPICS[name].title


def topic_score(learn: LearnView, name: str) -> str:
    right, asked = learn.score(None if name == MIXED else name)
    return f"{right}/{asked}" if asked else "–"


def how_far(learn: LearnView) -> str:
    """For the foot: what has been seen and answered."""
    right, asked = learn.score()
    seen = f"{len(learn.seen)} of {len(tour.NAMES)} stops seen"
    return f"{seen}, {right} of {asked} right" if asked else seen


# A widget that follows the view reports what it was set to, too: only another choice is one.


def _choose_mode() -> None:
    learn, chosen = state.current().learn, st.session_state[MODE]
    if chosen == QUESTIONS and learn.topic is None:
        state.update(learn=learn.asking(MIXED, None))
    elif chosen == TOUR and learn.topic is not None:
        state.update(learn=learn.at(learn.stop, moved=learn.moved))


def _choose_stop() -> None:
    learn, stop = state.current().learn, widgets.choice(LIST, tour.NAMES)
    if stop not in (None, learn.stop):
        state.say("")
        state.update(learn=learn.at(stop, moved=False))


def _choose_topic() -> None:
    learn, topic = state.current().learn, widgets.choice(f"{LIST}-topic", CHOICES)
    if topic not in (None, learn.topic):
        state.say("")
        state.update(learn=learn.asking(topic, None))
