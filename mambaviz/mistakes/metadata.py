"""Mistakes of the metadata builder (section 4)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    CommonAttentionMetadata,
    Mamba2AttentionMetadataBuilder,
    split_decodes_and_prefills,
)
from mambaviz.attention.chunks import ChunkPlan
from mambaviz.attention.common import HostBatch, IntArray
from mambaviz.attention.replayssm import ReplaySSM
from mambaviz.attention.split import BatchSplit

M = TypeVar("M", bound=BaseMambaAttentionMetadata)


class MistakenBuilder(Mamba2AttentionMetadataBuilder):
    """A Mamba-2 builder with faults."""

    def __init__(self, faults: frozenset[str], *arguments: Any) -> None:
        self.faults = faults
        super().__init__(*arguments)

    def _split(
        self,
        common: CommonAttentionMetadata,
        batch: HostBatch,
        decode_threshold: int,
        num_decode_draft_tokens_cpu: torch.Tensor | None,
    ) -> BatchSplit:
        if "short-extend-as-prefill" in self.faults:  # by the flag alone
            return BatchSplit(
                *split_decodes_and_prefills(
                    common, decode_threshold, treat_short_extends_as_decodes=False
                )
            )
        if "first-chunk-as-decode" in self.faults:  # by the length alone
            is_long = batch.query_lens > 1
            batch = dataclasses.replace(batch, is_prefilling=batch.is_prefilling & is_long)
        return super()._split(common, batch, decode_threshold, num_decode_draft_tokens_cpu)

    def _with_chunks(self, metadata: M, batch: HostBatch) -> M:
        if "chunks-on-a-fixed-grid" not in self.faults or metadata.num_prefills == 0:
            return super()._with_chunks(metadata, batch)
        plan = chunks_on_a_fixed_grid(batch.query_lens[metadata.num_decodes :], self.chunk_size)
        chunks = plan.to(self.device)
        return dataclasses.replace(
            metadata,
            cu_chunk_seqlen_p=chunks.cu_chunk_seqlen_p,
            seq_idx_p=chunks.seq_idx_p,
            last_chunk_indices_p=chunks.last_chunk_indices_p,
        )

    def _make_replayssm(self) -> ReplaySSM | None:
        replay = super()._make_replayssm()
        if replay is not None and "replay-anchor-not-moved" in self.faults:
            replay.mode = "none"  # where there are no boundaries to mind
        return replay


def chunks_on_a_fixed_grid(query_lens: IntArray, chunk_size: int) -> ChunkPlan:
    """Chunks of the flat tokens, each given to the prefill of its first token."""
    total = int(query_lens.sum())
    starts = np.arange(0, total, chunk_size)
    ends = np.cumsum(query_lens)  # of each prefill
    owners = np.searchsorted(ends, starts, side="right")
    last = np.maximum(ends - 1, 0) // chunk_size  # the chunk of a prefill's last token
    return ChunkPlan(np.append(starts, total), owners, last)
