"""A lesson is its link: a title and stops, there and back; what is damaged is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mambaviz.pages.lesson import nothing_left, reported, sentence, stop_at, stops_of
from mambaviz.pages.lesson_state import MOST_STOPS, Lesson, Stop
from mambaviz.pages.runs import Run, recorded
from mambaviz.pages.state import PageState, from_link, opened, to_link
from mambaviz.scenario import PRESETS
from mambaviz.trace import PHASES

MIGRATE = Stop(step=4, phase="pre-copy", request="A")
ABOUT = Stop(step=4, phase="post-copy")

stops = st.builds(
    Stop,
    step=st.integers(0, 999_999),
    phase=st.sampled_from(PHASES),
    request=st.none() | st.text(min_size=1, max_size=40),
)
titles = st.text(max_size=80).filter(lambda text: text.isprintable() and text == text.strip())
lessons = st.builds(
    Lesson,
    title=titles,
    stops=st.lists(stops, min_size=1, max_size=6, unique=True).map(tuple),
)


@given(lessons, st.integers(0, 9), st.booleans(), st.sampled_from([None, "A"]))
def test_a_link_gives_its_lesson_back(
    lesson: Lesson, number: int, at_a_stop: bool, request: str | None
) -> None:
    view = opened(preset="plain-decode", lesson=lesson)
    assert (view.step, view.phase) == (lesson.stops[0].step, lesson.stops[0].phase)
    stop = lesson.stops[number % len(lesson.stops)]
    place = dict(stop) if at_a_stop else {"step": number, "request": request}
    for state in (view, view.changed(**place)):
        assert from_link(to_link(state)) == (state, "")


def test_a_lesson_opens_at_its_first_stop() -> None:
    state, problem = from_link({"lesson": "New <b>", "stops": "4.pre-copy.A,4.post-copy"})
    assert problem == ""
    assert state.lesson == Lesson(title="New <b>", stops=(MIGRATE, ABOUT))
    assert (state.step, state.phase, state.request) == (4, "pre-copy", "A")
    assert to_link(state) == {"lesson": "New <b>", "stops": "4.pre-copy.A,4.post-copy"}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"stops": ""}, "stop “”"),
        ({"stops": "4"}, "stop “4”"),
        ({"stops": "4.lunch"}, "stop “4.lunch”"),
        ({"stops": "-1.accept"}, "stop “-1.accept”"),
        ({"stops": "²1.accept"}, "stop “²1.accept”"),
        ({"stops": "4.accept."}, "stop “4.accept.”"),
        ({"stops": "4.accept." + "r" * 41}, "is no step.phase"),
        ({"stops": "4.accept,4.accept"}, "name one twice"),
        ({"stops": ",".join(f"{n}.accept" for n in range(MOST_STOPS + 1))}, "too many"),
        ({"stops": "x" * 5000}, "too many"),
        ({"lesson": "One"}, "no stops"),
        ({"lesson": "One", "stops": "4.lunch"}, "stop “4.lunch”"),
    ],
)
def test_damaged_stops_show_the_whole_page(params: dict[str, str], says: str) -> None:
    state, problem = from_link(params)
    assert state == PageState()
    assert says in problem
    assert "the whole page is shown" in problem


@pytest.mark.parametrize("title", ["t" * 81, "a\nb", "a\x00b", "\u202eabc"])
def test_a_title_that_is_no_line_of_text_is_left_out(title: str) -> None:
    state, problem = from_link({"lesson": title, "stops": "4.pre-copy"})
    assert state.lesson is not None
    assert state.lesson.title == ""
    assert "title" in problem


def test_a_damaged_run_takes_its_lesson_with_it() -> None:
    state, problem = from_link({"run": "nonsense", "stops": "4.pre-copy.A", "lesson": "One"})
    assert state == PageState()
    assert "scenario" in problem


def test_another_scenario_ends_the_lesson() -> None:
    state = opened(lesson=Lesson(stops=(MIGRATE,)))
    assert state.showing(PRESETS["plain-decode"]).lesson is None


def test_a_lesson_has_stops_and_none_twice() -> None:
    with pytest.raises(ValidationError):
        Lesson(stops=())
    with pytest.raises(ValidationError, match="twice"):
        Lesson(stops=(MIGRATE, MIGRATE))


# ---- what a run has of it --------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> Run:
    found = recorded("drafts-meet-the-boundary")
    assert found is not None
    return found


def lesson_of(*found: Stop, **place: object) -> PageState:
    return opened(lesson=Lesson(stops=found), **place)


def test_stops_that_the_run_has_not_are_left_out_and_said(run: Run) -> None:
    view = lesson_of(MIGRATE, Stop(step=99, phase="accept"), Stop(step=1, phase="accept"))
    assert view.lesson is not None
    assert [stop.step for stop in stops_of(run, view.lesson)] == [4, 1]
    assert sentence(run, view) == "This run has no stop at step 99, so it is left out."
    stranger = lesson_of(Stop(step=1, phase="accept", request="Z"), MIGRATE)
    assert "request “Z”" in sentence(run, stranger)
    assert not nothing_left(run, view)


def test_without_any_stop_the_whole_page_is_shown(run: Run) -> None:
    view = lesson_of(Stop(step=99, phase="accept"))
    assert nothing_left(run, view)
    assert "whole page" in sentence(run, view)
    assert not nothing_left(run, PageState())
    assert not nothing_left(None, view)


def test_a_place_is_a_stop_by_what_is_seen_there(run: Run) -> None:
    view = lesson_of(MIGRATE, ABOUT, Stop(step=2, phase="post-copy", request="B"))
    assert stop_at(run, view) == 0
    assert stop_at(run, view.changed(step=4, phase="post-copy", request=None)) == 1
    assert stop_at(run, view.changed(step=4, phase="post-copy", request="A")) == 1
    assert stop_at(run, view.changed(step=2, phase="post-copy", request="B")) == 2
    elsewhere = view.changed(step=3, phase="accept")
    assert stop_at(run, elsewhere) is None
    assert "none of its lesson's stops" in sentence(run, elsewhere)
    assert sentence(run, view) == ""


def test_a_report_is_a_stop_of_the_lesson() -> None:
    asked = {"stop": 0, "run": "r", "wish": 3}
    answered = {"run": "r", "wish": 3}
    found = reported({"stop": 1, "asked": answered}, asked, 2)
    assert found is not None
    assert found.stop == 1
    for view in (
        None,
        {"stop": 1},
        {"stop": 2, "asked": answered},
        {"stop": "1", "asked": answered},
    ):
        assert reported(view, asked, 2) is None
