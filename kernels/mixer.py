"""The forward of the small layer: causal conv1d and the selective state recurrence (section 5).

Everything else in this package moves state that already exists. These kernels make it.

    x       a token's conv input, ``dim`` channels (dim = H heads of P channels)
    u       silu(sum over the last K inputs of weight * x, + bias)                    [dim]
    h       the temporal state: h = exp(dt * A) * h + dt * outer(u, B) in each head   [H, P, N]
    y       h @ C + D * u                                                             [H, P]

Which block a row reads and which it writes is all in the metadata (table of section 5.2):

    kernel                            program      reads                   writes
    causal_conv1d_decode_kernel       row          read column             write column
    causal_conv1d_prefill_kernel      8 tokens     read column             first .. last column
    selective_state_decode_kernel     row          read column + offset    write column + i
    selective_state_prefill_kernel    row          read column             first .. last column
    replay_state_decode_kernel        row          column 0 and its ring   the ring, or column 0

``offset`` is the accepted count - 1 of the step before: drafts leave one temporal state per token
behind, in one column each, and one row per token in the window. The accepted count says which of
them came true. In ``none`` and ``align`` mode every column is 0; in ``all`` mode they are given.

Three rules hold in every kernel
    Padding. A row whose read slot is the null block, or whose query is empty, does nothing at all.
    Bounds. An index from the metadata is checked before it meets an address (invariant I7); an id
        or a column that is none counts as the null block, and nothing is written to that.
    In place. A row may write the block it reads, and the threads of a program run at their own
        pace: a barrier stands between what is read and what is written.

Arithmetic is float32 whatever the cache holds. A state is rounded where it is stored, once per
written state: from token to token within a launch it stays float32.

Tiles are powers of two, as Triton wants them; a mask cuts off what the layer does not have.
"""

import triton
import triton.language as tl

from kernels.copy_block import is_live_block, load_block_id
from kernels.launch import one_launch_at_a_time

# ---------------------------------------------------------------------------------- cache numbers


@triton.jit
def load_float(pointers, mask):
    """Cache numbers as float32; 0 where masked out.

    A bfloat16 is the upper half of a float32. Shifting its bits says so exactly on a GPU and in
    the interpreter alike, whose own conversions of this type are not to be relied on.
    """
    value = tl.load(pointers, mask=mask, other=0)
    if pointers.dtype.element_ty == tl.bfloat16:
        bits = value.to(tl.uint16, bitcast=True).to(tl.uint32) << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        return value.to(tl.float32)


@triton.jit
def store_float(pointers, value, mask):
    """Round float32 to the cache's type, to nearest and halves to even, and store it."""
    if pointers.dtype.element_ty == tl.bfloat16:
        bits = value.to(tl.uint32, bitcast=True)
        # Just below half of the last kept bit, and that bit itself: a half goes up if it is odd.
        upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        upper = tl.where(value == value, upper, 0x7FC0)  # NaN stays NaN
        tl.store(pointers, upper.to(tl.uint16).to(tl.bfloat16, bitcast=True), mask=mask)
    else:
        tl.store(pointers, value.to(pointers.dtype.element_ty), mask=mask)


# ----------------------------------------------------------------------------- metadata of one row


@triton.jit
def load_query(query_start_loc, row, num_tokens):
    """First token and length of a row's query; without offsets every row is one token."""
    if query_start_loc is None:
        start = row
        end = row + 1
    else:
        start = tl.load(query_start_loc + row)
        end = tl.load(query_start_loc + row + 1)
    length = tl.minimum(end, num_tokens) - start
    return start, tl.where(start >= 0, length, 0)


@triton.jit
def load_column(columns, row):
    """A row's column of the block table; without columns, 0."""
    if columns is None:
        return 0
    else:
        return tl.load(columns + row)


@triton.jit
def load_offset(num_accepted_tokens, row):
    """How many tokens past its first one the state to be read lies; without counts, 0."""
    if num_accepted_tokens is None:
        return 0
    else:
        return tl.load(num_accepted_tokens + row) - 1


@triton.jit
def load_live_block(table_row, column, num_columns, num_blocks):
    """The block in a column, in 64 bits; 0 if there is none that may be read or written."""
    block = load_block_id(table_row, column, num_columns)
    return tl.where(is_live_block(block, num_blocks), block, 0)


# ------------------------------------------------------------------------------ causal convolution


@triton.jit
def load_inputs(
    index, old_rows, num_old, x, length, channel, stride_row, stride_channel,
    DIM: tl.constexpr, HISTORY: tl.constexpr,
):  # fmt: skip
    """Conv inputs number ``index`` of a query, float32 [indices, channels].

    The inputs of a query are the ``HISTORY`` = K - 1 rows of the window, oldest first, and then
    the query's own tokens. ``old_rows`` points at the window's first row, of which ``num_old``
    exist (a prefill without initial state has none: zeros), ``x`` at the query's first token.
    """
    is_channel = (channel < DIM)[None, :]
    is_old = (index < HISTORY)[:, None]
    token = index - HISTORY
    old = load_float(
        old_rows + index[:, None] * stride_row + channel[None, :] * stride_channel,
        is_old & (index < num_old)[:, None] & is_channel,
    )
    new = tl.load(
        x + token[:, None] * DIM + channel[None, :],
        mask=(token >= 0)[:, None] & (token < length)[:, None] & is_channel,
        other=0,
    )
    return tl.where(is_old, old, new)


@triton.jit
def convolve(
    token, old_rows, num_old, x, length, channel, stride_row, stride_channel, weight, bias,
    DIM: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """u of a query's tokens number ``token``, float32 [tokens, channels]."""
    is_channel = channel < DIM
    total = tl.load(bias + channel, mask=is_channel, other=0)[None, :]
    for tap in tl.static_range(K):
        # The last tap meets the token itself, which is input number token + K - 1.
        inputs = load_inputs(
            token + tap, old_rows, num_old, x, length, channel, stride_row, stride_channel,
            DIM, K - 1,
        )  # fmt: skip
        taps = tl.load(weight + channel * K + tap, mask=is_channel, other=0)
        total = total + inputs * taps[None, :]
    return total / (1 + tl.exp(-total))  # silu


@one_launch_at_a_time
@triton.jit
def causal_conv1d_decode_kernel(
    x,
    weight,
    bias,
    output,
    conv_state,
    stride_block,
    stride_row,
    stride_channel,
    num_blocks,
    state_indices,
    stride_indices,
    num_columns,
    read_columns,
    write_columns,
    num_accepted_tokens,
    query_start_loc,
    num_tokens,
    DIM: tl.constexpr,
    K: tl.constexpr,
    STATE_LEN: tl.constexpr,
    TOKEN_TILE: tl.constexpr,
    ROW_TILE: tl.constexpr,
    DIM_TILE: tl.constexpr,
):
    """One program per decode row, grid ``(num_decodes,)`` (section 5.2).

    ``x`` float32 [num_tokens, DIM], ``weight`` [DIM, K], ``bias`` [DIM]; ``output`` as x, written.
    ``conv_state`` by block, token row and channel through its three strides (elements), STATE_LEN
    rows a block. ``state_indices`` int32 [num_decodes, num_columns]. The others int32, by row, or
    None: ``read_columns`` and ``write_columns`` (all mode), ``num_accepted_tokens`` (drafts
    configured), ``query_start_loc`` [num_decodes + 1] (else one token a row).

    The window starts at row ``offset``. Behind it, rejected drafts may have left inputs that never
    came true; the query's inputs take their place. Afterwards everything stands one row further
    up, so that the window after the *first* query token starts at row 0:

        rows before    r0 t4 t5 t6 r1          offset 1, K - 1 = 3, query t7 t8
        inputs         t4 t5 t6 t7 t8
        rows after     t5 t6 t7 t8 --          -- is left as it was
    """
    row = tl.program_id(0)
    start, length = load_query(query_start_loc, row, num_tokens)
    length = tl.minimum(length, STATE_LEN - K + 2)  # 1 + num_spec
    offset = load_offset(num_accepted_tokens, row)
    table_row = state_indices + row.to(tl.int64) * stride_indices
    source = load_live_block(table_row, load_column(read_columns, row), num_columns, num_blocks)
    if (length > 0) & (source > 0):
        channel = tl.arange(0, DIM_TILE)
        token = tl.arange(0, TOKEN_TILE)
        is_channel = (channel < DIM)[None, :]
        query = x + start.to(tl.int64) * DIM
        # An offset that is none leaves no row to read: better zeros than another block's rows.
        num_old = tl.where(offset >= 0, STATE_LEN - offset, 0)
        old_rows = conv_state + source * stride_block + offset * stride_row

        u = convolve(
            token, old_rows, num_old, query, length, channel, stride_row, stride_channel,
            weight, bias, DIM, K,
        )  # fmt: skip
        tl.store(
            output + start.to(tl.int64) * DIM + token[:, None] * DIM + channel[None, :],
            u,
            mask=(token < length)[:, None] & is_channel,
        )

        new_row = tl.arange(0, ROW_TILE)
        rows = load_inputs(
            new_row + 1, old_rows, num_old, query, length, channel, stride_row, stride_channel,
            DIM, K - 1,
        )  # fmt: skip
        tl.debug_barrier()  # all is read; from here on it may be overwritten
        column = load_column(write_columns, row)
        target = load_live_block(table_row, column, num_columns, num_blocks)
        store_float(
            conv_state
            + target * stride_block
            + new_row[:, None] * stride_row
            + channel[None, :] * stride_channel,
            rows,
            (target > 0) & (new_row < K - 2 + length)[:, None] & is_channel,
        )


@one_launch_at_a_time
@triton.jit
def causal_conv1d_prefill_kernel(
    x,
    weight,
    bias,
    output,
    conv_state,
    stride_block,
    stride_row,
    stride_channel,
    num_blocks,
    state_indices,
    stride_indices,
    num_columns,
    read_columns,
    first_columns,
    last_columns,
    num_computed_tokens,
    has_initial_states,
    query_start_loc,
    num_prefills,
    num_tokens,
    batch_ptr,
    token_chunk_offset_ptr,
    block_size,
    DIM: tl.constexpr,
    K: tl.constexpr,
    TOKEN_TILE: tl.constexpr,
    ROW_TILE: tl.constexpr,
    DIM_TILE: tl.constexpr,
):
    """One program per TOKEN_TILE tokens of a prefill, grid ``(programs in the list,)``.

    ``batch_ptr`` names the prefill of each program, ``token_chunk_offset_ptr`` its tile there
    (section 4.5). ``x``, ``weight``, ``bias``, ``output``, ``conv_state`` as in a decode, by
    prefill tokens. ``state_indices`` int32 [num_prefills, num_columns]; ``has_initial_states`` bool
    and, in all mode (else None), ``read_columns``, ``first_columns``, ``last_columns`` and
    ``num_computed_tokens`` int32, all by prefill row; ``query_start_loc`` [num_prefills + 1].

    The last window goes to the last column, in all mode those at the block boundaries before it to
    the columns from the first one on. A window starts with rows of the initial one where less than
    K - 1 tokens lie before it.
    """
    program = tl.program_id(0)
    prefill = tl.load(batch_ptr + program)
    if (prefill >= 0) & (prefill < num_prefills):  # PAD_SLOT_ID = -1: no work
        tile = tl.load(token_chunk_offset_ptr + program)
        start, length = load_query(query_start_loc, prefill, num_tokens)
        has_initial = tl.load(has_initial_states + prefill).to(tl.int1)
        table_row = state_indices + prefill.to(tl.int64) * stride_indices
        read_column = load_column(read_columns, prefill)
        source = load_live_block(table_row, read_column, num_columns, num_blocks)
        is_live = source > 0
        if read_columns is not None:
            is_live = is_live | (has_initial == 0)  # a fresh row of all mode reads no slot
        if is_live & (length > 0) & (tile >= 0):
            channel = tl.arange(0, DIM_TILE)
            token = tile * TOKEN_TILE + tl.arange(0, TOKEN_TILE)
            is_channel = (channel < DIM)[None, :]
            query = x + start.to(tl.int64) * DIM
            num_old = tl.where(has_initial, K - 1, 0)
            old_rows = conv_state + source * stride_block

            u = convolve(
                token, old_rows, num_old, query, length, channel, stride_row, stride_channel,
                weight, bias, DIM, K,
            )  # fmt: skip
            tl.store(
                output + start.to(tl.int64) * DIM + token[:, None] * DIM + channel[None, :],
                u,
                mask=(token < length)[:, None] & is_channel,
            )

            # All windows are written by the program that reads the initial one: programs are not
            # ordered, and the initial window's block may be written again.
            if tile == 0:
                new_row = tl.arange(0, ROW_TILE)
                computed = load_column(num_computed_tokens, prefill)
                first = load_column(first_columns, prefill)
                last = load_column(last_columns, prefill)
                # Backwards: only the first column can hold the block that was read, and windows
                # of later columns may still need its rows.
                for back in range(last - first + 1):
                    column = last - back
                    absorbed = tl.where(back == 0, length, (column + 1) * block_size - computed)
                    rows = load_inputs(
                        absorbed + new_row, old_rows, num_old, query, length, channel,
                        stride_row, stride_channel, DIM, K - 1,
                    )  # fmt: skip
                    tl.debug_barrier()  # all is read; from here on it may be overwritten
                    target = load_live_block(table_row, column, num_columns, num_blocks)
                    store_float(
                        conv_state
                        + target * stride_block
                        + new_row[:, None] * stride_row
                        + channel[None, :] * stride_channel,
                        rows,
                        (target > 0) & (new_row < K - 1)[:, None] & is_channel,
                    )


# ----------------------------------------------------------------------- selective state recurrence


@triton.jit
def load_per_head(values, row, H: tl.constexpr, HEAD_TILE: tl.constexpr):
    """Row ``row`` of a float32 tensor [rows, H]: [H]."""
    head = tl.arange(0, HEAD_TILE)
    return tl.load(values + row * H + head, mask=head < H, other=0)


@triton.jit
def load_head_rows(
    values, row, H: tl.constexpr, WIDTH: tl.constexpr,
    HEAD_TILE: tl.constexpr, WIDTH_TILE: tl.constexpr,
):  # fmt: skip
    """Row ``row`` of a float32 tensor [rows, H, WIDTH]: [H, WIDTH]."""
    head = tl.arange(0, HEAD_TILE)[:, None]
    i = tl.arange(0, WIDTH_TILE)[None, :]
    return tl.load(values + (row * H + head) * WIDTH + i, mask=(head < H) & (i < WIDTH), other=0)


@triton.jit
def store_output(
    output, token, y, H: tl.constexpr, P: tl.constexpr,
    HEAD_TILE: tl.constexpr, CHANNEL_TILE: tl.constexpr,
):  # fmt: skip
    """y [H, P] of one token."""
    head = tl.arange(0, HEAD_TILE)[:, None]
    channel = tl.arange(0, CHANNEL_TILE)[None, :]
    tl.store(output + (token * H + head) * P + channel, y, mask=(head < H) & (channel < P))


@triton.jit
def absorb_token(
    h, token, x, skip, dt, B, C, A, D, output, H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
    HEAD_TILE: tl.constexpr, CHANNEL_TILE: tl.constexpr, STATE_TILE: tl.constexpr,
):  # fmt: skip
    """One step of the recurrence: stores y of ``token``, returns h [H, P, N] after it."""
    dt_t = load_per_head(dt, token, H, HEAD_TILE)  # [H]
    x_t = load_head_rows(x, token, H, P, HEAD_TILE, CHANNEL_TILE)  # [H, P]
    skip_t = load_head_rows(skip, token, H, P, HEAD_TILE, CHANNEL_TILE)  # [H, P]
    B_t = load_head_rows(B, token, H, N, HEAD_TILE, STATE_TILE)  # [H, N]
    C_t = load_head_rows(C, token, H, N, HEAD_TILE, STATE_TILE)  # [H, N]
    A_h = load_per_head(A, 0, H, HEAD_TILE)  # [H]
    D_h = load_per_head(D, 0, H, HEAD_TILE)  # [H]

    decay = tl.exp(dt_t * A_h)  # [H]
    new = (dt_t[:, None] * x_t)[:, :, None] * B_t[:, None, :]  # [H, P, N]
    h = decay[:, None, None] * h + new
    y = tl.sum(h * C_t[:, None, :], axis=2) + D_h[:, None] * skip_t  # [H, P]
    store_output(output, token, y, H, P, HEAD_TILE, CHANNEL_TILE)
    return h


@triton.jit
def state_elements(
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
    HEAD_TILE: tl.constexpr, CHANNEL_TILE: tl.constexpr, STATE_TILE: tl.constexpr,
):  # fmt: skip
    """Where a state's elements lie in its block, and which of the tile exist, [H, P, N]."""
    head = tl.arange(0, HEAD_TILE)[:, None, None]
    channel = tl.arange(0, CHANNEL_TILE)[None, :, None]
    n = tl.arange(0, STATE_TILE)[None, None, :]
    return (head * P + channel) * N + n, (head < H) & (channel < P) & (n < N)


@one_launch_at_a_time
@triton.jit
def selective_state_decode_kernel(
    x,
    skip,
    dt,
    B,
    C,
    A,
    D,
    output,
    ssm_state,
    stride_block,
    num_blocks,
    state_indices,
    stride_indices,
    num_columns,
    read_columns,
    write_columns,
    num_accepted_tokens,
    query_start_loc,
    num_tokens,
    H: tl.constexpr,
    P: tl.constexpr,
    N: tl.constexpr,
    HEAD_TILE: tl.constexpr,
    CHANNEL_TILE: tl.constexpr,
    STATE_TILE: tl.constexpr,
):
    """One program per decode row, grid ``(num_decodes,)`` (section 5.2).

    Contiguous float32, by token: ``x`` [num_tokens, H, P] is what a state absorbs and ``skip`` what
    goes straight to the output (both u; head 0 absorbs ones), ``dt`` [num_tokens, H], ``B`` and
    ``C`` [num_tokens, H, N], ``output`` [num_tokens, H * P], written. ``A`` and ``D`` [H].
    ``ssm_state`` [num_blocks, H, P, N], each block contiguous, ``stride_block`` elements apart.
    The metadata is that of the conv kernel.

    The state to go on from is the one after the last accepted token, ``offset`` columns behind the
    read column. Verification has not judged this query's tokens yet, so the state after each of
    them is kept: token i writes column write column + i.
    """
    row = tl.program_id(0)
    start, length = load_query(query_start_loc, row, num_tokens)
    table_row = state_indices + row.to(tl.int64) * stride_indices
    read_column = load_column(read_columns, row) + load_offset(num_accepted_tokens, row)
    source = load_live_block(table_row, read_column, num_columns, num_blocks)
    if (length > 0) & (source > 0):
        element, exists = state_elements(H, P, N, HEAD_TILE, CHANNEL_TILE, STATE_TILE)
        h = load_float(ssm_state + source * stride_block + element, exists)
        tl.debug_barrier()  # all is read; from here on it may be overwritten
        write_column = load_column(write_columns, row)
        for i in range(length):
            h = absorb_token(
                h, start + i, x, skip, dt, B, C, A, D, output, H, P, N,
                HEAD_TILE, CHANNEL_TILE, STATE_TILE,
            )  # fmt: skip
            target = load_live_block(table_row, write_column + i, num_columns, num_blocks)
            store_float(ssm_state + target * stride_block + element, h, exists & (target > 0))


@one_launch_at_a_time
@triton.jit
def selective_state_prefill_kernel(
    x,
    skip,
    dt,
    B,
    C,
    A,
    D,
    output,
    ssm_state,
    stride_block,
    num_blocks,
    state_indices,
    stride_indices,
    num_columns,
    read_columns,
    first_columns,
    last_columns,
    num_computed_tokens,
    has_initial_states,
    query_start_loc,
    num_tokens,
    cu_chunk_seqlen,
    seq_idx,
    last_chunk_indices,
    num_chunks,
    block_size,
    H: tl.constexpr,
    P: tl.constexpr,
    N: tl.constexpr,
    HEAD_TILE: tl.constexpr,
    CHANNEL_TILE: tl.constexpr,
    STATE_TILE: tl.constexpr,
):
    """One program per prefill row, grid ``(num_prefills,)``, chunk after chunk (section 5.2).

    Inputs as in a decode, by prefill tokens; rows and columns as in the conv kernel. The chunks of
    section 4.7: chunk k is the tokens ``cu_chunk_seqlen[k] .. cu_chunk_seqlen[k + 1] - 1`` of the
    prefill ``seq_idx[k]``, whose last chunk is ``last_chunk_indices[seq_idx[k]]``.

    A state can be kept at the end of a chunk and nowhere else. The last one goes to the last
    column; in all mode (``num_computed_tokens`` is not None) those that fall on a block boundary
    before it go to the columns from the first one on.
    """
    prefill = tl.program_id(0)
    start, length = load_query(query_start_loc, prefill, num_tokens)
    has_initial = tl.load(has_initial_states + prefill)
    table_row = state_indices + prefill.to(tl.int64) * stride_indices
    source = load_live_block(
        table_row, load_column(read_columns, prefill), num_columns, num_blocks
    )  # fmt: skip
    is_live = source > 0
    if read_columns is not None:
        is_live = is_live | (has_initial == 0)  # a fresh row of all mode reads no slot
    if is_live & (length > 0):
        element, exists = state_elements(H, P, N, HEAD_TILE, CHANNEL_TILE, STATE_TILE)
        h = load_float(ssm_state + source * stride_block + element, exists & (has_initial != 0))
        tl.debug_barrier()  # all is read; from here on it may be overwritten

        computed = load_column(num_computed_tokens, prefill)
        column = load_column(first_columns, prefill)
        last_column = load_column(last_columns, prefill)
        chunk_before = tl.load(last_chunk_indices + prefill - 1, mask=prefill > 0, other=-1)
        first_chunk = tl.maximum(chunk_before + 1, 0)
        last_chunk = tl.minimum(tl.load(last_chunk_indices + prefill), num_chunks - 1)
        for chunk in range(first_chunk, last_chunk + 1):
            if tl.load(seq_idx + chunk) == prefill:
                chunk_start = tl.maximum(tl.load(cu_chunk_seqlen + chunk), start)
                chunk_end = tl.minimum(tl.load(cu_chunk_seqlen + chunk + 1), start + length)
                for token in range(chunk_start, chunk_end):
                    h = absorb_token(
                        h, token, x, skip, dt, B, C, A, D, output, H, P, N,
                        HEAD_TILE, CHANNEL_TILE, STATE_TILE,
                    )  # fmt: skip
                is_last = chunk == last_chunk
                is_kept = is_last
                if num_computed_tokens is not None:
                    is_kept = is_last | ((computed + chunk_end - start) % block_size == 0)
                if is_kept:
                    write_column = tl.where(is_last, last_column, column)
                    target = load_live_block(table_row, write_column, num_columns, num_blocks)
                    exists_there = exists & (target > 0)
                    store_float(ssm_state + target * stride_block + element, h, exists_there)
                    column += 1


# -------------------------------------------------------------------------------------- ReplaySSM


@one_launch_at_a_time
@triton.jit
def replay_state_decode_kernel(
    x,
    skip,
    dt,
    B,
    C,
    A,
    D,
    output,
    ssm_state,
    stride_block,
    x_ring,
    stride_x_ring,
    dt_ring,
    stride_dt_ring,
    B_ring,
    stride_B_ring,
    num_blocks,
    state_indices,
    stride_indices,
    write_pos,
    is_flush,
    bc_scratch,
    num_tokens,
    RING: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    N: tl.constexpr,
    RING_TILE: tl.constexpr,
    HEAD_TILE: tl.constexpr,
    CHANNEL_TILE: tl.constexpr,
    STATE_TILE: tl.constexpr,
):
    """One program per decode row, grid ``(num_decodes,)``; one token a row (sections 4.8, 5.2).

    Inputs as in a decode. The stored state h0 is that of some tokens ago; the row's block also has
    a ring of the inputs since: ``x_ring`` [num_blocks, H, RING, P], ``dt_ring`` float32
    [num_blocks, H, RING], ``B_ring`` [num_blocks, H, RING, N], each block contiguous. Entries
    before ``write_pos`` count; this token becomes the entry at ``write_pos``.

    Unrolled, the recurrence says what y is without any h between:

        y = exp(A * sum of all dt) * h0 @ C  +  sum over entries j of
            exp(A * sum of dt after j) * dt_j * (B_j . C) * x_j  +  D * u

    The products B_j . C are left in ``bc_scratch`` float32 [num_decodes, H, RING]. So a step writes
    one ring entry and no state, which is the point: the state is much larger. A flush
    (``is_flush``) replays the ring into the state and writes that instead.
    """
    row = tl.program_id(0)
    table_row = state_indices + row.to(tl.int64) * stride_indices
    block = load_live_block(table_row, 0, 1, num_blocks)
    position = tl.load(write_pos + row)
    if (row < num_tokens) & (block > 0) & (position >= 0) & (position < RING):
        head = tl.arange(0, HEAD_TILE)
        entry = tl.arange(0, RING_TILE)
        channel = tl.arange(0, CHANNEL_TILE)
        n = tl.arange(0, STATE_TILE)
        is_head = head < H
        is_now = (entry == position)[None, :]  # [1, RING]
        is_entry = is_head[:, None] & (entry < position)[None, :]  # [H, RING]: from the ring

        # The ring with this token in its place, [H, RING, ..]; entries behind it are zero.
        dt_t = load_per_head(dt, row, H, HEAD_TILE)  # [H]
        x_t = load_head_rows(x, row, H, P, HEAD_TILE, CHANNEL_TILE)  # [H, P]
        B_t = load_head_rows(B, row, H, N, HEAD_TILE, STATE_TILE)  # [H, N]
        in_ring = head[:, None] * RING + entry[None, :]  # [H, RING]
        dt_at = dt_ring + block * stride_dt_ring + in_ring
        x_at = x_ring + block * stride_x_ring + in_ring[:, :, None] * P + channel[None, None, :]
        B_at = B_ring + block * stride_B_ring + in_ring[:, :, None] * N + n[None, None, :]
        is_channel = (channel < P)[None, None, :]
        is_n = (n < N)[None, None, :]
        dts = tl.where(is_now, dt_t[:, None], load_float(dt_at, is_entry))
        xs = load_float(x_at, is_entry[:, :, None] & is_channel)
        xs = tl.where(is_now[:, :, None], x_t[:, None, :], xs)
        Bs = load_float(B_at, is_entry[:, :, None] & is_n)
        Bs = tl.where(is_now[:, :, None], B_t[:, None, :], Bs)
        element, exists = state_elements(H, P, N, HEAD_TILE, CHANNEL_TILE, STATE_TILE)
        h = load_float(ssm_state + block * stride_block + element, exists)  # [H, P, N]
        tl.debug_barrier()  # all is read; from here on it may be overwritten

        # How much of each entry, and of h0, is left by now.
        A_h = load_per_head(A, 0, H, HEAD_TILE)  # [H]
        up_to = tl.cumsum(dts, axis=1)  # [H, RING]
        total = tl.sum(dts, axis=1)  # [H]
        kept = tl.exp(A_h[:, None] * (total[:, None] - up_to)) * dts  # [H, RING]
        h_kept = tl.exp(A_h * total)  # [H]

        C_t = load_head_rows(C, row, H, N, HEAD_TILE, STATE_TILE)  # [H, N]
        bc = tl.sum(Bs * C_t[:, None, :], axis=2)  # [H, RING]
        scratch = bc_scratch + row * H * RING + in_ring
        tl.store(scratch, bc, mask=is_head[:, None] & (entry <= position)[None, :])
        from_state = h_kept[:, None] * tl.sum(h * C_t[:, None, :], axis=2)  # [H, P]
        from_ring = tl.sum((kept * bc)[:, :, None] * xs, axis=1)  # [H, P]
        skip_t = load_head_rows(skip, row, H, P, HEAD_TILE, CHANNEL_TILE)  # [H, P]
        D_h = load_per_head(D, 0, H, HEAD_TILE)  # [H]
        y = from_state + from_ring + D_h[:, None] * skip_t
        store_output(output, row, y, H, P, HEAD_TILE, CHANNEL_TILE)

        if tl.load(is_flush + row) != 0:
            h = h_kept[:, None, None] * h
            for j in range(position + 1):
                is_j = (entry == j)[None, :]
                kept_j = tl.sum(tl.where(is_j, kept, 0), axis=1)  # [H]
                x_j = tl.sum(tl.where(is_j[:, :, None], xs, 0), axis=1)  # [H, P]
                B_j = tl.sum(tl.where(is_j[:, :, None], Bs, 0), axis=1)  # [H, N]
                h += (kept_j[:, None] * x_j)[:, :, None] * B_j[:, None, :]
            store_float(ssm_state + block * stride_block + element, h, exists)
        else:
            appended = is_head[:, None] & is_now  # [H, RING]
            store_float(dt_at, dts, appended)
            store_float(x_at, xs, appended[:, :, None] & is_channel)
            store_float(B_at, Bs, appended[:, :, None] & is_n)
