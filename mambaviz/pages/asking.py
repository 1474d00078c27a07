"""Questions for the Learn page: the engine answers each anew.

A page asks a `QuestionStore` for a question and shows it when it is there; the next one is asked
for meanwhile. This module does not import torch; the thread that computes does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mambaviz.limits import MIB
from mambaviz.pages.runs import Run
from mambaviz.pages.state import BackendChoice
from mambaviz.pages.turns import Turns
from mambaviz.pages.work import Pace, Work
from mambaviz.pages.work_store import WorkStore
from mambaviz.questions import Asked, Question, asked

Say = Callable[[str], None]
Ask = Callable[[str, int, BackendChoice, Say], Asked]
QuestionKey = tuple[str, int, BackendChoice]

MOST_BYTES = 128 * MIB  # of questions that are kept, with their runs


def live_question(topic: str, seed: int, backend: BackendChoice, say: Say) -> Asked:
    """`mambaviz.questions.asked`; the first call pays for importing torch."""
    say("loading PyTorch")
    import mambaviz.engine  # noqa: F401

    return asked(topic, seed, backend, say)


@dataclass(frozen=True)
class Answered:
    """A question and the run that answers it, as it is drawn."""

    question: Question
    run: Run

    @property
    def held_bytes(self) -> int:
        return self.run.held_bytes


@dataclass(eq=False)
class QuestionJob(Work[Answered]):
    """One question on its way, or there."""

    topic: str
    seed: int
    backend: BackendChoice
    ask: Ask = live_question

    @property
    def key(self) -> QuestionKey:
        return self.topic, self.seed, self.backend

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.seed}:{self.backend}"

    @property
    def broke_off(self) -> str:
        return "This question broke off"

    def compute(self, pace: Pace) -> Answered:
        found = self.ask(self.topic, self.seed, self.backend, pace.say)
        run = Run(found.trace, recorded=False)
        run.draw(pace)
        return Answered(found.question, run)


class QuestionStore(WorkStore[QuestionJob]):
    """Questions by topic, seed and back end, for all sessions."""

    def __init__(
        self,
        ask: Ask = live_question,
        capacity: int = 48,
        *,
        present: Callable[[str], bool] = lambda _: True,
        turns: Turns | None = None,
    ) -> None:
        super().__init__(
            turns or Turns(), capacity=capacity, most_bytes=MOST_BYTES, present=present
        )
        self._ask = ask

    def job(self, topic: str, seed: int, backend: BackendChoice) -> QuestionJob:
        """A question to ask this store for."""
        return QuestionJob(topic, seed, backend, self._ask)
