"""The metadata builder asked directly, with the batch of a report and with its mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from mambaviz.attention import (
    CommonAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.config import (
    CacheConfig,
    CacheMode,
    CompilationConfig,
    EngineConfig,
    MambaSpec,
    ModelConfig,
    SchedulerConfig,
)
from mambaviz.mistakes.metadata import MistakenBuilder


@dataclass(frozen=True)
class BuilderCall:
    """A batch and the builder's configuration. ``blocks`` None: ids counted from 1."""

    query_lens: Sequence[int]
    seq_lens: Sequence[int]
    prefilling: Sequence[bool]
    mode: CacheMode = "none"
    block_size: int = 16
    chunk_size: int = 4
    blocks: Sequence[Sequence[int]] | None = None
    full_graphs: bool = False

    def build(self, fault: str | None = None) -> Mamba2AttentionMetadata:
        """The metadata, of the right builder or of one with a fault."""
        rows = len(self.query_lens)
        width = 64 // self.block_size
        blocks = self.blocks or [
            [row * width + column + 1 for column in range(width)] for row in range(rows)
        ]
        offsets = _int32([0, *accumulate(self.query_lens)])
        common = CommonAttentionMetadata(
            query_start_loc=offsets,
            query_start_loc_cpu=offsets,
            seq_lens=_int32(self.seq_lens),
            num_reqs=rows,
            num_actual_tokens=sum(self.query_lens),
            max_query_len=max(self.query_lens),
            max_seq_len=max(self.seq_lens),
            block_table_tensor=_int32(blocks),
            is_prefilling=torch.tensor(list(self.prefilling)),
            seq_lens_cpu_upper_bound=_int32(self.seq_lens),
        )
        return self._builder(fault).build(0, common)

    def _builder(self, fault: str | None) -> Mamba2AttentionMetadataBuilder:
        spec = MambaSpec(
            block_size=self.block_size,
            shapes=((3, 4), (2, 2, 4)),
            dtypes=(torch.float32, torch.float32),
            mamba_cache_mode=self.mode,
        )
        config = EngineConfig(
            cache_config=CacheConfig(mamba_cache_mode=self.mode),
            scheduler_config=SchedulerConfig(max_num_seqs=len(self.query_lens)),
            compilation_config=CompilationConfig(full_cuda_graphs=self.full_graphs),
            model_config=ModelConfig(max_model_len=64, chunk_size=self.chunk_size),
        )
        device = torch.device("cpu")
        if fault is None:
            return Mamba2AttentionMetadataBuilder(spec, ["layers.0"], config, device)
        return MistakenBuilder(frozenset([fault]), spec, ["layers.0"], config, device)

    def computed(self) -> list[int]:
        return [s - q for s, q in zip(self.seq_lens, self.query_lens, strict=True)]


def chunk_ends(metadata: Mamba2AttentionMetadata, computed: Sequence[int]) -> list[int]:
    """Tokens of its own sequence that each chunk ends at, for a batch of prefills."""
    assert metadata.cu_chunk_seqlen_p is not None
    assert metadata.seq_idx_p is not None
    assert metadata.query_start_loc_p is not None
    cu, owners = metadata.cu_chunk_seqlen_p.tolist(), metadata.seq_idx_p.tolist()
    starts = metadata.query_start_loc_p.tolist()
    return [
        computed[owner] + end - starts[owner] for owner, end in zip(owners, cu[1:], strict=True)
    ]


def values(tensor: torch.Tensor | None) -> list[int]:
    return [] if tensor is None else tensor.tolist()


def _int32(rows: object) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int32)
