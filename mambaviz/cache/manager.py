"""Who owns which block: the groups of one pool, asked and served together (section 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mambaviz.cache.block_pool import NULL_BLOCK, BlockPool
from mambaviz.cache.groups import (
    AttentionGroup,
    CacheGroup,
    Chunk,
    MambaAlignGroup,
    MambaAllGroup,
    MambaGroup,
    MambaNoneGroup,
)
from mambaviz.cache.prefix import BlockHash, PrefixChain, PrefixKey
from mambaviz.request import Request
from mambaviz.scenario import EngineSettings

BlockIds = tuple[tuple[int, ...], ...]  # one tuple of ids per cache group


@dataclass(frozen=True)
class BlockPlace:
    """Where a block stands in the scheduler's lists."""

    request: str
    group: int
    column: int


@dataclass(frozen=True)
class PrefixHit:
    """The longest prefix that every group still has: ``num_blocks`` columns of each list."""

    num_blocks: int
    num_tokens: int
    lists: BlockIds

    @property
    def blocks(self) -> set[int]:
        """The real blocks among them."""
        return {block for row in self.lists for block in row} - {NULL_BLOCK}


class CacheManager:
    """One pool and its cache groups: the Mamba groups first, an attention group last."""

    def __init__(self, engine: EngineSettings) -> None:
        self.block_size = engine.effective_block_size
        self.prefix_caching = engine.mode != "none"
        self.pool = BlockPool(engine.num_blocks)
        self.mamba_groups = [
            self._make_mamba_group(engine, group, self.pool)
            for group in range(engine.num_mamba_groups)
        ]
        self.attention_group = (
            AttentionGroup(engine.num_mamba_groups, self.pool, self.block_size)
            if engine.attention_group
            else None
        )
        self.groups: list[CacheGroup] = [*self.mamba_groups]
        if self.attention_group is not None:
            self.groups.append(self.attention_group)
        self._drop_last_matched_block = engine.drop_last_matched_block
        self._chains: dict[str, PrefixChain] = {}
        self._registered_this_step: set[int] = set()

    def _make_mamba_group(self, engine: EngineSettings, group: int, pool: BlockPool) -> MambaGroup:
        shape = (group, pool, engine.effective_block_size, engine.num_spec, engine.retention)
        if engine.mode == "none":
            return MambaNoneGroup(*shape)
        if engine.mode == "align":
            return MambaAlignGroup(*shape)
        return MambaAllGroup(*shape, engine.register_draft_filled_blocks)

    # -- prefix hits ---------------------------------------------------------------------

    def start_step(self) -> None:
        """Blocks registered from now on get their bytes in the step that begins."""
        self._registered_this_step.clear()

    def links_of(self, request: Request) -> list[BlockHash]:
        """Prefix hashes of a request's known tokens, one per full block."""
        if request.id not in self._chains:
            self._chains[request.id] = PrefixChain(
                request.token_ids, self.block_size, request.plan.salt
            )
        return self._chains[request.id].links()

    def find_hit(self, request: Request) -> PrefixHit:
        """The longest hit; it always leaves one token to compute."""
        if self.prefix_caching:
            links = self.links_of(request)[: (request.num_tokens - 1) // self.block_size]
            for num_blocks in range(self._most_columns(links), 0, -1):
                lists = self._hit_lists(links[:num_blocks])
                if lists is not None:
                    return PrefixHit(num_blocks, num_blocks * self.block_size, lists)
        return PrefixHit(0, 0, tuple(() for _ in self.groups))

    def _most_columns(self, links: list[BlockHash]) -> int:
        """From where the search goes left.

        A draft model that drops the last matched block does so where matches are counted
        block by block: in its attention group. Without one in the scenario the whole known
        prefix counts as matched there, which is the case that the chunk stop one block
        earlier is made for.
        """
        attention = self.attention_group
        matched = len(links) if attention is None else attention.longest_match(links)
        return max(0, matched - 1) if self._drop_last_matched_block else matched

    def _hit_lists(self, links: list[BlockHash]) -> BlockIds | None:
        lists = []
        for group in self.groups:
            row = group.hit_list(links)
            if row is None:
                return None
            lists.append(tuple(row))
        return tuple(lists)

    def is_produced_this_step(self, hit: PrefixHit) -> bool:
        """Whether a block of the hit was registered in this very step: no bytes there yet."""
        return not hit.blocks.isdisjoint(self._registered_this_step)

    # -- allocation ----------------------------------------------------------------------

    def can_admit(self, request: Request, hit: PrefixHit) -> bool:
        """Admission gate: would the whole known sequence fit now?"""
        return self._fits(request.id, request.num_tokens, hit)

    def allocate(
        self, request: Request, chunk: Chunk, hit: PrefixHit | None = None
    ) -> BlockIds | None:
        """Blocks for a chunk, in every group or in none of them.

        ``hit`` is given at admission and resumption, when the request holds nothing. Returns
        what each list has beyond its old length (the whole list at admission), or None if
        the blocks do not fit; what ``chunk.computed`` tokens no longer need is let go in
        either case.
        """
        name = request.id
        if hit is None:
            for group in self.groups:
                group.retire(name, chunk.computed)
        if not self._fits(name, chunk.end, hit):
            return None
        old = [len(row) for row in self.block_lists(name)]
        if hit is not None:
            for group, row in zip(self.groups, hit.lists, strict=True):
                group.adopt(name, row)
        for group in self.groups:
            group.grow(name, chunk.end)
        if self.prefix_caching:
            links = self.links_of(request)
            for group in self.groups:
                self._registered_this_step.update(group.register(name, chunk, links))
        return tuple(
            tuple(row[length:]) for row, length in zip(self.block_lists(name), old, strict=True)
        )

    def _fits(self, request: str, num_tokens: int, hit: PrefixHit | None) -> bool:
        # A hit block that nobody holds leaves the free queue as well.
        wanted = 0 if hit is None else sum(map(self.pool.is_free, hit.blocks))
        columns = 0 if hit is None else hit.num_blocks
        for group in self.groups:
            wanted += group.blocks_needed(request, num_tokens, columns)
        return wanted <= self.pool.num_free

    def free(self, request: Request) -> None:
        """Release everything the request holds, one group after the other."""
        for group in self.groups:
            group.free(request.id)

    def drop_prefixes(self) -> None:
        """Forget what is registered (a reset of the prefix cache)."""
        self.pool.drop_prefixes()
        self._registered_this_step.clear()

    # -- what a trace reads --------------------------------------------------------------

    def block_lists(self, request_id: str) -> list[list[int]]:
        """The scheduler's list of each group, 0 = null; empty lists if it holds nothing."""
        return [list(group.lists.get(request_id, ())) for group in self.groups]

    def hashed_columns(self, request_id: str) -> list[list[int]]:
        """Per group the columns whose block is registered for reuse."""
        return [
            [column for column, block in enumerate(row) if self.is_registered(block)]
            for row in self.block_lists(request_id)
        ]

    def last_state_block_idx(self, request_id: str) -> int | None:
        """Remembered running column (align); the Mamba groups always agree."""
        group = self.mamba_groups[0]
        if isinstance(group, MambaAlignGroup):
            return group.last_state_block_idx.get(request_id)
        return None

    def free_queue(self) -> list[int]:
        """Ids in the order in which they would be taken."""
        return self.pool.free_queue()

    def ref_count(self, block_id: int) -> int:
        return self.pool.ref_count(block_id)

    def is_registered(self, block_id: int) -> bool:
        return self.pool.index.is_registered(block_id)

    def group_of(self, block_id: int) -> int:
        """The cache group that a registered block belongs to."""
        return self.pool.index.keys()[block_id].group

    def registered_prefixes(self, requests: Iterable[Request]) -> dict[int, str]:
        """Block id -> ``request@tokens``: the first of ``requests`` that starts with its prefix.

        Give them in order of arrival, all that ever arrived: a block that outlives its
        producer keeps its name.
        """
        names: dict[BlockHash, str] = {}
        for request in requests:
            for column, link in enumerate(self.links_of(request)):
                names.setdefault(link, f"{request.id}@{(column + 1) * self.block_size}")
        keys = sorted(self.pool.index.keys().items())
        return {block: names[key.block_hash] for block, key in keys}

    def places(self) -> dict[int, list[BlockPlace]]:
        """Non-null block id -> every place where it stands in a list (I5)."""
        found: dict[int, list[BlockPlace]] = {}
        for group in self.groups:
            for request, row in group.lists.items():
                for column, block in enumerate(row):
                    if block != NULL_BLOCK:
                        found.setdefault(block, []).append(BlockPlace(request, group.group, column))
        return found

    def fingerprint(self) -> object:
        """Equal for two situations that differ in the numbering of the blocks alone."""
        number: dict[int, int] = {NULL_BLOCK: NULL_BLOCK}
        lists = tuple(
            (group.group, name, tuple(number.setdefault(block, len(number)) for block in row))
            for group in self.groups
            for name, row in group.lists.items()
        )
        queue = tuple(number.setdefault(block, len(number)) for block in self.free_queue())
        registered: dict[PrefixKey, tuple[int, ...]] = {}
        for block, key in self.pool.index.keys().items():
            registered[key] = (*registered.get(key, ()), number[block])
        return lists, queue, frozenset(registered.items())

    def check_conservation(self) -> list[str]:
        """What breaks I6, a sentence each: every block is free or held, never both or neither."""
        places, problems = self.places(), []
        for block in range(1, self.pool.num_blocks):
            held, counted = len(places.get(block, ())), self.ref_count(block)
            if held != counted:
                problems.append(f"block {block} stands in {held} lists but counts {counted}")
            if self.pool.is_free(block) == (held > 0):
                state = "free and held" if held else "neither free nor held"
                problems.append(f"block {block} is {state}")
        if NULL_BLOCK in self.free_queue():
            problems.append("the null block is in the free queue")
        return problems
