"""The Watch page: one run, step by step. Sidebar, stage, and tabs with the details of a phase."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import streamlit as st

from mambaviz.pages import (
    editor,
    garbage,
    lesson,
    messages,
    replaying,
    shell,
    sidebar,
    state,
    tabs,
    try_out,
)
from mambaviz.pages.plain import plain
from mambaviz.pages.progress import how_far
from mambaviz.pages.runs import Job, JobKey, Run, RunStore, live_engine, recorded_run
from mambaviz.pages.sessions import Presence, session_name
from mambaviz.pages.stage_component import StageState, is_drawn, stage
from mambaviz.pages.state import PageState
from mambaviz.pages.turns import process_turns
from mambaviz.pages.wishes import standing
from mambaviz.viz.assets import SKELETON_CSS, skeleton
from mambaviz.workload import expected_steps

MOST_TICKS = 20  # a browser that never says what it has drawn holds nobody up for longer


@st.cache_resource
def run_store() -> RunStore:
    """Runs of all sessions."""
    return RunStore(live_engine, present=Presence(), turns=process_turns())


@dataclass(frozen=True)
class Screen:
    """What there is to see: a finished run (perhaps still the one before), and the live one."""

    view: PageState
    run: Run | None
    job: Job | None

    @property
    def is_current(self) -> bool:
        """Whether the run on screen is one of the scenario asked for."""
        return self.current_run is not None

    @property
    def current_run(self) -> Run | None:
        """The run on screen, if it is one of the scenario asked for."""
        return self.run if self.run is not None and shows(self.run, self.view) else None


def shows(run: Run, view: PageState) -> bool:
    return view.recording is None and run.trace.scenario_hash == view.scenario.content_hash


def page() -> None:
    view = state.current()
    st.session_state["page_runs"] = st.session_state.get("page_runs", 0) + 1
    st.session_state.setdefault("followed", 0)
    shell.frame(view)
    if view.recording is not None:
        run_store().want_only(session_name(), [])
        if not replaying.page(view):
            _before_a_recording()
        return
    replaying.leave_recordings()
    screen = choose(view)
    taught = view.lesson is not None and not lesson.nothing_left(screen.current_run, view)
    if "sidebar" not in view.hide and not taught:
        sidebar.place(view, screen.run)
    with st.container(key="messages"):
        _messages(screen)
    if taught:
        lesson.place(screen.current_run)
        return
    if screen.run is not None:
        _stage_and_tabs(screen.run)
    else:
        _nothing_yet(screen)
    if not try_out.place(screen.run):
        editor.place()


def choose(view: PageState) -> Screen:
    """The live run if it is there, else the recorded one, else the one before it on screen.

    A live run is started here only where nothing else of the scenario can be shown; else the
    page is drawn first (`_follow` starts it), because importing torch takes all hands.
    """
    store, session = run_store(), session_name()
    store.want_only(session, [_wish(view)])
    job = store.find(view.scenario, view.backend)
    run = job.run if job else None
    if run is None:
        run = recorded_run(view.scenario)
    if run is None and not _given_up(view):
        job = store.request(view.scenario, view.backend, session)
        run = job.run
    if run is not None:
        st.session_state["last_run"] = run
    return Screen(view, run or st.session_state.get("last_run"), job)


def watched(shown: PageState) -> tuple[Run | None, int]:
    """The run on this page, as far as it is there, and the step it stands at: for other pages."""
    job = run_store().find(shown.scenario, shown.backend)
    run = (job.run if job else None) or recorded_run(shown.scenario)
    last = len(run.trace.steps) - 1 if run else shown.step
    return run, min(shown.step, last)


# --------------------------------------------------------------------------------------
# Messages above the stage
# --------------------------------------------------------------------------------------


def _messages(screen: Screen) -> None:
    lost = lesson.sentence(screen.current_run, screen.view)
    for sentence in (state.notice(), lost or beyond_the_end(screen)):
        if sentence:
            st.warning(plain(sentence), icon=":material/info:")
    job = screen.job
    if job is not None and job.status == "failed":
        _failed(screen, job)
    elif _given_up(screen.view):
        _stopped(screen)
    elif job is None or job.run is None or job.run is not screen.run:
        follow = st.fragment(_follow, run_every=process_turns().look_again())
        follow(screen)  # also where it was done only after this page had chosen what to show


def beyond_the_end(screen: Screen) -> str:
    """A sentence if the view asks for a step, request or layer that the run does not have."""
    run, view = screen.current_run, screen.view
    if run is None:
        return ""
    steps, layers = len(run.trace.steps), run.trace.scenario.layer.num_layers
    names = [plan.id for plan in run.trace.scenario.requests]
    if view.step >= steps:
        return f"There is no step {view.step}: this run has {steps}, so the last one is shown."
    if view.layer >= layers:
        has = "one" if layers == 1 else str(layers)
        return f"There is no layer {view.layer}: this run has {has}, so the last one is shown."
    if view.request is not None and view.request not in names:
        return (
            f"There is no request “{view.request}”: this run has {', '.join(names)}, "
            "so the one that the phase is about is shown."
        )
    return ""


def _follow(screen: Screen) -> None:
    """Watch the live run; start it when the browser has drawn the recorded one."""
    if st.session_state["followed"] != st.session_state["page_runs"]:
        st.session_state["followed"], st.session_state["ticks"] = st.session_state["page_runs"], 0
    else:
        st.session_state["ticks"] += 1
    if screen.job is None and screen.run is not None and not _may_start(screen.run):
        return
    store, session = run_store(), session_name()
    view, seen = screen.view, screen.is_current
    job = store.request(view.scenario, view.backend, session, can_wait=seen)
    if job.status != "running":
        st.rerun()
    if job.progress is None or not job.progress.done:
        garbage.set_aside()  # PyTorch is being loaded, object by object
    if seen:
        return  # the recorded run is on screen; the live one takes its place without a word
    before = "" if screen.run is None else " What you see is still the run before."
    if messages.under_way(f"{_how_far(job)}.{before}", "stop"):
        store.stop(job, session)
        st.session_state["given_up"] = _wish(screen.view)
        st.rerun()


def _may_start(run: Run) -> bool:
    ticks = st.session_state["ticks"]
    return ticks >= MOST_TICKS or (ticks > 0 and is_drawn(run.payload, "stage"))


def _how_far(job: Job) -> str:
    """``Computing step 45 of about 200, about 12 s left``; before that, what is being loaded or
    waited for, and about how many steps will come."""
    steps = expected_steps(job.scenario)
    about = f"Computing about {steps} {'step' if steps == 1 else 'steps'}"
    return how_far(job.progress, run_store().ahead(job), about, job.message)


def _failed(screen: Screen, job: Job) -> None:
    seen = "the recorded run" if screen.is_current else "the run before"
    still = f" What you see is {seen}." if screen.run else ""
    if messages.failed(job.problem, "Try again", "retry", still):
        run_store().retry(job)
        st.rerun()


def _stopped(screen: Screen) -> None:
    still = "" if screen.run is None else " What you see is the run before."
    if messages.stopped(f"This run was stopped.{still}", "Run it", "run-it"):
        st.session_state["given_up"] = None
        st.rerun()


def _nothing_yet(screen: Screen) -> None:
    """The first run of a session is not there: the stage's shape, and what to do."""
    job, elsewhere = screen.job, "choose another preset or edit the scenario in the sidebar."
    if job is not None and job.status == "failed":
        text = f"There is no run to show: try it again, or {elsewhere}"
    elif _given_up(screen.view):
        text = f"There is no run to show: press “Run it”, or {elsewhere}"
    else:
        text = "The run is being computed; it is drawn here as soon as it is there."
    _skeleton(text)


def _before_a_recording() -> None:
    """A recording is on its way, or cannot be shown: the run before it stays, if there is one."""
    run = st.session_state.get("last_run")
    if run is not None:
        _stage_and_tabs(run)
    else:
        _skeleton("The recording is drawn here as soon as it is judged.")


def _skeleton(text: str) -> None:
    st.html(f"<style>{SKELETON_CSS}</style>")
    st.html(skeleton(text))


def _wish(view: PageState) -> JobKey:
    return view.scenario.content_hash, view.backend


def _given_up(view: PageState) -> bool:
    return st.session_state.get("given_up") == _wish(view)


# --------------------------------------------------------------------------------------
# Stage and tabs
# --------------------------------------------------------------------------------------


@st.fragment
def _stage_and_tabs(run: Run) -> None:
    """Alone when the stage reports a step: the sidebar does not depend on it."""
    view = state.current()
    number = state.session().wish if shows(run, view) else None
    wish = standing("wish", run.payload.run, within(run, view), number)
    shown = stage(
        run.payload,
        key="stage",
        wish=wish,
        hidden=[part for part in ("transport", "panels", "legend") if part in view.hide],
    )
    _note(run, view, shown)
    if "tabs" not in view.hide:
        tabs.place(run, shown, session_name())


def _note(run: Run, view: PageState, shown: StageState) -> None:
    """Take over where the reader has stepped to; a run of before leaves the address alone."""
    first = run.trace.scenario.requests[0].id
    if shown.request == (run.payload.request_at(shown.step, shown.phase) or first):
        shown = replace(shown, request=None)  # what a link without a request opens with
    if shown != within(run, view) and shows(run, view):
        state.follow(**asdict(shown))


def within(run: Run, view: PageState) -> StageState:
    """The view's place, as far as the run on screen has it."""
    trace = run.trace
    known = {plan.id for plan in trace.scenario.requests}
    request = view.request if view.request in known else None
    step, phase = run.payload.opening if view.opening else (view.step, view.phase)
    return StageState(
        step=min(step, len(trace.steps) - 1),
        phase=phase,
        request=request,
        layer=min(view.layer, trace.scenario.layer.num_layers - 1),
        details=view.details,
    )
