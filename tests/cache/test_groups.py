"""One group alone: what its lists need, give up and match."""

from __future__ import annotations

from mambaviz.cache.block_pool import BlockPool
from mambaviz.cache.groups import AttentionGroup, MambaAlignGroup
from mambaviz.cache.prefix import PrefixKey


def align_group(num_speculative_blocks: int = 0) -> MambaAlignGroup:
    return MambaAlignGroup(0, BlockPool(12), 4, num_speculative_blocks, "dense")


def test_retirement_goes_leftwards_to_the_first_null_only() -> None:
    group = align_group()
    one, two, three = group.pool.take(3)
    group.lists["a"] = [one, 0, two, three]
    group.retire("a", 13)  # the last computed token is in column 3
    assert group.lists["a"] == [one, 0, 0, three]
    group.retire("a", 13)
    assert group.lists["a"] == [one, 0, 0, three]


def test_no_block_is_needed_and_none_given_back_when_the_row_is_long_enough() -> None:
    group = align_group(num_speculative_blocks=2)
    group.adopt("a", [])
    group.grow("a", 5)
    assert group.lists["a"] == [0, 1, 2, 3]
    assert group.blocks_needed("a", 8, 0) == 0
    assert group.blocks_needed("a", 4, 0) == 0  # running moves back, the row stays
    group.grow("a", 4)
    assert group.lists["a"] == [0, 1, 2, 3]
    assert group.blocks_needed("a", 9, 0) == 1


def test_attention_matches_without_a_gap() -> None:
    group = AttentionGroup(1, BlockPool(6), 4)
    links = [b"x", b"y", b"z"]
    blocks = group.pool.take(3)
    for block, link in zip(blocks, links, strict=True):
        group.pool.register(block, PrefixKey(1, link))
    assert group.longest_match(links) == 3
    assert group.hit_list(links) == blocks
    group.pool.index.unregister(blocks[1])
    assert group.longest_match(links) == 1
    assert group.hit_list(links) is None
    assert group.hit_list(links[:1]) == blocks[:1]
