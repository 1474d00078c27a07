"""What the metadata builder is given: one batch as tensors (section 4.1).

A batch is given twice. The device tensors feed the kernels; their CPU copies let the builder
decide (which rows are prefills, how many chunks there are) without waiting for the device.

Symbols of this package
    R          ``num_reqs``: rows of the batch, graph padding included
    D, P       rows that count as decodes, rows that count as prefills (D + P = R)
    B          ``block_size``
    S          ``num_speculative_blocks``: scratch columns behind the running one
    c, q, s    computed tokens of a row, its query length, and ``s = c + q``
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

NULL_BLOCK_ID = 0
"""The block that never holds data; stands in a table wherever there is nothing (section 1)."""

PAD_SLOT_ID = -1
"""Fills the tail of the conv1d program list: a program that finds it has no work (section 4.5)."""

IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CommonAttentionMetadata:
    """One batch, the same for every layer that shares a block table (section 4.1).

    Device tensors: ``query_start_loc`` int32 ``[R+1]``, ``seq_lens`` int32 ``[R]`` (computed plus
    scheduled tokens), ``block_table_tensor`` int32 ``[R, columns]``, ``slot_mapping`` (carried
    along, never read). CPU tensors: ``query_start_loc_cpu`` int32 ``[R+1]``, ``is_prefilling``
    bool ``[R]``, ``seq_lens_cpu_upper_bound`` int32 ``[R]``, and ``replayssm_decode_base_cpu``
    int32 ``[R]`` (tokens known when the request was last admitted or resumed; ReplaySSM only).

    The builder asks for the CPU lengths and ``is_prefilling`` and says so if one is missing;
    nothing in here is ever changed in place.
    """

    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor | None
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor | None = None
    is_prefilling: torch.Tensor | None = None
    seq_lens_cpu_upper_bound: torch.Tensor | None = None
    replayssm_decode_base_cpu: torch.Tensor | None = None

    def query_lens(self) -> torch.Tensor:
        """Query tokens of each row, drafts included; device, int32 ``[R]``."""
        return self.query_start_loc[1:] - self.query_start_loc[:-1]

    def compute_num_computed_tokens(self) -> torch.Tensor:
        """Tokens whose state is final before this step; device, int32 ``[R]``."""
        return self.seq_lens - self.query_lens()

    def replace(self, **changes: Any) -> CommonAttentionMetadata:
        """A copy with the named fields changed; the tensors themselves are shared."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, eq=False)
class HostBatch:
    """The batch as the CPU knows it: what every decision of the builder is made from.

    Arrays of one entry per row, except ``query_start_loc`` with one more.
    """

    query_start_loc: IntArray
    query_lens: IntArray
    seq_lens: IntArray
    is_prefilling: BoolArray

    @property
    def num_computed(self) -> IntArray:
        """Computed tokens of each row."""
        return self.seq_lens - self.query_lens

    @property
    def has_state(self) -> BoolArray:
        """Rows that have state from an earlier step or from a prefix hit."""
        return self.seq_lens > self.query_lens


def query_start_loc_on_cpu(common: CommonAttentionMetadata) -> IntArray:
    """The CPU copy of the query offsets, ``[R+1]``; ValueError where missing or misshapen."""
    offsets = _cpu_array(common, "query_start_loc_cpu", common.num_reqs + 1)
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if falling.size:
        row = int(falling[0])
        raise ValueError(
            f"query_start_loc_cpu must never fall, but row {row} goes from {offsets[row]} "
            f"to {offsets[row + 1]}"
        )
    return offsets


def is_prefilling_on_cpu(common: CommonAttentionMetadata) -> BoolArray:
    """Which rows are prefilling, ``[R]``; ValueError where missing or misshapen."""
    return _cpu_array(common, "is_prefilling", common.num_reqs).astype(np.bool_)


def host_batch(common: CommonAttentionMetadata) -> HostBatch:
    """Collect what the CPU knows of the batch (section 4.1).

    Raises ValueError that names the field which is missing, of the wrong length or inconsistent.
    """
    _check_device_rows(common)
    offsets = query_start_loc_on_cpu(common)
    query_lens = np.diff(offsets)
    seq_lens = _cpu_array(common, "seq_lens_cpu_upper_bound", common.num_reqs)
    short = np.flatnonzero(seq_lens < query_lens)
    if short.size:
        row = int(short[0])
        raise ValueError(
            f"row {row} has seq_len {seq_lens[row]} but a query of {query_lens[row]} tokens; "
            "a seq_len counts the query too"
        )
    return HostBatch(offsets, query_lens, seq_lens, is_prefilling_on_cpu(common))


def require_rows(name: str, tensor: torch.Tensor, rows: int) -> None:
    """Refuse a per-request tensor that does not have one entry for each of ``rows`` requests."""
    if tensor.ndim != 1 or tensor.shape[0] != rows:
        raise ValueError(f"{name} must have shape ({rows},), got {tuple(tensor.shape)}")


def _check_device_rows(common: CommonAttentionMetadata) -> None:
    require_rows("query_start_loc", common.query_start_loc, common.num_reqs + 1)
    require_rows("seq_lens", common.seq_lens, common.num_reqs)
    table = common.block_table_tensor
    if table.ndim != 2 or table.shape[0] != common.num_reqs:
        raise ValueError(
            f"block_table_tensor must have shape ({common.num_reqs}, columns), "
            f"got {tuple(table.shape)}"
        )


def _cpu_array(common: CommonAttentionMetadata, name: str, rows: int) -> NDArray[Any]:
    tensor: torch.Tensor | None = getattr(common, name)
    if tensor is None:
        raise ValueError(
            f"{name} is missing: the builder decides from exact CPU lengths and row classes"
        )
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} must be a CPU tensor, got one on {tensor.device}")
    require_rows(name, tensor, rows)
    return tensor.numpy()
