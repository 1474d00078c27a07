"""The truth strip: the step on screen by every back end, each run on demand in its own process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import streamlit as st

from mambaviz.pages.progress import in_the_queue
from mambaviz.pages.runs import Job, Run, RunStore
from mambaviz.pages.sessions import Presence
from mambaviz.pages.state import BackendChoice
from mambaviz.pages.tab_component import figure
from mambaviz.pages.turns import Turns
from mambaviz.scenario import Scenario
from mambaviz.trace import Trace
from mambaviz.truth import QUANTITIES, Measured, Quantity, allowed, between, measure
from mambaviz.viz.tabs.truth import TruthRow, truth_html

POLL_SECONDS = 0.5
Name = Literal["cuda", "interpreter", "reference"]
BACKENDS: dict[Name, str] = {
    "cuda": "GPU",
    "interpreter": "interpreter, CPU",
    "reference": "plain twin, CPU",
}


@st.cache_resource
def truth_store() -> RunStore:
    """Runs in child processes, shared by all sessions: one scenario is run once for everybody,
    each to its end, since a child does not stop where another's turn begins. So they have turns of
    their own, which nothing that this process computes waits for."""
    return RunStore(elsewhere, drawn=False, present=Presence(), turns=Turns(slice_s=None))


def elsewhere(scenario: Scenario, backend: BackendChoice, progress: object) -> Trace:
    """The engine of the store. Imported late: a page that shows a recorded run needs no torch."""
    from mambaviz.elsewhere import run_elsewhere

    return run_elsewhere(scenario, backend, progress)  # type: ignore[arg-type]


def place(run: Run, step: int, session: str) -> None:
    here = run.trace.scenario_hash
    truth_store().want_only(session, [(here, name) for name in BACKENDS])
    if any(job.status == "running" for job in asked(run, session).values()):
        _following(run, step, session)
    else:
        _strip(run, step, session)


@st.fragment(run_every=POLL_SECONDS)
def _following(run: Run, step: int, session: str) -> None:
    """The strip while something is computed for it."""
    if all(job.status != "running" for job in asked(run, session).values()):
        st.rerun()
    _strip(run, step, session)


def _strip(run: Run, step: int, session: str) -> None:
    rows = strip_rows(run, step, session)
    figure(
        truth_html(run.trace, step, rows, allowed(run.trace), gaps(run, step)),
        key="tab-truth",
        run=run.trace.scenario_hash,
    )
    running = [job for job in asked(run, session).values() if job.status == "running"]
    if running:
        st.button("Stop", key="truth-stop", on_click=give_up, args=(running, session))
    elif any(row.standing in ("not run yet", "stopped", "failed") for row in rows):
        st.button("Run it on every back end", key="truth-run", on_click=ask, args=(run, session))


def give_up(jobs: Sequence[Job], session: str) -> None:
    """Stop runs, unless another session waits for them too."""
    for job in jobs:
        truth_store().stop(job, session)


def missing(run: Run) -> list[Name]:
    """Back ends that the run on screen was not computed by."""
    live = None if run.recorded else run.trace.backend
    return [name for name in BACKENDS if name != live]


def ask(run: Run, session: str) -> None:
    """Have the scenario run by the back ends that are missing; a failed run starts anew."""
    store = truth_store()
    for name in missing(run):
        job = store.find(run.trace.scenario, name)
        if job is not None and not job.refused:
            store.retry(job)
        store.request(run.trace.scenario, name, session)


def asked(run: Run, session: str) -> dict[Name, Job]:
    """Jobs for the scenario that this session waits for, or that somebody has finished."""
    found = {name: truth_store().find(run.trace.scenario, name) for name in missing(run)}
    return {
        name: job
        for name, job in found.items()
        if job is not None and (job.status != "running" or session in job.wanted_by)
    }


# --------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------


def strip_rows(run: Run, step: int, session: str) -> list[TruthRow]:
    jobs = asked(run, session)
    rows = []
    if run.recorded:
        name = f"the recorded run ({run.trace.backend})"
        rows.append(_measured(name, run, step, "on screen"))
    for backend, name in BACKENDS.items():
        if backend not in missing(run):
            rows.append(_measured(name, run, step, "on screen"))
        else:
            rows.append(_of_job(name, jobs.get(backend), step))
    return rows


def _of_job(name: str, job: Job | None, step: int) -> TruthRow:
    if job is None:
        return TruthRow(name, "not run yet")
    if job.run is not None:
        return _measured(name, job.run, step)
    if job.status == "failed":
        return TruthRow(name, "unavailable" if job.refused else "failed", job.problem)
    if job.status == "stopped":
        return TruthRow(name, "stopped")
    ahead = truth_store().ahead(job)
    doing = in_the_queue(ahead) if ahead else f"{job.message}, {job.done_steps} steps done"
    return TruthRow(name, "running", doing)


def _measured(name: str, run: Run, step: int, note: str = "") -> TruthRow:
    if step >= len(run.trace.steps):
        return TruthRow(name, "failed", f"this run has no step {step}")
    return TruthRow(name, "done", note, measured(run, step))


def measured(run: Run, step: int) -> Measured:
    """Worked out once for a run and step."""
    if step not in run.truths:
        run.truths[step] = measure(run.history, step)
    return run.truths[step]


def finished(run: Run) -> Iterator[Run]:
    """Every run of the scenario that is there: the one on screen first."""
    yield run
    for name in missing(run):
        job = truth_store().find(run.trace.scenario, name)
        if job is not None and job.run is not None:
            yield job.run


def gaps(run: Run, step: int) -> dict[Quantity, float | None]:
    """The largest differences between any two of the runs that are there."""
    runs = list(finished(run))
    found = [
        between(one.history, other.history, step)
        for at, one in enumerate(runs)
        for other in runs[at + 1 :]
    ]
    return {
        name: max((gap[name] for gap in found if gap[name] is not None), default=None)  # type: ignore[type-var]
        for name in QUANTITIES
    }
