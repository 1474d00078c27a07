"""An exploration from the first task to the report.

Runs of one step come first, then those of two, and so on, each depth to its end: what is found
first is the shortest there is. With ``everything`` there is one pass at the full depth, in which
every run that meets the goal is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mambaviz.explore.pool import Pool
from mambaviz.explore.progress import Progress
from mambaviz.explore.queries import AskedQuery
from mambaviz.explore.record import Record
from mambaviz.explore.scope import Scope
from mambaviz.explore.search import (
    SAMPLE,
    Found,
    Goal,
    Job,
    ReplayTask,
    SearchTask,
    Tally,
    replay_tasks,
    scenario_of,
    tasks_of,
    trimmed,
)
from mambaviz.limits import LONGEST_NAME, LONGEST_STORY
from mambaviz.scenario import Scenario

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Report:
    """What came of an exploration.

    ``runs`` counts the scenarios of the deepest pass; each ends by itself or is cut off after
    ``depth`` steps. ``disagreements`` must be empty: there symbols and bytes say different things.
    """

    scope: Scope
    goal: Goal
    depth: int
    runs: int
    steps: int
    hits: int
    refused: int
    set_aside: int
    shortest: Found | None
    scenario: Scenario | None
    replayed_hits: int
    replayed_others: int
    disagreements: list[str] = field(default_factory=list)
    seconds: float = 0.0  # searching, of this session
    fresh_runs: int = 0  # searched in them, at any depth
    workers: int = 1

    @property
    def rate(self) -> float:
        """Scenarios a second."""
        return self.fresh_runs / self.seconds if self.seconds else 0.0


def explore(
    scope: Scope,
    goal: Goal,
    pool: Pool,
    record: Record | None = None,
    watch: Watch | None = None,
    everything: bool = False,
    most_replays: int = SAMPLE,
) -> Report:
    """Go through a scope. What ``watch`` raises stops it; the record keeps what was finished.

    At most ``most_replays`` runs that met the goal are replayed, the shortest, and as many others.
    """
    job = Job.of(scope, goal)
    depths = [scope.steps] if everything else range(1, scope.steps + 1)
    done = _Session(job, pool, record, watch, scope)
    tally, depth = Tally(), 0
    for depth in depths:
        tally = done.search(depth)
        if tally.hits:
            break
    shapes = scope.shapes()
    shortest = tally.shortest[0] if tally.shortest else None
    met = tally.shortest[:most_replays]
    others = [found for _, found in tally.others[:most_replays]]
    problems = done.replay([*met, *others])
    return Report(
        scope=scope,
        goal=goal,
        depth=depth,
        runs=tally.runs,
        steps=tally.steps,
        hits=tally.hits,
        refused=tally.refused,
        set_aside=tally.set_aside,
        shortest=shortest,
        scenario=None
        if shortest is None
        else _as_scenario(scope, scenario_of(scope, shapes, shortest), shortest, goal),
        replayed_hits=len(met),
        replayed_others=len(others),
        disagreements=problems,
        seconds=done.seconds,
        fresh_runs=done.fresh_runs,
        workers=pool.workers,
    )


def _as_scenario(scope: Scope, scenario: Scenario, found: Found, goal: Goal) -> Scenario:
    what = "; ".join(found.words) if goal is None else f"{goal.words}, {found.words[0]}"
    smallest = trimmed(scenario, found) if goal is None else scenario
    name = f"shortest of {scope.name}: {goal or ', '.join(scope.faults) or 'a breach'}"
    return smallest.model_copy(
        update={
            "name": name[:LONGEST_NAME],
            "story": f"Found by the explorer: {what}."[:LONGEST_STORY],
        }
    )


@dataclass
class _Session:
    """One call's share of an exploration."""

    job: Job
    pool: Pool
    record: Record | None
    watch: Watch | None
    scope: Scope
    seconds: float = 0.0
    fresh_runs: int = 0

    def search(self, depth: int) -> Tally:
        tasks = tasks_of(self.scope, depth)
        known = self.record.done if self.record is not None else {}
        tally = Tally()
        for task in tasks:
            if task in known:
                tally.add(known[task])  # of an earlier session
        todo = [task for task in tasks if task not in known]
        started, done = time.monotonic(), len(tasks) - len(todo)
        fresh = 0
        self._tell(depth, done, tasks, tally, 0.0, None)
        for finished, found in self.pool.run(self.job, todo):
            assert isinstance(finished, SearchTask)
            assert isinstance(found, Tally)
            if self.record is not None:
                self.record.add(finished, found)
            tally.add(found)
            done += 1
            fresh += found.runs
            elapsed = time.monotonic() - started
            left = elapsed / (done - len(tasks) + len(todo)) * (len(tasks) - done)
            self._tell(depth, done, tasks, tally, fresh / elapsed, left)
        self.seconds += time.monotonic() - started
        self.fresh_runs += fresh
        return tally

    def replay(self, runs: list[Found]) -> list[str]:
        """Disagreements, in the order of the runs."""
        tasks = list(replay_tasks(runs))
        problems: dict[int, list[str]] = {}
        started = time.monotonic()
        for done, (task, found) in enumerate(self.pool.run(self.job, tasks), 1):
            assert isinstance(task, ReplayTask)
            assert isinstance(found, list)
            problems[task.number] = [
                f"shape {run.shape}, accepts {dict(run.accepts)}: {words}"
                for run, words in zip(task.runs, found, strict=True)
                if words
            ]
            elapsed = time.monotonic() - started
            left = elapsed / done * (len(tasks) - done)
            self._tell(0, done, tasks, Tally(), 0.0, left, replaying=True)
        return [words for number in sorted(problems) for words in problems[number]]

    def _tell(
        self,
        depth: int,
        done: int,
        tasks: Sequence[object],
        tally: Tally,
        rate: float,
        left: float | None,
        replaying: bool = False,
    ) -> None:
        if self.watch is not None:
            self.watch(
                Progress(
                    depth=depth,
                    last_depth=self.scope.steps,
                    done=done,
                    tasks=len(tasks),
                    runs=tally.runs,
                    hits=tally.hits,
                    rate=rate,
                    seconds_left=left,
                    replaying=replaying,
                )
            )


__all__ = ["AskedQuery", "Progress", "Report", "explore"]
