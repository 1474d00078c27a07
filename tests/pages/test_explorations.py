"""Explorations in processes of their own: shared, stopped, bounded, and what goes wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from mambaviz.explore.findings import Line, Order
from mambaviz.explore.progress import Progress
from mambaviz.explore.scope import Scope, find_scope
from mambaviz.pages import explorations
from mambaviz.pages.explorations import AT_ONCE, BusyError, Exploration, ExplorationStore

ORDER = Order(scope=find_scope("tiny"))
STANDING = Progress(2, 6, 1, 4, 30, 0, 100.0, 3.0)
PATIENCE = 30  # seconds


def saying(*lines: str, then: str = "") -> tuple[str, ...]:
    """A process that reads its order, says these lines and does something."""
    says = "".join(f"print({line!r}, flush=True); " for line in lines)
    return sys.executable, "-c", f"import sys, time; sys.stdin.readline(); {says}{then}"


FOREVER = saying(Line.of(STANDING).model_dump_json(), then="time.sleep(300)")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


def ended(one: Exploration) -> None:
    """Its process is gone, however it ended."""
    until(lambda: one.process.poll() is not None)


def test_sessions_share_one_and_the_last_to_leave_ends_it() -> None:
    store = ExplorationStore(FOREVER)
    assert store.find(ORDER) is None
    one = store.start(ORDER, "first")
    assert store.start(ORDER, "second") is store.find(ORDER) is one
    until(lambda: one.progress is not None)
    assert one.progress == STANDING
    store.stop(one, "first")
    assert one.status == "running"
    store.stop(one, "second")
    assert (one.status, one.problem) == ("stopped", "")
    ended(one)
    again = store.start(ORDER, "first")  # goes on in a new process
    assert again is not one
    store.stop(again, "first")
    ended(again)


def test_only_a_few_run_at_a_time() -> None:
    store = ExplorationStore(FOREVER)
    orders = [Order(scope=ORDER.scope, find=f"bias={n}") for n in range(AT_ONCE)]
    running = [store.start(order, "a") for order in orders]
    with pytest.raises(BusyError, match="as many as it takes on at a time"):
        store.start(ORDER, "b")
    assert store.start(orders[0], "b") is running[0]  # no further process
    for one in running:
        store.stop(one, "a")
        store.stop(one, "b")
        ended(one)


def test_a_large_scope_is_refused_before_anything_starts() -> None:
    store = ExplorationStore(("does not exist",))
    with pytest.raises(BusyError, match="Up to 34,608,648 scenarios are too many"):
        store.start(Order(scope=find_scope("proof")), "a")
    wide = Scope(num_requests=[3], prompt_lens=list(range(1, 33)))
    with pytest.raises(BusyError, match="32,768 combinations are too many"):
        store.start(Order(scope=wide), "a")


@pytest.mark.parametrize(
    ("limit", "says"), [("MOST_SECONDS", "minutes at most"), ("UNSEEN_SECONDS", "Nobody")]
)
def test_limits_end_it(limit: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorations, limit, 0.1)
    one = ExplorationStore(FOREVER).start(ORDER, "a")
    until(lambda: one.status == "stopped")
    assert says in one.problem
    ended(one)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (saying('{"refused": "this cannot be"}'), "this cannot be"),
        (saying(then="sys.exit(3)"), "broke off (exit code 3)"),
        (saying("no JSON"), "broke off (ValidationError)"),
    ],
)
def test_what_goes_wrong_is_said(command: tuple[str, ...], says: str) -> None:
    store = ExplorationStore(command)
    one = store.start(ORDER, "a")
    until(lambda: one.status == "failed")
    assert says in one.problem
    ended(one)
    again = store.start(ORDER, "a")
    assert again is not one  # tried again
    ended(again)
