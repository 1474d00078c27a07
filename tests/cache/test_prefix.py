"""Section 2, "Prefix identity": one link per block over everything before it."""

from __future__ import annotations

from mambaviz.cache.prefix import PrefixChain


def links(tokens: list[int], block_size: int = 4, salt: str | None = None) -> list[bytes]:
    return PrefixChain(tokens, block_size, salt).links()


def test_one_link_per_full_block() -> None:
    assert len(links(list(range(11)))) == 2
    assert links([1, 2, 3]) == []


def test_equal_prefixes_have_equal_links() -> None:
    assert links([1, 2, 3, 4, 5, 6, 7, 8]) == links([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert links([1, 2, 3, 4, 5, 6, 7, 8])[:1] == links([1, 2, 3, 4, 9, 9, 9, 9])[:1]


def test_a_link_depends_on_all_tokens_before_it() -> None:
    assert links([1, 2, 3, 4, 5, 6, 7, 8])[1] != links([9, 2, 3, 4, 5, 6, 7, 8])[1]


def test_tokens_are_told_apart_by_number_not_by_digits() -> None:
    assert links([1, 12], block_size=2) != links([11, 2], block_size=2)


def test_the_salt_keeps_equal_prompts_apart() -> None:
    tokens = [1, 2, 3, 4]
    assert links(tokens, salt="mine") == links(tokens, salt="mine")
    assert len({links(tokens, salt=salt)[0] for salt in (None, "mine", "None")}) == 3


def test_the_chain_follows_a_growing_request() -> None:
    tokens = [1, 2, 3]
    chain = PrefixChain(tokens, 4, None)
    assert chain.links() == []
    tokens += [4, 5, 6, 7, 8]
    assert chain.links() == links([1, 2, 3, 4, 5, 6, 7, 8])
