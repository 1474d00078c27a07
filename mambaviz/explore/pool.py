"""Who does the tasks: processes of this machine, or a cluster.

Both give results in whatever order they are ready, and both do a task again whose worker died.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from mambaviz.explore.search import Job, ReplayTask, SearchTask, Tally, run_task
from mambaviz.scenario import ScenarioError

Task = SearchTask | ReplayTask
Result = Tally | list[str]

DEATHS_ALLOWED = 3  # of workers over one task


class Pool(Protocol):
    """Runs tasks; `workers` is how many at a time."""

    @property
    def workers(self) -> int: ...
    def run(self, job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]: ...
    def close(self) -> None: ...


class SerialPool:
    """This process alone."""

    workers = 1

    def run(self, job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            yield task, run_task(job, task)

    def close(self) -> None:
        pass


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None


class LocalPool:
    """Processes of this machine. One that dies is replaced, and its task done again."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        # A fork of a process that has used torch or CUDA is not safe to go on in.
        self._context = multiprocessing.get_context("spawn")
        self._staff = [self._hire() for _ in range(workers)]

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def pids(self) -> list[int]:
        return [worker.process.pid or 0 for worker in self._staff]

    def run(self, job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Raises RuntimeError for a task that kills every worker it is given to."""
        waiting, deaths = deque(tasks), dict.fromkeys(tasks, 0)
        left = len(tasks)
        while left:
            for worker in self._staff:
                if worker.task is None and waiting:
                    worker.task = waiting.popleft()
                    self._send(worker, job)
            ready = wait([worker.pipe for worker in self._staff if worker.task is not None])
            for worker in [one for one in self._staff if one.pipe in ready]:
                task = worker.task
                assert task is not None
                try:
                    error, result = worker.pipe.recv()
                except (EOFError, OSError):
                    self._replace(worker)
                    deaths[task] += 1
                    if deaths[task] == DEATHS_ALLOWED:
                        raise RuntimeError(
                            f"{task} killed {DEATHS_ALLOWED} workers; is there enough memory?"
                        ) from None
                    waiting.appendleft(task)
                    continue
                worker.task = None
                if error is not None:
                    raise error
                left -= 1
                yield task, result

    def _send(self, worker: _Worker, job: Job) -> None:
        with suppress(OSError):  # it has died: `wait` will find its pipe at an end
            worker.pipe.send((job, worker.task))

    def _replace(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.join(timeout=5)
        self._staff[self._staff.index(worker)] = self._hire()

    def close(self) -> None:
        for worker in self._staff:
            worker.process.terminate()
            worker.pipe.close()
        for worker in self._staff:
            worker.process.join(timeout=5)


def _serve(pipe: Connection) -> None:
    """A worker's life: one task after another until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            job, task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[Exception | None, Result | None] = (None, run_task(job, task))
        except Exception as error:  # noqa: BLE001 (told to the parent, who raises it)
            answer = (error, None)
        try:
            pipe.send(answer)
        except OSError:
            return


class ClusterPool:
    """A dask.distributed cluster, which does a lost worker's tasks again by itself."""

    def __init__(self, address: str, patience: float = 20) -> None:
        """``patience`` in seconds.

        ScenarioError where distributed is not installed, or nobody answers at the address.
        """
        try:
            import distributed  # an extra: the app does without
        except ImportError:
            raise ScenarioError(
                "--scheduler needs dask.distributed: pip install -r requirements-cluster.txt"
            ) from None
        self.distributed = distributed
        try:
            self.client = self.distributed.Client(address, timeout=patience)
        except (OSError, ValueError) as error:
            raise ScenarioError(f"--scheduler {address}: no scheduler there: {error}") from None

    @property
    def workers(self) -> int:
        return sum(self.client.nthreads().values())

    def run(self, job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        futures = {
            self.client.submit(run_task, job, task, pure=False, retries=DEATHS_ALLOWED): task
            for task in tasks
        }
        for future, result in self.distributed.as_completed(list(futures), with_results=True):
            yield futures.pop(future), result

    def close(self) -> None:
        self.client.close()


def default_workers() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
