"""Everything that pages have computed: once for everybody, in fair turns, kept while there is room.

    store = WorkStore(process_turns(), capacity=8)
    work = store.ask(Sum(), "a session")  # this one, or the one that was asked for before
    work.status, work.progress, work.value

A page asks, draws what there is, and asks again a little later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from mambaviz.pages import garbage
from mambaviz.pages.turns import Turns
from mambaviz.pages.work import Pace, StoppedError, Work

W = TypeVar("W", bound=Work[Any])


class WorkStore(Generic[W]):
    """Work by its key, each piece computed once for everybody, in a thread of its own.

    What is finished is kept, the latest used, up to ``capacity`` and ``most_bytes``; a value that
    a page still shows is found again although it made room. ``present`` says whether a session is
    still there.
    """

    def __init__(
        self,
        turns: Turns,
        *,
        capacity: int,
        most_bytes: int,
        present: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._turns = turns
        self._capacity, self._most_bytes = capacity, most_bytes
        self._present = present
        self._works: OrderedDict[Hashable, W] = OrderedDict()
        self._held: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()  # by pages
        self._lock = threading.Lock()

    def ask(self, asked: W, session: str, *, can_wait: bool = False) -> W:
        """The work of this key, done or on its way; queued if nobody has asked for it before.

        One that was stopped starts anew; one that failed stays failed until `retry`. ``can_wait``:
        the session has something else to look at meanwhile.
        """
        with self._lock:
            work, start = self._known(asked), False
            if work is None or work.status == "stopped":
                work, start = asked, True
                work.ticket = self._turns.queue(session, can_wait=can_wait)
                self._works[work.key] = work
            elif work.status == "running":
                self._joined(work, session, can_wait=can_wait)
            work.wanted_by.add(session)
            self._works.move_to_end(work.key)
            self._forget_old()
        if start:  # not before somebody wants it: work that nobody wants ends itself
            self._start(work)
        return work

    def known(self, asked: W) -> W | None:
        """The work of this key if anybody has asked for it; starts nothing."""
        with self._lock:
            return self._known(asked)

    def ahead(self, work: W) -> int:
        """How many turns come before its own; 0 for work that is being done or is done."""
        return self._turns.ahead(work.ticket)

    def stop(self, work: W, session: str) -> None:
        """Give it up for one session; the last one to do so ends it at its next step."""
        with self._lock:
            work.wanted_by.discard(session)

    def want_only(self, session: str, keys: Collection[Hashable]) -> None:
        """Give up for one session whatever else it has asked for and is not done."""
        with self._lock:
            for key, work in self._works.items():
                if work.status == "running" and key not in keys:
                    work.wanted_by.discard(session)

    def retry(self, work: W) -> None:
        """Forget work that failed, so that the next request starts it anew."""
        with self._lock:
            if work.status == "failed":
                self._works.pop(work.key, None)

    def _known(self, asked: W) -> W | None:
        work, value = self._works.get(asked.key), self._held.get(asked.key)
        if work is None and value is not None:
            work = self._works[asked.key] = asked
            work.value = value
            work.end("done")
            self._forget_old()
        return work

    def _joined(self, work: W, session: str, *, can_wait: bool) -> None:
        """Somebody else wants it too, or no longer as something that can wait."""
        if session not in work.wanted_by or (work.ticket.can_wait and not can_wait):
            self._turns.joined(work.ticket, session, can_wait=can_wait)

    def _start(self, work: W) -> None:
        try:
            threading.Thread(target=self._do, args=(work,), name=work.name, daemon=True).start()
        except RuntimeError as error:  # the machine gives no more threads
            self._turns.leave(work.ticket)
            work.fail(error)

    def _do(self, work: W) -> None:
        go_on = partial(self._go_on, work)
        try:
            with self._turns.hold(work.ticket, go_on), garbage.aside() as set_aside:

                def between() -> None:
                    set_aside()
                    go_on()
                    self._turns.offer(work.ticket, go_on)

                work.value = work.compute(Pace(work, between))
                _ = work.value.held_bytes  # reckoned once, and here
            work.end("done")
        except StoppedError:
            work.end("stopped")
        except BaseException as error:  # noqa: BLE001  # the thread's last line: nothing is lost
            work.fail(error)
        with self._lock:
            if self._works.get(work.key) is work:
                self._works.move_to_end(work.key)
            self._forget_old()

    def _go_on(self, work: W) -> None:
        """Raise StoppedError if nobody waits for it any more."""
        with self._lock:
            work.wanted_by = {session for session in work.wanted_by if self._present(session)}
            if not work.wanted_by:
                raise StoppedError

    def _forget_old(self) -> None:
        """Let go what was used longest ago, until the others fit; never the last one."""
        finished = [work for work in self._works.values() if work.status != "running"]
        held = sum(_held_bytes(work) for work in finished)
        for work in finished[:-1]:
            if len(self._works) <= self._capacity and held <= self._most_bytes:
                return
            held -= _held_bytes(work)
            del self._works[work.key]
            if work.value is not None:
                self._held[work.key] = work.value


def _held_bytes(work: Work[Any]) -> int:
    return 0 if work.value is None else int(work.value.held_bytes)
