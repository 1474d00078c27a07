"""Questions for the Learn page, from a thread of their own: the engine answers each anew.

A page asks a `QuestionStore` for a question and shows it when it is there; the next one is asked
for meanwhile. This module does not import torch; the thread that computes does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mambaviz.pages.runs import Run, explain_failure
from mambaviz.pages.state import BackendChoice
from mambaviz.questions import Asked, Question, asked

Progress = Callable[[str], None]
Ask = Callable[[str, int, BackendChoice, Progress], Asked]
QuestionKey = tuple[str, int, BackendChoice]


def live_question(topic: str, seed: int, backend: BackendChoice, progress: Progress) -> Asked:
    """`mambaviz.questions.asked`; the first call pays for importing torch."""
    progress("loading PyTorch")
    import mambaviz.engine  # noqa: F401

    return asked(topic, seed, backend, progress)


@dataclass
class QuestionJob:
    """One question on its way, or there. Written by its thread only."""

    topic: str
    seed: int
    backend: BackendChoice
    status: Literal["running", "done", "failed"] = "running"
    message: str = "waiting for the one before"
    question: Question | None = None
    run: Run | None = None
    problem: str = ""  # one sentence, when it failed

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.seed}:{self.backend}"


class QuestionStore:
    """Questions by topic, seed and back end, for all sessions; the latest ``capacity`` are kept."""

    def __init__(self, ask: Ask = live_question, capacity: int = 48) -> None:
        self._ask = ask
        self._capacity = capacity
        self._jobs: OrderedDict[QuestionKey, QuestionJob] = OrderedDict()
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()

    def request(self, topic: str, seed: int, backend: BackendChoice) -> QuestionJob:
        """The question, computed or on its way; one that failed stays failed until `retry`."""
        key = (topic, seed, backend)
        with self._lock:
            job = self._jobs.get(key)
            if job is not None:
                self._jobs.move_to_end(key)
                return job
            job = self._jobs[key] = QuestionJob(topic, seed, backend)
            self._forget_old()
        threading.Thread(target=self._compute, args=(job,), name=job.name, daemon=True).start()
        return job

    def retry(self, job: QuestionJob) -> None:
        """Forget a question that failed, so that the next request starts it anew."""
        with self._lock:
            self._jobs.pop((job.topic, job.seed, job.backend), None)

    def _compute(self, job: QuestionJob) -> None:
        def progress(message: str) -> None:
            job.message = message

        try:
            with self._one_at_a_time:  # the one on screen before the one that comes after it
                found = self._ask(job.topic, job.seed, job.backend, progress)
                progress("drawing the run")
                run = Run(found.trace, recorded=False)
                run.draw(lambda _: None)
            job.question, job.run = found.question, run
            job.status = "done"
        except Exception as error:  # noqa: BLE001  # the thread's last line: nothing may be lost
            job.problem = explain_failure(error, 0)
            job.status = "failed"

    def _forget_old(self) -> None:
        finished = [key for key, job in self._jobs.items() if job.status != "running"]
        for key in finished[: max(0, len(self._jobs) - self._capacity)]:
            del self._jobs[key]
