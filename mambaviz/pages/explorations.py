"""Explorations for the Explorer page: one process each, shared by the sessions that ask the same.

A reader's exploration takes one core and at most so long; no more than a few run at a time. One
that was stopped, by a reader or by these limits, goes on from what it had finished.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from mambaviz.explore.findings import Bound, Findings, Line, Order
from mambaviz.explore.progress import Progress

log = logging.getLogger(__name__)

Status = Literal["running", "done", "failed", "stopped"]

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "mambaviz.explore.child")
BOUND = Bound(combinations=3_000, scenarios=1_000_000)
AT_ONCE = 2
MOST_SECONDS = 1_200.0
UNSEEN_SECONDS = 300.0  # nobody has looked for so long: the reader has gone
WATCHED_EVERY = 0.5


class BusyError(Exception):
    """No exploration can be started now; the text says why, and what helps."""


@dataclass(eq=False)
class Exploration:
    """One question, being answered or answered."""

    order: Order
    process: subprocess.Popen[str]
    status: Status = "running"
    progress: Progress | None = None  # None until the first task
    findings: Findings | None = None
    problem: str = ""  # one sentence, when it failed or was stopped by a limit
    since: float = field(default_factory=time.monotonic)
    wanted_by: dict[str, float] = field(default_factory=dict)  # session: when it looked last


class ExplorationStore:
    """Explorations by what they ask. At most ``capacity`` are kept, the latest used."""

    def __init__(self, command: Sequence[str] = COMMAND, capacity: int = 24) -> None:
        self._command = tuple(command)
        self._capacity = capacity
        self._known: OrderedDict[str, Exploration] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, order: Order) -> Exploration | None:
        """The exploration if anybody has asked for it; starts nothing."""
        return self._known.get(order.key)

    def look(self, one: Exploration, session: str) -> None:
        """A session is waiting for it, and still there."""
        with self._lock:
            one.wanted_by[session] = time.monotonic()

    def start(self, order: Order, session: str) -> Exploration:
        """The running or finished exploration; started, or gone on with, if there is none.

        Raises BusyError where too many run, or the scope is too large.
        """
        problem = BOUND.problem(order.scope)
        if problem:
            raise BusyError(problem)
        with self._lock:
            one = self._known.get(order.key)
            if one is None or one.status in ("stopped", "failed"):
                self._make_room()
                one = self._known[order.key] = self._started(order)
            one.wanted_by[session] = time.monotonic()
            self._known.move_to_end(order.key)
        return one

    def stop(self, one: Exploration, session: str) -> None:
        """Give it up for one session; the last one to do so ends it."""
        with self._lock:
            one.wanted_by.pop(session, None)
            if not one.wanted_by and one.status == "running":
                self._end(one, "stopped", "")

    def _make_room(self) -> None:
        running = [one for one in self._known.values() if one.status == "running"]
        if len(running) >= AT_ONCE:
            raise BusyError(
                f"{len(running)} explorations are running on this machine, as many as it takes "
                "on at a time: try again when one is done"
            )
        finished = [key for key, one in self._known.items() if one.status != "running"]
        for key in finished[: max(0, len(self._known) + 1 - self._capacity)]:
            del self._known[key]

    def _started(self, order: Order) -> Exploration:
        process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        one = Exploration(order, process)
        for task in (self._listen, self._watch):
            threading.Thread(target=task, args=(one,), name="exploration", daemon=True).start()
        return one

    def _listen(self, one: Exploration) -> None:
        """Take over what the process says, until it is silent for good."""
        stdin, stdout = _pipes(one.process)
        try:
            stdin.write(one.order.key + "\n")
            stdin.flush()
            for text in stdout:
                self._hear(one, Line.model_validate_json(text))
            code = one.process.wait()
            self._end(
                one, "failed", f"The exploration broke off (exit code {code}); see the server’s log"
            )
        except Exception as error:  # the thread's last line: nothing may be lost
            log.error("an exploration failed", exc_info=error)
            self._end(one, "failed", f"The exploration broke off ({type(error).__name__})")
        finally:
            stdout.close()

    def _hear(self, one: Exploration, line: Line) -> None:
        if line.findings is not None:
            one.findings = line.findings
            self._end(one, "done", "")
        elif line.refused is not None:
            self._end(one, "failed", line.refused)
        else:
            one.progress = line.standing

    def _watch(self, one: Exploration) -> None:
        """End what takes too long, or what nobody looks at any more."""
        while one.status == "running":
            time.sleep(WATCHED_EVERY)
            now = time.monotonic()
            if now - one.since > MOST_SECONDS:
                minutes = round(MOST_SECONDS / 60)
                self._end(one, "stopped", f"An exploration here takes {minutes} minutes at most")
            elif now - max(one.wanted_by.values(), default=now) > UNSEEN_SECONDS:
                self._end(one, "stopped", "Nobody was looking at it any more")

    def _end(self, one: Exploration, status: Status, problem: str) -> None:
        """The first to end it says how."""
        if one.status == "running":
            one.problem, one.status = problem, status
            one.process.terminate()
            threading.Thread(target=one.process.wait, daemon=True).start()  # no zombie stays


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
