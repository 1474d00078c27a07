"""What stays is set aside from garbage collection, and is still freed."""

from __future__ import annotations

import gc
import weakref

import pytest

from mambaviz.pages import garbage


class Node:
    """One of two that hold each other: only garbage collection frees them."""

    other: Node


def cycle() -> weakref.ref[Node]:
    one, two = Node(), Node()
    one.other, two.other = two, one
    return weakref.ref(one)


@pytest.fixture
def unfrozen():
    """As in a process in which nothing has been computed yet."""
    gc.unfreeze()
    garbage._left[0] = 0
    yield
    gc.unfreeze()
    garbage._left[0] = 0


def test_garbage_set_aside_goes_at_the_end_of_a_run(unfrozen: None) -> None:
    with garbage.aside() as set_aside:
        lost = cycle()
        set_aside()
        gc.collect()
        assert lost() is not None  # set aside: nobody looks at it
    assert lost() is None


def test_a_small_run_is_not_looked_through_but_one_that_leaves_much_is(unfrozen: None) -> None:
    with garbage.aside() as set_aside:
        set_aside()
    with garbage.aside() as set_aside:
        lost = cycle()
        set_aside()
    assert lost() is not None
    with garbage.aside() as set_aside:
        kept = [[number] for number in range(gc.get_freeze_count())]
        set_aside()
    assert lost() is None
    assert len(kept) > 0


def test_everything_is_aside_after_a_run(unfrozen: None) -> None:
    with garbage.aside():
        before = gc.get_freeze_count()
        kept = [[number] for number in range(1_000)]
    assert gc.get_freeze_count() >= before + len(kept)
