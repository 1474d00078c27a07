"""One pool of blocks for all cache groups: ids, reference counts, free queue (section 2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from mambaviz.cache.prefix import PrefixIndex, PrefixKey

NULL_BLOCK = 0  # holds nothing, is never written, stands wherever there is nothing to keep


class BlockPool:
    """Blocks ``1 .. num_blocks - 1``, counted by reference.

    A block that nobody references is free. A free block may still be registered for prefix
    reuse: it keeps that until it is taken for new data. The queue's order decides which
    cached state dies first, so it is kept exactly:

        front  unregistered blocks, the latest release before earlier ones
        back   registered blocks, in the order in which they were let go

    Every operation costs O(1) per block: an `OrderedDict` is a linked list with a directory.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.index = PrefixIndex()
        self._references = [0] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def free_queue(self) -> list[int]:
        """Ids in the order in which they would be taken."""
        return list(self._free)

    def is_free(self, block: int) -> bool:
        return block in self._free

    def ref_count(self, block: int) -> int:
        return self._references[block]

    def take(self, count: int) -> list[int]:
        """``count`` blocks for new data, from the front. What they were registered for is lost."""
        if count > self.num_free:
            raise ValueError(f"{count} blocks wanted, {self.num_free} free: check before taking")
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.index.unregister(block)
            self._references[block] = 1
        return taken

    def share(self, blocks: Iterable[int]) -> None:
        """One more reference to each: a prefix hit. One that was free leaves the queue."""
        for block in blocks:
            if block != NULL_BLOCK:
                self._free.pop(block, None)
                self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference to each, as one release, in this order; nulls are passed over."""
        unregistered = []
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            if self._references[block] == 0:
                raise ValueError(f"block {block} is released, but nobody holds it")
            self._references[block] -= 1
            if self._references[block] > 0:
                continue
            self._free[block] = None  # joins at the back
            if not self.index.is_registered(block):
                unregistered.append(block)
        # One after another to the front, last one first: the group keeps its order there.
        for block in reversed(unregistered):
            self._free.move_to_end(block, last=False)

    def register(self, block: int, key: PrefixKey) -> None:
        """From now on the block stands for this prefix."""
        self.index.register(block, key)

    def drop_prefixes(self) -> None:
        """Forget what every block is registered for; the queue stays as it is."""
        self.index.clear()
