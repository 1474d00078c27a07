"""Runs for the pages: recorded ones at once, live ones from a thread of their own.

A page asks a `RunStore` for the run of a scenario on a back end and draws whatever there is.
The store is shared by all sessions: a run is computed once for everybody and kept while there
is room. This module does not import torch; the thread that computes does.
"""

from __future__ import annotations

import gc
import gzip
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, Protocol

from mambaviz.history import History
from mambaviz.lifelines import Life, lifelines
from mambaviz.limits import USUAL
from mambaviz.pages.progress import Progress
from mambaviz.pages.state import BackendChoice
from mambaviz.scenario import PRESET_DIR, PRESETS, Scenario, ScenarioError
from mambaviz.trace import Trace
from mambaviz.truth import Measured
from mambaviz.viz.payload import StagePayload, stage_payload
from mambaviz.workload import expected_steps, guarded, within

log = logging.getLogger(__name__)

RECORDED_DIR = PRESET_DIR / "recorded"

Report = Callable[[int, str], None]  # done steps, message
Status = Literal["running", "done", "failed", "stopped"]


class Engine(Protocol):
    """What computes a run: `mambaviz.engine.run`."""

    def __call__(self, scenario: Scenario, backend: BackendChoice, progress: Report) -> Trace: ...


class StoppedError(Exception):
    """Raised inside the engine's progress call to end a run that nobody wants any more."""


@dataclass(frozen=True)
class Run:
    """A finished run and where it comes from, with what the stage needs to draw it."""

    trace: Trace
    recorded: bool

    @cached_property
    def payload(self) -> StagePayload:
        return stage_payload(self.trace)

    def draw(self, progress: Callable[[int], None]) -> None:
        """Make the payload now, telling how many steps are drawn."""
        payload = stage_payload(self.trace, progress)
        _ = payload.packed  # made once, and here
        self.__dict__["payload"] = payload

    @cached_property
    def history(self) -> History:
        return History(self.trace)

    @cached_property
    def lives(self) -> tuple[Life, ...]:
        return lifelines(self.history)

    @cached_property
    def truths(self) -> dict[int, Measured]:
        """Steps held against the oracle so far; filled by who asks."""
        return {}

    @property
    def origin(self) -> str:
        """Said on screen: ``recorded`` or the back end that computed it."""
        return "recorded" if self.recorded else f"live, {self.trace.backend}"


# --------------------------------------------------------------------------------------
# Recorded runs
# --------------------------------------------------------------------------------------


def recording_path(name: str) -> Path:
    return RECORDED_DIR / f"{name}.json.gz"


def recording_name(scenario: Scenario) -> str:
    """Under which name a run is recorded: a preset's slug, or what decides the run."""
    wanted = scenario.content_hash
    slugs = (slug for slug, preset in PRESETS.items() if preset.content_hash == wanted)
    return next(slugs, f"compared/{wanted[:12]}")


def write_recording(name: str, trace: Trace) -> None:
    """Write a run so that the same trace always gives the same file."""
    path = recording_path(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(gzip.compress(trace.to_json().encode(), 9, mtime=0))


def recorded(slug: str) -> Run | None:
    """The committed run of a preset; None if there is none for the preset as it now is."""
    return read_recording(slug, PRESETS[slug].content_hash)


def recorded_run(scenario: Scenario) -> Run | None:
    """The committed run of a scenario; None if there is none."""
    return read_recording(recording_name(scenario), scenario.content_hash)


@lru_cache(maxsize=64)
def read_recording(name: str, content_hash: str) -> Run | None:
    path = recording_path(name)
    if not path.exists():
        return None
    trace = Trace.from_json(gzip.decompress(path.read_bytes()).decode())
    return Run(trace, recorded=True) if trace.scenario_hash == content_hash else None


# --------------------------------------------------------------------------------------
# Live runs
# --------------------------------------------------------------------------------------


@dataclass
class Job:
    """One run being computed, or computed. Written by its thread only, but for ``wanted_by``."""

    scenario: Scenario
    backend: BackendChoice
    status: Status = "running"
    done_steps: int = 0
    message: str = "starting"
    progress: Progress | None = None  # None until the first step
    run: Run | None = None
    problem: str = ""  # one sentence, when it failed
    refused: bool = False  # it failed because it cannot be, not by a defect
    wanted_by: set[str] = field(default_factory=set)  # sessions waiting for it


JobKey = tuple[str, BackendChoice]


class RunStore:
    """Runs by scenario hash and back end. At most ``capacity`` are kept, the latest used.

    ``drawn`` False leaves the payloads out: the runs are measured, not shown.
    """

    def __init__(self, engine: Engine, capacity: int = 24, *, drawn: bool = True) -> None:
        self._engine = engine
        self._capacity = capacity
        self._drawn = drawn
        self._jobs: OrderedDict[JobKey, Job] = OrderedDict()
        self._lock = threading.Lock()

    def request(self, scenario: Scenario, backend: BackendChoice, session: str) -> Job:
        """The run, computed or on its way; started if nobody has asked for it before.

        One that was stopped starts anew; one that failed stays failed until `retry`.
        """
        key = (scenario.content_hash, backend)
        with self._lock:
            job, start = self._jobs.get(key), False
            if job is None or job.status == "stopped":
                job = self._jobs[key] = Job(scenario, backend)
                start = True
            job.wanted_by.add(session)
            self._jobs.move_to_end(key)
            self._forget_old()
        if start:  # not before somebody wants it: a run that nobody wants ends itself
            name = f"run {scenario.content_hash[:7]} on {backend}"
            threading.Thread(target=self._compute, args=(job,), name=name, daemon=True).start()
        return job

    def find(self, scenario: Scenario, backend: BackendChoice) -> Job | None:
        """The run if anybody has asked for it; starts nothing."""
        return self._jobs.get((scenario.content_hash, backend))

    def stop(self, job: Job, session: str) -> None:
        """Give up a run for one session; the last one to do so ends it at its next step."""
        with self._lock:
            job.wanted_by.discard(session)

    def retry(self, job: Job) -> None:
        """Forget a run that failed, so that the next request starts it anew."""
        with self._lock:
            if job.status == "failed":
                self._jobs.pop((job.scenario.content_hash, job.backend), None)

    def _compute(self, job: Job) -> None:
        with _aside_of_garbage() as set_aside:
            self._compute_while(job, set_aside)

    def _compute_while(self, job: Job, set_aside: Callable[[], None]) -> None:
        since, total = time.monotonic(), expected_steps(job.scenario)

        def go_on(task: str, done_steps: int, *, exact: bool) -> None:
            job.progress = Progress(task, done_steps, total, exact, since)
            set_aside()
            if not job.wanted_by:
                raise StoppedError

        def progress(done_steps: int, message: str) -> None:
            nonlocal since
            if done_steps == 0:
                since = time.monotonic()  # loading is no measure for steps
            job.done_steps, job.message = done_steps, message
            go_on("Computing", done_steps, exact=False)

        try:
            trace = self._engine(job.scenario, job.backend, progress)
            run = Run(trace, recorded=False)
            since, total = time.monotonic(), len(trace.steps)
            # Here and not where it is shown: a long run takes a while, and can still be stopped.
            if self._drawn:
                run.draw(lambda drawn: go_on("Drawing", drawn, exact=True))
            job.run = run
            job.status = "done"
        except StoppedError:
            job.status = "stopped"
        except Exception as error:  # noqa: BLE001  # the thread's last line: nothing may be lost
            job.problem = explain_failure(error, job.done_steps)
            job.refused = is_advice(error)
            job.status = "failed"

    def _forget_old(self) -> None:
        finished = [key for key, job in self._jobs.items() if job.status != "running"]
        for key in finished[: max(0, len(self._jobs) - self._capacity)]:
            del self._jobs[key]


@contextmanager
def _aside_of_garbage() -> Iterator[Callable[[], None]]:
    """Keep what a run makes from being looked through for garbage again and again.

    Streamlit has all objects looked through after every run of a page, and a long run makes a
    million of them, while its progress has the page run twice a second. So they are set aside step
    by step. At the end garbage is looked for once; what is then left stays aside, and goes as soon
    as nobody holds it (it has no cycles).
    """
    try:
        yield gc.freeze
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def explain_failure(error: Exception, done_steps: int) -> str:
    """One sentence for the screen. Defects of the program leave their traceback in the log."""
    if is_advice(error):
        return str(error)
    log.error("a run failed after %d steps", done_steps, exc_info=error)
    return (
        f"This run broke off after {done_steps} steps with a defect of the program "
        f"({type(error).__name__}: {first_line(error)}); the log of the server has the traceback."
    )


def is_advice(error: Exception) -> bool:
    """Whether an error's text is written for the user: what was wrong, what would be right.

    By name for `kernels.BackendError`, whose module imports torch.
    """
    return isinstance(error, ScenarioError) or type(error).__name__ == "BackendError"


def first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else "no message"


def live_engine(scenario: Scenario, backend: BackendChoice, progress: Report) -> Trace:
    """`mambaviz.engine.run`; the first call pays for importing torch.

    Raises ScenarioError, before anything is started, for more work than a page takes on.
    """
    within(scenario, USUAL)
    progress(0, "loading PyTorch")
    from mambaviz.engine import run

    progress(0, "running")
    return run(scenario, backend=backend, progress=guarded(USUAL, progress))
