"""How prefill tokens are cut into chunks (section 4.7).

The chunked scan leaves a state at the end of every chunk and nowhere else. So a chunk holds
tokens of one sequence only, and chunk ends fall on multiples of ``chunk_size`` *of the sequence*:
a prefill that continues inside a chunk first completes it with a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mambaviz.attention.common import IntArray


@dataclass(frozen=True, eq=False)
class ChunkPlan:
    """Chunks of a prefill batch on the CPU; offsets are tokens within its prefill part."""

    cu_chunk_seqlen: IntArray  # [chunks+1] start of every chunk, then the total
    seq_idx: IntArray  # [chunks] prefill a chunk belongs to
    last_chunk_indices: IntArray  # [P] last chunk of each prefill

    def to(self, device: torch.device | str) -> ChunkTensors:
        """The same as int32 tensors on ``device``."""
        return ChunkTensors(
            _int32(self.cu_chunk_seqlen, device),
            _int32(self.seq_idx, device),
            _int32(self.last_chunk_indices, device),
        )


@dataclass(frozen=True, eq=False)
class ChunkTensors:
    """A `ChunkPlan` as the kernels read it: int32 device tensors."""

    cu_chunk_seqlen_p: torch.Tensor
    seq_idx_p: torch.Tensor
    last_chunk_indices_p: torch.Tensor


def plan_chunks(num_computed: IntArray, query_lens: IntArray, chunk_size: int) -> ChunkPlan:
    """Cut every prefill at the multiples of ``chunk_size`` of its sequence (section 4.7).

    ``num_computed``, ``query_lens``: ``[P]``, tokens before and in this step.
    A prefill of no tokens makes one chunk of length 0 if it stands inside a chunk, else none;
    its last index is then the chunk before it (-1 where there is none).
    """
    unaligned = num_computed % chunk_size != 0  # [P]
    to_boundary = -num_computed % chunk_size  # [P]
    first_len = np.where(unaligned, np.minimum(query_lens, to_boundary), 0)  # [P]
    full_chunks = -(-(query_lens - first_len) // chunk_size)  # [P]; the last may be short
    nums = unaligned + full_chunks  # [P]

    ends = np.cumsum(nums)  # [P]
    seq_idx = np.repeat(np.arange(len(nums)), nums)  # [chunks]
    nth = np.arange(len(seq_idx)) - (ends - nums)[seq_idx]  # [chunks] within its prefill
    # Behind the shorter first chunk, if there is one, full chunks follow each other.
    after_first = first_len[seq_idx] + (nth - unaligned[seq_idx]) * chunk_size
    start_in_prefill = np.where(nth == 0, 0, after_first)
    prefill_ends = np.cumsum(query_lens)  # [P]
    starts = (prefill_ends - query_lens)[seq_idx] + start_in_prefill
    return ChunkPlan(np.append(starts, query_lens.sum()), seq_idx, ends - 1)


def _int32(values: IntArray, device: torch.device | str) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int32)).to(device, non_blocking=True)
