"""Runs for the pages: recorded ones at once, live ones from a thread of their own.

A page asks a `RunStore` for the run of a scenario on a back end and draws whatever there is.
This module does not import torch; the thread that computes does.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

from mambaviz.history import History
from mambaviz.lifelines import Life, lifelines
from mambaviz.limits import USUAL
from mambaviz.pages import garbage
from mambaviz.pages.state import BackendChoice
from mambaviz.pages.turns import Turns
from mambaviz.pages.work import Pace, Work
from mambaviz.pages.work_store import WorkStore
from mambaviz.recordings import write_whole
from mambaviz.scenario import PRESET_DIR, PRESETS, Scenario
from mambaviz.trace import Trace
from mambaviz.truth import Measured
from mambaviz.viz.payload import StagePayload, stage_payload
from mambaviz.workload import expected_steps, guarded, within

RECORDED_DIR = PRESET_DIR / "recorded"

Report = Callable[[int, str], None]  # done steps, message

MOST_BYTES = 512 * 1024**2  # of finished runs that are kept for whoever asks next
HELD_PER_BYTE = 6  # bytes that a trace takes in memory for each byte of its JSON, measured


class Engine(Protocol):
    """What computes a run: `mambaviz.engine.run`."""

    def __call__(self, scenario: Scenario, backend: BackendChoice, progress: Report) -> Trace: ...


@dataclass(frozen=True)
class Run:
    """A finished run and where it comes from, with what the stage needs to draw it."""

    trace: Trace
    recorded: bool

    @cached_property
    def payload(self) -> StagePayload:
        return stage_payload(self.trace)

    def draw(self, pace: Pace) -> None:
        """Make the payload now, telling how many steps are drawn."""
        pace.begin("Drawing", len(self.trace.steps))
        payload = stage_payload(self.trace, pace.step)
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


@dataclass(eq=False)
class Job(Work[Run]):
    """One run. ``drawn`` False leaves its payload out: it is measured, not shown."""

    scenario: Scenario
    backend: BackendChoice
    engine: Engine
    drawn: bool = True
    done_steps: int = 0

    @property
    def key(self) -> JobKey:
        return self.scenario.content_hash, self.backend

    @property
    def name(self) -> str:
        return f"run {self.scenario.content_hash[:7]} on {self.backend}"

    @property
    def run(self) -> Run | None:
        return self.value

    @property
    def broke_off(self) -> str:
        return f"This run broke off after {self.done_steps} steps"

    def compute(self, pace: Pace) -> Run:
        expected = expected_steps(self.scenario)
        pace.begin("Computing", expected, exact=False)

        def progress(done_steps: int, message: str) -> None:
            if done_steps == 0:  # loading is no measure for steps
                pace.begin("Computing", expected, exact=False)
            self.done_steps, self.message = done_steps, message
            pace.step(done_steps)

        run = Run(self.engine(self.scenario, self.backend, progress), recorded=False)
        # Here and not where it is shown: a long run takes a while, and can still be stopped.
        if self.drawn:
            run.draw(pace)
        return run


class RunStore(WorkStore[Job]):
    """Runs by scenario hash and back end. One in which nothing is ``drawn`` only measures."""

    def __init__(
        self,
        engine: Engine,
        capacity: int = 256,
        *,
        drawn: bool = True,
        most_bytes: int = MOST_BYTES,
        present: Callable[[str], bool] = lambda _: True,
        turns: Turns | None = None,
    ) -> None:
        super().__init__(
            turns or Turns(), capacity=capacity, most_bytes=most_bytes, present=present
        )
        self._engine = engine
        self._drawn = drawn

    def request(
        self, scenario: Scenario, backend: BackendChoice, session: str, *, can_wait: bool = False
    ) -> Job:
        """The run, computed or on its way. ``can_wait``: the session has the recorded one to look
        at meanwhile."""
        return self.ask(self._job(scenario, backend), session, can_wait=can_wait)

    def find(self, scenario: Scenario, backend: BackendChoice) -> Job | None:
        """The run if anybody has asked for it; starts nothing."""
        return self.known(self._job(scenario, backend))

    def _job(self, scenario: Scenario, backend: BackendChoice) -> Job:
        return Job(scenario, backend, self._engine, self._drawn)


def live_engine(scenario: Scenario, backend: BackendChoice, progress: Report) -> Trace:
    """`mambaviz.engine.run`; the first call pays for importing torch.

    Raises ScenarioError, before anything is started, for more work than a page takes on.
    """
    within(scenario, USUAL)
    progress(0, "loading PyTorch")
    from mambaviz.engine import run

    progress(0, "running")
    return run(scenario, backend=backend, progress=guarded(USUAL, progress))
