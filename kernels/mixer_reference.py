"""The plain twins of ``mixer.py``: the layer's forward once more, in ordinary PyTorch (section 5).

Same names, same arguments in the same order, launched the same way. Row after row and token after
token, without tiles, masks and barriers; arguments that only a tile needs are not looked at.

    x       a token's conv input            u   its convolution          [dim]
    h       the temporal state [H, P, N]    y   the layer's output       [H, P]

Arithmetic is float32; a state is rounded where it is stored, as in the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernels.launch import ReferenceKernel

# ----------------------------------------------------------------------------- metadata of one row


def row_query(query_start_loc: torch.Tensor | None, row: int, num_tokens: int) -> tuple[int, int]:
    """First token and length of a row's query; without offsets every row is one token."""
    start, end = row, row + 1
    if query_start_loc is not None:
        start, end = query_start_loc[row : row + 2].tolist()
    return start, max(min(end, num_tokens) - start, 0) if start >= 0 else 0


def row_column(columns: torch.Tensor | None, row: int) -> int:
    """A row's column of the block table; without columns, 0."""
    return 0 if columns is None else int(columns[row])


def row_offset(num_accepted_tokens: torch.Tensor | None, row: int) -> int:
    """How many tokens past its first one the state to be read lies; without counts, 0."""
    return 0 if num_accepted_tokens is None else int(num_accepted_tokens[row]) - 1


def live_block(
    state_indices: torch.Tensor, row: int, column: int, num_columns: int, num_blocks: int
) -> int:
    """The block in a column; 0 if there is none that may be read or written."""
    if not 0 <= column < num_columns:
        return 0
    block = int(state_indices[row, column])
    return block if 0 < block < num_blocks else 0


def windows_left(
    prefill: int,
    length: int,
    num_columns: int,
    first_columns: torch.Tensor | None,
    last_columns: torch.Tensor | None,
    num_computed_tokens: torch.Tensor | None,
    block_size: int,
) -> Iterator[tuple[int, int]]:
    """The windows a prefill leaves: query tokens absorbed by then, and the column each goes to."""
    computed = row_column(num_computed_tokens, prefill)
    last_column = row_column(last_columns, prefill)
    first_column = max(row_column(first_columns, prefill), last_column + 1 - num_columns)
    for column in range(first_column, last_column + 1):
        absorbed = length if column == last_column else (column + 1) * block_size - computed
        yield absorbed, column


def chunks_scanned(
    prefill: int,
    start: int,
    length: int,
    first_columns: torch.Tensor | None,
    last_columns: torch.Tensor | None,
    num_computed_tokens: torch.Tensor | None,
    cu_chunk_seqlen: torch.Tensor,
    seq_idx: torch.Tensor,
    last_chunk_indices: torch.Tensor,
    num_chunks: int,
    block_size: int,
) -> Iterator[tuple[int, int, int | None]]:
    """A prefill's chunks: first token, end, and the column its state goes to (None: nowhere)."""
    computed = row_column(num_computed_tokens, prefill)
    boundary_column = row_column(first_columns, prefill)
    first_chunk = max(int(last_chunk_indices[prefill - 1]) + 1, 0) if prefill > 0 else 0
    last_chunk = min(int(last_chunk_indices[prefill]), num_chunks - 1)
    for chunk in range(first_chunk, last_chunk + 1):
        if int(seq_idx[chunk]) != prefill:
            continue
        chunk_start = max(int(cu_chunk_seqlen[chunk]), start)
        chunk_end = min(int(cu_chunk_seqlen[chunk + 1]), start + length)
        column = None
        if chunk == last_chunk:
            column = row_column(last_columns, prefill)
        elif num_computed_tokens is not None and (computed + chunk_end - start) % block_size == 0:
            column = boundary_column
            boundary_column += 1
        yield chunk_start, chunk_end, column


# ------------------------------------------------------------------------------ causal convolution


def _window(inputs: torch.Tensor, first: int, rows: int) -> torch.Tensor:
    """``rows`` rows of [inputs, dim] from ``first`` on, float32; zeros where there are none."""
    window = torch.zeros(rows, inputs.shape[1])
    if 0 <= first < len(inputs):
        found = inputs[first : first + rows].float()
        window[: len(found)] = found
    return window


def _convolve(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """u [tokens, dim] from the window's rows and the query's tokens, [K-1 + tokens, dim]."""
    views = inputs.unfold(0, weight.shape[1], 1)  # [tokens, dim, K]
    total = (views * weight).sum(-1) + bias
    return total / (1 + torch.exp(-total))  # silu


def _rows_first(
    conv_state: torch.Tensor, num_blocks: int, dim: int, strides: tuple[int, int, int]
) -> torch.Tensor:
    """A conv state of either layout as [num_blocks, state_len, dim]."""
    state_len = conv_state.numel() // (num_blocks * dim)
    return conv_state.as_strided((num_blocks, state_len, dim), strides)


@ReferenceKernel
def causal_conv1d_decode_kernel(
    grid: tuple[int, ...],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    output: torch.Tensor,
    conv_state: torch.Tensor,
    stride_block: int,
    stride_row: int,
    stride_channel: int,
    num_blocks: int,
    state_indices: torch.Tensor,
    stride_indices: int,
    num_columns: int,
    read_columns: torch.Tensor | None,
    write_columns: torch.Tensor | None,
    num_accepted_tokens: torch.Tensor | None,
    query_start_loc: torch.Tensor | None,
    num_tokens: int,
    DIM: int,
    K: int,
    STATE_LEN: int,
    TOKEN_TILE: int,
    TAP_TILE: int,
    ROW_TILE: int,
    DIM_TILE: int,
) -> None:
    """Twin of ``mixer.causal_conv1d_decode_kernel``."""
    blocks = _rows_first(conv_state, num_blocks, DIM, (stride_block, stride_row, stride_channel))
    for row in range(grid[0]):
        start, length = row_query(query_start_loc, row, num_tokens)
        length = min(length, STATE_LEN - K + 2)  # 1 + num_spec
        read_column = row_column(read_columns, row)
        source = live_block(state_indices, row, read_column, num_columns, num_blocks)
        if length == 0 or source == 0:
            continue  # padding
        query = x[start : start + length]  # [length, dim]
        window = _window(blocks[source], row_offset(num_accepted_tokens, row), K - 1)  # [K-1, dim]
        inputs = torch.cat([window, query])  # [K-1 + length, dim]
        output[start : start + length] = _convolve(inputs, weight, bias)
        write_column = row_column(write_columns, row)
        target = live_block(state_indices, row, write_column, num_columns, num_blocks)
        if target:
            blocks[target, : len(inputs) - 1] = inputs[1:].to(conv_state.dtype)


@ReferenceKernel
def causal_conv1d_prefill_kernel(
    grid: tuple[int, ...],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    output: torch.Tensor,
    conv_state: torch.Tensor,
    stride_block: int,
    stride_row: int,
    stride_channel: int,
    num_blocks: int,
    state_indices: torch.Tensor,
    stride_indices: int,
    num_columns: int,
    read_columns: torch.Tensor | None,
    first_columns: torch.Tensor | None,
    last_columns: torch.Tensor | None,
    num_computed_tokens: torch.Tensor | None,
    has_initial_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_prefills: int,
    num_tokens: int,
    batch_ptr: torch.Tensor,
    token_chunk_offset_ptr: torch.Tensor,
    block_size: int,
    DIM: int,
    K: int,
    TOKEN_TILE: int,
    TAP_TILE: int,
    ROW_TILE: int,
    DIM_TILE: int,
) -> None:
    """Twin of ``mixer.causal_conv1d_prefill_kernel``."""
    blocks = _rows_first(conv_state, num_blocks, DIM, (stride_block, stride_row, stride_channel))
    windows_before = {}  # by prefill, as they were before any program wrote
    for program in range(grid[0]):
        prefill = int(batch_ptr[program])
        tile = int(token_chunk_offset_ptr[program])
        if not 0 <= prefill < num_prefills or tile < 0:
            continue  # PAD_SLOT_ID
        start, length = row_query(query_start_loc, prefill, num_tokens)
        has_initial = bool(has_initial_states[prefill])
        read_column = row_column(read_columns, prefill)
        source = live_block(state_indices, prefill, read_column, num_columns, num_blocks)
        is_fresh = read_columns is not None and not has_initial  # of all mode: reads no slot
        if length == 0 or not (source or is_fresh):
            continue  # padding
        if prefill not in windows_before:
            initial = _window(blocks[source], 0, K - 1)
            windows_before[prefill] = initial if has_initial else torch.zeros_like(initial)
        query = x[start : start + length]  # [length, dim]
        inputs = torch.cat([windows_before[prefill], query])  # [K-1 + length, dim]
        first, end = tile * TOKEN_TILE, min((tile + 1) * TOKEN_TILE, length)
        if first < end:
            u = _convolve(inputs[first : end + K - 1], weight, bias)
            output[start + first : start + end] = u
        if tile > 0:
            continue
        for absorbed, column in windows_left(
            prefill,
            length,
            num_columns,
            first_columns,
            last_columns,
            num_computed_tokens,
            block_size,
        ):
            target = live_block(state_indices, prefill, column, num_columns, num_blocks)
            if target:
                blocks[target, : K - 1] = _window(inputs, absorbed, K - 1).to(conv_state.dtype)


# ----------------------------------------------------------------------- selective state recurrence


def _absorb_token(
    h: torch.Tensor,
    token: int,
    x: torch.Tensor,
    skip: torch.Tensor,
    dt: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    A: torch.Tensor,
    D: torch.Tensor,
    output: torch.Tensor,
) -> torch.Tensor:
    """One step of the recurrence: stores y of ``token``, returns h [H, P, N] after it."""
    decay = torch.exp(dt[token] * A)  # [H]
    new = (dt[token, :, None] * x[token])[:, :, None] * B[token, :, None, :]  # [H, P, N]
    h = decay[:, None, None] * h + new
    y = (h * C[token, :, None, :]).sum(-1) + D[:, None] * skip[token]  # [H, P]
    output[token] = y.reshape(-1)
    return h


@ReferenceKernel
def selective_state_decode_kernel(
    grid: tuple[int, ...],
    x: torch.Tensor,
    skip: torch.Tensor,
    dt: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    A: torch.Tensor,
    D: torch.Tensor,
    output: torch.Tensor,
    ssm_state: torch.Tensor,
    stride_block: int,
    num_blocks: int,
    state_indices: torch.Tensor,
    stride_indices: int,
    num_columns: int,
    read_columns: torch.Tensor | None,
    write_columns: torch.Tensor | None,
    num_accepted_tokens: torch.Tensor | None,
    query_start_loc: torch.Tensor | None,
    num_tokens: int,
    H: int,
    P: int,
    N: int,
    HEAD_TILE: int,
    CHANNEL_TILE: int,
    STATE_TILE: int,
) -> None:
    """Twin of ``mixer.selective_state_decode_kernel``."""
    for row in range(grid[0]):
        start, length = row_query(query_start_loc, row, num_tokens)
        read_column = row_column(read_columns, row) + row_offset(num_accepted_tokens, row)
        source = live_block(state_indices, row, read_column, num_columns, num_blocks)
        if length == 0 or source == 0:
            continue  # padding
        h = ssm_state[source].float()  # [H, P, N]
        write_column = row_column(write_columns, row)
        for i in range(length):
            h = _absorb_token(h, start + i, x, skip, dt, B, C, A, D, output)
            target = live_block(state_indices, row, write_column + i, num_columns, num_blocks)
            if target:
                ssm_state[target] = h.to(ssm_state.dtype)


@ReferenceKernel
def selective_state_prefill_kernel(
    grid: tuple[int, ...],
    x: torch.Tensor,
    skip: torch.Tensor,
    dt: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    A: torch.Tensor,
    D: torch.Tensor,
    output: torch.Tensor,
    ssm_state: torch.Tensor,
    stride_block: int,
    num_blocks: int,
    state_indices: torch.Tensor,
    stride_indices: int,
    num_columns: int,
    read_columns: torch.Tensor | None,
    first_columns: torch.Tensor | None,
    last_columns: torch.Tensor | None,
    num_computed_tokens: torch.Tensor | None,
    has_initial_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_tokens: int,
    cu_chunk_seqlen: torch.Tensor,
    seq_idx: torch.Tensor,
    last_chunk_indices: torch.Tensor,
    num_chunks: int,
    block_size: int,
    H: int,
    P: int,
    N: int,
    HEAD_TILE: int,
    CHANNEL_TILE: int,
    STATE_TILE: int,
) -> None:
    """Twin of ``mixer.selective_state_prefill_kernel``."""
    for prefill in range(grid[0]):
        start, length = row_query(query_start_loc, prefill, num_tokens)
        has_initial = bool(has_initial_states[prefill])
        read_column = row_column(read_columns, prefill)
        source = live_block(state_indices, prefill, read_column, num_columns, num_blocks)
        is_fresh = read_columns is not None and not has_initial  # of all mode: reads no slot
        if length == 0 or not (source or is_fresh):
            continue  # padding
        h = ssm_state[source].float() if has_initial else torch.zeros(H, P, N)
        for first, end, column in chunks_scanned(
            prefill,
            start,
            length,
            first_columns,
            last_columns,
            num_computed_tokens,
            cu_chunk_seqlen,
            seq_idx,
            last_chunk_indices,
            num_chunks,
            block_size,
        ):
            for token in range(first, end):
                h = _absorb_token(h, token, x, skip, dt, B, C, A, D, output)
            if column is None:
                continue
            target = live_block(state_indices, prefill, column, num_columns, num_blocks)
            if target:
                ssm_state[target] = h.to(ssm_state.dtype)


# -------------------------------------------------------------------------------------- ReplaySSM


@ReferenceKernel
def replay_state_decode_kernel(
    grid: tuple[int, ...],
    x: torch.Tensor,
    skip: torch.Tensor,
    dt: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    A: torch.Tensor,
    D: torch.Tensor,
    output: torch.Tensor,
    ssm_state: torch.Tensor,
    stride_block: int,
    x_ring: torch.Tensor,
    stride_x_ring: int,
    dt_ring: torch.Tensor,
    stride_dt_ring: int,
    B_ring: torch.Tensor,
    stride_B_ring: int,
    num_blocks: int,
    state_indices: torch.Tensor,
    stride_indices: int,
    write_pos: torch.Tensor,
    is_flush: torch.Tensor,
    bc_scratch: torch.Tensor,
    num_tokens: int,
    RING: int,
    H: int,
    P: int,
    N: int,
    RING_TILE: int,
    HEAD_TILE: int,
    CHANNEL_TILE: int,
    STATE_TILE: int,
) -> None:
    """Twin of ``mixer.replay_state_decode_kernel``; it always replays, and keeps what it may."""
    for row in range(min(grid[0], num_tokens)):
        block = live_block(state_indices, row, 0, 1, num_blocks)
        position = int(write_pos[row])
        if block == 0 or not 0 <= position < RING:
            continue  # padding
        # The ring's entries before ``position``, then this token: [entries, H, ..].
        xs = torch.cat([x_ring[block, :, :position].transpose(0, 1).float(), x[row, None]])
        dts = torch.cat([dt_ring[block, :, :position].T, dt[row, None]])
        Bs = torch.cat([B_ring[block, :, :position].transpose(0, 1).float(), B[row, None]])
        bc_scratch[row, :, : position + 1] = (Bs * C[row]).sum(-1).T  # [H, entries]
        h = ssm_state[block].float()  # [H, P, N]
        for dt_j, x_j, B_j in zip(dts, xs, Bs, strict=True):
            new = (dt_j[:, None] * x_j)[:, :, None] * B_j[:, None, :]  # [H, P, N]
            h = torch.exp(dt_j * A)[:, None, None] * h + new
        y = (h * C[row, :, None, :]).sum(-1) + D[:, None] * skip[row]  # [H, P]
        output[row] = y.reshape(-1)
        if is_flush[row]:
            ssm_state[block] = h.to(ssm_state.dtype)
        else:
            x_ring[block, :, position] = x[row].to(x_ring.dtype)
            dt_ring[block, :, position] = dt[row]
            B_ring[block, :, position] = B[row].to(B_ring.dtype)
