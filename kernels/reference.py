"""The plain twins: the kernels of section 3 once more, in ordinary Python, step by step.

Three steps, each usable alone (the recorded trace explains a launch with them):

    decide_*       one request: which columns, how many tokens on, what happens to its count
    plan_copy      one state of that request: which blocks, which bytes, or why not
    execute_copy   move the bytes of a plan

and the twins, which do that for every request and state of a launch. A twin takes the arguments
of its Triton kernel and is launched the same way, ``kernel[grid](...)``. It works on the
addresses of CPU tensors and needs no Triton: it is the back end ``reference``, for machines
without it, and what the other back ends are checked against.

All ``decide_*`` and ``plan_copy`` take and give plain ints; B = ``block_size``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import overload

import torch

from kernels.launch import ReferenceKernel, check_memcpy_lengths

NULL_BLOCK = 0
ADDRESS_SPACE = 2**64  # an int64 holds an address by its bit pattern


# ------------------------------------------------------------------------------------- decisions


class Outcome(StrEnum):
    """What a decision came to."""

    COPIED = "copied"
    NO_BOUNDARY = "nothing to do: no boundary reached"
    NO_SHIFT = "same column, no shift"
    SAME_COLUMN = "same column"
    FRESH = "fresh"
    NEGATIVE_SLOT = "negative slot"
    COLUMN_KEPT = "running column kept"
    COLUMN_CHANGED = "new running column"


@dataclass(frozen=True)
class PostprocessDecision:
    """Section 3.2 for one request; None = not computed on the way to this outcome.

    ``computed``, ``scheduled`` and ``drafts`` are the V1 inputs (None with an advanced count).
    ``running`` tokens stand in the running column, ``new`` are final after the step, ``aligned``
    is the last boundary among them, ``bias`` how far that lies past ``running``.
    ``accepted_out`` is the count that the next forward will see.
    """

    slot: int
    outcome: Outcome
    computed: int | None = None
    scheduled: int | None = None
    drafts: int | None = None
    accepted: int | None = None
    running: int | None = None
    new: int | None = None
    aligned: int | None = None
    bias: int | None = None
    src_col: int | None = None
    dst_col: int | None = None
    accepted_out: int | None = None

    @property
    def resets_count(self) -> bool:
        """Whether the kernel writes 1 over the accepted count (it writes nothing else there)."""
        return self.dst_col is not None and self.src_col == self.dst_col


def decide_postprocess(
    slot: int,
    accepted: int,
    src_col: int,
    computed: int,
    scheduled: int,
    drafts: int,
    block_size: int,
) -> PostprocessDecision:
    """V1 (section 3.2): from the counts before the step. ``src_col`` = ``mamba_state_idx``."""
    if slot < 0:
        return PostprocessDecision(slot, Outcome.NEGATIVE_SLOT)
    running = computed + scheduled - drafts
    new = running + accepted - 1
    inputs = (computed, scheduled, drafts)
    return _boundary_decision(slot, inputs, accepted, running, new, src_col, block_size)


def decide_postprocess_advanced(
    slot: int, accepted: int, src_col: int, new: int, block_size: int
) -> PostprocessDecision:
    """V2 (section 3.2): from the advanced count ``new``. ``src_col`` = ``mamba_state_idx``."""
    if slot < 0:
        return PostprocessDecision(slot, Outcome.NEGATIVE_SLOT)
    inputs = (None, None, None)
    return _boundary_decision(slot, inputs, accepted, new - accepted + 1, new, src_col, block_size)


def _boundary_decision(
    slot: int,
    inputs: tuple[int | None, int | None, int | None],
    accepted: int,
    running: int,
    new: int,
    src_col: int,
    block_size: int,
) -> PostprocessDecision:
    """What both formulas share: is there a boundary in ``running .. new``, and where to put it."""
    aligned = new // block_size * block_size
    if new < 0 or aligned < running:
        return PostprocessDecision(
            slot,
            Outcome.NO_BOUNDARY,
            *inputs,
            accepted=accepted,
            running=running,
            new=new,
            aligned=aligned,
            src_col=src_col,
            accepted_out=accepted,
        )
    bias = aligned - running
    dst_col = aligned // block_size - 1
    same = src_col == dst_col
    return PostprocessDecision(
        slot,
        Outcome.NO_SHIFT if same and bias == 0 else Outcome.COPIED,
        *inputs,
        accepted=accepted,
        running=running,
        new=new,
        aligned=aligned,
        bias=bias,
        src_col=src_col,
        dst_col=dst_col,
        accepted_out=1 if same else accepted,
    )


@dataclass(frozen=True)
class PreprocessDecision:
    """Section 3.3 for one request; None = not computed (negative slot).

    ``src_col`` and ``src_off`` say where the state lies now: column, and tokens past it.
    ``dst_col`` is the column the request will run in.
    """

    slot: int
    outcome: Outcome
    computed: int | None = None
    query_len: int | None = None
    accepted: int | None = None
    src_col: int | None = None
    src_off: int | None = None
    dst_col: int | None = None
    accepted_out: int | None = None


def decide_preprocess(
    slot: int, state_idx: int, computed: int, query_len: int, accepted: int, block_size: int
) -> PreprocessDecision:
    """V2 (section 3.3): the running column of this step. ``state_idx`` is the one before."""
    if slot < 0:
        return PreprocessDecision(slot, Outcome.NEGATIVE_SLOT)
    dst_col = -(-(computed + query_len) // block_size) - 1  # cdiv - 1
    if state_idx < 0:
        outcome = Outcome.FRESH
    elif state_idx == dst_col:
        outcome = Outcome.COLUMN_KEPT
    else:
        outcome = Outcome.COLUMN_CHANGED
    return PreprocessDecision(
        slot,
        outcome,
        computed=computed,
        query_len=query_len,
        accepted=accepted,
        src_col=state_idx,
        src_off=max(accepted - 1, 0),
        dst_col=dst_col,
        accepted_out=1 if outcome is Outcome.COLUMN_CHANGED else accepted,
    )


@dataclass(frozen=True)
class PrecopyDecision:
    """Section 3.4 for one request; None = not read (negative slot)."""

    slot: int
    outcome: Outcome
    src_col: int | None = None
    dst_col: int | None = None
    bias: int | None = None


def decide_precopy(slot: int, src_col: int, dst_col: int, bias: int) -> PrecopyDecision:
    """Whether the state must move before the forward (section 3.4)."""
    if slot < 0:
        return PrecopyDecision(slot, Outcome.NEGATIVE_SLOT)
    if src_col < 0:
        outcome = Outcome.FRESH
    elif src_col == dst_col:
        outcome = Outcome.SAME_COLUMN
    else:
        outcome = Outcome.COPIED
    return PrecopyDecision(slot, outcome, src_col, dst_col, bias)


# ----------------------------------------------------------------------------------------- plans


@dataclass(frozen=True)
class StateGeometry:
    """Where the bytes of one state tensor lie: one entry of the eight tensors of section 3.1."""

    base_addr: int  # by bit pattern: negative = 2**63 or more
    block_stride: int  # bytes
    elem_size: int  # bytes
    inner_size: int  # elements: SD a token row, DS 1, temporal the whole block
    conv_width: int  # token rows; 0 = temporal
    group: int
    dim_row_count: int = 0  # DS: channels
    dim_row_stride: int = 0  # DS: bytes from one channel to the next

    @property
    def is_conv(self) -> bool:
        return self.conv_width > 0


@dataclass(frozen=True)
class CopyPlan:
    """One state-block copy (section 3.1), or why there is none (``skipped``).

    ``num_rows`` runs of ``row_bytes`` bytes, ``row_stride`` bytes apart: conv SD and temporal one
    run, conv DS one per channel. ``src_col`` is the column that is read (temporal: bias
    included). Blocks are None where the column has none; addresses where the copy is skipped.
    """

    state: int
    group: int
    is_conv: bool
    src_col: int
    dst_col: int
    bias: int
    src_block: int | None
    dst_block: int | None
    skipped: str | None = None
    src_addr: int | None = None
    dst_addr: int | None = None
    num_rows: int = 0
    row_bytes: int = 0
    row_stride: int = 0

    @property
    def num_bytes(self) -> int:
        return self.num_rows * self.row_bytes

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """(source address, destination address, bytes) of every run; none when skipped."""
        if self.src_addr is None or self.dst_addr is None:
            return
        for row in range(self.num_rows):
            offset = row * self.row_stride
            yield self.src_addr + offset, self.dst_addr + offset, self.row_bytes


def plan_copy(
    state: int,
    geometry: StateGeometry,
    table_row: Sequence[int],
    src_col: int,
    dst_col: int,
    bias: int,
    conv_state_dim_first: bool,
    num_blocks: int = 0,
) -> CopyPlan:
    """The copy of state number ``state`` for one request (section 3.1).

    ``table_row``: the request's row in the block table of the state's group, as many entries as
    ``block_table_stride_req``. ``num_blocks`` 0 = unknown.
    """
    read_col = src_col if geometry.is_conv else src_col + bias
    src_block = table_row[read_col] if 0 <= read_col < len(table_row) else None
    dst_block = table_row[dst_col] if 0 <= dst_col < len(table_row) else None
    where = (state, geometry.group, geometry.is_conv, read_col, dst_col, bias, src_block, dst_block)

    skipped = (
        _why_not("source", read_col, src_block, len(table_row), num_blocks)
        or _why_not("destination", dst_col, dst_block, len(table_row), num_blocks)
        or _why_no_bytes(geometry, bias)
    )
    if skipped is not None or src_block is None or dst_block is None:
        return CopyPlan(*where, skipped=skipped)

    token_bytes = geometry.inner_size * geometry.elem_size  # temporal: the natural block
    shift = bias * token_bytes if geometry.is_conv else 0
    row_bytes = token_bytes * (geometry.conv_width - bias) if geometry.is_conv else token_bytes
    by_channel = geometry.is_conv and conv_state_dim_first
    return CopyPlan(
        *where,
        src_addr=_block_address(geometry, src_block, shift),
        dst_addr=_block_address(geometry, dst_block, 0),
        num_rows=geometry.dim_row_count if by_channel else 1,
        row_bytes=row_bytes,
        row_stride=geometry.dim_row_stride if by_channel else row_bytes,
    )


def _why_not(end: str, col: int, block: int | None, num_cols: int, num_blocks: int) -> str | None:
    """Why this end of a copy has no address (I7), or None if it has one."""
    if block is None:
        return f"{end} column {col} is outside the row of {num_cols} columns"
    if block == NULL_BLOCK:
        return f"{end} column {col} holds the null block"
    if block < 0:
        return f"{end} column {col} holds the negative id {block}"
    if num_blocks and block >= num_blocks:
        return f"{end} column {col} holds id {block}, but there are {num_blocks} blocks"
    return None


def _why_no_bytes(geometry: StateGeometry, bias: int) -> str | None:
    if bias < 0:
        return f"the bias {bias} is negative"
    if geometry.is_conv and bias >= geometry.conv_width:
        return f"nothing is left of {geometry.conv_width} token rows after a shift by {bias}"
    return None


def _block_address(geometry: StateGeometry, block: int, shift: int) -> int:
    return (geometry.base_addr + block * geometry.block_stride + shift) % ADDRESS_SPACE


def execute_copy(plan: CopyPlan) -> None:
    """Move the bytes of a plan, the source read whole before anything is written."""
    runs = [(dst, ctypes.string_at(src, size)) for src, dst, size in plan.ranges()]
    for dst, data in runs:
        ctypes.memmove(dst, data, len(data))


# ----------------------------------------------------------------------------------------- twins


def read_geometries(
    base_addrs: torch.Tensor,
    block_strides: torch.Tensor,
    elem_sizes: torch.Tensor,
    inner_sizes: torch.Tensor,
    conv_widths: torch.Tensor,
    group_indices: torch.Tensor,
    dim_row_count: torch.Tensor,
    dim_row_stride: torch.Tensor,
) -> list[StateGeometry]:
    """The eight per-state tensors of section 3.1 (each [num_states], any device) as records."""
    columns = (
        base_addrs,
        block_strides,
        elem_sizes,
        inner_sizes,
        conv_widths,
        group_indices,
        dim_row_count,
        dim_row_stride,
    )
    return [StateGeometry(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


class TableRow(Sequence[int]):
    """One row of an int32 block table in CPU memory, read entry by entry as a kernel would."""

    def __init__(self, table_addr: int, row: int, stride_req: int) -> None:
        self.addr = table_addr % ADDRESS_SPACE + row * stride_req * 4
        self.stride_req = stride_req

    def __len__(self) -> int:
        return self.stride_req

    @overload
    def __getitem__(self, column: int) -> int: ...
    @overload
    def __getitem__(self, column: slice) -> list[int]: ...
    def __getitem__(self, column: int | slice) -> int | list[int]:
        if isinstance(column, slice):
            return [self[c] for c in range(*column.indices(self.stride_req))]
        if not 0 <= column < self.stride_req:
            raise IndexError(f"column {column} is outside a row of {self.stride_req} columns")
        return ctypes.c_int32.from_address(self.addr + column * 4).value


def _copy_states(
    num_states: int,
    geometries: list[StateGeometry],
    block_table_ptrs: torch.Tensor,
    block_table_stride_req: int,
    batch: int,
    decision: PostprocessDecision | PrecopyDecision,
    conv_state_dim_first: bool,
    num_blocks: int,
) -> None:
    """Plan and execute the copies of one request, state after state."""
    if decision.outcome is not Outcome.COPIED:
        return
    for state, geometry in enumerate(geometries[:num_states]):
        table_addr = int(block_table_ptrs[geometry.group])
        execute_copy(
            plan_copy(
                state,
                geometry,
                TableRow(table_addr, batch, block_table_stride_req),
                _known(decision.src_col),
                _known(decision.dst_col),
                _known(decision.bias),
                conv_state_dim_first,
                num_blocks,
            )
        )


@ReferenceKernel
def postprocess_mamba_fused_kernel(
    grid: tuple[int, ...],
    num_accepted_tokens: torch.Tensor,
    mamba_state_idx: torch.Tensor,
    num_scheduled_tokens: torch.Tensor | None,
    num_computed_tokens: torch.Tensor,
    num_draft_tokens: torch.Tensor | None,
    block_table_ptrs: torch.Tensor,
    block_table_stride_req: int,
    state_base_addrs: torch.Tensor,
    state_block_strides: torch.Tensor,
    state_elem_sizes: torch.Tensor,
    state_inner_sizes: torch.Tensor,
    state_conv_widths: torch.Tensor,
    state_group_indices: torch.Tensor,
    state_dim_row_count: torch.Tensor,
    state_dim_row_stride: torch.Tensor,
    num_accepted_tokens_out: torch.Tensor | None,
    idx_mapping: torch.Tensor | None,
    num_reqs: int,
    block_size: int,
    COPY_BLOCK_SIZE: int,
    CONV_STATE_DIM_FIRST: bool,
    HAS_IDX_MAPPING: bool = False,
    PRECOMPUTED_NEW_COMPUTED: bool = False,
    num_blocks: int = 0,
) -> None:
    """Twin of ``postprocess.postprocess_mamba_fused_kernel`` (section 3.2)."""
    geometries = read_geometries(
        state_base_addrs,
        state_block_strides,
        state_elem_sizes,
        state_inner_sizes,
        state_conv_widths,
        state_group_indices,
        state_dim_row_count,
        state_dim_row_stride,
    )
    counts_out = num_accepted_tokens if num_accepted_tokens_out is None else num_accepted_tokens_out
    for batch in range(min(grid[0], num_reqs)):
        slot = _slot(batch, idx_mapping if HAS_IDX_MAPPING else None)
        if slot < 0:
            continue
        accepted, src_col = int(num_accepted_tokens[slot]), int(mamba_state_idx[slot])
        computed = int(num_computed_tokens[slot])
        if PRECOMPUTED_NEW_COMPUTED:
            decision = decide_postprocess_advanced(slot, accepted, src_col, computed, block_size)
        else:
            assert num_scheduled_tokens is not None
            assert num_draft_tokens is not None
            scheduled, drafts = int(num_scheduled_tokens[slot]), int(num_draft_tokens[slot])
            decision = decide_postprocess(
                slot, accepted, src_col, computed, scheduled, drafts, block_size
            )
        _copy_states(
            grid[1],
            geometries,
            block_table_ptrs,
            block_table_stride_req,
            batch,
            decision,
            CONV_STATE_DIM_FIRST,
            num_blocks,
        )
        if decision.resets_count:
            counts_out[slot] = 1


@ReferenceKernel
def precopy_mamba_align_fused_kernel(
    grid: tuple[int, ...],
    mamba_state_idx: torch.Tensor,
    src_col: torch.Tensor,
    token_bias: torch.Tensor,
    block_table_ptrs: torch.Tensor,
    block_table_stride_req: int,
    state_base_addrs: torch.Tensor,
    state_block_strides: torch.Tensor,
    state_elem_sizes: torch.Tensor,
    state_inner_sizes: torch.Tensor,
    state_conv_widths: torch.Tensor,
    state_group_indices: torch.Tensor,
    state_dim_row_count: torch.Tensor,
    state_dim_row_stride: torch.Tensor,
    idx_mapping: torch.Tensor | None,
    num_reqs: int,
    COPY_BLOCK_SIZE: int,
    CONV_STATE_DIM_FIRST: bool,
    HAS_IDX_MAPPING: bool = True,
    num_blocks: int = 0,
) -> None:
    """Twin of ``precopy.precopy_mamba_align_fused_kernel`` (section 3.4)."""
    geometries = read_geometries(
        state_base_addrs,
        state_block_strides,
        state_elem_sizes,
        state_inner_sizes,
        state_conv_widths,
        state_group_indices,
        state_dim_row_count,
        state_dim_row_stride,
    )
    for batch in range(min(grid[0], num_reqs)):
        slot = _slot(batch, idx_mapping if HAS_IDX_MAPPING else None)
        if slot < 0:
            continue
        from_col, to_col, bias = (int(t[slot]) for t in (src_col, mamba_state_idx, token_bias))
        _copy_states(
            grid[1],
            geometries,
            block_table_ptrs,
            block_table_stride_req,
            batch,
            decide_precopy(slot, from_col, to_col, bias),
            CONV_STATE_DIM_FIRST,
            num_blocks,
        )


@ReferenceKernel
def preprocess_mamba_align_fused_kernel(
    grid: tuple[int, ...],
    idx_mapping: torch.Tensor,
    state_idx: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    src_col: torch.Tensor,
    src_off: torch.Tensor,
    num_reqs: int,
    BLOCK_SIZE: int,
    MAMBA_BLOCK_SIZE: int,
) -> None:
    """Twin of ``preprocess.preprocess_mamba_align_fused_kernel`` (section 3.3)."""
    for batch in range(min(grid[0] * BLOCK_SIZE, num_reqs)):
        slot = _slot(batch, idx_mapping)
        if slot < 0:
            continue
        decision = decide_preprocess(
            slot,
            state_idx=int(state_idx[slot]),
            computed=int(num_computed_tokens[slot]),
            query_len=int(query_start_loc[batch + 1]) - int(query_start_loc[batch]),
            accepted=int(num_accepted_tokens[slot]),
            block_size=MAMBA_BLOCK_SIZE,
        )
        src_col[slot] = _known(decision.src_col)
        src_off[slot] = _known(decision.src_off)
        state_idx[slot] = _known(decision.dst_col)
        num_accepted_tokens[slot] = _known(decision.accepted_out)


def _known(value: int | None) -> int:
    """A value that a decision with this outcome has computed."""
    assert value is not None
    return value


def _slot(batch: int, idx_mapping: torch.Tensor | None) -> int:
    return batch if idx_mapping is None else int(idx_mapping[batch])


@ReferenceKernel
def batch_memcpy_kernel(
    grid: tuple[int, ...],
    src_ptrs: torch.Tensor,
    dst_ptrs: torch.Tensor,
    sizes: torch.Tensor,
    BLOCK_SIZE: int,
) -> None:
    """Twin of ``memcpy.batch_memcpy_kernel`` (section 3.5)."""
    copies = list(zip(src_ptrs.tolist(), dst_ptrs.tolist(), sizes.tolist(), strict=True))
    for src, dst, size in copies[: grid[0]]:
        if size > 0:
            ctypes.memmove(dst % ADDRESS_SPACE, src % ADDRESS_SPACE, size)


def batch_memcpy(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    """Twin of ``memcpy.batch_memcpy`` (section 3.5): ValueError for unequal lengths."""
    n = check_memcpy_lengths(src_ptrs, dst_ptrs, sizes)
    if n > 0:
        batch_memcpy_kernel[(n,)](src_ptrs, dst_ptrs, sizes, BLOCK_SIZE=1)
