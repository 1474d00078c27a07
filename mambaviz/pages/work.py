"""A piece of work that a page has computed: what it is about, how it is done, how far it is.

    class Sum(Work[Total]):
        key, name = ("sum", 3), "sum up to 3"

        def compute(self, pace):
            pace.begin("Adding", 3)
            for number in (1, 2, 3):
                ...
                pace.step(number)  # here it may be ended, or others may go first
            return Total(6)

`mambaviz.pages.work_store` has it done in fair turns. This module does not import torch; what is
to be computed does, once it is.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from mambaviz.pages.failures import explained, is_advice
from mambaviz.pages.progress import Progress
from mambaviz.pages.turns import Ticket

Status = Literal["running", "done", "failed", "stopped"]
NO_TICKET = Ticket("", 0, 0)  # of what waits for nothing


class Held(Protocol):
    """What comes out: it knows about how much memory it takes."""

    @property
    def held_bytes(self) -> int: ...


V = TypeVar("V", bound=Held)


class StoppedError(Exception):
    """Raised where work says how far it is, to end what nobody wants any more."""


@dataclass(eq=False, kw_only=True)
class Work(ABC, Generic[V]):
    """It waits for its turn, is being computed, or is computed. Written by its thread only, but
    for ``ticket`` and ``wanted_by``."""

    ticket: Ticket = NO_TICKET
    status: Status = "running"
    message: str = "starting"  # what is being done before the first step
    progress: Progress | None = None  # None until the first step
    value: V | None = None
    problem: str = ""  # one sentence, when it failed
    refused: bool = False  # it failed because it cannot be, not by a defect
    wanted_by: set[str] = field(default_factory=set)  # sessions waiting for it
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """The same for the same work."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of its thread."""

    @abstractmethod
    def compute(self, pace: Pace) -> V:
        """Do it. What is raised is what went wrong."""

    @property
    def broke_off(self) -> str:
        """How a sentence about a defect in it begins."""
        return "This broke off"

    def end(self, status: Status) -> None:
        self.status = status
        self.ended.set()

    def fail(self, error: BaseException) -> None:
        self.problem = explained(error, self.broke_off)
        self.refused = is_advice(error)
        self.end("failed")


class Pace:
    """How a piece of work says how far it is. With every word it may be ended, by
    `StoppedError`, or have to wait until others have had their turn."""

    def __init__(self, work: Work[Any], between: Callable[[], None]) -> None:
        self._work = work
        self._between = between
        self.begin("", 0)

    def begin(self, task: str, total: int, *, exact: bool = True) -> None:
        """From now on steps are those of a task, such as ``Drawing``; its time starts here."""
        self._task, self._total, self._exact = task, total, exact
        self._since = time.monotonic()

    def step(self, done: int) -> None:
        self._work.progress = Progress(self._task, done, self._total, self._exact, self._since)
        self._between()

    def say(self, message: str) -> None:
        """What is being done, where there are no steps to count."""
        self._work.message = message
        self._between()
