"""Every run of a few shapes, to a depth; and the tasks that a whole exploration is cut into.

The search goes depth first through the ways in which drafts can be verified. A run that a shape's
scheduler, cache manager and worker cannot tell from another is still a run of its own here: what
is counted are scenarios.
"""

from __future__ import annotations

import gc
import json
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

from mambaviz.explore.queries import AskedQuery
from mambaviz.explore.replay import disagreement, symbolic_breaches
from mambaviz.explore.run import Stage, SymbolicRun, SymbolicStep, ways
from mambaviz.explore.scope import Scope, Shape
from mambaviz.explore.worker import Worker
from mambaviz.scenario import Scenario, build

RUNS_A_TASK = 2_000  # about: what is lost with a killed worker, and how often progress is told
HITS_KEPT = 500  # of a task, the smallest
SAMPLE = 500  # runs without a hit that are replayed
REPLAYS_A_TASK = 10
WORKERS_KEPT = 4  # each remembers every situation of one engine configuration

Goal = AskedQuery | None  # None: a broken invariant


@dataclass(frozen=True, order=True)
class Size:
    """How long a run is; what is compared first stands first."""

    steps: int
    tokens: int  # scheduled in all, drafts included
    requests: int
    events: int


@dataclass(frozen=True, order=True)
class Found:
    """One run: its shape, and what its verifications keep, request by request."""

    size: Size
    shape: int
    accepts: tuple[tuple[str, tuple[int, ...]], ...]
    words: tuple[str, ...] = ()  # what was found in its last step


@dataclass(frozen=True)
class SearchTask:
    """The runs of shapes ``first .. end - 1``, of at most ``depth`` steps each."""

    depth: int
    first: int
    end: int
    kind: Literal["search"] = "search"


@dataclass(frozen=True)
class ReplayTask:
    """Runs that are to be taken once more with real bytes."""

    number: int
    runs: tuple[Found, ...]
    kind: Literal["replay"] = "replay"


@dataclass
class Tally:
    """What a search came to; two of them add up.

    ``runs`` were taken to their end or to the depth, ``hits`` of them met the goal. ``shortest``
    are the smallest of these, ``others`` a sample of the rest, drawn by ``rank``.
    """

    runs: int = 0
    steps: int = 0
    hits: int = 0
    refused: int = 0  # shapes that cannot run
    set_aside: int = 0  # beginnings of runs, as the scope asks
    shortest: list[Found] = field(default_factory=list)
    others: list[tuple[int, Found]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.steps += other.steps
        self.hits += other.hits
        self.refused += other.refused
        self.set_aside += other.set_aside
        self.shortest = sorted({*self.shortest, *other.shortest})[:HITS_KEPT]
        self.others = sorted([*self.others, *other.others])[:SAMPLE]


def tasks_of(scope: Scope, depth: int) -> list[SearchTask]:
    """The shapes of a scope, a few at a time: tasks of about equal length."""
    tasks, first, expected = [], 0, 0
    shapes = scope.shapes()
    for index, shape in enumerate(shapes):
        expected += shape.most_runs(depth)
        last = index + 1 == len(shapes)
        if last or expected >= RUNS_A_TASK or shapes[index + 1].settings != shape.settings:
            tasks.append(SearchTask(depth, first, index + 1))
            first, expected = index + 1, 0
    return tasks


@dataclass(frozen=True)
class Job:
    """What all tasks of an exploration have in common; as text it reaches every worker."""

    scope: str  # JSON
    goal: str | None

    @classmethod
    def of(cls, scope: Scope, goal: Goal) -> Job:
        return cls(scope.model_dump_json(), None if goal is None else str(goal))


def run_task(job: Job, task: SearchTask | ReplayTask) -> Tally | list[str]:
    """Do one task; what a worker process is asked."""
    scope, shapes = _shapes(job.scope)
    if isinstance(task, ReplayTask):
        return [replay(scope, shapes, found) for found in task.runs]
    goal = None if job.goal is None else AskedQuery.parse(job.goal)
    tally = Tally()
    collected = gc.isenabled()
    gc.disable()  # runs are trees of small objects: looking for cycles would take a third of it
    try:
        for index in range(task.first, task.end):
            _Search(scope, shapes, index, task.depth, goal, tally).run()
    finally:
        if collected:
            gc.enable()
    return tally


@lru_cache(maxsize=2)
def _shapes(text: str) -> tuple[Scope, list[Shape]]:
    scope = Scope.model_validate_json(text)
    return scope, scope.shapes()


_workers: OrderedDict[str, Worker] = OrderedDict()  # of this process, the latest used last


def worker_for(scenario: Scenario) -> Worker:
    """The remembering worker of a scenario's engine, layer and faults."""
    alike = scenario.model_dump_json(include={"engine", "layer", "faults"})
    if alike not in _workers:
        _workers[alike] = Worker(scenario)
        if len(_workers) > WORKERS_KEPT:
            _workers.popitem(last=False)
    _workers.move_to_end(alike)
    return _workers[alike]


class _Search:
    """Depth first through one shape."""

    def __init__(
        self, scope: Scope, shapes: list[Shape], index: int, depth: int, goal: Goal, tally: Tally
    ) -> None:
        self.scenario = scope.scenario(shapes[index])
        self.sets_aside = scope.set_padded_first_tokens_aside
        self.index, self.depth, self.goal, self.tally = index, depth, goal, tally

    def run(self) -> None:
        if self.scenario is None:
            self.tally.refused += 1
            return
        found = Tally()
        stage = Stage(self.scenario, worker_for(self.scenario))
        self._follow(SymbolicRun.start(stage), {}, 0, None, found)
        self.tally.add(found)

    def _follow(
        self,
        run: SymbolicRun,
        accepts: Mapping[str, tuple[int, ...]],
        tokens: int,
        hit: Found | None,
        found: Tally,
    ) -> None:
        """All runs that begin like this one; ``hit`` if it has met the goal already."""
        while not run.is_over and run.step < self.depth:
            output = run.schedule()
            if self.sets_aside and any(
                one.padded_tail and one.num_computed == 0 for one in output.requests.values()
            ):
                found.set_aside += 1
                return
            tokens += output.total_num_scheduled_tokens
            kinds = list(ways(run.verifications(output)))
            frozen = run.freeze() if len(kinds) > 1 else b""
            for kept in kinds[:-1]:
                branch = run.thaw(frozen)
                self._branch(branch, branch.finish(output, kept), kept, accepts, tokens, hit, found)
            # The last way goes on in this very run.
            step, kept = run.finish(output, kinds[-1]), kinds[-1]
            accepts = _with(accepts, kept)
            found.steps += 1
            hit = hit or self._judge(run, step, accepts, tokens)
        found.runs += 1
        if hit is not None:
            found.hits += 1
            found.shortest.append(hit)
            if len(found.shortest) > 2 * HITS_KEPT:
                found.shortest = sorted(set(found.shortest))[:HITS_KEPT]
            return
        this = self._found(run.step, accepts, tokens)
        found.others.append((_rank(this), this))
        if len(found.others) > 2 * SAMPLE:
            found.others = sorted(found.others)[:SAMPLE]

    def _branch(
        self,
        run: SymbolicRun,
        step: SymbolicStep,
        kept: Mapping[str, int],
        accepts: Mapping[str, tuple[int, ...]],
        tokens: int,
        hit: Found | None,
        found: Tally,
    ) -> None:
        accepts = _with(accepts, kept)
        found.steps += 1
        hit = hit or self._judge(run, step, accepts, tokens)
        self._follow(run, accepts, tokens, hit, found)

    def _judge(
        self,
        run: SymbolicRun,
        step: SymbolicStep,
        accepts: Mapping[str, tuple[int, ...]],
        tokens: int,
    ) -> Found | None:
        """The run up to this step, if the step is what is looked for."""
        if self.goal is None:
            words = tuple(breach.words for breach in step.breaches)
        else:
            words = (f"step {run.step - 1}",) if self.goal.holds(step) else ()
        return self._found(run.step, accepts, tokens, words) if words else None

    def _found(
        self,
        steps: int,
        accepts: Mapping[str, tuple[int, ...]],
        tokens: int,
        words: tuple[str, ...] = (),
    ) -> Found:
        assert self.scenario is not None
        size = Size(steps, tokens, len(self.scenario.requests), len(self.scenario.events))
        return Found(size, self.index, tuple(sorted(accepts.items())), words)


def _with(
    accepts: Mapping[str, tuple[int, ...]], kept: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    longer = dict(accepts)
    for name, count in kept.items():
        longer[name] = (*longer.get(name, ()), count)
    return longer


def _rank(found: Found) -> int:
    """A number that has nothing to do with the run's size: the lowest make a fair sample."""
    return zlib.crc32(repr((found.shape, found.accepts)).encode())


# ------------------------------------------------------------------------------ as a scenario


def scenario_of(scope: Scope, shapes: list[Shape], found: Found) -> Scenario:
    """The run as an ordinary scenario."""
    scenario = scope.scenario(shapes[found.shape])
    assert scenario is not None  # it has been run
    accepts = dict(found.accepts)
    plans = [
        plan.model_copy(update={"accept": list(accepts.get(plan.id, (0,)))})
        for plan in scenario.requests
    ]
    return scenario.model_copy(update={"requests": plans})


def replay(scope: Scope, shapes: list[Shape], found: Found) -> str:
    """Where symbols and real bytes disagree about a run, in words; empty: nowhere."""
    scenario = scenario_of(scope, shapes, found)
    return disagreement(scenario, found.size.steps, worker_for(scenario))


def trimmed(scenario: Scenario, found: Found) -> Scenario:
    """The same without what comes after the last step of interest, as far as it can go.

    Requests end with the token they have by then, if the run up to that step stays the same.
    """
    stage = Stage(scenario, worker_for(scenario))
    run = SymbolicRun.start(stage)
    for _ in range(found.size.steps):
        output = run.schedule()
        run.finish(output, run.planned(output))
    outputs = {
        request.id: max(1, request.num_output_tokens) for request in run.scheduler.requests.values()
    }
    data = scenario.model_dump(mode="json")
    for plan in data["requests"]:
        plan["max_tokens"] = min(plan["max_tokens"], outputs.get(plan["id"], 1))
    shorter = build(data)
    if _steps(shorter, found.size.steps) == _steps(scenario, found.size.steps):
        return shorter
    return scenario


def _steps(scenario: Scenario, steps: int) -> list[set[Any]]:
    breaches = symbolic_breaches(scenario, worker_for(scenario))
    return [found for _, found in zip(range(steps), breaches, strict=False)]


# ------------------------------------------------------------------------------- as plain data


def tally_to_text(tally: Tally) -> str:
    return json.dumps(asdict(tally), separators=(",", ":"))


def tally_from_text(text: str) -> Tally:
    data = json.loads(text)
    data["shortest"] = [_found_from(one) for one in data["shortest"]]
    data["others"] = [(rank, _found_from(one)) for rank, one in data["others"]]
    return Tally(**data)


def _found_from(data: Mapping[str, Any]) -> Found:
    accepts = tuple((name, tuple(counts)) for name, counts in data["accepts"])
    return Found(Size(**data["size"]), data["shape"], accepts, tuple(data["words"]))


def replay_tasks(runs: list[Found]) -> Iterator[ReplayTask]:
    """Replays, a few at a time."""
    for number, first in enumerate(range(0, len(runs), REPLAYS_A_TASK)):
        yield ReplayTask(number, tuple(runs[first : first + REPLAYS_A_TASK]))
