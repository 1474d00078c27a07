"""Who may compute: one at a time, in fair turns between sessions.

    turns = Turns()
    ticket = turns.queue("a session")              # the order of these calls is the order of turns
    with turns.hold(ticket, still_wanted):         # waits; left in any case, whatever happens
        ...
        turns.offer(ticket, still_wanted)          # between two steps: others may go first

First come, first served, but a session that asks for many things waits with its second until the
others have had their first. A long piece of work gives way after a slice of time and goes on when
those who wait have had theirs, so that nobody waits for it to its end. What nobody sits waiting
for (``can_wait``: its recorded twin is on screen) comes after everything that somebody does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

SLICE = 2.0  # seconds of work after which others go first
POLL_SECONDS = 0.5  # between two looks of a page at what it waits for, where nobody else waits
MOST_POLLS = 6  # times as long where many do
LOOK_EVERY = 0.2  # seconds between two looks at whether what waits is still wanted


@dataclass(eq=False)
class Ticket:
    """A place in the queue. Lower rounds come first, then lower numbers."""

    session: str
    round: int
    number: int
    can_wait: bool = False
    since: float = 0.0  # when its turn began

    @property
    def place(self) -> tuple[bool, int, int]:
        return self.can_wait, self.round, self.number


class Turns:
    """A queue with one holder. ``slice_s`` None: whoever has the turn keeps it to the end.

    ``clock`` must not jump: `time.monotonic`.
    """

    def __init__(
        self, slice_s: float | None = SLICE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slice = slice_s
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[Ticket] = []
        self._holder: Ticket | None = None
        self._round = 0  # of the turn given last
        self._numbers = 0

    def queue(self, session: str, *, can_wait: bool = False) -> Ticket:
        """A place at the end of the next round, or of the one after this session's last."""
        with self._changed:
            self._numbers += 1
            ticket = Ticket(session, self._next_round(session), self._numbers, can_wait)
            self._waiting.append(ticket)
            self._give()
            return ticket

    def joined(self, ticket: Ticket, session: str, *, can_wait: bool = False) -> None:
        """Another session wants the same thing: it moves up to where that session would be."""
        with self._changed:
            ticket.round = min(ticket.round, self._next_round(session))
            ticket.can_wait = ticket.can_wait and can_wait

    def look_again(self) -> float:
        """Seconds until a page that waits had better look again: every look costs all of them
        something, so the longer the queue, the longer."""
        with self._changed:
            waiting = len(self._waiting)
        return POLL_SECONDS * min(1 + waiting, MOST_POLLS)

    def ahead(self, ticket: Ticket) -> int:
        """How many turns come before this one's; 0 for the one that has it, or is done."""
        with self._changed:
            if ticket not in self._waiting:
                return 0
            before = sum(other.place < ticket.place for other in self._waiting)
            return before + (self._holder is not None)

    @contextmanager
    def hold(self, ticket: Ticket, still_wanted: Callable[[], None]) -> Iterator[None]:
        """Wait for the turn and have it. ``still_wanted`` is called now and then while waiting;
        what it raises ends the waiting, as whatever happens afterwards ends the turn."""
        try:
            self._wait(ticket, still_wanted)
            yield
        finally:
            self.leave(ticket)

    def offer(self, ticket: Ticket, still_wanted: Callable[[], None]) -> None:
        """Between two pieces of work: let others go first if this turn has lasted its slice, or if
        it can wait and they cannot."""
        with self._changed:
            if self._slice is None or not self._waiting:
                return
            before_it = ticket.can_wait and any(not one.can_wait for one in self._waiting)
            if self._clock() - ticket.since < self._slice and not before_it:
                return
            self._numbers += 1
            ticket.round, ticket.number = ticket.round + 1, self._numbers
            self._waiting.append(ticket)
            self._holder = None
            self._give()
        self._wait(ticket, still_wanted)

    def _wait(self, ticket: Ticket, still_wanted: Callable[[], None]) -> None:
        while True:
            with self._changed:
                if self._holder is ticket:
                    return
                self._changed.wait(LOOK_EVERY)
            still_wanted()  # without the lock: it may ask for others

    def leave(self, ticket: Ticket) -> None:
        """Give the turn, or the place in the queue, to the next one."""
        with self._changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if self._holder is ticket:
                self._holder = None
            self._give()

    def _give(self) -> None:
        """The turn to the first one waiting, if nobody has it."""
        if self._holder is None and self._waiting:
            first = min(self._waiting, key=lambda ticket: ticket.place)
            self._waiting.remove(first)
            self._holder, self._round = first, max(self._round, first.round)
            first.since = self._clock()
            self._changed.notify_all()

    def _next_round(self, session: str) -> int:
        """The one after the present round, or after the last one that the session waits for."""
        return 1 + max(
            [self._round, *(one.round for one in self._waiting if one.session == session)]
        )


@cache
def process_turns() -> Turns:
    """The turns of everything that pages have computed in this process."""
    return Turns()
