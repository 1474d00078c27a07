"""Independent byte copies from lists of addresses: the V1 runner's way to move blocks (3.5).

``copy_rows`` below is also the last step of every state-block copy (``copy_block.py``). It is
the one loop of this package that moves bytes.

Why a left shift in place comes out right
    Byte j of the destination is byte j + shift of the source, and both may be the same block.
    The loop walks upwards in chunks. What a later chunk reads lies *above* everything an earlier
    chunk wrote, so no chunk reads a byte that was already replaced. Within one chunk the bytes
    do overlap, and the warps of a program run at their own pace: the barrier holds every store
    back until all warps have loaded. Programs are not ordered at all, so chunks may be dealt
    out to several programs (tiles) only if source and destination do not overlap.
"""

import torch
import triton
import triton.language as tl

from kernels.launch import check_memcpy_lengths, one_launch_at_a_time

DEFAULT_BLOCK_SIZE = 1024  # units moved per loop turn by one program


@triton.jit
def copy_chunks(
    src_addr,
    dst_addr,
    num_rows,
    row_units,
    row_stride,
    tile,
    num_tiles,
    UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Move ``num_rows`` rows of ``row_units`` units of type ``UNIT``, ``row_stride`` units apart.

    This program takes the chunks of ``BLOCK`` units number tile, tile + num_tiles, ...
    """
    src = src_addr.to(tl.pointer_type(UNIT))
    dst = dst_addr.to(tl.pointer_type(UNIT))
    num_units = num_rows * row_units
    lanes = tl.arange(0, BLOCK)
    start = (tile * BLOCK).to(tl.int64)
    while start < num_units:
        unit = start + lanes
        row = unit // row_units
        offset = row * row_stride + (unit - row * row_units)
        data = tl.load(src + offset, mask=unit < num_units)
        tl.debug_barrier()
        tl.store(dst + offset, data, mask=unit < num_units)
        start += num_tiles * BLOCK


@triton.jit
def copy_rows(
    src_addr, dst_addr, num_rows, row_bytes, row_stride, tile, num_tiles, BLOCK: tl.constexpr
):
    """Move ``num_rows`` rows of ``row_bytes`` bytes, ``row_stride`` bytes apart (all int64).

    By words of four bytes where every address and length allows it, else byte by byte: elements
    may have any size and pages any padding.
    """
    if row_bytes > 0:
        if ((src_addr | dst_addr | row_bytes | row_stride) & 3) == 0:
            words, stride = row_bytes // 4, row_stride // 4
            copy_chunks(
                src_addr, dst_addr, num_rows, words, stride, tile, num_tiles, tl.int32, BLOCK
            )
        else:
            copy_chunks(
                src_addr, dst_addr, num_rows, row_bytes, row_stride, tile, num_tiles, tl.int8, BLOCK
            )


@one_launch_at_a_time
@triton.jit
def batch_memcpy_kernel(src_ptrs, dst_ptrs, sizes, BLOCK_SIZE: tl.constexpr):
    """Copy ``sizes[i]`` bytes from address ``src_ptrs[i]`` to ``dst_ptrs[i]`` (section 3.5).

    Grid ``(n,)``. Addresses uint64 [n], sizes int32 [n] in bytes.
    """
    i = tl.program_id(0)
    src_addr = tl.load(src_ptrs + i).to(tl.int64)
    dst_addr = tl.load(dst_ptrs + i).to(tl.int64)
    size = tl.load(sizes + i).to(tl.int64)
    tile = tl.program_id(1)
    copy_rows(src_addr, dst_addr, 1, size, size, tile, tl.num_programs(1), BLOCK_SIZE)


def batch_memcpy(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    """Launch the kernel over all n copies; nothing for n = 0 (section 3.5).

    ``src_ptrs``, ``dst_ptrs`` uint64 [n] addresses, ``sizes`` int32 [n] bytes.
    ValueError for unequal lengths.
    """
    n = check_memcpy_lengths(src_ptrs, dst_ptrs, sizes)
    if n > 0:
        batch_memcpy_kernel[(n,)](src_ptrs, dst_ptrs, sizes, BLOCK_SIZE=DEFAULT_BLOCK_SIZE)
