"""Turns: fair between sessions, given up in any case, never stuck."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from mambaviz.pages.turns import MOST_POLLS, Ticket, Turns


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Work:
    """Pieces of work in threads, each a name and a ticket; ``order`` is that of their turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def add(self, name: str, pieces: int = 1, *, can_wait: bool = False) -> Ticket:
        ticket = self.turns.queue(name[0], can_wait=can_wait)
        thread = threading.Thread(target=self._do, args=(name, ticket, pieces))
        self.threads.append(thread)
        thread.start()
        return ticket

    def _do(self, name: str, ticket: Ticket, pieces: int) -> None:
        with self.turns.hold(ticket, wanted):
            for _ in range(pieces):
                self.order.append(name)
                self.turns.offer(ticket, wanted)

    def done(self) -> list[str]:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive(), "a turn never came"
        return self.order


def wanted() -> None:
    """It is."""


@pytest.fixture
def blocked():
    """Turns that somebody has until the test lets go, so that the others queue up."""
    turns, stack = Turns(), ExitStack()
    stack.enter_context(turns.hold(turns.queue("z"), wanted))
    yield turns, Work(turns), stack
    stack.close()


def test_first_come_first_served(blocked) -> None:
    _, work, stack = blocked
    for name in ("a", "b", "c"):
        work.add(name)
    stack.close()
    assert work.done() == ["a", "b", "c"]


def test_a_session_with_many_wishes_does_not_starve_the_others(blocked) -> None:
    _, work, stack = blocked
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        work.add(name)
    stack.close()
    assert work.done() == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_what_can_wait_comes_last(blocked) -> None:
    _, work, stack = blocked
    for name in ("a", "b", "c"):
        work.add(name, can_wait=name != "c")
    stack.close()
    assert work.done() == ["c", "a", "b"]


def test_what_can_wait_no_longer_does_when_somebody_waits_for_it(blocked) -> None:
    turns, work, stack = blocked
    ticket = work.add("a", can_wait=True)
    work.add("b")
    turns.joined(ticket, "c", can_wait=True)
    assert turns.ahead(ticket) == 2
    turns.joined(ticket, "d")
    assert turns.ahead(ticket) == 1
    stack.close()
    assert work.done() == ["a", "b"]


def test_what_can_wait_gives_way_before_its_slice_is_over() -> None:
    turns = Turns(clock=Clock())
    idle, work = turns.queue("a", can_wait=True), Work(turns)
    with turns.hold(idle, wanted):
        work.add("b")
        turns.offer(idle, wanted)
        assert work.order == ["b"]
    work.done()


def test_what_is_ahead_is_counted(blocked) -> None:
    turns, work, stack = blocked
    first, second, third = (work.add(name) for name in ("a1", "a2", "b1"))
    assert [turns.ahead(ticket) for ticket in (first, third, second)] == [1, 2, 3]
    stack.close()
    work.done()
    assert turns.ahead(second) == 0


def test_the_longer_the_queue_the_less_often_a_page_looks(blocked) -> None:
    turns, work, _ = blocked
    alone = turns.look_again()
    work.add("a")
    assert turns.look_again() == 2 * alone
    for name in "bcdefgh":
        work.add(name)
    assert turns.look_again() == MOST_POLLS * alone


def test_a_second_session_that_wants_the_same_moves_it_up(blocked) -> None:
    turns, work, stack = blocked
    work.add("a1")
    shared = work.add("a2")
    work.add("b1")
    assert turns.ahead(shared) == 3
    turns.joined(shared, "c")
    assert turns.ahead(shared) == 2
    stack.close()
    assert work.done() == ["a1", "a2", "b1"]


def test_who_gives_up_while_waiting_leaves_the_queue(blocked) -> None:
    turns, work, stack = blocked

    class Enough(Exception):  # noqa: N818  # no error: a wish
        pass

    def enough() -> None:
        raise Enough

    ticket = turns.queue("a")
    with pytest.raises(Enough), turns.hold(ticket, enough):
        pytest.fail("it had no turn")
    work.add("b")
    stack.close()
    assert work.done() == ["b"]


def test_whatever_is_raised_in_a_turn_the_next_one_has_it() -> None:
    turns = Turns()
    with pytest.raises(KeyboardInterrupt), turns.hold(turns.queue("a"), wanted):
        raise KeyboardInterrupt
    work = Work(turns)
    work.add("b")
    assert work.done() == ["b"]


def test_long_work_gives_way_after_its_slice_and_comes_back() -> None:
    clock = Clock()
    turns = Turns(slice_s=2, clock=clock)
    work = Work(turns)
    long = turns.queue("a")
    with turns.hold(long, wanted):
        work.add("b1")
        work.add("b2")
        turns.offer(long, wanted)  # its slice is not over
        assert work.order == []
        clock.now += 2
        turns.offer(long, wanted)
        assert work.order == ["b1"]  # and not both
    assert work.done() == ["b1", "b2"]


def test_newcomers_do_not_hold_up_who_has_given_way() -> None:
    clock = Clock()
    turns = Turns(slice_s=2, clock=clock)
    long, other = turns.queue("a"), turns.queue("b")
    with turns.hold(long, wanted):
        clock.now += 2
        thread = threading.Thread(target=turns.offer, args=(long, wanted))
        thread.start()
        with turns.hold(other, wanted):
            while turns.ahead(long) == 0:
                pass
            newcomers = [turns.queue("c"), turns.queue("d")]
        thread.join(10)
        assert not thread.is_alive()
        assert [turns.ahead(ticket) for ticket in newcomers] == [1, 2]
        for ticket in newcomers:
            turns.leave(ticket)


def test_without_slices_a_turn_lasts_to_its_end() -> None:
    clock = Clock()
    turns = Turns(slice_s=None, clock=clock)
    work = Work(turns)
    long = turns.queue("a")
    with turns.hold(long, wanted):
        work.add("b")
        clock.now += 1000
        turns.offer(long, wanted)
        assert work.order == []
    assert work.done() == ["b"]


def test_a_clock_that_jumps_back_only_makes_a_slice_longer() -> None:
    clock = Clock()
    turns = Turns(slice_s=2, clock=clock)
    work = Work(turns)
    long = turns.queue("a")
    with turns.hold(long, wanted):
        work.add("b")
        clock.now -= 1000
        turns.offer(long, wanted)
        assert work.order == []
    assert work.done() == ["b"]
