"""Section 2, "Block pool": the exact order of the free queue, registration, references."""

from __future__ import annotations

import pytest

from mambaviz.cache.block_pool import BlockPool
from mambaviz.cache.prefix import PrefixKey


def key(name: str, group: int = 0) -> PrefixKey:
    return PrefixKey(group, name.encode())


def test_blocks_are_taken_in_order_and_the_null_block_never() -> None:
    pool = BlockPool(5)
    assert pool.take(4) == [1, 2, 3, 4]
    assert pool.num_free == 0


def test_asking_for_more_than_is_free_takes_nothing() -> None:
    pool = BlockPool(4)
    with pytest.raises(ValueError, match="4 blocks wanted, 3 free"):
        pool.take(4)
    assert pool.free_queue() == [1, 2, 3]
    assert [pool.ref_count(block) for block in range(1, 4)] == [0, 0, 0]


def test_unregistered_blocks_of_one_release_go_to_the_front_as_a_group() -> None:
    pool = BlockPool(8)
    pool.take(6)
    pool.release([2, 5])
    pool.release([4, 1, 3])
    assert pool.free_queue() == [4, 1, 3, 2, 5, 7]


def test_registered_blocks_go_to_the_back_in_freeing_order() -> None:
    pool = BlockPool(7)
    pool.take(5)
    pool.register(2, key("x"))
    pool.register(4, key("y"))
    pool.release([4, 5, 2, 3])
    assert pool.free_queue() == [5, 3, 6, 4, 2]


def test_a_registered_block_stays_reusable_until_it_is_taken() -> None:
    pool = BlockPool(3)
    pool.take(1)
    pool.register(1, key("x"))
    pool.release([1])
    assert pool.index.find(key("x")) == 1
    assert pool.take(2) == [2, 1]
    assert pool.index.find(key("x")) is None
    assert not pool.index.is_registered(1)


def test_a_hit_takes_a_free_block_out_of_the_queue_and_a_held_one_is_counted_twice() -> None:
    pool = BlockPool(4)
    pool.take(2)
    pool.register(1, key("x"))
    pool.release([1])
    pool.share([0, 1, 2])
    assert pool.free_queue() == [3]
    assert (pool.ref_count(1), pool.ref_count(2)) == (1, 2)
    pool.release([2])
    assert not pool.is_free(2)
    pool.release([2])
    assert pool.free_queue() == [2, 3]


def test_releasing_what_nobody_holds_is_an_error() -> None:
    with pytest.raises(ValueError, match="block 2 is released, but nobody holds it"):
        BlockPool(4).release([2])


def test_the_first_of_several_blocks_with_one_prefix_is_found() -> None:
    pool = BlockPool(5)
    pool.take(3)
    for block in (3, 1, 2):
        pool.register(block, key("x"))
    assert pool.index.find(key("x")) == 3
    pool.release([3])
    pool.take(2)  # 4, then 3: it is taken for new data
    assert pool.index.find(key("x")) == 1


def test_groups_do_not_see_each_other_s_prefixes() -> None:
    pool = BlockPool(3)
    pool.take(1)
    pool.register(1, key("x", group=1))
    assert pool.index.find(key("x", group=0)) is None
    assert pool.index.find(key("x", group=1)) == 1


def test_a_block_is_registered_once() -> None:
    pool = BlockPool(3)
    pool.take(1)
    pool.register(1, key("x"))
    with pytest.raises(ValueError, match="block 1 is already registered"):
        pool.register(1, key("y"))


def test_dropping_prefixes_leaves_the_queue_as_it_is() -> None:
    pool = BlockPool(5)
    pool.take(3)
    pool.register(1, key("x"))
    pool.release([1, 2])
    queue = pool.free_queue()
    pool.drop_prefixes()
    assert pool.free_queue() == queue
    assert pool.index.find(key("x")) is None
    pool.release([3])
    assert pool.free_queue() == [3, *queue]
