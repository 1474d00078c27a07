"""A kernel that does nothing but store numbers in a cache dtype and load them again."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.launch import one_launch_at_a_time
from kernels.mixer import load_float, store_float


@one_launch_at_a_time
@triton.jit
def store_and_load_kernel(values, cache, loaded, size, TILE: tl.constexpr):
    lane = tl.arange(0, TILE)
    inside = lane < size
    store_float(cache + lane, tl.load(values + lane, mask=inside, other=0), inside)
    tl.debug_barrier()
    tl.store(loaded + lane, load_float(cache + lane, inside), mask=inside)


def through_the_cache(
    values: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """``values`` float32 [n] as stored in ``dtype``, and as loaded again in float32."""
    cache = torch.zeros_like(values, dtype=dtype)
    loaded = torch.zeros_like(values)
    tile = 1 << (len(values) - 1).bit_length()
    store_and_load_kernel[(1,)](values, cache, loaded, len(values), TILE=tile)
    return cache, loaded
