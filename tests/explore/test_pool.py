"""Processes, clusters, records: whoever does the tasks, and however often, the result is one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mambaviz.explore.explorer import Progress, Report, explore
from mambaviz.explore.pool import ClusterPool, LocalPool, SerialPool, Task, _Worker
from mambaviz.explore.record import Heading, Record
from mambaviz.explore.scope import Scope
from mambaviz.explore.search import Job
from mambaviz.scenario import ScenarioError
from tests.explore.scopes import TWO, scope

FEW = 1  # runs that are replayed: each costs a worker its first look at the kernels


def what_was_found(report: Report) -> tuple[object, ...]:
    return report.runs, report.steps, report.hits, report.refused, report.shortest, report.depth


@pytest.fixture(scope="module")
def alone() -> Report:
    return explore(TWO, None, SerialPool(), most_replays=FEW)


@pytest.fixture
def pool() -> Iterator[LocalPool]:
    pool = LocalPool(2)
    yield pool
    pool.close()


def test_a_killed_worker_loses_nothing(pool: LocalPool, alone: Report) -> None:
    killed: list[int] = []

    def kill_once(progress: Progress) -> None:
        if progress.depth == 2 and not killed:
            killed.append(pool.pids()[0])
            os.kill(killed[0], signal.SIGKILL)

    report = explore(TWO, None, pool, watch=kill_once, most_replays=FEW)
    assert killed
    assert killed[0] not in pool.pids()
    assert what_was_found(report) == what_was_found(alone)
    assert report.disagreements == []


def test_a_task_that_kills_every_worker_is_named(
    pool: LocalPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(worker: _Worker, job: Job) -> None:
        worker.process.kill()  # by its pid it may be gone already, which os.kill would raise

    monkeypatch.setattr(pool, "_send", kill)
    with pytest.raises(RuntimeError, match="killed 3 workers"):
        explore(TWO, None, pool)


class Counting(SerialPool):
    """Does what it is told, and counts."""

    def __init__(self) -> None:
        self.done: list[Task] = []

    def run(self, job: Job, tasks):  # type: ignore[no-untyped-def]
        for task, result in super().run(job, tasks):
            self.done.append(task)
            yield task, result


def record_of(scope: Scope, path: Path, sources: str = "these") -> Record:
    return Record(path, Heading(Job.of(scope, None), sources))


def test_broken_off_and_gone_on_with(tmp_path: Path, alone: Report) -> None:
    """Ctrl-C in the middle, a line that was cut off; then no finished task is done again."""
    path = tmp_path / "record.jsonl"

    def break_off(progress: Progress) -> None:
        if progress.depth == 2 and progress.done == 3:
            raise KeyboardInterrupt

    first, record = Counting(), record_of(TWO, path)
    with pytest.raises(KeyboardInterrupt):
        explore(TWO, None, first, record, break_off)
    record.close()
    path.write_text(path.read_text() + '{"task": {"depth": 3, "fir')

    second, record = Counting(), record_of(TWO, path)
    report = explore(TWO, None, second, record, most_replays=FEW)
    record.close()
    assert what_was_found(report) == what_was_found(alone)
    assert len(record.done) > len(first.done) > 0
    assert not set(first.done) & set(second.done)

    third = Counting()
    explore(TWO, None, third, record_of(TWO, path), most_replays=0)
    assert third.done == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("notes of mine\n", "no record of an exploration"),
        ('{"explore": 3, "sources": "these"}\n', "another scope, fault or query"),
    ],
)
def test_a_file_about_something_else_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=says):
        record_of(TWO, path)
    assert path.read_text() == text


def test_other_sources_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    record_of(TWO, path).close()
    with pytest.raises(ScenarioError, match="older sources"):
        record_of(TWO, path, sources="those")


@pytest.mark.slow
def test_a_cluster_finds_the_same(alone: Report) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
    ) as cluster:
        pool = ClusterPool(cluster.scheduler_address)
        try:
            assert pool.workers == 2
            report = explore(TWO, None, pool, most_replays=FEW)
        finally:
            pool.close()
    assert what_was_found(report) == what_was_found(alone)
    assert report.disagreements == []


def test_nobody_at_the_address() -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(
        ScenarioError, match=r"--scheduler tcp://127\.0\.0\.1:9: no scheduler there"
    ):
        ClusterPool("tcp://127.0.0.1:9", patience=1)


def test_tasks_are_about_equally_long() -> None:
    from mambaviz.explore.search import RUNS_A_TASK, tasks_of

    wide = scope(block_sizes=[4], num_specs=[2], prompt_lens=list(range(1, 20)), steps=6)
    tasks = tasks_of(wide, 6)
    shapes = wide.shapes()
    assert [task.first for task in tasks[1:]] == [task.end for task in tasks[:-1]]
    assert tasks[-1].end == len(shapes)
    for task in tasks:
        assert sum(shape.most_runs(6) for shape in shapes[task.first : task.end - 1]) < RUNS_A_TASK
