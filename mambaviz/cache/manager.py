"""Who owns which block: one list per request and cache group (section 2, "Blocks per request")."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockPlace:
    """Where a block stands in the scheduler's lists."""

    request: str
    group: int
    column: int


class CacheManager:
    """A coordinator over the groups of one pool. Groups: Mamba groups first, attention last."""

    def block_lists(self, request_id: str) -> list[list[int]]:
        """The scheduler's list of each group, 0 = null; empty lists if it holds nothing."""
        raise NotImplementedError

    def hashed_columns(self, request_id: str) -> list[list[int]]:
        """Per group the columns whose block is registered for reuse."""
        raise NotImplementedError

    def last_state_block_idx(self, request_id: str) -> int | None:
        """Remembered running column (align)."""
        raise NotImplementedError

    def free_queue(self) -> list[int]:
        """Ids in the order in which they would be taken."""
        raise NotImplementedError

    def ref_count(self, block_id: int) -> int:
        raise NotImplementedError

    def places(self) -> dict[int, list[BlockPlace]]:
        """Non-null block id -> every place where it stands in a list (I5)."""
        raise NotImplementedError

    def is_registered(self, block_id: int) -> bool:
        raise NotImplementedError
