"""One cache group's lists: how many blocks a request gets there, and which (section 2).

A list is a request's row as the scheduler keeps it: one block id per column, 0 where nothing
is kept. It changes in place, unlike the worker's row. Symbols as in the specification:
``B`` tokens a block, ``S`` scratch columns, ``n`` tokens computed once the step is done
(drafts included), ``c`` tokens computed before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mambaviz.cache.block_pool import NULL_BLOCK, BlockPool
from mambaviz.cache.prefix import BlockHash, PrefixKey
from mambaviz.columns import cdiv

Retention = Literal["dense", "boundary"] | int


@dataclass(frozen=True)
class Chunk:
    """The tokens that one allocation is for.

    ``known`` counts the request's tokens without drafts. ``several_decoded``: the forward
    takes more than one token down the decode path, so its drafts go to scratch columns.
    """

    computed: int
    scheduled: int
    known: int
    num_prompt_tokens: int
    several_decoded: bool = False

    @property
    def end(self) -> int:
        """``n``: tokens computed once the step is done, drafts included."""
        return self.computed + self.scheduled


class CacheGroup(ABC):
    """What all groups have in common: lists, registration from left to right, release."""

    def __init__(self, group: int, pool: BlockPool, block_size: int) -> None:
        self.group = group
        self.pool = pool
        self.block_size = block_size
        self.lists: dict[str, list[int]] = {}
        # Columns judged for registration so far; none is judged twice.
        self._columns_judged: dict[str, int] = {}

    @abstractmethod
    def blocks_needed(self, request: str, num_tokens: int, hit_columns: int) -> int:
        """New blocks that growing the list to ``num_tokens`` takes after such a hit."""

    @abstractmethod
    def grow(self, request: str, num_tokens: int) -> None:
        """Bring the list to what ``num_tokens`` need. The blocks must be free."""

    @abstractmethod
    def hit_list(self, links: Sequence[BlockHash]) -> list[int] | None:
        """The list that a hit of exactly these links gives, or None if the group lacks it."""

    def retire(self, request: str, computed: int) -> None:  # noqa: B027 - most keep all
        """Let go of columns that ``computed`` tokens no longer need."""

    def retains(self, column: int, chunk: Chunk) -> bool:  # noqa: ARG002
        """Whether a full column is worth registering."""
        return True

    def find(self, link: BlockHash) -> int | None:
        return self.pool.index.find(PrefixKey(self.group, link))

    def adopt(self, request: str, hit_list: Sequence[int]) -> None:
        """Start a list with a prefix hit (empty for none)."""
        self.pool.share(hit_list)
        self.lists[request] = list(hit_list)
        self._columns_judged[request] = len(hit_list)

    def register(self, request: str, chunk: Chunk, links: Sequence[BlockHash]) -> list[int]:
        """Register the columns that this chunk fills with known tokens; returns their blocks."""
        row, registered = self.lists[request], []
        first = self._columns_judged[request]
        full = min(chunk.end, chunk.known) // self.block_size
        for column in range(first, full):
            if row[column] != NULL_BLOCK and self.retains(column, chunk):
                self.pool.register(row[column], PrefixKey(self.group, links[column]))
                registered.append(row[column])
        self._columns_judged[request] = full
        return registered

    def free(self, request: str) -> None:
        """Release the whole list, last column first."""
        self.pool.release(reversed(self.lists.pop(request, [])))
        self._columns_judged.pop(request, None)


class AttentionGroup(CacheGroup):
    """A hybrid model's attention layers: every column real, nothing retired, no scratch."""

    def blocks_needed(self, request: str, num_tokens: int, hit_columns: int) -> int:
        columns = len(self.lists.get(request, ())) or hit_columns
        return max(0, cdiv(num_tokens, self.block_size) - columns)

    def grow(self, request: str, num_tokens: int) -> None:
        missing = self.blocks_needed(request, num_tokens, 0)
        self.lists[request] += self.pool.take(missing)

    def longest_match(self, links: Sequence[BlockHash]) -> int:
        """Columns from the left without a gap; attention reads all of them."""
        for column, link in enumerate(links):
            if self.find(link) is None:
                return column
        return len(links)

    def hit_list(self, links: Sequence[BlockHash]) -> list[int] | None:
        blocks = [self.find(link) for link in links]
        found = [block for block in blocks if block is not None]
        return found if len(found) == len(blocks) else None


class MambaGroup(CacheGroup):
    """A group of Mamba layers: a state stands for everything before it.

    So one block is a whole prefix hit, and old columns can go.
    """

    def __init__(
        self,
        group: int,
        pool: BlockPool,
        block_size: int,
        num_speculative_blocks: int,
        retention: Retention,
    ) -> None:
        super().__init__(group, pool, block_size)
        self.num_speculative_blocks = num_speculative_blocks
        self.retention = retention

    def hit_list(self, links: Sequence[BlockHash]) -> list[int] | None:
        block = self.find(links[-1])
        return None if block is None else [NULL_BLOCK] * (len(links) - 1) + [block]

    def retains(self, column: int, chunk: Chunk) -> bool:
        """The retention knob: all columns, or the prompt's last boundary and one an interval."""
        if self.retention == "dense":
            return True
        B = self.block_size
        end = (column + 1) * B
        if end == (chunk.num_prompt_tokens - 1) // B * B:
            return True
        if self.retention == "boundary":
            return False
        # The first block boundary at or after each multiple of the interval.
        return end // self.retention > (end - B) // self.retention

    def retire(self, request: str, computed: int) -> None:
        """From the column before the last computed token's leftwards, to the first null."""
        row = self.lists[request]
        retired = []
        for column in range((computed - 1) // self.block_size - 1, -1, -1):
            if row[column] == NULL_BLOCK:
                break
            retired.append(row[column])
            row[column] = NULL_BLOCK
        self.pool.release(retired)


class MambaNoneGroup(MambaGroup):
    """none: one block and its scratch, taken once.

    A block is as wide as the model length: every token is in column 0, nothing is retired.
    """

    def blocks_needed(self, request: str, num_tokens: int, hit_columns: int) -> int:  # noqa: ARG002
        return 0 if self.lists.get(request) else 1 + self.num_speculative_blocks

    def grow(self, request: str, num_tokens: int) -> None:
        self.lists[request] += self.pool.take(self.blocks_needed(request, num_tokens, 0))


class MambaAllGroup(MambaGroup):
    """all: a real block for every column and S scratch columns behind them.

    A decode query of several tokens writes the state after its token ``i`` to column
    ``last_scheduled + i`` (section 5.2), so a block that is finished inside such a query does
    not hold its boundary state. It is registered only if ``register_draft_filled`` asks for
    what the real engine does.
    """

    def __init__(
        self,
        group: int,
        pool: BlockPool,
        block_size: int,
        num_speculative_blocks: int,
        retention: Retention,
        register_draft_filled: bool,
    ) -> None:
        super().__init__(group, pool, block_size, num_speculative_blocks, retention)
        self.register_draft_filled = register_draft_filled

    def blocks_needed(self, request: str, num_tokens: int, hit_columns: int) -> int:
        columns = len(self.lists.get(request, ())) or hit_columns
        wanted = cdiv(num_tokens + self.num_speculative_blocks * self.block_size, self.block_size)
        return max(0, wanted - columns)

    def grow(self, request: str, num_tokens: int) -> None:
        self.lists[request] += self.pool.take(self.blocks_needed(request, num_tokens, 0))

    def retains(self, column: int, chunk: Chunk) -> bool:
        if not self.register_draft_filled and self._draft_filled(column, chunk):
            return False
        return super().retains(column, chunk)

    def _draft_filled(self, column: int, chunk: Chunk) -> bool:
        # A column that is full already but was not judged when it filled: its last token was
        # a draft then.
        return chunk.several_decoded or (column + 1) * self.block_size <= chunk.computed


class MambaAlignGroup(MambaGroup):
    """align: a running block, its scratch, and the few states that steps left at boundaries."""

    def __init__(
        self,
        group: int,
        pool: BlockPool,
        block_size: int,
        num_speculative_blocks: int,
        retention: Retention,
    ) -> None:
        super().__init__(group, pool, block_size, num_speculative_blocks, retention)
        # The running column of the allocation before: the pre-copy of this step still reads it.
        self.last_state_block_idx: dict[str, int] = {}
        self._has_running: set[str] = set()  # allocated since admission or resumption

    def blocks_needed(self, request: str, num_tokens: int, hit_columns: int) -> int:  # noqa: ARG002
        if request not in self._has_running:
            return 1 + self.num_speculative_blocks
        length, running = self._shape(num_tokens)
        columns = len(self.lists[request])
        # None if the row is long enough already: drafts that were rejected do not shrink it.
        return max(0, length - max(columns, running) - len(self._movable(request, running)))

    def grow(self, request: str, num_tokens: int) -> None:
        row = self.lists[request]
        length, running = self._shape(num_tokens)
        if length <= len(row):
            return
        missing = self.blocks_needed(request, num_tokens, 0)
        self._remember(request)
        scratch = self._movable(request, running)
        row += [NULL_BLOCK] * (running - len(row))
        for column in scratch:
            row.append(row[column])
            row[column] = NULL_BLOCK
        row += self.pool.take(missing)
        self._has_running.add(request)

    def _shape(self, num_tokens: int) -> tuple[int, int]:
        """Row length and running column."""
        columns = cdiv(num_tokens, self.block_size)
        return columns + self.num_speculative_blocks, columns - 1

    def _movable(self, request: str, running: int) -> list[int]:
        """Old scratch columns that lie before the new running column: they move behind it."""
        if request not in self._has_running:
            return []
        columns = len(self.lists[request])
        return list(range(columns - self.num_speculative_blocks, min(columns, running)))

    def _remember(self, request: str) -> None:
        columns = len(self.lists[request])
        if request in self._has_running:
            columns -= self.num_speculative_blocks
        if columns:  # else a fresh request: no state yet
            self.last_state_block_idx[request] = columns - 1

    def retire(self, request: str, computed: int) -> None:
        super().retire(request, computed)
        row, column = self.lists[request], self.last_state_block_idx.get(request)
        if column is not None and column < cdiv(computed, self.block_size) - 1:
            self.pool.release([row[column]])
            row[column] = NULL_BLOCK

    def free(self, request: str) -> None:
        super().free(request)
        self.last_state_block_idx.pop(request, None)
        self._has_running.discard(request)
