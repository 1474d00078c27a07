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

from kernels.launch import device_function, one_launch_at_a_time

# ---------------------------------------------------------------------------------- cache numbers


@device_function
def lanes(TILE: tl.constexpr):
    """0 .. TILE - 1 in 64 bits, as all indices here are: an id times a stride passes 2**31."""
    return tl.arange(0, TILE).to(tl.int64)


@device_function
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


@device_function
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


@device_function
def load_query(query_start_loc, row, num_tokens):
    """First token and length of a row's query; without offsets every row is one token."""
    if query_start_loc is None:
        start = row
        end = row + 1
    else:
        start = tl.load(query_start_loc + row).to(tl.int64)
        end = tl.load(query_start_loc + row + 1).to(tl.int64)
    length = tl.minimum(end, num_tokens) - start
    return start, tl.where(start >= 0, length, 0)


@device_function
def load_column(columns, row):
    """A row's column of the block table; without columns, 0."""
    if columns is None:
        return 0
    else:
        return tl.load(columns + row).to(tl.int64)


@device_function
def load_offset(num_accepted_tokens, row):
    """How many tokens past its first one the state to be read lies; without counts, 0."""
    if num_accepted_tokens is None:
        return 0
    else:
        return tl.load(num_accepted_tokens + row).to(tl.int64) - 1


@device_function
def load_live_block(table_row, column, num_columns, num_blocks):
    """The block in a column, in 64 bits; 0 if there is none that may be read or written."""
    inside = (column >= 0) & (column < num_columns)
    block = tl.load(table_row + column, mask=inside, other=0).to(tl.int64)
    return tl.where((block > 0) & (block < num_blocks), block, 0)


# ------------------------------------------------------------------------------ causal convolution


@device_function
def load_inputs(
    index, channel, old_rows, num_old, x, length, stride_row, stride_channel,
    DIM: tl.constexpr, HISTORY: tl.constexpr,
):  # fmt: skip
    """Conv inputs number ``index`` of a query, float32; index and channel are tiles to broadcast.

    The inputs of a query are the ``HISTORY`` = K - 1 rows of the window, oldest first, and then
    the query's own tokens. ``old_rows`` points at the window's first row, of which ``num_old``
    exist (a prefill without initial state has none: zeros), ``x`` at the query's first token.
    """
    is_channel = channel < DIM
    is_old = (index >= 0) & (index < num_old)
    old = load_float(old_rows + index * stride_row + channel * stride_channel, is_old & is_channel)
    token = index - HISTORY
    is_token = (token >= 0) & (token < length)
    new = tl.load(x + token * DIM + channel, mask=is_token & is_channel, other=0)
    return tl.where(token < 0, old, new)


@device_function
def convolve(
    first, output, old_rows, num_old, x, length, stride_row, stride_channel, weight, bias,
    DIM: tl.constexpr, K: tl.constexpr,
    TOKEN_TILE: tl.constexpr, TAP_TILE: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    """u of the query's tokens number ``first ..``, stored at ``output``, its first token's u."""
    token = first + lanes(TOKEN_TILE)
    tap = lanes(TAP_TILE)[None, :, None]
    channel = lanes(DIM_TILE)[None, None, :]
    # The last tap meets the token itself, which is input number token + K - 1.
    inputs = load_inputs(
        token[:, None, None] + tap, channel, old_rows, num_old, x, length,
        stride_row, stride_channel, DIM, K - 1,
    )  # [tokens, taps, channels]  # fmt: skip
    is_tap = (tap < K) & (channel < DIM)
    taps = tl.load(weight + channel * K + tap, mask=is_tap, other=0)  # [1, taps, channels]
    channel = lanes(DIM_TILE)[None, :]
    biases = tl.load(bias + channel, mask=channel < DIM, other=0)  # [1, channels]
    total = tl.sum(inputs * taps, axis=1) + biases  # [tokens, channels]
    u = total / (1 + tl.exp(-total))  # silu
    token = token[:, None]
    tl.store(output + token * DIM + channel, u, mask=(token < length) & (channel < DIM))


@device_function
def store_rows(
    rows, num_rows, block, row, channel, stride_row, stride_channel, DIM: tl.constexpr
):  # fmt: skip
    """The first ``num_rows`` of ``rows`` [rows, channels] into a conv state's block."""
    pointers = block + row * stride_row + channel * stride_channel
    store_float(pointers, rows, (row < num_rows) & (channel < DIM))


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
    TAP_TILE: tl.constexpr,
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
    row = tl.program_id(0).to(tl.int64)
    start, length = load_query(query_start_loc, row, num_tokens)
    length = tl.minimum(length, STATE_LEN - K + 2)  # 1 + num_spec
    offset = load_offset(num_accepted_tokens, row)
    table_row = state_indices + row * stride_indices
    source = load_live_block(table_row, load_column(read_columns, row), num_columns, num_blocks)
    if (length > 0) & (source > 0):
        query = start * DIM
        old_rows = conv_state + source * stride_block + offset * stride_row
        # A count that is none leaves no row to read: better zeros than another block's rows.
        num_old = tl.where(offset >= 0, tl.minimum(STATE_LEN - offset, K - 1), 0)
        convolve(
            0, output + query, old_rows, num_old, x + query, length, stride_row, stride_channel,
            weight, bias, DIM, K, TOKEN_TILE, TAP_TILE, DIM_TILE,
        )  # fmt: skip

        new_row = lanes(ROW_TILE)[:, None]
        channel = lanes(DIM_TILE)[None, :]
        rows = load_inputs(
            new_row + 1, channel, old_rows, num_old, x + query, length,
            stride_row, stride_channel, DIM, K - 1,
        )  # fmt: skip
        tl.debug_barrier()  # all is read; from here on it may be overwritten
        column = load_column(write_columns, row)
        target = load_live_block(table_row, column, num_columns, num_blocks)
        store_rows(
            rows, tl.where(target > 0, K - 2 + length, 0), conv_state + target * stride_block,
            new_row, channel, stride_row, stride_channel, DIM,
        )  # fmt: skip


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
    TAP_TILE: tl.constexpr,
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
    prefill = tl.load(batch_ptr + program).to(tl.int64)
    if (prefill >= 0) & (prefill < num_prefills):  # PAD_SLOT_ID = -1: no work
        tile = tl.load(token_chunk_offset_ptr + program).to(tl.int64)
        start, length = load_query(query_start_loc, prefill, num_tokens)
        has_initial = tl.load(has_initial_states + prefill).to(tl.int1)
        table_row = state_indices + prefill * stride_indices
        read_column = load_column(read_columns, prefill)
        source = load_live_block(table_row, read_column, num_columns, num_blocks)
        is_live = source > 0
        if read_columns is not None:
            is_live = is_live | (has_initial == 0)  # a fresh row of all mode reads no slot
        if is_live & (length > 0) & (tile >= 0):
            query = start * DIM
            old_rows = conv_state + source * stride_block
            num_old = tl.where(has_initial, K - 1, 0)
            convolve(
                tile * TOKEN_TILE, output + query, old_rows, num_old, x + query, length,
                stride_row, stride_channel, weight, bias,
                DIM, K, TOKEN_TILE, TAP_TILE, DIM_TILE,
            )  # fmt: skip

            # All windows are written by the program that reads the initial one: programs are not
            # ordered, and the initial window's block may be written again.
            if tile == 0:
                new_row = lanes(ROW_TILE)[:, None]
                channel = lanes(DIM_TILE)[None, :]
                computed = load_column(num_computed_tokens, prefill)
                first = load_column(first_columns, prefill)
                last = load_column(last_columns, prefill)
                # Backwards: only the first column can hold the block that was read, and windows
                # of later columns may still need its rows.
                for back in range(tl.minimum(last - first + 1, num_columns)):
                    column = last - back
                    absorbed = tl.where(back == 0, length, (column + 1) * block_size - computed)
                    rows = load_inputs(
                        absorbed + new_row, channel, old_rows, num_old, x + query, length,
                        stride_row, stride_channel, DIM, K - 1,
                    )  # fmt: skip
                    tl.debug_barrier()  # all is read; from here on it may be overwritten
                    target = load_live_block(table_row, column, num_columns, num_blocks)
                    store_rows(
                        rows, tl.where(target > 0, K - 1, 0), conv_state + target * stride_block,
                        new_row, channel, stride_row, stride_channel, DIM,
                    )  # fmt: skip


# ----------------------------------------------------------------------- selective state recurrence


@device_function
def absorb_token(
    h, token, x, skip, dt, B, C, A_h, D_h, output, head, channel, n, is_head, is_channel, is_n,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """One step of the recurrence: stores y of ``token``, returns h [H, P, N] after it.

    ``head`` [H, 1, 1], ``channel`` [H, P, 1] and ``n`` [H, 1, N] say where a token's numbers lie;
    ``A_h``, ``D_h`` [H, 1, 1].
    """
    dt_t = tl.load(dt + token * H + head, mask=is_head, other=0)  # [H, 1, 1]
    x_t = tl.load(x + token * (H * P) + channel, mask=is_channel, other=0)  # [H, P, 1]
    skip_t = tl.load(skip + token * (H * P) + channel, mask=is_channel, other=0)  # [H, P, 1]
    B_t = tl.load(B + token * (H * N) + n, mask=is_n, other=0)  # [H, 1, N]
    C_t = tl.load(C + token * (H * N) + n, mask=is_n, other=0)  # [H, 1, N]

    h = tl.exp(dt_t * A_h) * h + dt_t * x_t * B_t  # [H, P, N]
    y = tl.sum(h * C_t, axis=2, keep_dims=True) + D_h * skip_t  # [H, P, 1]
    tl.store(output + token * (H * P) + channel, y, mask=is_channel)
    return h


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
    row = tl.program_id(0).to(tl.int64)
    start, length = load_query(query_start_loc, row, num_tokens)
    table_row = state_indices + row * stride_indices
    read_column = load_column(read_columns, row) + load_offset(num_accepted_tokens, row)
    source = load_live_block(table_row, read_column, num_columns, num_blocks)
    if (length > 0) & (source > 0):
        # Tiles are [H, P, N], an axis of 1 where a tensor does not have it.
        head = lanes(HEAD_TILE)[:, None, None]
        is_head = head < H
        p = lanes(CHANNEL_TILE)[None, :, None]
        channel, is_channel = head * P + p, is_head & (p < P)
        n = lanes(STATE_TILE)[None, None, :]
        element, exists = channel * N + n, is_channel & (n < N)
        n, is_n = head * N + n, is_head & (n < N)
        A_h = tl.load(A + head, mask=is_head, other=0)
        D_h = tl.load(D + head, mask=is_head, other=0)
        h = load_float(ssm_state + source * stride_block + element, exists)
        tl.debug_barrier()  # all is read; from here on it may be overwritten
        write_column = load_column(write_columns, row)
        for i in range(length):
            h = absorb_token(
                h, start + i, x, skip, dt, B, C, A_h, D_h, output,
                head, channel, n, is_head, is_channel, is_n, H, P, N,
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
    prefill = tl.program_id(0).to(tl.int64)
    start, length = load_query(query_start_loc, prefill, num_tokens)
    has_initial = tl.load(has_initial_states + prefill)
    table_row = state_indices + prefill * stride_indices
    source = load_live_block(
        table_row, load_column(read_columns, prefill), num_columns, num_blocks
    )  # fmt: skip
    is_live = source > 0
    if read_columns is not None:
        is_live = is_live | (has_initial == 0)  # a fresh row of all mode reads no slot
    if is_live & (length > 0):
        # Tiles are [H, P, N], an axis of 1 where a tensor does not have it.
        head = lanes(HEAD_TILE)[:, None, None]
        is_head = head < H
        p = lanes(CHANNEL_TILE)[None, :, None]
        channel, is_channel = head * P + p, is_head & (p < P)
        n = lanes(STATE_TILE)[None, None, :]
        element, exists = channel * N + n, is_channel & (n < N)
        n, is_n = head * N + n, is_head & (n < N)
        A_h = tl.load(A + head, mask=is_head, other=0)
        D_h = tl.load(D + head, mask=is_head, other=0)
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
                        h, token, x, skip, dt, B, C, A_h, D_h, output,
                        head, channel, n, is_head, is_channel, is_n, H, P, N,
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
    row = tl.program_id(0).to(tl.int64)
    table_row = state_indices + row * stride_indices
    block = load_live_block(table_row, 0, 1, num_blocks)
    position = tl.load(write_pos + row)
    if (row < num_tokens) & (block > 0) & (position >= 0) & (position < RING):
        # Tiles are [H, entries, P, N], an axis of 1 where a tensor does not have it.
        head = lanes(HEAD_TILE)[:, None, None, None]
        entry = lanes(RING_TILE)[None, :, None, None]
        channel = lanes(CHANNEL_TILE)[None, None, :, None]
        n = lanes(STATE_TILE)[None, None, None, :]
        is_head, is_channel, is_n = head < H, channel < P, n < N
        is_past = is_head & (entry < position)
        is_now = is_head & (entry == position)

        # This token's inputs.
        at_head = row * H + head
        at_channel = at_head * P + channel
        at_n = at_head * N + n
        dt_t = tl.load(dt + at_head, mask=is_head, other=0)  # [H, 1, 1, 1]
        x_t = tl.load(x + at_channel, mask=is_head & is_channel, other=0)  # [H, 1, P, 1]
        B_t = tl.load(B + at_n, mask=is_head & is_n, other=0)  # [H, 1, 1, N]
        C_t = tl.load(C + at_n, mask=is_head & is_n, other=0)

        # The ring with this token in its place; entries behind it are zero.
        in_ring = head * RING + entry
        dt_at = dt_ring + block * stride_dt_ring + in_ring
        x_at = x_ring + block * stride_x_ring + in_ring * P + channel
        B_at = B_ring + block * stride_B_ring + in_ring * N + n
        dts = tl.where(is_now, dt_t, load_float(dt_at, is_past))  # [H, entries, 1, 1]
        xs = tl.where(is_now, x_t, load_float(x_at, is_past & is_channel))  # [H, entries, P, 1]
        Bs = tl.where(is_now, B_t, load_float(B_at, is_past & is_n))  # [H, entries, 1, N]
        state_at = ssm_state + block * stride_block + (head * P + channel) * N + n
        exists = is_head & is_channel & is_n
        h0 = load_float(state_at, exists)  # [H, 1, P, N]
        tl.debug_barrier()  # all is read; from here on it may be overwritten

        # How much of each entry, and of h0, is left by now.
        A_h = tl.load(A + head, mask=is_head, other=0)  # [H, 1, 1, 1]
        total = tl.sum(dts, axis=1, keep_dims=True)
        after = total - tl.cumsum(dts, axis=1)  # [H, entries, 1, 1]
        weights = tl.exp(A_h * after) * dts
        h0_left = tl.exp(A_h * total) * h0

        bc = tl.sum(Bs * C_t, axis=3, keep_dims=True)  # [H, entries, 1, 1]
        tl.store(bc_scratch + row * H * RING + in_ring, bc, mask=is_past | is_now)
        from_state = tl.sum(h0_left * C_t, axis=3, keep_dims=True)  # [H, 1, P, 1]
        from_ring = tl.sum(weights * bc * xs, axis=1, keep_dims=True)
        skip_t = tl.load(skip + at_channel, mask=is_head & is_channel, other=0)
        D_h = tl.load(D + head, mask=is_head, other=0)
        y = from_state + from_ring + D_h * skip_t
        tl.store(output + at_channel, y, mask=is_head & is_channel)

        if tl.load(is_flush + row) != 0:
            h = h0_left + tl.sum(weights * xs * Bs, axis=1, keep_dims=True)
            store_float(state_at, h, exists)
        else:
            store_float(dt_at, dts, is_now)
            store_float(x_at, xs, is_now & is_channel)
            store_float(B_at, Bs, is_now & is_n)
