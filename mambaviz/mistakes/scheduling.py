"""Mistakes of the scheduler and its cache manager (section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mambaviz.cache.block_pool import BlockPool
from mambaviz.cache.groups import Chunk, MambaAlignGroup, MambaGroup
from mambaviz.cache.manager import CacheManager
from mambaviz.cache.prefix import BlockHash
from mambaviz.request import Request
from mambaviz.scenario import EngineSettings, Scenario
from mambaviz.scheduler import Scheduler


class MistakenScheduler(Scheduler):
    """A scheduler with the faults of its scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.faults = frozenset(scenario.faults)
        super().__init__(scenario)

    def _split(self, request: Request, start: int, num_tokens: int) -> int:
        if "chunk-ends-inside-block" in self.faults:
            return split_below_the_cacheable_position(self.engine, request, start, num_tokens)
        return super()._split(request, start, num_tokens)

    def _make_manager(self) -> CacheManager:
        if "scratch-registered" in self.faults:
            return RegistersByWorkerRows(self.engine)
        return super()._make_manager()


def split_below_the_cacheable_position(
    engine: EngineSettings, request: Request, start: int, num_tokens: int
) -> int:
    """The chunk rule that three reports came from; arguments as of `split_at_boundaries`.

    Only a chunk that ends before the last position whose state a hit could use is cut at a
    boundary. For a draft model that position lies one block earlier: at 0 for a prompt of less
    than two blocks, whose chunks then end anywhere.
    """
    B, end = engine.block_size, start + num_tokens
    cacheable = request.num_tokens // B * B
    if engine.drop_last_matched_block:
        cacheable = max(0, cacheable - B)
    if end < cacheable:
        return end // B * B - start
    if start < cacheable < end:
        return cacheable - start
    return num_tokens


class RegistersByWorkerRows(CacheManager):
    """A cache manager whose align groups take the worker's rows for their lists."""

    def _make_mamba_group(self, engine: EngineSettings, group: int, pool: BlockPool) -> MambaGroup:
        return _WorkerRowGroup(
            group, pool, engine.effective_block_size, engine.num_spec, engine.retention
        )


class _WorkerRowGroup(MambaAlignGroup):
    """Registers a column by a row that only grows: a moved scratch block stands there twice."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._worker_rows: dict[str, list[int]] = {}

    def adopt(self, request: str, hit_list: Sequence[int]) -> None:
        super().adopt(request, hit_list)
        self._worker_rows[request] = list(hit_list)

    def grow(self, request: str, num_tokens: int) -> None:
        super().grow(request, num_tokens)
        row = self._worker_rows[request]
        row += self.lists[request][len(row) :]

    def register(self, request: str, chunk: Chunk, links: Sequence[BlockHash]) -> list[int]:
        own = self.lists[request]
        self.lists[request] = self._worker_rows[request]
        registered = super().register(request, chunk, links)
        self.lists[request] = own
        return registered

    def free(self, request: str) -> None:
        super().free(request)
        self._worker_rows.pop(request, None)
