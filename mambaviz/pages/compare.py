"""The Compare page: runs locked to the same step, or to the same token of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import streamlit as st

from mambaviz.alignment import lockable
from mambaviz.pages import compare_sidebar, messages, shell, state
from mambaviz.pages.assets import COMPARE_STYLE
from mambaviz.pages.compare_component import CompareState, side_by_side
from mambaviz.pages.plain import plain
from mambaviz.pages.progress import in_the_queue
from mambaviz.pages.runs import Job, Run, recorded_run
from mambaviz.pages.sessions import session_name
from mambaviz.pages.state import PageState
from mambaviz.pages.turns import process_turns
from mambaviz.pages.watch import run_store
from mambaviz.pages.wishes import standing
from mambaviz.viz.compare.payload import ComparePayload, compare_payload

KEPT_PAYLOADS = 4  # of one comparison: other locks and layers


@dataclass(frozen=True, eq=False)
class Runs:
    """All runs of a comparison, with what is drawn of them; see `together`."""

    runs: tuple[Run, ...]
    payloads: dict[tuple[str | None, int], ComparePayload] = field(default_factory=dict)

    def shows(self, view: PageState) -> bool:
        """Whether these are the runs that the view asks for."""
        wanted = [scenario.content_hash for scenario in view.compare.comparison.scenarios]
        return [run.trace.scenario_hash for run in self.runs] == wanted

    def payload(self, lock: str | None, layer: int) -> ComparePayload:
        """Made once, and kept as long as the comparison is."""
        found = self.payloads.get((lock, layer))
        if found is None:
            traces = [run.trace for run in self.runs]
            found = compare_payload(traces, lock=lock, layer=layer)
            while len(self.payloads) >= KEPT_PAYLOADS:
                self.payloads.pop(next(iter(self.payloads)), None)
            self.payloads[lock, layer] = found
        return found


# By the runs' identities. Sessions that look at the same runs have them, and what is drawn of
# them, in common; with the last of these sessions they go, so that no comparison nobody looks at
# keeps its runs from making room (`RunStore`).
_shown: WeakValueDictionary[tuple[int, ...], Runs] = WeakValueDictionary()


def together(runs: Sequence[Run]) -> Runs:
    """The comparison of these very runs, the same for everybody who looks at it."""
    return _shown.setdefault(tuple(map(id, runs)), Runs(tuple(runs)))


def page() -> None:
    view = state.current()
    st.session_state["compare_drawn"] = st.session_state.get("compare_drawn", 0) + 1
    shell.frame(view)
    st.html(f"<style>{COMPARE_STYLE.read_text(encoding='utf-8')}</style>")
    runs, jobs = choose(view)
    if "sidebar" not in view.hide:
        compare_sidebar.place(view, runs.runs if runs else ())
    with st.container(key="messages"):
        _messages(view, runs, jobs)
    if runs is not None:
        _side_by_side(runs)


def choose(view: PageState) -> tuple[Runs | None, list[Job | None]]:
    """The live runs if all are there, else the recorded ones, else those before them on screen."""
    store = run_store()
    scenarios = view.compare.comparison.scenarios
    store.want_only(session_name(), [(one.content_hash, view.backend) for one in scenarios])
    jobs = [store.find(scenario, view.backend) for scenario in scenarios]
    live = [job.run if job else None for job in jobs]
    kept = [recorded_run(scenario) for scenario in scenarios]
    for found in (live, kept):
        ready = [run for run in found if run is not None]
        if len(ready) == len(scenarios):
            st.session_state["last_runs"] = together(ready)
            break
    return st.session_state.get("last_runs"), jobs


# --------------------------------------------------------------------------------------
# Messages above the runs
# --------------------------------------------------------------------------------------


def _messages(view: PageState, runs: Runs | None, jobs: Sequence[Job | None]) -> None:
    if state.notice():
        st.warning(plain(state.notice()), icon=":material/info:")
    if runs is not None and runs.shows(view) and _beyond(runs, view):
        st.warning(_beyond(runs, view), icon=":material/info:")
    failed = [job for job in jobs if job is not None and job.status == "failed"]
    if failed:
        _failed(failed, runs)
    elif st.session_state.get("compare_given_up") == _wish(view):
        _stopped(runs)
    elif not _are_on_screen(jobs, runs):  # also where they were done only after `choose`
        follow = st.fragment(_follow, run_every=process_turns().look_again())
        follow(view, runs is not None and runs.shows(view), runs is not None)


def _are_on_screen(jobs: Sequence[Job | None], runs: Runs | None) -> bool:
    """Whether the runs on screen are the ones that these jobs have computed."""
    if runs is None or len(runs.runs) != len(jobs):
        return False
    pairs = zip(jobs, runs.runs, strict=True)
    return all(job is not None and job.run is run for job, run in pairs)


def _beyond(runs: Runs, view: PageState) -> str:
    """A sentence if the view asks for a step that no run has."""
    longest = max(len(run.trace.steps) for run in runs.runs)
    at = view.compare.at
    if at is None or view.compare.locked is not None or at < longest:
        return ""
    return f"There is no step {at}: the longest of these runs has {longest}, so its last is shown."


def _follow(view: PageState, current: bool, something: bool) -> None:
    """Have the live runs computed; they take the place of recorded ones without a word, and wait
    until those are drawn, because importing torch takes all hands."""
    first_draw = st.session_state.get("compare_followed") != st.session_state["compare_drawn"]
    st.session_state["compare_followed"] = st.session_state["compare_drawn"]
    if current and first_draw:
        return
    store, session = run_store(), session_name()
    scenarios = view.compare.comparison.scenarios
    jobs = [store.request(one, view.backend, session, can_wait=current) for one in scenarios]
    if all(job.status != "running" for job in jobs):
        st.rerun()
    if current:
        return
    done = sum(job.status == "done" for job in jobs)
    now = next(job for job in jobs if job.status == "running")
    ahead = store.ahead(now)
    doing = in_the_queue(ahead) if ahead else now.message
    before = " What you see are still the runs before." if something else ""
    text = f"Computing {len(jobs)} runs, {done} of them done; {doing}.{before}"
    if messages.under_way(text, "compare-stop"):
        for job in jobs:
            store.stop(job, session)
        st.session_state["compare_given_up"] = _wish(view)
        st.rerun()


def _failed(jobs: Sequence[Job], runs: Runs | None) -> None:
    still = " What you see are the runs before." if runs else ""
    if messages.failed(jobs[0].problem, "Try again", "compare-retry", still):
        for job in jobs:
            run_store().retry(job)
        st.rerun()


def _stopped(runs: Runs | None) -> None:
    still = " What you see are the runs before." if runs else ""
    if messages.stopped(f"These runs were stopped.{still}", "Run them", "compare-run"):
        st.session_state["compare_given_up"] = None
        st.rerun()


def _wish(view: PageState) -> tuple[str, ...]:
    hashes = (scenario.content_hash for scenario in view.compare.comparison.scenarios)
    return (*hashes, view.backend)


# --------------------------------------------------------------------------------------
# The runs
# --------------------------------------------------------------------------------------


@st.fragment
def _side_by_side(runs: Runs) -> None:
    """Alone when a step is reported: the sidebar does not depend on it."""
    view = state.current()
    payload = runs.payload(_lock(runs, view), _layer(runs, view))
    place = _place(payload, view)
    number = state.session().wish if runs.shows(view) else None
    shown = side_by_side(
        payload,
        key="compare-stage",
        wish=standing("compare-wish", payload.run, place, number),
        hidden=[part for part in ("transport", "panels", "legend") if part in view.hide],
    )
    if shown != place and runs.shows(view):
        _note(shown, view)


def _place(payload: ComparePayload, view: PageState) -> CompareState:
    wanted = view.compare
    at = payload.opening if wanted.at is None else wanted.at
    return CompareState(at, wanted.phase, wanted.marked)


def _note(shown: CompareState, view: PageState) -> None:
    """Take over where the reader has stepped to. Marks are said only where they were changed."""
    marks = view.compare.marks if shown.marks == view.compare.marked else shown.marks
    changed = view.compare.changed(at=shown.at, phase=shown.phase, marks=marks)
    state.follow(compare=changed)


def _lock(runs: Runs, view: PageState) -> str | None:
    """The lock, as far as the runs on screen compute the request."""
    known = lockable([run.trace for run in runs.runs])
    return view.compare.lock if view.compare.lock in known else None


def _layer(runs: Runs, view: PageState) -> int:
    return min(view.layer, *(run.trace.scenario.layer.num_layers - 1 for run in runs.runs))
