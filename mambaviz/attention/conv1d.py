"""The program list of the causal conv1d over prefill tokens (section 4.5).

One program convolves ``BLOCK_M`` tokens of one prefill. Prefills differ in length, so the launch
needs a list that says for each program which prefill it serves and which of its tiles.
"""

from __future__ import annotations

from typing import Final, TypedDict

import numpy as np
import torch

from mambaviz.attention.common import PAD_SLOT_ID, IntArray

BLOCK_M: Final = 8
"""Tokens per program."""

MIN_PROGRAMS: Final = 1024
"""The list is sized for at least this many programs, so that its size seldom changes."""


class Conv1dPrograms(TypedDict):
    """Programs for one ``BLOCK_M``; tensors int32, on the CPU except the two ``_ptr`` ones."""

    nums: torch.Tensor  # [P] programs of each prefill
    tot: int  # programs in all
    mlist: torch.Tensor  # [tot] prefill each program serves
    mlist_len: int
    offsetlist: torch.Tensor  # [tot] which tile of that prefill
    batch_ptr: torch.Tensor  # mlist on the device, padded
    token_chunk_offset_ptr: torch.Tensor  # offsetlist on the device, padded


def compute_causal_conv1d_metadata(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device | str
) -> tuple[dict[int, Conv1dPrograms], torch.Tensor, torch.Tensor]:
    """Lay out the conv1d programs of a prefill batch (section 4.5).

    ``query_start_loc_p_cpu``: CPU, ``[P+1]``, starts at 0.
    Returns ``(nums_dict, batch_ptr, token_chunk_offset_ptr)``; the last two are int32 tensors of
    ``2 * max(1024, tot)`` entries on ``device``, padded with ``PAD_SLOT_ID``.
    """
    query_lens = np.diff(query_start_loc_p_cpu.numpy())
    nums = -(-query_lens // BLOCK_M)  # [P]
    total = int(nums.sum())
    prefill = np.repeat(np.arange(len(nums)), nums)  # [tot]
    first_program = np.cumsum(nums) - nums  # [P]
    tile = np.arange(total) - first_program[prefill]  # [tot]

    size = 2 * max(MIN_PROGRAMS, total)
    batch_ptr = _padded(prefill, size, device)
    token_chunk_offset_ptr = _padded(tile, size, device)
    programs: Conv1dPrograms = {
        "nums": _int32(nums),
        "tot": total,
        "mlist": _int32(prefill),
        "mlist_len": total,
        "offsetlist": _int32(tile),
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {BLOCK_M: programs}, batch_ptr, token_chunk_offset_ptr


def _int32(values: IntArray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int32))


def _padded(values: IntArray, size: int, device: torch.device | str) -> torch.Tensor:
    padded = torch.full((size,), PAD_SLOT_ID, dtype=torch.int32)
    padded[: len(values)] = _int32(values)
    return padded.to(device, non_blocking=True)
