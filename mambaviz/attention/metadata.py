"""What the builder hands to the mixer kernels (sections 4.1 to 4.8).

A suffix says whose rows a field holds: ``_d`` decodes, ``_p`` prefills, none both. A field without
content is None, except ``num_state_writes_p``, which is then 0. Meaning, rule and shape of every
field: `mambaviz.attention.fields`.

Tensors can be views of the builder's persistent buffers, which the next build overwrites: clone
what is to be kept.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from mambaviz.attention.conv1d import Conv1dPrograms


@dataclass(frozen=True, eq=False)
class BaseMambaAttentionMetadata:
    """Metadata every Mamba mixer reads; device tensors unless said otherwise (section 4)."""

    num_prefills: int
    num_prefill_tokens: int
    num_decodes: int
    num_decode_tokens: int
    num_reqs: int
    seq_lens: torch.Tensor

    # Which blocks the rows live in (4.3).
    state_indices_tensor_d: torch.Tensor
    state_indices_tensor_p: torch.Tensor

    # Decodes with drafts (4.4).
    query_start_loc_d: torch.Tensor | None = None
    num_accepted_tokens: torch.Tensor | None = None

    # Prefills (4.5).
    query_start_loc_p: torch.Tensor | None = None
    has_initial_states_p: torch.Tensor | None = None
    nums_dict: dict[int, Conv1dPrograms] | None = None
    batch_ptr: torch.Tensor | None = None
    token_chunk_offset_ptr: torch.Tensor | None = None

    # All mode (4.6).
    num_computed_tokens_p: torch.Tensor | None = None
    block_idx_first_scheduled_token_p: torch.Tensor | None = None
    block_idx_last_scheduled_token: torch.Tensor | None = None
    block_idx_last_computed_token: torch.Tensor | None = None
    block_idx_last_scheduled_token_prev_step: torch.Tensor | None = None
    num_state_writes_p: int = 0

    # Chunks (4.7).
    cu_chunk_seqlen_p: torch.Tensor | None = None
    seq_idx_p: torch.Tensor | None = None
    last_chunk_indices_p: torch.Tensor | None = None

    # ReplaySSM (4.8).
    write_pos_d: torch.Tensor | None = None
    is_flush_d: torch.Tensor | None = None
    bc_pre_scratch: torch.Tensor | None = None
    replayssm_scratch: tuple[torch.Tensor, ...] | None = None


@dataclass(frozen=True, eq=False)
class Mamba2AttentionMetadata(BaseMambaAttentionMetadata):
    """What a Mamba-2 mixer reads beyond the base (section 4.7)."""

    chunk_size: int = 0
    prep_initial_states: bool = False

    @classmethod
    def from_base(
        cls, base: BaseMambaAttentionMetadata, chunk_size: int, prep_initial_states: bool
    ) -> Mamba2AttentionMetadata:
        """The same metadata with the Mamba-2 fields added; tensors are shared."""
        shared = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
        return cls(**shared, chunk_size=chunk_size, prep_initial_states=prep_initial_states)
