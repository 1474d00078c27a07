"""Before a forward: carry the state over into a new running block (section 3.4).

The step's tokens reach into another column than the one that holds the state, so the state moves
there first (MIGRATE). The wanted state lies ``num_accepted - 1`` tokens past the one in the old
column, as the step before left it.
"""

import triton
import triton.language as tl

from kernels.copy_block import copy_state_block
from kernels.launch import one_launch_at_a_time


@one_launch_at_a_time
@triton.jit
def precopy_mamba_align_fused_kernel(
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
    COPY_BLOCK_SIZE: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr = True,
    num_blocks=0,
):
    """Copy from column ``src_col[slot]`` to ``mamba_state_idx[slot]``, per state (section 3.4).

    Grid ``(num_reqs, num_states)``; a third axis shares out the bytes of large states. The first
    three tensors are int32 by slot, ``slot = idx_mapping[batch]``; without ``HAS_IDX_MAPPING``
    batch order is slot order. The block table is read at the batch row. Nothing is copied for
    a negative slot, a fresh request (``src_col < 0``), or a request that stays in its column.
    """
    batch = tl.program_id(0)
    state = tl.program_id(1)
    if batch >= num_reqs:
        return
    slot = batch
    if HAS_IDX_MAPPING:
        slot = tl.load(idx_mapping + batch)
    if slot < 0:
        return

    from_col = tl.load(src_col + slot)
    to_col = tl.load(mamba_state_idx + slot)
    if (from_col >= 0) & (from_col != to_col):
        copy_state_block(
            state,
            batch,
            from_col,
            to_col,
            tl.load(token_bias + slot),
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
            COPY_BLOCK_SIZE,
            CONV_STATE_DIM_FIRST,
        )
