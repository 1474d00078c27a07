"""Batches and builders in one line each, for the tests of the metadata builder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    BaseMambaAttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from mambaviz.config import (
    CacheConfig,
    CacheMode,
    CompilationConfig,
    EngineConfig,
    MambaConfig,
    MambaSpec,
    ModelConfig,
    SchedulerConfig,
    SpeculativeConfig,
)


@dataclass(frozen=True)
class Setup:
    """A configuration in the words of the golden vectors."""

    mode: CacheMode = "none"
    block_size: int = 4
    num_spec: int = 0
    scratch: int | None = None  # num_speculative_blocks; None = num_spec
    replayssm: bool = False
    recoverssm: bool = False
    ring_len: int = 4
    ngroups: int = 1
    heads: int = 2
    max_seqs: int = 8
    full_graphs: bool = False
    capture_cap: int | None = None
    max_len: int = 64
    chunk_size: int | None = None
    parallel_drafting: bool = False
    async_scheduling: bool = False
    backend: Any = "triton"
    dtype: torch.dtype = torch.float32
    spec_mode: CacheMode | None = None  # what the spec says; None = the mode
    rings: bool = True

    @property
    def num_scratch(self) -> int:
        return self.num_spec if self.scratch is None else self.scratch

    def kv_cache_spec(self) -> MambaSpec:
        L = self.ring_len
        shapes: tuple[tuple[int, ...], ...] = ((3, 8), (self.heads, 2, 4))
        if self.rings:
            shapes += ((self.heads, L, 2), (self.heads, L), (self.ngroups, L, 4))
        return MambaSpec(
            block_size=self.block_size,
            shapes=shapes,
            dtypes=(torch.float32,) * len(shapes),
            mamba_cache_mode=self.mode if self.spec_mode is None else self.spec_mode,
            num_speculative_blocks=self.num_scratch,
        )

    def engine_config(self) -> EngineConfig:
        return EngineConfig(
            cache_config=CacheConfig(
                mamba_cache_mode=self.mode,
                use_replayssm=self.replayssm,
                use_recoverssm=self.recoverssm,
                replayssm_buffer_len=self.ring_len,
            ),
            scheduler_config=SchedulerConfig(
                max_num_seqs=self.max_seqs, async_scheduling=self.async_scheduling
            ),
            speculative_config=SpeculativeConfig(
                self.num_spec, parallel_drafting=self.parallel_drafting
            )
            if self.num_spec
            else None,
            compilation_config=CompilationConfig(
                full_cuda_graphs=self.full_graphs, max_cudagraph_capture_size=self.capture_cap
            ),
            model_config=ModelConfig(
                max_model_len=self.max_len, chunk_size=self.chunk_size, dtype=self.dtype
            ),
            mamba_config=MambaConfig(backend=self.backend),
        )

    def builder(
        self,
        device: str = "cpu",
        cls: type[BaseMambaAttentionMetadataBuilder] = BaseMambaAttentionMetadataBuilder,
    ) -> Any:
        return cls(self.kv_cache_spec(), ["layer.0"], self.engine_config(), device)

    @property
    def table_columns(self) -> int:
        return -(-self.max_len // self.block_size) + self.num_scratch


def int32(values: Sequence[Any], device: str = "cpu") -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


def table(rows: int, columns: int, device: str = "cpu", first: int = 1) -> torch.Tensor:
    """A table of ids that all differ, so that a wrong column or row shows."""
    ids = torch.arange(first, first + rows * columns, dtype=torch.int32, device=device)
    return ids.reshape(rows, columns)


def batch(
    query_lens: Sequence[int],
    seq_lens: Sequence[int],
    prefilling: Sequence[bool] | None = None,
    *,
    blocks: torch.Tensor | None = None,
    columns: int = 20,
    decode_base: Sequence[int] | None = None,
    device: str = "cpu",
    **changes: Any,
) -> CommonAttentionMetadata:
    """One batch; rows decode unless `prefilling` says otherwise."""
    rows = len(query_lens)
    offsets = [0, *accumulate(query_lens)]
    common = CommonAttentionMetadata(
        query_start_loc=int32(offsets, device),
        query_start_loc_cpu=int32(offsets),
        seq_lens=int32(seq_lens, device),
        num_reqs=rows,
        num_actual_tokens=offsets[-1],
        max_query_len=max(query_lens, default=0),
        max_seq_len=max(seq_lens, default=0),
        block_table_tensor=table(rows, columns, device) if blocks is None else blocks,
        is_prefilling=torch.tensor(
            [False] * rows if prefilling is None else list(prefilling), dtype=torch.bool
        ),
        seq_lens_cpu_upper_bound=int32(seq_lens),
        replayssm_decode_base_cpu=None if decode_base is None else int32(decode_base),
    )
    return common.replace(**changes)


def counts(metadata: BaseMambaAttentionMetadata) -> tuple[int, int, int, int]:
    """The split of a result in the order `split_decodes_and_prefills` gives it."""
    return (
        metadata.num_decodes,
        metadata.num_prefills,
        metadata.num_decode_tokens,
        metadata.num_prefill_tokens,
    )
