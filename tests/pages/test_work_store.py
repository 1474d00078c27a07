"""Work for pages: done once for everybody, one at a time, kept while there is room, stopped when
unwanted, and never in the way of what comes after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from mambaviz.pages.turns import Turns
from mambaviz.pages.work import Pace, Work
from mambaviz.pages.work_store import WorkStore


@dataclass
class Result:
    held_bytes: int = 10


@dataclass
class Desk:
    """Where work is done: counts what is begun; ``gate`` holds it before its second step."""

    calls: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    fails: BaseException | None = None


@dataclass(eq=False)
class Sum(Work[Result]):
    key: str = ""
    desk: Desk = field(default_factory=Desk)

    @property
    def name(self) -> str:
        return f"sum {self.key}"

    def compute(self, pace: Pace) -> Result:
        self.desk.calls.append(self.key)
        pace.begin("Adding", 2)
        pace.step(1)
        assert self.desk.gate.wait(10)
        if self.desk.fails:
            raise self.desk.fails
        pace.step(2)
        return Result()


Store = WorkStore[Sum]


@pytest.fixture
def desk() -> Desk:
    """One that holds nothing up."""
    found = Desk()
    found.gate.set()
    return found


def store_of(
    capacity: int = 8, most_bytes: int = 1000, present: Callable[[str], bool] = lambda _: True
) -> Store:
    return WorkStore(Turns(), capacity=capacity, most_bytes=most_bytes, present=present)


def finished(work: Sum) -> Sum:
    assert work.ended.wait(10), "it never ended"
    return work


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def test_the_same_work_is_done_once_for_everybody(desk: Desk) -> None:
    store = store_of()
    first = store.ask(Sum("a", desk), "one")
    assert store.ask(Sum("a", desk), "two") is first
    assert finished(first).value == Result()
    assert store.known(Sum("a", desk)) is first
    assert store.known(Sum("b", desk)) is None
    assert desk.calls == ["a"]


def test_what_was_used_longest_ago_makes_room(desk: Desk) -> None:
    store = store_of(capacity=2)
    for key in ("a", "b", "c"):
        finished(store.ask(Sum(key, desk), "one"))
    store.ask(Sum("c", desk), "one")
    assert [key for key in "abc" if store.known(Sum(key, desk))] == ["b", "c"]


def test_bytes_are_bounded_and_what_a_page_still_shows_is_not_done_again(desk: Desk) -> None:
    store = store_of(most_bytes=25)
    shown = finished(store.ask(Sum("a", desk), "one")).value
    for key in ("b", "c", "d"):
        finished(store.ask(Sum(key, desk), "two"))
    store.ask(Sum("d", desk), "two")
    desk.calls.clear()
    assert [key for key in "bcd" if store.known(Sum(key, desk))] == ["c", "d"]
    found = store.ask(Sum("a", desk), "one")
    assert (found.value is shown, found.status, desk.calls) == (True, "done", [])


def test_a_single_result_beyond_the_bound_is_kept_all_the_same(desk: Desk) -> None:
    store = store_of(most_bytes=1)
    work = finished(store.ask(Sum("a", desk), "one"))
    until(lambda: not any(t.name.startswith("sum ") for t in threading.enumerate()))
    assert store.known(Sum("a", desk)) is work


def test_the_last_one_to_stop_ends_it(desk: Desk) -> None:
    desk.gate.clear()
    store = store_of()
    work = store.ask(Sum("a", desk), "one")
    store.ask(Sum("a", desk), "two")
    store.stop(work, "one")
    store.stop(work, "two")
    desk.gate.set()
    assert (finished(work).status, work.value) == ("stopped", None)
    assert finished(store.ask(Sum("a", desk), "one")).status == "done"


def test_what_somebody_still_wants_goes_on(desk: Desk) -> None:
    desk.gate.clear()
    store = store_of()
    work = store.ask(Sum("a", desk), "one")
    store.ask(Sum("a", desk), "two")
    store.stop(work, "one")
    desk.gate.set()
    assert finished(work).status == "done"


def test_it_is_one_at_a_time_and_says_how_many_come_before(desk: Desk) -> None:
    desk.gate.clear()
    store = store_of()
    works = [store.ask(Sum(key, desk), key) for key in "abc"]
    until(lambda: desk.calls)
    assert [store.ahead(work) for work in works] == [0, 1, 2]
    assert len(desk.calls) == 1
    desk.gate.set()
    assert [finished(work).status for work in works] == ["done"] * 3
    assert desk.calls == ["a", "b", "c"]


def test_two_stores_with_the_same_turns_wait_for_each_other(desk: Desk) -> None:
    desk.gate.clear()
    turns = Turns()
    runs, others = (WorkStore[Sum](turns, capacity=8, most_bytes=1000) for _ in range(2))
    first = runs.ask(Sum("a", desk), "one")
    second = others.ask(Sum("b", desk), "two")
    until(lambda: desk.calls)
    assert (desk.calls, others.ahead(second)) == (["a"], 1)
    desk.gate.set()
    assert (finished(first).status, finished(second).status) == ("done", "done")


def test_what_could_wait_comes_first_once_the_same_session_waits_for_it(desk: Desk) -> None:
    desk.gate.clear()
    store = store_of()
    store.ask(Sum("a", desk), "zero")
    until(lambda: desk.calls)
    later = store.ask(Sum("later", desk), "one", can_wait=True)
    other = store.ask(Sum("other", desk), "two")
    assert [store.ahead(work) for work in (later, other)] == [2, 1]
    store.ask(Sum("later", desk), "one")
    assert [store.ahead(work) for work in (later, other)] == [1, 2]
    desk.gate.set()
    finished(later)
    finished(other)


def test_what_waits_is_given_up_without_being_begun(desk: Desk) -> None:
    desk.gate.clear()
    store = store_of()
    first = store.ask(Sum("a", desk), "one")
    left, other = (store.ask(Sum(key, desk), "two") for key in "bc")
    until(lambda: desk.calls)
    store.want_only("two", [other.key])
    assert finished(left).status == "stopped"
    desk.gate.set()
    assert (finished(first).status, finished(other).status) == ("done", "done")
    assert "b" not in desk.calls


def test_the_work_of_a_closed_tab_ends_and_the_next_one_begins(desk: Desk) -> None:
    desk.gate.clear()
    here = {"one", "two"}
    store = store_of(present=here.__contains__)
    work = store.ask(Sum("a", desk), "one")
    waits = store.ask(Sum("b", desk), "two")
    never = store.ask(Sum("c", desk), "gone already")
    assert finished(never).status == "stopped"
    here.remove("one")
    desk.gate.set()
    assert finished(work).status == "stopped"
    assert finished(waits).status == "done"


@pytest.mark.parametrize("raised", [KeyError("shape"), SystemExit(1)])
def test_after_work_that_raises_another_session_has_its_turn(
    desk: Desk, raised: BaseException
) -> None:
    desk.fails = raised
    store = store_of()
    broken = finished(store.ask(Sum("a", desk), "one"))
    assert broken.status == "failed"
    desk.fails = None
    assert store.ask(Sum("a", desk), "one") is broken, "it stays failed"
    assert finished(store.ask(Sum("b", desk), "two")).status == "done"
    store.retry(broken)
    assert finished(store.ask(Sum("a", desk), "one")).status == "done"


def test_a_thread_that_cannot_start_is_failed_work_and_no_stuck_queue(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of()
    with monkeypatch.context() as patch:

        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", start)
        work = store.ask(Sum("a", desk), "one")
    assert (work.status, "can't start new thread" in work.problem) == ("failed", True)
    assert finished(store.ask(Sum("b", desk), "two")).status == "done"


def test_a_clock_that_is_set_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is reckoned by a clock that cannot be set."""
    desk.gate.clear()
    store = store_of()
    work = store.ask(Sum("a", desk), "one")
    waits = store.ask(Sum("b", desk), "two")
    until(lambda: work.progress)
    now = time.time()
    for jumped in (now + 86_400, now - 86_400):
        monkeypatch.setattr(time, "time", partial(float, jumped))
        assert work.progress is not None
        assert 0 <= time.monotonic() - work.progress.since < 60
        assert (work.progress.seconds_left(time.monotonic()) or 0) < 600
    desk.gate.set()
    assert (finished(work).status, finished(waits).status) == ("done", "done")
