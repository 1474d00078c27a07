"""What an engine is configured with: cache specs, cache groups, engine settings.

Frozen dataclasses, nothing else: importable with torch alone. The names and
defaults are those of docs/spec/06-public-api.md, so that a reader who knows a
serving engine finds them where they expect them.

Symbols used in all of this project
    B          ``block_size``: tokens a block covers
    S          ``num_speculative_blocks``: scratch columns behind the running one
    num_spec   drafts proposed per decode step
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

import torch

CacheMode = Literal["none", "align", "all"]
CACHE_MODES: tuple[CacheMode, ...] = ("none", "align", "all")


@dataclass(frozen=True)
class MambaSpec:
    """The recurrent state of one Mamba layer in one cache block (section 1).

    ``shapes`` and ``dtypes`` run over the layer's state tensors: conv state
    first, temporal (SSM) state second, then whatever else the layer keeps
    (ReplaySSM rings). A shape leaves out the leading block dimension.
    """

    block_size: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    mamba_cache_mode: CacheMode = "none"
    num_speculative_blocks: int = 0
    page_size_padded: int | None = None  # bytes; None = the natural size

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {self.block_size}")
        if self.mamba_cache_mode not in CACHE_MODES:
            raise ValueError(
                f"mamba_cache_mode must be one of {', '.join(CACHE_MODES)}, "
                f"got {self.mamba_cache_mode!r}"
            )
        if len(self.shapes) != len(self.dtypes):
            raise ValueError(
                f"MambaSpec needs one dtype per shape, got {len(self.shapes)} shapes "
                f"and {len(self.dtypes)} dtypes"
            )
        if self.page_size_padded is not None and self.page_size_padded < self.page_size_natural:
            raise ValueError(
                f"page_size_padded ({self.page_size_padded} B) is smaller than the state itself "
                f"({self.page_size_natural} B)"
            )

    @property
    def page_size_natural(self) -> int:
        """Bytes of all state tensors of one block, without padding."""
        return sum(
            prod(shape) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )

    @property
    def page_size_bytes(self) -> int:
        """Bytes from one block to the next."""
        return self.page_size_natural if self.page_size_padded is None else self.page_size_padded


@dataclass(frozen=True)
class AttentionSpec:
    """An attention group beside the Mamba groups (section 2): blocks, no Mamba state."""

    block_size: int


@dataclass(frozen=True)
class KVCacheGroupSpec:
    """The layers that share one block table."""

    layer_names: list[str]
    kv_cache_spec: MambaSpec | AttentionSpec


@dataclass(frozen=True)
class KVCacheConfig:
    """The pool (``num_blocks``, null block included) and the groups that draw from it."""

    num_blocks: int
    kv_cache_groups: list[KVCacheGroupSpec]


@dataclass(frozen=True)
class CacheConfig:
    mamba_cache_mode: CacheMode = "none"
    enable_prefix_caching: bool = False
    use_replayssm: bool = False
    use_recoverssm: bool = False
    replayssm_buffer_len: int = 16


@dataclass(frozen=True)
class SchedulerConfig:
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 64
    async_scheduling: bool = False


@dataclass(frozen=True)
class SpeculativeConfig:
    num_speculative_tokens: int
    parallel_drafting: bool = False
    drop_last_matched_block: bool = False


@dataclass(frozen=True)
class CompilationConfig:
    full_cuda_graphs: bool = False
    max_cudagraph_capture_size: int | None = None


@dataclass(frozen=True)
class ModelConfig:
    max_model_len: int = 64
    chunk_size: int | None = None
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class MambaConfig:
    backend: Literal["triton", "flashinfer"] = "triton"


@dataclass(frozen=True)
class EngineConfig:
    """Everything the metadata builders and the worker read (section 6)."""

    cache_config: CacheConfig = field(default_factory=CacheConfig)
    scheduler_config: SchedulerConfig = field(default_factory=SchedulerConfig)
    speculative_config: SpeculativeConfig | None = None
    compilation_config: CompilationConfig = field(default_factory=CompilationConfig)
    model_config: ModelConfig = field(default_factory=ModelConfig)
    mamba_config: MambaConfig = field(default_factory=MambaConfig)

    @cached_property
    def num_speculative_tokens(self) -> int:
        """Drafts per decode step; 0 without speculative decoding."""
        spec = self.speculative_config
        return 0 if spec is None else spec.num_speculative_tokens
