"""The Learn page: a guided tour on the live stage, then questions: predict, reveal, score."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import streamlit as st

from mambaviz import tour
from mambaviz.pages import garbage, learn_sidebar, messages, shell, state
from mambaviz.pages.asking import Answered, QuestionJob, QuestionStore
from mambaviz.pages.assets import LEARN_STYLE
from mambaviz.pages.learn_component import (
    LearnPlace,
    Shown,
    act_reported,
    desk,
    place_reported,
)
from mambaviz.pages.learn_state import MIXED, LearnView, new_seed
from mambaviz.pages.plain import plain
from mambaviz.pages.progress import how_far
from mambaviz.pages.runs import Run, recorded_run
from mambaviz.pages.sessions import Presence, session_name
from mambaviz.pages.state import PageState
from mambaviz.pages.turns import process_turns
from mambaviz.pages.wishes import Wish, standing
from mambaviz.questions import TOPICS
from mambaviz.scenario import Scenario
from mambaviz.trace import Trace
from mambaviz.viz.learn.payload import question_json, run_name, tour_json

QUESTIONS_AHEAD = 5  # stops seen before the first question is asked for: torch takes a while
WISH = "learn-wish"
NEXT = "learn-next"  # of this session: topic and seed of the question that comes next
GIVEN_UP = "learn-given-up"  # and the question that the reader has stopped


@st.cache_resource
def question_store() -> QuestionStore:
    """Questions of all sessions."""
    return QuestionStore(present=Presence(), turns=process_turns())


def page() -> None:
    view = _drawn(state.current())
    shell.frame(view)
    st.html(f"<style>{LEARN_STYLE.read_text(encoding='utf-8')}</style>")
    if "sidebar" not in view.hide:
        learn_sidebar.place(view)
    job = asked_for(view)
    shown = _tour(view) if job is None else _question(view, job)
    with st.container(key="messages"):
        if state.notice():
            st.warning(plain(state.notice()), icon=":material/info:")
        if job is not None and not shown.question:
            _messages(job)
    about = "tour" if job is None else job.name
    wish = standing(WISH, about, _place(view.learn), state.session().wish)
    desk(shown, wish, on_view=_moved, on_act=_act)


def _drawn(view: PageState) -> PageState:
    """Where questions are asked for and none is named, one is drawn."""
    learn = view.learn
    if learn.topic is None or learn.seed is not None:
        return view
    return state.follow(learn=learn.asking(learn.topic, next_seed(learn.topic)))


def _place(learn: LearnView) -> LearnPlace:
    return LearnPlace(tour.NAMES.index(learn.stop), learn.moved, learn.chosen, learn.seen)


# --------------------------------------------------------------------------------------
# The tour
# --------------------------------------------------------------------------------------


def recorded_trace(scenario: Scenario) -> Trace:
    return recorded(scenario).trace


def recorded(scenario: Scenario) -> Run:
    """The tour's runs are recorded: a stop is there at once, torch stays out."""
    run = recorded_run(scenario)
    if run is None:
        raise FileNotFoundError(
            f"the run “{scenario.name}” is not recorded as it now is; "
            "python -m mambaviz.pages.record records it"
        )
    return run


@cache
def tour_text() -> str:
    return tour_json(tour.STOPS, recorded_trace)


def _tour(view: PageState) -> Shown:
    scenario = tour.BY_NAME[view.learn.stop].scenario
    return Shown(
        mode="tour",
        tour=tour_text(),
        run=run_name(scenario),
        payload=recorded(scenario).payload.packed,
        score=score_words(view.learn),
    )


# --------------------------------------------------------------------------------------
# Questions
# --------------------------------------------------------------------------------------


def asked_for(view: PageState) -> QuestionJob | None:
    """The question on show, asked for unless it was stopped; None in the tour. The one that comes
    next is asked for already; what else this session waits for it gives up."""
    store, session, learn = question_store(), session_name(), view.learn
    job = wanted_question(view)
    wanted = [] if job is None else [job]
    topic = MIXED if job is None else learn.topic
    if job is not None:
        job = (store.known(job) or job) if _given_up(job) else store.ask(job, session)
    is_time = len(learn.seen) >= QUESTIONS_AHEAD if job is None else job.value is not None
    if is_time and topic is not None:
        wanted += _ask_ahead(view, topic)
    store.want_only(session, [one.key for one in wanted])
    return job


def wanted_question(view: PageState) -> QuestionJob | None:
    """What the view asks for, as it is to be asked of the store."""
    learn = view.learn
    if learn.asked_topic is None or learn.seed is None:
        return None
    return question_store().job(learn.asked_topic, learn.seed, view.backend)


def _given_up(job: QuestionJob) -> bool:
    return st.session_state.get(GIVEN_UP) == job.key


def answered(view: PageState) -> Answered | None:
    """The question on show with its answer, if it is there."""
    wanted = wanted_question(view)
    job = question_store().known(wanted) if wanted is not None else None
    return job.value if job is not None else None


def _ask_ahead(view: PageState, topic: str) -> list[QuestionJob]:
    """Have the question that comes next computed while the reader is busy."""
    ahead = wanted_question(view.changed(learn=view.learn.asking(topic, next_seed(topic))))
    return [] if ahead is None else [question_store().ask(ahead, session_name(), can_wait=True)]


def next_seed(topic: str) -> int:
    """The seed of this session's next question of a topic, until `use_next` takes it."""
    wanted: tuple[str, int] | None = st.session_state.get(NEXT)
    if wanted is None or wanted[0] != topic:
        wanted = st.session_state[NEXT] = (topic, new_seed())
    return wanted[1]


def use_next(topic: str) -> int:
    seed = next_seed(topic)
    st.session_state[NEXT] = (topic, new_seed())
    return seed


def _question(view: PageState, job: QuestionJob) -> Shown:
    learn = view.learn
    title = "mixed topics" if learn.topic == MIXED else TOPICS[job.topic].title
    common = Shown(
        mode="questions",
        tour=tour_text(),
        run=job.name,
        payload="",
        topic=f"Questions: {title}",
        score=score_words(learn, job.topic),
    )
    if job.value is not None:
        found = job.value
        return replace(
            common,
            payload=found.run.payload.packed,
            question=question_json(found.question, job.name),
        )
    if _given_up(job):
        return replace(common, waiting="Press “Ask it”, or take the next question.", problem=True)
    if job.status == "failed":
        return replace(common, waiting="Try it again, or take the next question.", problem=True)
    return replace(
        common,
        waiting="A small scenario is drawn and run with the real kernels; its trace answers.",
    )


def _messages(job: QuestionJob) -> None:
    if _given_up(job):
        if messages.stopped("This question was stopped.", "Ask it", "ask-it"):
            st.session_state[GIVEN_UP] = None
            st.rerun()
    elif job.status == "failed":
        if messages.failed(job.problem, "Try again", "ask-again"):
            question_store().retry(job)
            st.rerun()
    else:
        st.fragment(_follow, run_every=process_turns().look_again())(job)


def _follow(job: QuestionJob) -> None:
    """Say how far a question is, and draw the page anew when it is there."""
    if job.status != "running":
        st.rerun()
    if job.progress is None:
        garbage.set_aside()  # PyTorch is being loaded, object by object
    store = question_store()
    text = how_far(job.progress, store.ahead(job), "Computing a question", job.message)
    if messages.under_way(f"{text}.", "ask-stop"):
        store.stop(job, session_name())
        st.session_state[GIVEN_UP] = job.key
        st.rerun()


def score_words(learn: LearnView, topic: str | None = None) -> str:
    """``3 of 4 right; this topic 1 of 2``; empty before the first answer."""
    right, asked = learn.score()
    if not asked:
        return ""
    words = f"Score: {right} of {asked} right"
    mine, of = learn.score(topic) if topic is not None else (0, 0)
    return f"{words}; this topic {mine} of {of}" if of else words


# --------------------------------------------------------------------------------------
# What the reader does: callbacks, before the page runs
# --------------------------------------------------------------------------------------


def _moved() -> None:
    wish: Wish[LearnPlace] | None = st.session_state.get(WISH)
    place = place_reported(wish)
    if place is not None:
        state.follow(learn=taken_up(state.current(), place))


def taken_up(view: PageState, place: LearnPlace) -> LearnView:
    """The view with what the reader has seen and answered."""
    learn = view.learn.having_seen(place.seen)
    if learn.topic is None:
        return learn.at(tour.NAMES[place.stop], moved=place.moved)
    found = answered(view)
    if found is None or place.chosen is None:
        return learn
    return learn.answered(place.chosen, right=place.chosen == found.question.answer)


def _act() -> None:
    reported = act_reported()
    if reported is None:
        return
    what, place = reported
    view = state.current()
    learn = taken_up(view, place)
    if what == "next" and learn.topic is not None:
        state.update(learn=learn.asking(learn.topic, use_next(learn.topic)))
    elif what == "questions":
        state.update(learn=learn.asking(MIXED, use_next(MIXED)))
    elif what == "tour":
        state.update(learn=learn.at(learn.stop, moved=learn.moved))
    elif what == "watch":
        _watch(view.changed(learn=learn))


def _watch(view: PageState) -> None:
    """The run on show, on the Watch page, where it stands."""
    learn, found = view.learn, answered(view)
    if found is not None:
        asked = found.question
        scenario, moment = asked.scenario, tour.Moment(asked.step, asked.phase, asked.request)
    else:
        stop = tour.BY_NAME[learn.stop]
        scenario = stop.scenario
        moment = stop.after if learn.moved and stop.after else stop.before
    state.follow(learn=learn)
    state.show(scenario)
    state.update(step=moment.step, phase=moment.phase, request=moment.request)
    state.go_to("Watch")
