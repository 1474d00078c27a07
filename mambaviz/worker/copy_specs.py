"""Where a state copy reads from: one contiguous region of one state tensor (section 3.6).

A *copy function* answers, for one kind of state, where in the cache the wanted state starts
and how long it is. The two kinds differ in what an accepted draft does to them:

    conv state       one window of token rows per block. Accepting `a` tokens moves the
                     window's start `a - 1` rows down, inside the same block.
    temporal state   one state per block. The state after the `a`-th token of a decode query
                     was written `a - 1` columns further right, into a scratch block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

StateKind = Literal["conv", "temporal"]


@dataclass(frozen=True)
class MambaCopySpec:
    """A source region: ``start_addr`` in bytes, ``num_elements`` of the tensor's dtype."""

    start_addr: int
    num_elements: int


CopyFunc = Callable[..., MambaCopySpec]


def get_conv_copy_spec(
    state: torch.Tensor,
    block_ids: Sequence[int],
    cur_block_idx: int,
    num_accepted_tokens: int,
    conv_state_dim_first: bool = False,
) -> MambaCopySpec:
    """The conv window's region: rows ``num_accepted_tokens - 1 ..`` of the current block.

    ``state`` is SD ``[num_blocks, state_len, dim]``, or DS ``[num_blocks, dim, state_len]``
    with ``conv_state_dim_first``. In DS a shifted window is `dim` separate pieces, which one
    region cannot name: ValueError when ``num_accepted_tokens > 1``. Section 3.6.
    """
    offset = _accepted_bias(num_accepted_tokens)  # token rows
    if conv_state_dim_first and offset > 0:
        raise ValueError(
            "a DS conv state shifted by accepted tokens is not one memory region "
            f"(num_accepted_tokens is {num_accepted_tokens}, this copy takes 1 at most): "
            "use precopy_mamba_align_fused_kernel, which copies per channel row "
            "(preprocess_mamba with align_ctx)"
        )
    source = state[block_ids[cur_block_idx], offset:]  # offset 0 in DS: the whole block
    return MambaCopySpec(start_addr=source.data_ptr(), num_elements=source.numel())


def get_temporal_copy_spec(
    state: torch.Tensor,
    block_ids: Sequence[int],
    cur_block_idx: int,
    num_accepted_tokens: int,
) -> MambaCopySpec:
    """The temporal state after ``num_accepted_tokens``: a whole block, that many columns on.

    ``state`` is ``[num_blocks, ...]``. Section 3.6.
    """
    source = state[block_ids[cur_block_idx + _accepted_bias(num_accepted_tokens)]]
    return MambaCopySpec(start_addr=source.data_ptr(), num_elements=source.numel())


def _accepted_bias(num_accepted_tokens: int) -> int:
    if num_accepted_tokens < 1:  # a negative bias would count from the far end, silently
        raise ValueError(
            f"num_accepted_tokens must be at least 1 (the bonus token), got {num_accepted_tokens}"
        )
    return num_accepted_tokens - 1


def state_kind(copy_func: CopyFunc) -> StateKind:
    """Which kind of state a copy function is for; ValueError that names any other function."""
    if copy_func is get_conv_copy_spec:
        return "conv"
    if copy_func is get_temporal_copy_spec:
        return "temporal"
    name = getattr(copy_func, "__qualname__", repr(copy_func))
    raise ValueError(
        f"unknown Mamba copy function {name}: "
        "it must be get_conv_copy_spec or get_temporal_copy_spec"
    )
