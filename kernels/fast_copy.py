"""The copies of sections 3.2 and 3.4 near the speed of the card's own copy, and nearly free when
there is nothing to do.

How fast they are on which card, and why they are made as they are, stands in
``benchmarks/results``. On a GPU `MambaSpecDecodeGPUContext` runs them in the place of the readable.

The readable kernels (``postprocess.py``, ``precopy.py``) start one program for every request,
state and tile, although about 98 % of the decode steps cross no boundary: thousands of programs
are launched to find out that they have nothing to do. Here the grid is fixed, a few programs for
each multiprocessor, and the work is dealt out among them:

    decide    every program decides for *all* requests, one lane each, and counts those whose
              state moves. None: done, after two round trips to memory.
    rank      a running sum numbers the moving requests 1, 2, 3 … This is the work list; it lies
              in registers, so no second launch has to wait for it.
    draw      every request moves the same states, cut once into the same ``pieces``
              (``pieces.py``). Item i is piece ``i % num_pieces`` of the moving request number
              ``i // num_pieces``. Every program begins with the items p, p + n, p + 2n (p its
              number of n) and then draws its next one from a counter, as multiprocessors are not
              equally fast: dealt out beforehand, the last program would end 10 % late.

No program waits for another, nothing is read back by the host, and no argument of a launch
depends on how many requests move: the launch can be recorded in a CUDA graph.

Why a program looks three items ahead
    To move an item takes four things, each found through the one before: a ticket from the
    counter, the record of the piece, the ids of its two blocks, the bytes. A busy memory answers
    each after a microsecond or two. So a program is at four items at once, one step of each:

        item i        bytes
        item i + 1          ids
        item i + 2                record
        item i + 3                        ticket

What a piece is, and why no order among programs is needed
    A copy is a window of rows that moves up by ``bias`` rows, in place or into another block.
    A piece holds *all* rows of *some* columns, so two pieces never share a byte, and a program
    that has read its tile whole before it writes can shift in place whatever others do.

                     rows                          columns
        temporal     1, the natural block          its bytes
        conv SD      tokens                        bytes of a token row
        conv DS      tokens of a channel           channels

How wide
    Memory is fast only when each thread loads 16 bytes at once. That takes neighbouring bytes
    and addresses divisible by 16: the usual case, known at binding. Everything else goes by words
    of 4 bytes or by single bytes; DS rows that shift, by what their elements allow.

A launch that fails leaves the counter wherever it was: such a device is lost anyway.
"""

import triton
import triton.language as tl

from kernels.copy_block import is_live_block
from kernels.launch import one_launch_at_a_time

# Plain numbers: Triton would else compile one kernel for a number divisible by 16, one for 1, …
SIZES = (
    "block_table_stride_req",
    "num_reqs",
    "block_size",
    "num_pieces",
    "num_groups",
    "num_blocks",
)

# The bytes that stream through would push out of the cache what is read again and again.
KEEP: tl.constexpr = tl.constexpr("evict_last")

# ------------------------------------------------------------------------------ deciding, ranking


@triton.jit
def load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING: tl.constexpr):
    """The slot of each batch row; -1 for a row that does not exist."""
    slot = tl.where(exists, request, -1)
    if HAS_IDX_MAPPING:
        slot = tl.load(idx_mapping + request, mask=exists, other=-1, eviction_policy=KEEP)
    return slot


@triton.jit
def load_of(values, slot, other):
    """``values[slot]``, or ``other`` where there is no slot."""
    return tl.load(values + slot, mask=slot >= 0, other=other, eviction_policy=KEEP)


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
    """Section 3.4, a lane for each batch row: (moves, source column, destination column, bias)."""
    slot = load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING)
    from_col = load_of(src_col, slot, -1)
    to_col = load_of(mamba_state_idx, slot, -1)
    bias = load_of(token_bias, slot, 0)
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
    """Section 3.2, a lane for each batch row.

    (slot, count becomes 1, moves, source column, destination column, bias)
    """
    slot = load_slot(request, exists, idx_mapping, HAS_IDX_MAPPING)
    from_col = load_of(mamba_state_idx, slot, 0)
    accepted = load_of(num_accepted_tokens, slot, 0)
    computed = load_of(num_computed_tokens, slot, 0)
    if PRECOMPUTED_NEW_COMPUTED:
        new = computed
        running = new - accepted + 1
    else:
        scheduled = load_of(num_scheduled_tokens, slot, 0)
        drafts = load_of(num_draft_tokens, slot, 0)
        running = computed + scheduled - drafts
        new = running + accepted - 1
    aligned = new // block_size * block_size
    bias = aligned - running
    to_col = aligned // block_size - 1
    reached = (slot >= 0) & (new >= 0) & (bias >= 0)
    moves = reached & ((from_col != to_col) | (bias > 0))
    return slot, reached & (from_col == to_col), moves, from_col, to_col, bias


@triton.jit
def pick(nth, moves, rank, batch_rows, from_cols, to_cols, biases):
    """Moving request number ``nth``, counted from 0: (batch row, columns, bias).

    Always all four sums: behind a branch they went wrong on a GPU (triton 3.6, 32 lanes).
    """
    chosen = moves & (rank == nth + 1)
    return (
        tl.sum(tl.where(chosen, batch_rows, 0)),
        tl.sum(tl.where(chosen, from_cols, 0)),
        tl.sum(tl.where(chosen, to_cols, 0)),
        tl.sum(tl.where(chosen, biases, 0)),
    )


# --------------------------------------------------------------------------------------- one item


@triton.jit
def load_record(piece, records):
    """The record of a piece (`pieces.Records`), as a tuple."""
    addrs, block_strides, counts, widths, token_bytes, channel_bytes, groups = records
    return (
        tl.load(addrs + piece, eviction_policy=KEEP),
        tl.load(block_strides + piece, eviction_policy=KEEP),
        tl.load(counts + piece, eviction_policy=KEEP),
        tl.load(widths + piece, eviction_policy=KEEP),
        tl.load(token_bytes + piece, eviction_policy=KEEP),
        tl.load(channel_bytes + piece, eviction_policy=KEEP),
        tl.load(groups + piece, eviction_policy=KEEP),
    )


@triton.jit
def load_id(table_row, column, num_columns):
    """``copy_block.load_block_id``, from a line of the cache that is kept."""
    inside = (column >= 0) & (column < num_columns)
    return tl.load(table_row + column, mask=inside, other=0, eviction_policy=KEEP).to(tl.int64)


@triton.jit
def load_ids(request, record, tables, block_table_stride_req, MAX_GROUPS: tl.constexpr):
    """The ids of the source and the destination block of a piece, for a request as picked."""
    batch, from_col, to_col, bias = request
    _addr, _stride, _count, width, _token, _channel, group = record
    table = tl.sum(tables)
    if MAX_GROUPS > 1:  # the group is not even loaded where there is only one
        table = tl.sum(tl.where(tl.arange(0, MAX_GROUPS) == group, tables, 0))
    table_row = table.to(tl.pointer_type(tl.int32)) + batch.to(tl.int64) * block_table_stride_req
    read_col = from_col.to(tl.int64) + tl.where(width > 0, 0, bias)
    return (
        load_id(table_row, read_col, block_table_stride_req),
        load_id(table_row, to_col.to(tl.int64), block_table_stride_req),
    )


@triton.jit
def place(
    ids,
    bias,
    record,
    num_blocks,
    COLUMN_BYTES: tl.constexpr,
    CHANNELS_PACKED: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
):
    """Where a piece lies, as a window of rows and columns of bytes.

    (source address, destination address, row stride, columns, bytes from the begin of the first
    row to the end of the last, whether it moves within a block, whether channel by channel.)
    0 bytes where nothing may be moved: the guards are those of ``copy_block.copy_state_block``.
    """
    src_block, dst_block = ids
    addr, block_stride, count, width, token_bytes, channel_bytes, _group = record
    is_conv = width > 0
    live = is_live_block(src_block, num_blocks) & is_live_block(dst_block, num_blocks)
    live &= (bias >= 0) & ((bias < width) | (width == 0))
    src_addr = addr + src_block * block_stride
    dst_addr = addr + dst_block * block_stride

    # A temporal piece is one run of bytes, cut into rows only because a conv window has some.
    row_stride = COLUMN_BYTES
    num_columns = COLUMN_BYTES
    num_bytes = count
    by_channel = False
    if CONV_STATE_DIM_FIRST:
        # Whole channels: a run of bytes as well, unless they shift or there are gaps.
        num_bytes = tl.where(is_conv, count * channel_bytes, count)
        by_channel = is_conv & ((bias > 0) | (not CHANNELS_PACKED))
    else:
        # Some columns of all rows that are left of the window.
        row_stride = tl.where(is_conv, token_bytes, COLUMN_BYTES)
        num_columns = tl.where(is_conv, count, COLUMN_BYTES)
        num_bytes = tl.where(is_conv, (width - bias) * token_bytes, count)
        src_addr += tl.where(is_conv, bias * token_bytes, 0)
    num_bytes = tl.where(live, num_bytes, 0)
    in_place = is_conv & (src_block == dst_block)
    return src_addr, dst_addr, row_stride, num_columns, num_bytes, in_place, by_channel


@triton.jit
def move_channels(
    src_addr,
    dst_addr,
    bias,
    record,
    in_place,
    UNIT_BYTES: tl.constexpr,
    LANES: tl.constexpr,
):
    """DS rows that shift, or have gaps between them: the kept tokens of each channel."""
    UNIT: tl.constexpr = tl.int32 if UNIT_BYTES == 4 else tl.int16 if UNIT_BYTES == 2 else tl.int8
    _addr, _stride, num_channels, width, token_bytes, channel_bytes, _group = record
    token_units = token_bytes // UNIT_BYTES
    kept = (width - bias) * token_units
    src = src_addr.to(tl.pointer_type(UNIT)) + bias * token_units
    dst = dst_addr.to(tl.pointer_type(UNIT))
    lanes = tl.arange(0, LANES)  # channel by channel, as many lanes as units are kept
    channel = lanes // kept
    offsets = channel * (channel_bytes // UNIT_BYTES) + (lanes - channel * kept)
    tile = tl.load(src + offsets, mask=channel < num_channels)
    if in_place:  # no warp may write before all have read
        tl.debug_barrier()
    tl.store(dst + offsets, tile, mask=channel < num_channels)


# ------------------------------------------------------------------------------------- all items


@triton.jit
def move_all(
    decisions,
    records,
    num_pieces,
    counter,
    block_table_ptrs,
    block_table_stride_req,
    num_groups,
    num_blocks,
    MAX_GROUPS: tl.constexpr,
    PIECE_BYTES: tl.constexpr,
    CONV_ROWS: tl.constexpr,
    UNIT_BYTES: tl.constexpr,
    CHANNEL_UNIT_BYTES: tl.constexpr,
    CHANNELS_PACKED: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
):
    """This program's share of the copies of all requests that move.

    ``decisions``, a lane for each batch row: (moves, batch row, columns, bias).
    """
    COLUMN_BYTES: tl.constexpr = PIECE_BYTES // CONV_ROWS
    LANE_BYTES: tl.constexpr = 4 if UNIT_BYTES >= 4 else 1
    LANE: tl.constexpr = tl.int32 if UNIT_BYTES >= 4 else tl.int8
    rows = tl.arange(0, CONV_ROWS)[:, None]
    columns = tl.arange(0, COLUMN_BYTES // LANE_BYTES)[None, :]

    # Memory is asked for what does not hang on the decisions before they are in.
    programs = tl.num_programs(0)
    item = tl.program_id(0)
    nth = item // num_pieces
    record = load_record(item - nth * num_pieces, records)
    groups = tl.arange(0, MAX_GROUPS)
    tables = tl.load(block_table_ptrs + groups, mask=groups < num_groups, other=0)

    moves, batch_rows, from_cols, to_cols, biases = decisions
    rank = tl.cumsum(moves.to(tl.int32), 0)
    num_items = tl.max(rank) * num_pieces
    if item < num_items:
        request = pick(nth, moves, rank, batch_rows, from_cols, to_cols, biases)
        ids = load_ids(request, record, tables, block_table_stride_req, MAX_GROUPS)
        next_item = item + programs
        next_nth = next_item // num_pieces
        next_record = load_record(next_item - next_nth * num_pieces, records)
        next_request = pick(next_nth, moves, rank, batch_rows, from_cols, to_cols, biases)
        third_item = next_item + programs
        bias = request[3]
        src_addr, dst_addr, row_stride, num_columns, num_bytes, in_place, by_channel = place(
            ids, bias, record, num_blocks, COLUMN_BYTES, CHANNELS_PACKED, CONV_STATE_DIM_FIRST
        )
        while item < num_items:
            if CONV_STATE_DIM_FIRST:  # noqa: SIM102 (compiled away for SD)
                if by_channel:
                    if num_bytes > 0:
                        move_channels(
                            src_addr, dst_addr, bias, record, in_place,
                            CHANNEL_UNIT_BYTES, PIECE_BYTES // CHANNEL_UNIT_BYTES,
                        )  # fmt: skip
                    num_bytes = 0

            # The bytes of this item are on their way …
            src = src_addr.to(tl.pointer_type(LANE))
            dst = dst_addr.to(tl.pointer_type(LANE))
            if UNIT_BYTES == 16:  # said to the compiler, which then loads 16 bytes at once
                src, dst = tl.multiple_of(src, 16), tl.multiple_of(dst, 16)
                row_stride, num_columns = row_stride // 16 * 16, num_columns // 16 * 16
                num_bytes = num_bytes // 16 * 16
            lanes = rows * (row_stride // LANE_BYTES) + columns
            mask = (columns < num_columns // LANE_BYTES) & (lanes < num_bytes // LANE_BYTES)
            tile = tl.load(src + lanes, mask=mask)

            # … and with them the ids of the next, the record of the third, a ticket for the fourth.
            ids = load_ids(next_request, next_record, tables, block_table_stride_req, MAX_GROUPS)
            third_nth = third_item // num_pieces
            third_record = load_record(third_item - third_nth * num_pieces, records)
            third_request = pick(third_nth, moves, rank, batch_rows, from_cols, to_cols, biases)
            fourth_item = third_item + programs
            if num_items > 3 * programs:
                # Every item that is moved draws one ticket, so who holds the last of them knows
                # that no other program will draw after it.
                ticket = tl.atomic_add(counter, 1, sem="relaxed")
                if ticket == num_items - 1:
                    tl.store(counter, 0)
                fourth_item = 3 * programs + ticket

            if in_place:  # no warp may write before all have read
                tl.debug_barrier()
            tl.store(dst + lanes, tile, mask=mask)

            item, record, bias = next_item, next_record, next_request[3]
            next_item, next_record, next_request = third_item, third_record, third_request
            third_item = fourth_item
            src_addr, dst_addr, row_stride, num_columns, num_bytes, in_place, by_channel = place(
                ids, bias, record, num_blocks, COLUMN_BYTES, CHANNELS_PACKED, CONV_STATE_DIM_FIRST
            )


@one_launch_at_a_time
@triton.jit(do_not_specialize=[n for n in SIZES if n != "block_size"])
def precopy_mamba_align_pieces_kernel(
    mamba_state_idx,
    src_col,
    token_bias,
    block_table_ptrs,
    block_table_stride_req,
    idx_mapping,
    num_reqs,
    piece_addrs,
    piece_block_strides,
    piece_counts,
    piece_widths,
    piece_token_bytes,
    piece_channel_bytes,
    piece_groups,
    num_pieces,
    counter,
    num_groups,
    num_blocks,
    MAX_REQS: tl.constexpr,
    MAX_GROUPS: tl.constexpr,
    PIECE_BYTES: tl.constexpr,
    CONV_ROWS: tl.constexpr,
    UNIT_BYTES: tl.constexpr,
    CHANNEL_UNIT_BYTES: tl.constexpr,
    CHANNELS_PACKED: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
):
    """``precopy_mamba_align_fused_kernel`` (section 3.4) on any grid ``(n,)``.

    ``MAX_REQS``: a power of two, at least ``num_reqs``. The eight tensors of the states are
    replaced by the records of their pieces, which come from `pieces.Pieces` with ``num_pieces``
    and the sizes; the rest is as in the readable kernel.
    """
    batch_rows = tl.arange(0, MAX_REQS)
    moves, from_cols, to_cols, biases = decide_precopy(
        batch_rows,
        batch_rows < num_reqs,
        mamba_state_idx,
        src_col,
        token_bias,
        idx_mapping,
        HAS_IDX_MAPPING,
    )
    move_all(
        (moves, batch_rows, from_cols, to_cols, biases),
        (
            piece_addrs, piece_block_strides, piece_counts, piece_widths,
            piece_token_bytes, piece_channel_bytes, piece_groups,
        ),
        num_pieces,
        counter,
        block_table_ptrs,
        block_table_stride_req,
        num_groups,
        num_blocks,
        MAX_GROUPS,
        PIECE_BYTES,
        CONV_ROWS,
        UNIT_BYTES,
        CHANNEL_UNIT_BYTES,
        CHANNELS_PACKED,
        CONV_STATE_DIM_FIRST,
    )  # fmt: skip


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
    num_accepted_tokens_out,
    idx_mapping,
    num_reqs,
    block_size,
    piece_addrs,
    piece_block_strides,
    piece_counts,
    piece_widths,
    piece_token_bytes,
    piece_channel_bytes,
    piece_groups,
    num_pieces,
    counter,
    num_groups,
    num_blocks,
    MAX_REQS: tl.constexpr,
    MAX_GROUPS: tl.constexpr,
    PIECE_BYTES: tl.constexpr,
    CONV_ROWS: tl.constexpr,
    UNIT_BYTES: tl.constexpr,
    CHANNEL_UNIT_BYTES: tl.constexpr,
    CHANNELS_PACKED: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr,
    PRECOMPUTED_NEW_COMPUTED: tl.constexpr,
):
    """``postprocess_mamba_fused_kernel`` (section 3.2) on any grid ``(n,)``.

    ``num_accepted_tokens_out`` must be another tensor than ``num_accepted_tokens``: every program
    decides from the latter, whenever it starts. For the others see the kernel above.
    """
    batch_rows = tl.arange(0, MAX_REQS)
    slots, resets, moves, from_cols, to_cols, biases = decide_postprocess(
        batch_rows,
        batch_rows < num_reqs,
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
    if tl.program_id(0) == 0:
        tl.store(num_accepted_tokens_out + slots, 1, mask=resets)
    move_all(
        (moves, batch_rows, from_cols, to_cols, biases),
        (
            piece_addrs, piece_block_strides, piece_counts, piece_widths,
            piece_token_bytes, piece_channel_bytes, piece_groups,
        ),
        num_pieces,
        counter,
        block_table_ptrs,
        block_table_stride_req,
        num_groups,
        num_blocks,
        MAX_GROUPS,
        PIECE_BYTES,
        CONV_ROWS,
        UNIT_BYTES,
        CHANNEL_UNIT_BYTES,
        CHANNELS_PACKED,
        CONV_STATE_DIM_FIRST,
    )  # fmt: skip
