"""What a cached state stands for: the whole token prefix it covers (section 2)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

BlockHash = bytes


@dataclass(frozen=True)
class PrefixKey:
    """A prefix as one cache group keeps it: groups never share a block."""

    group: int
    block_hash: BlockHash


class PrefixChain:
    """The hashes of a growing token sequence, one link per full block.

    Link ``c`` is the hash of link ``c - 1`` and the tokens of column ``c``, so it identifies
    everything up to ``(c + 1) * block_size`` tokens. The salt is the link before the first.
    ``token_ids`` is the request's own list: it only ever grows, and the chain follows it.
    """

    def __init__(self, token_ids: Sequence[int], block_size: int, salt: str | None) -> None:
        self._token_ids = token_ids
        self._block_size = block_size
        self._root = _digest(b"", repr(salt).encode())
        self._links: list[BlockHash] = []

    def links(self) -> list[BlockHash]:
        """One hash per full block of the tokens known now."""
        for column in range(len(self._links), len(self._token_ids) // self._block_size):
            parent = self._links[-1] if self._links else self._root
            tokens = self._token_ids[column * self._block_size : (column + 1) * self._block_size]
            self._links.append(_digest(parent, repr(tuple(tokens)).encode()))
        return self._links


def _digest(parent: BlockHash, content: bytes) -> BlockHash:
    return hashlib.sha256(parent + content).digest()


class PrefixIndex:
    """From prefix to blocks and back. Several blocks may hold the same prefix."""

    def __init__(self) -> None:
        self._blocks: dict[PrefixKey, dict[int, None]] = {}  # in the order of registration
        self._key_of: dict[int, PrefixKey] = {}

    def register(self, block: int, key: PrefixKey) -> None:
        if block in self._key_of:
            raise ValueError(f"block {block} is already registered for a prefix")
        self._key_of[block] = key
        self._blocks.setdefault(key, {})[block] = None

    def unregister(self, block: int) -> None:
        key = self._key_of.pop(block, None)
        if key is None:
            return
        holders = self._blocks[key]
        del holders[block]
        if not holders:
            del self._blocks[key]

    def find(self, key: PrefixKey) -> int | None:
        """The block registered first among those that hold the prefix."""
        return next(iter(self._blocks.get(key, ())), None)

    def is_registered(self, block: int) -> bool:
        return block in self._key_of

    def keys(self) -> dict[int, PrefixKey]:
        """Block id -> what it is registered for, in the order of registration."""
        return dict(self._key_of)

    def clear(self) -> None:
        self._blocks.clear()
        self._key_of.clear()
