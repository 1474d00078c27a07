"""Runs for the pages: recorded ones at once, live ones from a thread of their own.

A page asks a `RunStore` for the run of a scenario on a back end and draws whatever there is.
The store is shared by all sessions: a run is computed once for everybody and kept while there
is room. This module does not import torch; the thread that computes does.
"""

from __future__ import annotations

import gzip
import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, Protocol
from weakref import WeakValueDictionary

from mambaviz.history import History
from mambaviz.lifelines import Life, lifelines
from mambaviz.limits import USUAL
from mambaviz.pages import garbage
from mambaviz.pages.progress import Progress
from mambaviz.pages.state import BackendChoice
from mambaviz.pages.turns import SLICE, Ticket, Turns
from mambaviz.recordings import write_whole
from mambaviz.scenario import PRESET_DIR, PRESETS, Scenario, ScenarioError
from mambaviz.trace import Trace
from mambaviz.truth import Measured
from mambaviz.viz.payload import StagePayload, stage_payload
from mambaviz.workload import expected_steps, guarded, within

log = logging.getLogger(__name__)

RECORDED_DIR = PRESET_DIR / "recorded"

Report = Callable[[int, str], None]  # done steps, message
Status = Literal["running", "done", "failed", "stopped"]

MOST_BYTES = 512 * 1024**2  # of finished runs that are kept for whoever asks next
HELD_PER_BYTE = 6  # bytes that a trace takes in memory for each byte of its JSON, measured


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

    @cached_property
    def held_bytes(self) -> int:
        """About what the run takes in memory, with its payload if that is made."""
        payload = self.__dict__.get("payload")
        drawn = (payload.text, payload.packed) if payload is not None else ()
        return HELD_PER_BYTE * len(self.trace.to_json()) + sum(map(sys.getsizeof, drawn))

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
    write_whole(recording_path(name), gzip.compress(trace.to_json().encode(), 9, mtime=0))


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
    garbage.set_aside()
    return Run(trace, recorded=True) if trace.scenario_hash == content_hash else None


# --------------------------------------------------------------------------------------
# Live runs
# --------------------------------------------------------------------------------------


JobKey = tuple[str, BackendChoice]
NO_TICKET = Ticket("", 0, 0)  # of what waits for nothing


@dataclass(eq=False)
class Job:
    """One run that waits for its turn, is being computed, or is computed. Written by its thread
    only, but for ``wanted_by``."""

    scenario: Scenario
    backend: BackendChoice
    ticket: Ticket
    status: Status = "running"
    done_steps: int = 0
    message: str = "starting"
    progress: Progress | None = None  # None until the first step
    run: Run | None = None
    problem: str = ""  # one sentence, when it failed
    refused: bool = False  # it failed because it cannot be, not by a defect
    wanted_by: set[str] = field(default_factory=set)  # sessions waiting for it

    @property
    def key(self) -> JobKey:
        return self.scenario.content_hash, self.backend


class RunStore:
    """Runs by scenario hash and back end, each computed once for everybody, one at a time.

    Finished ones are kept, the latest used, up to ``capacity`` and ``most_bytes``; one that a
    page still shows is found again although it made room. ``drawn`` False leaves the payloads
    out: the runs are measured, not shown. ``present`` says whether a session is still there.
    ``slice_s`` is how long a run computes while others wait (`mambaviz.pages.turns`).
    """

    def __init__(
        self,
        engine: Engine,
        capacity: int = 256,
        *,
        drawn: bool = True,
        most_bytes: int = MOST_BYTES,
        present: Callable[[str], bool] = lambda _: True,
        slice_s: float | None = SLICE,
    ) -> None:
        self._engine = engine
        self._capacity, self._most_bytes = capacity, most_bytes
        self._drawn = drawn
        self._present = present
        self._turns = Turns(slice_s)
        self._jobs: OrderedDict[JobKey, Job] = OrderedDict()
        self._held: WeakValueDictionary[JobKey, Run] = WeakValueDictionary()  # by pages
        self._lock = threading.Lock()

    def request(
        self, scenario: Scenario, backend: BackendChoice, session: str, *, can_wait: bool = False
    ) -> Job:
        """The run, computed or on its way; queued if nobody has asked for it before.

        One that was stopped starts anew; one that failed stays failed until `retry`. ``can_wait``:
        the session has the recorded one to look at meanwhile.
        """
        key = (scenario.content_hash, backend)
        with self._lock:
            job, start = self._known(key), False
            if job is None or job.status == "stopped":
                ticket = self._turns.queue(session, can_wait=can_wait)
                job = self._jobs[key] = Job(scenario, backend, ticket)
                start = True
            elif job.status == "running" and session not in job.wanted_by:
                self._turns.joined(job.ticket, session, can_wait=can_wait)
            job.wanted_by.add(session)
            self._jobs.move_to_end(key)
            self._forget_old()
        if start:  # not before somebody wants it: a run that nobody wants ends itself
            self._start(job)
        return job

    def _start(self, job: Job) -> None:
        name = f"run {job.scenario.content_hash[:7]} on {job.backend}"
        try:
            threading.Thread(target=self._compute, args=(job,), name=name, daemon=True).start()
        except RuntimeError as error:  # the machine gives no more threads
            self._turns.leave(job.ticket)
            _fail(job, error)

    def find(self, scenario: Scenario, backend: BackendChoice) -> Job | None:
        """The run if anybody has asked for it; starts nothing."""
        with self._lock:
            return self._known((scenario.content_hash, backend))

    def ahead(self, job: Job) -> int:
        """How many runs come before this one; 0 for one that is being computed or is done."""
        return self._turns.ahead(job.ticket)

    def stop(self, job: Job, session: str) -> None:
        """Give up a run for one session; the last one to do so ends it at its next step."""
        with self._lock:
            job.wanted_by.discard(session)

    def want_only(self, session: str, keys: Collection[JobKey]) -> None:
        """Give up for one session whatever else it has asked for and is not done."""
        with self._lock:
            for key, job in self._jobs.items():
                if job.status == "running" and key not in keys:
                    job.wanted_by.discard(session)

    def retry(self, job: Job) -> None:
        """Forget a run that failed, so that the next request starts it anew."""
        with self._lock:
            if job.status == "failed":
                self._jobs.pop(job.key, None)

    def _known(self, key: JobKey) -> Job | None:
        job, run = self._jobs.get(key), self._held.get(key)
        if job is None and run is not None:
            job = Job(run.trace.scenario, key[1], NO_TICKET, "done", run=run)
            self._jobs[key] = job
            self._forget_old()
        return job

    def _compute(self, job: Job) -> None:
        try:
            with (
                self._turns.hold(job.ticket, lambda: self._go_on(job)),
                garbage.aside() as set_aside,
            ):
                job.run = self._computed(job, set_aside)
            job.status = "done"
        except StoppedError:
            job.status = "stopped"
        except BaseException as error:  # noqa: BLE001  # the thread's last line: nothing is lost
            _fail(job, error)
        with self._lock:
            if job.key in self._jobs:
                self._jobs.move_to_end(job.key)
            self._forget_old()

    def _go_on(self, job: Job) -> None:
        """Raise StoppedError if nobody waits for the run any more."""
        with self._lock:
            job.wanted_by = {session for session in job.wanted_by if self._present(session)}
            if not job.wanted_by:
                raise StoppedError

    def _computed(self, job: Job, set_aside: Callable[[], None]) -> Run:
        since, total = time.monotonic(), expected_steps(job.scenario)

        def go_on(task: str, done_steps: int, *, exact: bool) -> None:
            job.progress = Progress(task, done_steps, total, exact, since)
            set_aside()
            self._go_on(job)
            self._turns.offer(job.ticket, lambda: self._go_on(job))

        def progress(done_steps: int, message: str) -> None:
            nonlocal since
            if done_steps == 0:
                since = time.monotonic()  # loading is no measure for steps
            job.done_steps, job.message = done_steps, message
            go_on("Computing", done_steps, exact=False)

        trace = self._engine(job.scenario, job.backend, progress)
        run = Run(trace, recorded=False)
        since, total = time.monotonic(), len(trace.steps)
        # Here and not where it is shown: a long run takes a while, and can still be stopped.
        if self._drawn:
            run.draw(lambda drawn: go_on("Drawing", drawn, exact=True))
        _ = run.held_bytes  # reckoned once, and here
        return run

    def _forget_old(self) -> None:
        """Let the runs go that were used longest ago, until the others fit; never the last one."""
        finished = [job for job in self._jobs.values() if job.status != "running"]
        held = sum(job.run.held_bytes for job in finished if job.run)
        for job in finished[:-1]:
            if len(self._jobs) <= self._capacity and held <= self._most_bytes:
                return
            held -= job.run.held_bytes if job.run else 0
            del self._jobs[job.key]
            if job.run is not None:
                self._held[job.key] = job.run


def _fail(job: Job, error: BaseException) -> None:
    job.problem = explain_failure(error, job.done_steps)
    job.refused = is_advice(error)
    job.status = "failed"


def explain_failure(error: BaseException, done_steps: int) -> str:
    """One sentence for the screen. Defects of the program leave their traceback in the log."""
    if is_advice(error):
        return str(error)
    log.error("a run failed after %d steps", done_steps, exc_info=error)
    return (
        f"This run broke off after {done_steps} steps with a defect of the program "
        f"({type(error).__name__}: {first_line(error)}); the log of the server has the traceback."
    )


def is_advice(error: BaseException) -> bool:
    """Whether an error's text is written for the user: what was wrong, what would be right.

    By name for `kernels.BackendError`, whose module imports torch.
    """
    return isinstance(error, ScenarioError) or type(error).__name__ == "BackendError"


def first_line(error: BaseException) -> str:
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
