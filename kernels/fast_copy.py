"""The copies of sections 3.2 and 3.4 once more, for speed: nearly free when there is nothing to do.

How fast they are on which card, and where they fall short of the card's own copy, stands in
``benchmarks/results``. Nothing runs them unless it is told to (``MambaSpecDecodeGPUContext.fast``).

The readable kernels (``postprocess.py``, ``precopy.py``) start one program for every request,
state and tile, although about 98 % of the decode steps cross no boundary: thousands of programs
are launched to find out that they have nothing to do. Here the grid is fixed, a few programs for
each multiprocessor, and the work is dealt out among them:

    decide    every program decides for *all* requests, one lane each, and counts those whose
              state moves. None: done, after one round trip to memory.
    rank      a running sum numbers the moving requests 1, 2, 3 … This is the work list; it lies
              in registers, so no second launch has to wait for it.
    deal      every request moves the same states, cut once into the same ``pieces``
              (``pieces.py``). Item i is piece ``i % num_pieces`` of the moving request number
              ``i // num_pieces``. Program p takes the items p, p + num_programs, …

No program waits for another, nothing is read back by the host, and no argument of a launch
depends on how many requests move: the launch can be recorded in a CUDA graph.

What a piece is, and why no order among programs is needed
    A copy is a window of rows that moves up by ``bias`` rows, in place or into another block.
    A piece holds *all* rows of *some* columns, so two pieces never share a byte, and a program
    that has read its tile whole before it writes can shift in place whatever others do.

                     rows                          columns
        temporal     1, the natural block          its bytes
        conv SD      tokens                        bytes of a token row
        conv DS      bytes along the token axis    channels

How wide
    Memory is fast only when each thread loads 16 bytes at once. That takes neighbouring bytes
    and addresses divisible by 16: the usual case, looked for at run time. Everything else goes
    by words of 4 (DS: also 2) bytes or by single bytes: slower, and as exact.
"""

import triton
import triton.language as tl

from kernels.copy_block import is_live_block, load_block_id
from kernels.launch import one_launch_at_a_time

# Plain numbers: Triton would else compile one kernel for a number divisible by 16, one for 1, …
SIZES = ("block_table_stride_req", "num_reqs", "block_size", "num_pieces", "num_blocks")

# ------------------------------------------------------------------------------- moving one piece


@triton.jit
def move_columns(
    src_addr,
    dst_addr,
    num_rows,
    row_stride,
    column,
    end,
    column_stride,
    in_place,
    UNIT: tl.constexpr,
    ALIGNED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Move columns ``column .. end-1`` of a window of ``num_rows <= ROWS`` rows, all in units.

    ``UNIT`` is the type of a unit. ``ALIGNED``: addresses, strides and ends are divisible by 16
    bytes, and columns are neighbours; said to the compiler, which then loads 16 bytes at once.
    """
    src = src_addr.to(tl.pointer_type(UNIT))
    dst = dst_addr.to(tl.pointer_type(UNIT))
    if ALIGNED:
        src, dst = tl.multiple_of(src, 16), tl.multiple_of(dst, 16)
        row_stride, column, end = row_stride // 4 * 4, column // 4 * 4, end // 4 * 4
    rows = tl.arange(0, ROWS)[:, None]
    while column < end:
        columns = column + tl.arange(0, COLUMNS)[None, :]
        offsets = rows * row_stride + columns * column_stride
        mask = (rows < num_rows) & (columns < end)
        tile = tl.load(src + offsets, mask=mask)
        if in_place:  # no warp may write before all have read
            tl.debug_barrier()
        tl.store(dst + offsets, tile, mask=mask)
        column += COLUMNS


@triton.jit
def move_bytes(
    src_addr,
    dst_addr,
    num_rows,
    row_stride,
    first,
    end,
    in_place,
    ROWS: tl.constexpr,
    TILE_BYTES: tl.constexpr,
):
    """Byte columns ``first .. end-1`` of a window, as wide as the alignment allows.

    The addresses are int64, all other numbers int32 bytes; ``first`` is divisible by 16.
    """
    COLUMNS: tl.constexpr = TILE_BYTES // 4 // ROWS
    alignment = src_addr | dst_addr | (row_stride | end).to(tl.int64)
    if alignment & 15 == 0:
        move_columns(
            src_addr, dst_addr, num_rows, row_stride // 4, first // 4, end // 4, 1, in_place,
            tl.int32, True, ROWS, COLUMNS,
        )  # fmt: skip
    elif alignment & 3 == 0:
        move_columns(
            src_addr, dst_addr, num_rows, row_stride // 4, first // 4, end // 4, 1, in_place,
            tl.int32, False, ROWS, COLUMNS // 2,
        )  # fmt: skip
    else:
        move_columns(
            src_addr, dst_addr, num_rows, row_stride, first, end, 1, in_place,
            tl.int8, False, ROWS, COLUMNS // 2,
        )  # fmt: skip


@triton.jit
def move_channels(
    src_addr,
    dst_addr,
    row_bytes,
    channel_stride,
    first,
    end,
    in_place,
    MAX_ROW_BYTES: tl.constexpr,
    TILE_BYTES: tl.constexpr,
):
    """Channels ``first .. end-1`` of a DS window: ``row_bytes`` bytes of each.

    The tile of ``move_columns`` lies on its side here: its rows are the units along the token
    axis, neighbours in memory, and its columns the channels, ``channel_stride`` bytes apart.
    """
    alignment = src_addr | dst_addr | (row_bytes | channel_stride).to(tl.int64)
    COLUMNS: tl.constexpr = TILE_BYTES // MAX_ROW_BYTES
    if alignment & 3 == 0:
        move_columns(
            src_addr, dst_addr, row_bytes // 4, 1, first, end, channel_stride // 4, in_place,
            tl.int32, False, MAX_ROW_BYTES // 4, COLUMNS // 2,
        )  # fmt: skip
    elif alignment & 1 == 0:
        move_columns(
            src_addr, dst_addr, row_bytes // 2, 1, first, end, channel_stride // 2, in_place,
            tl.int16, False, MAX_ROW_BYTES // 2, COLUMNS // 4,
        )  # fmt: skip
    else:
        move_columns(
            src_addr, dst_addr, row_bytes, 1, first, end, channel_stride, in_place,
            tl.int8, False, MAX_ROW_BYTES, COLUMNS // 8,
        )  # fmt: skip


@triton.jit
def copy_piece(
    piece,
    batch,
    src_col,
    dst_col,
    token_bias,
    piece_states,
    piece_firsts,
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
    PIECE_BYTES: tl.constexpr,
    TILE_BYTES: tl.constexpr,
    MAX_CONV_ROWS: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
):
    """One piece of a state-block copy (section 3.1) for the request in row ``batch``.

    The guards and the addresses are those of ``copy_block.copy_state_block``.
    """
    state = tl.load(piece_states + piece)
    first = tl.load(piece_firsts + piece)
    conv_width = tl.load(state_conv_widths + state)
    is_conv = conv_width > 0
    bias = token_bias.to(tl.int64)

    group = tl.load(state_group_indices + state)
    table = tl.load(block_table_ptrs + group).to(tl.pointer_type(tl.int32))
    table_row = table + batch.to(tl.int64) * block_table_stride_req
    read_col = src_col + tl.where(is_conv, 0, bias)
    src_block = load_block_id(table_row, read_col, block_table_stride_req)
    dst_block = load_block_id(table_row, dst_col.to(tl.int64), block_table_stride_req)

    live = is_live_block(src_block, num_blocks) & is_live_block(dst_block, num_blocks)
    if (bias >= 0) & live & ((bias < conv_width) | (conv_width == 0)):
        base = tl.load(state_base_addrs + state)
        block_stride = tl.load(state_block_strides + state)
        src_addr = base + src_block * block_stride
        dst_addr = base + dst_block * block_stride
        in_place = src_block == dst_block

        # From here on all numbers lie within a block, and in 32 bits.
        elem_size = tl.load(state_elem_sizes + state)
        inner_bytes = tl.load(state_inner_sizes + state).to(tl.int32) * elem_size
        num_tokens = conv_width - token_bias
        if is_conv:
            src_addr += bias * inner_bytes
            COLUMNS: tl.constexpr = PIECE_BYTES // MAX_CONV_ROWS  # as the pieces were cut
            if CONV_STATE_DIM_FIRST:
                num_channels = tl.load(state_dim_row_count + state)
                channel_stride = tl.load(state_dim_row_stride + state).to(tl.int32)
                end = tl.minimum(first + COLUMNS, num_channels)
                if (token_bias == 0) & (channel_stride == conv_width * inner_bytes):
                    # Nothing is shifted and nothing lies between the channels: one run of bytes.
                    move_bytes(
                        src_addr, dst_addr, 1, 0, first * channel_stride, end * channel_stride,
                        False, 1, TILE_BYTES,
                    )  # fmt: skip
                else:
                    move_channels(
                        src_addr, dst_addr, num_tokens * inner_bytes, channel_stride, first, end,
                        in_place, MAX_CONV_ROWS, TILE_BYTES,
                    )  # fmt: skip
            else:
                end = tl.minimum(first + COLUMNS, inner_bytes)
                move_bytes(
                    src_addr, dst_addr, num_tokens, inner_bytes, first, end,
                    in_place, MAX_CONV_ROWS, TILE_BYTES,
                )  # fmt: skip
        else:
            end = tl.minimum(first + PIECE_BYTES, inner_bytes)
            move_bytes(src_addr, dst_addr, 1, 0, first, end, False, 1, TILE_BYTES)


# ------------------------------------------------------------------------------ deciding, dealing


@triton.jit
def load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING: tl.constexpr):
    """The slot of each batch row; -1 for a row that does not exist."""
    slot = tl.where(exists, request, -1)
    if HAS_IDX_MAPPING:
        slot = tl.load(idx_mapping + request, mask=exists, other=-1)
    return slot


@triton.jit
def decide_precopy(
    request,
    exists,
    mamba_state_idx,
    src_col,
    token_bias,
    idx_mapping,
    HAS_IDX_MAPPING: tl.constexpr,
):
    """Section 3.4 for one batch row, or for a lane each: (moves, source, destination, bias)."""
    slot = load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING)
    from_col = tl.load(src_col + slot, mask=slot >= 0, other=-1)
    to_col = tl.load(mamba_state_idx + slot, mask=slot >= 0, other=-1)
    bias = tl.load(token_bias + slot, mask=slot >= 0, other=0)
    return (from_col >= 0) & (from_col != to_col), from_col, to_col, bias


@triton.jit
def decide_postprocess(
    request,
    exists,
    num_accepted_tokens,
    mamba_state_idx,
    num_scheduled_tokens,
    num_computed_tokens,
    num_draft_tokens,
    idx_mapping,
    block_size,
    HAS_IDX_MAPPING: tl.constexpr,
    PRECOMPUTED_NEW_COMPUTED: tl.constexpr,
):
    """Section 3.2 for one batch row, or for a lane each.

    (slot, count becomes 1, moves, source, destination, bias)
    """
    slot = load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING)
    live = slot >= 0
    src_col = tl.load(mamba_state_idx + slot, mask=live, other=0)
    accepted = tl.load(num_accepted_tokens + slot, mask=live, other=0)
    computed = tl.load(num_computed_tokens + slot, mask=live, other=0)
    if PRECOMPUTED_NEW_COMPUTED:
        new = computed
        running = new - accepted + 1
    else:
        scheduled = tl.load(num_scheduled_tokens + slot, mask=live, other=0)
        drafts = tl.load(num_draft_tokens + slot, mask=live, other=0)
        running = computed + scheduled - drafts
        new = running + accepted - 1
    aligned = new // block_size * block_size
    bias = aligned - running
    dst_col = aligned // block_size - 1
    reached = live & (new >= 0) & (bias >= 0)
    moves = reached & ((src_col != dst_col) | (bias > 0))
    return slot, reached & (src_col == dst_col), moves, src_col, dst_col, bias


@triton.jit
def request_of(nth, moves, rank, lanes):
    """The batch row of moving request number ``nth``, counted from 0."""
    return tl.sum(tl.where(moves & (rank == nth + 1), lanes, 0))


@one_launch_at_a_time
@triton.jit(do_not_specialize=[n for n in SIZES if n != "block_size"])
def precopy_mamba_align_pieces_kernel(
    mamba_state_idx,
    src_col,
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
    idx_mapping,
    num_reqs,
    piece_states,
    piece_firsts,
    num_pieces,
    num_blocks,
    MAX_REQS: tl.constexpr,
    PIECE_BYTES: tl.constexpr,
    TILE_BYTES: tl.constexpr,
    MAX_CONV_ROWS: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
):
    """``precopy_mamba_align_fused_kernel`` (section 3.4) on any grid ``(n,)``.

    ``MAX_REQS``: a power of two, at least ``num_reqs``. ``piece_…``, ``num_pieces`` and the sizes
    come from ``pieces.Pieces``; the rest is as in the readable kernel.
    """
    lanes = tl.arange(0, MAX_REQS)
    moves, _, _, _ = decide_precopy(
        lanes, lanes < num_reqs, mamba_state_idx, src_col, token_bias, idx_mapping, HAS_IDX_MAPPING
    )
    rank = tl.cumsum(moves.to(tl.int32), 0)
    num_items = tl.max(rank) * num_pieces
    item = tl.program_id(0)
    while item < num_items:
        nth = item // num_pieces
        batch = request_of(nth, moves, rank, lanes)
        _moves, from_col, to_col, bias = decide_precopy(
            batch, batch >= 0, mamba_state_idx, src_col, token_bias, idx_mapping, HAS_IDX_MAPPING
        )
        copy_piece(
            item - nth * num_pieces,
            batch,
            from_col,
            to_col,
            bias,
            piece_states,
            piece_firsts,
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
            PIECE_BYTES,
            TILE_BYTES,
            MAX_CONV_ROWS,
            CONV_STATE_DIM_FIRST,
        )
        item += tl.num_programs(0)


@one_launch_at_a_time
@triton.jit(do_not_specialize=SIZES)
def postprocess_mamba_pieces_kernel(
    num_accepted_tokens,
    mamba_state_idx,
    num_scheduled_tokens,
    num_computed_tokens,
    num_draft_tokens,
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
    num_accepted_tokens_out,
    idx_mapping,
    num_reqs,
    block_size,
    piece_states,
    piece_firsts,
    num_pieces,
    num_blocks,
    MAX_REQS: tl.constexpr,
    PIECE_BYTES: tl.constexpr,
    TILE_BYTES: tl.constexpr,
    MAX_CONV_ROWS: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
    PRECOMPUTED_NEW_COMPUTED: tl.constexpr,
):
    """``postprocess_mamba_fused_kernel`` (section 3.2) on any grid ``(n,)``.

    ``num_accepted_tokens_out`` must be another tensor than ``num_accepted_tokens``: every program
    decides from the latter, whenever it starts. For the others see the kernel above.
    """
    lanes = tl.arange(0, MAX_REQS)
    slots, resets, moves, _, _, _ = decide_postprocess(
        lanes,
        lanes < num_reqs,
        num_accepted_tokens,
        mamba_state_idx,
        num_scheduled_tokens,
        num_computed_tokens,
        num_draft_tokens,
        idx_mapping,
        block_size,
        HAS_IDX_MAPPING,
        PRECOMPUTED_NEW_COMPUTED,
    )
    item = tl.program_id(0)
    if item == 0:
        tl.store(num_accepted_tokens_out + slots, 1, mask=resets)
    rank = tl.cumsum(moves.to(tl.int32), 0)
    num_items = tl.max(rank) * num_pieces
    while item < num_items:
        nth = item // num_pieces
        batch = request_of(nth, moves, rank, lanes)
        _slot, _resets, _moves, src_col, dst_col, bias = decide_postprocess(
            batch,
            batch >= 0,
            num_accepted_tokens,
            mamba_state_idx,
            num_scheduled_tokens,
            num_computed_tokens,
            num_draft_tokens,
            idx_mapping,
            block_size,
            HAS_IDX_MAPPING,
            PRECOMPUTED_NEW_COMPUTED,
        )
        copy_piece(
            item - nth * num_pieces,
            batch,
            src_col,
            dst_col,
            bias,
            piece_states,
            piece_firsts,
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
            PIECE_BYTES,
            TILE_BYTES,
            MAX_CONV_ROWS,
            CONV_STATE_DIM_FIRST,
        )
        item += tl.num_programs(0)
