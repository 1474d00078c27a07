"""One state-block copy: the device function that the fused kernels share (section 3.1).

    state     one tensor of one layer: its conv state or its temporal state; slot = block id
    row       of a block table: ``row[column]`` is the id of the physical block
    bias      how many tokens past the state in ``src_col`` the wanted state lies

A conv state is a window over the last inputs. Going ``bias`` tokens on means letting the window
slide: token row ``bias`` becomes token row 0.

    source       t0 t1 t2 t3 t4        bias = 2
    destination  t2 t3 t4 .. ..        .. stays as it was

A temporal state is one sum that cannot slide, so the forward has kept one per draft position in
the blocks that follow: the wanted one lies ``bias`` columns further right, and is copied whole.

How the bytes lie (width W, ``token`` bytes from one token to the next)

    conv SD    1 row of W tokens, all channels of a token together
    conv DS    ``dim`` rows of W tokens, one row per channel
    temporal   1 row: the natural block, without the padding of its page

so that in every case a copy is: some rows, each a run of bytes, read ``bias`` tokens further on.
"""

import triton
import triton.language as tl

from kernels.memcpy import copy_rows


@triton.jit
def load_block_id(table_row, column, num_columns):
    """``table_row[column]`` in 64 bits; 0, the null block, for a column outside the row."""
    inside = (column >= 0) & (column < num_columns)
    return tl.load(table_row + column, mask=inside, other=0).to(tl.int64)


@triton.jit
def is_live_block(block, num_blocks):
    """Whether a block may be turned into an address; ``num_blocks`` 0 = unknown."""
    return (block > 0) & ((num_blocks == 0) | (block < num_blocks))


@triton.jit
def copy_state_block(
    state,
    batch,
    src_col,
    dst_col,
    token_bias,
    block_table_ptrs,
    block_table_stride_req,
    state_base_addrs,
    state_block_strides,
    state_elem_sizes,
    state_inner_sizes,
    state_conv_widths,
    state_group_indices,
    state_dim_row_count,
    state_dim_row_stride,
    num_blocks,
    COPY_BLOCK_SIZE: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
):
    """Copy one state of the request in block-table row ``batch``; skip what has no address.

    ``batch``, ``src_col``, ``dst_col``, ``token_bias`` are scalars, the rest is as in section 3.1.
    Programs along grid axis 2 share the work where its parts are independent.
    """
    conv_width = tl.load(state_conv_widths + state).to(tl.int64)
    is_conv = conv_width > 0
    bias = token_bias.to(tl.int64)

    # Which blocks. Conv and temporal state read different columns, so each is judged by its own.
    group = tl.load(state_group_indices + state)
    table = tl.load(block_table_ptrs + group).to(tl.pointer_type(tl.int32))
    table_row = table + batch.to(tl.int64) * block_table_stride_req
    read_col = src_col + tl.where(is_conv, 0, bias)
    src_block = load_block_id(table_row, read_col, block_table_stride_req)
    dst_block = load_block_id(table_row, dst_col.to(tl.int64), block_table_stride_req)

    if (bias >= 0) & is_live_block(src_block, num_blocks) & is_live_block(dst_block, num_blocks):
        # Where. Ids are 64 bits wide by now: id * stride passes 2**31 on real caches. A base
        # address of 2**63 or more arrives as a negative number, and the sum wraps back.
        base = tl.load(state_base_addrs + state)
        block_stride = tl.load(state_block_strides + state)
        src_addr = base + src_block * block_stride
        dst_addr = base + dst_block * block_stride

        # How much. ``inner`` is what lies between two tokens (SD, DS), or the whole block.
        elem_size = tl.load(state_elem_sizes + state).to(tl.int64)
        inner_bytes = tl.load(state_inner_sizes + state) * elem_size
        src_addr += tl.where(is_conv, bias * inner_bytes, 0)
        row_bytes = tl.where(is_conv, (conv_width - bias) * inner_bytes, inner_bytes)
        if CONV_STATE_DIM_FIRST:
            num_rows = tl.where(is_conv, tl.load(state_dim_row_count + state), 1)
            row_stride = tl.load(state_dim_row_stride + state)
        else:
            num_rows = 1
            row_stride = row_bytes

        # Who. In place the parts overlap and must go in order: one program does them all.
        in_place = src_block == dst_block
        tile = tl.program_id(2)
        num_tiles = tl.where(in_place, 1, tl.num_programs(2))
        if (tile == 0) | (src_block != dst_block):
            copy_rows(
                src_addr,
                dst_addr,
                num_rows,
                row_bytes,
                row_stride,
                tile,
                num_tiles,
                COPY_BLOCK_SIZE,
            )
