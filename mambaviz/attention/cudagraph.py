"""Decode fields at fixed addresses, for a captured CUDA graph (section 4.9).

A captured graph replays its kernels with the addresses they were captured with. So the decode
fields of every later step must be copied into the very same memory, and rows beyond the batch
must hold values that do nothing: the null block, one accepted token, column 0, no flush.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import torch

from mambaviz.attention.common import NULL_BLOCK_ID
from mambaviz.attention.metadata import BaseMambaAttentionMetadata
from mambaviz.config import EngineConfig, MambaSpec

M = TypeVar("M", bound=BaseMambaAttentionMetadata)


def decode_cudagraph_max_bs(engine_config: EngineConfig) -> int:
    """Rows of the largest captured decode batch: ``max_num_seqs``, capped by the capture size."""
    max_num_seqs = engine_config.scheduler_config.max_num_seqs
    cap = engine_config.compilation_config.max_cudagraph_capture_size
    return max_num_seqs if cap is None else min(max_num_seqs, cap)


def state_index_columns(kv_cache_spec: MambaSpec, engine_config: EngineConfig) -> int:
    """Columns of the persistent state indices: ``1+num_spec``, in all mode a whole table row."""
    if engine_config.cache_config.mamba_cache_mode != "all":
        return 1 + engine_config.num_speculative_tokens
    blocks = -(-engine_config.model_config.max_model_len // kv_cache_spec.block_size)
    return blocks + kv_cache_spec.num_speculative_blocks


@dataclass(frozen=True, eq=False)
class DecodeBuffers:
    """One builder's persistent memory for ``max_bs`` decode rows (section 4.9)."""

    max_bs: int
    state_indices: torch.Tensor  # int32 [bs, columns]
    num_accepted_tokens: torch.Tensor  # int32 [bs]
    query_start_loc: torch.Tensor  # int32 [bs+1]
    last_scheduled: torch.Tensor  # int32 [bs]
    last_computed: torch.Tensor  # int32 [bs]
    last_scheduled_prev_step: torch.Tensor  # int32 [bs]
    write_pos: torch.Tensor  # int32 [bs]
    is_flush: torch.Tensor  # int8 [bs]

    @classmethod
    def create(
        cls, kv_cache_spec: MambaSpec, engine_config: EngineConfig, device: torch.device
    ) -> DecodeBuffers:
        """Allocate the buffers a builder with this configuration needs."""
        bs = decode_cudagraph_max_bs(engine_config)

        def rows(dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(bs, dtype=dtype, device=device)

        return cls(
            max_bs=bs,
            state_indices=torch.full(
                (bs, state_index_columns(kv_cache_spec, engine_config)),
                NULL_BLOCK_ID,
                dtype=torch.int32,
                device=device,
            ),
            num_accepted_tokens=torch.ones(bs, dtype=torch.int32, device=device),
            query_start_loc=torch.zeros(bs + 1, dtype=torch.int32, device=device),
            last_scheduled=rows(),
            last_computed=rows(),
            last_scheduled_prev_step=rows(),
            write_pos=rows(),
            is_flush=rows(torch.int8),
        )

    def fits(self, num_prefills: int, num_decodes: int) -> bool:
        """Whether a batch can replay a captured graph: decodes only, and not too many."""
        return num_prefills == 0 and num_decodes <= self.max_bs

    def pad(self, metadata: M) -> M:
        """Copy the decode fields into the buffers and return them as ``num_reqs`` rows (4.9).

        Raises ValueError when the state indices are not as wide as the buffer.
        """
        n, decodes = metadata.num_reqs, metadata.num_decodes
        self._check_width(metadata.state_indices_tensor_d)
        return dataclasses.replace(
            metadata,
            state_indices_tensor_d=_fill(
                self.state_indices, metadata.state_indices_tensor_d, decodes, n, NULL_BLOCK_ID
            ),
            num_accepted_tokens=_fill_optional(
                self.num_accepted_tokens, metadata.num_accepted_tokens, decodes, n, 1
            ),
            query_start_loc_d=self._pad_query_start_loc(metadata),
            block_idx_last_scheduled_token=_fill_optional(
                self.last_scheduled, metadata.block_idx_last_scheduled_token, decodes, n
            ),
            block_idx_last_computed_token=_fill_optional(
                self.last_computed, metadata.block_idx_last_computed_token, decodes, n
            ),
            block_idx_last_scheduled_token_prev_step=_fill_optional(
                self.last_scheduled_prev_step,
                metadata.block_idx_last_scheduled_token_prev_step,
                decodes,
                n,
            ),
            write_pos_d=_fill_optional(self.write_pos, metadata.write_pos_d, decodes, n),
            is_flush_d=_fill_optional(self.is_flush, metadata.is_flush_d, decodes, n),
        )

    def _pad_query_start_loc(self, metadata: BaseMambaAttentionMetadata) -> torch.Tensor | None:
        source = metadata.query_start_loc_d
        if source is None:
            return None
        decodes = metadata.num_decodes
        self.query_start_loc[: decodes + 1].copy_(source[: decodes + 1], non_blocking=True)
        # Rows beyond the batch start where it ends: their queries are empty.
        self.query_start_loc[decodes + 1 :] = self.query_start_loc[decodes]
        return self.query_start_loc[: metadata.num_reqs + 1]

    def _check_width(self, state_indices: torch.Tensor) -> None:
        have, need = state_indices.shape[1], self.state_indices.shape[1]
        if have != need:
            raise ValueError(
                f"the block table has {have} columns, but the captured graph reads rows of {need} "
                "(in all mode cdiv(max_model_len, block_size) + num_speculative_blocks)"
            )


def _fill(
    buffer: torch.Tensor, source: torch.Tensor, num_decodes: int, num_reqs: int, neutral: int
) -> torch.Tensor:
    """Copy the decode rows into ``buffer``, make all later rows neutral, return ``num_reqs``."""
    buffer[:num_decodes].copy_(source[:num_decodes], non_blocking=True)
    buffer[num_decodes:] = neutral
    return buffer[:num_reqs]


def _fill_optional(
    buffer: torch.Tensor,
    source: torch.Tensor | None,
    num_decodes: int,
    num_reqs: int,
    neutral: int = 0,
) -> torch.Tensor | None:
    return None if source is None else _fill(buffer, source, num_decodes, num_reqs, neutral)
