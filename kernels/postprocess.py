"""After acceptance: keep the state at the block boundary that the accepted tokens reached (3.2).

The forward has left the state after its first query token in the running column, the states
after its drafts in the columns behind, and all inputs in the conv window. Verification says how
many tokens count. If a multiple of ``B`` (``block_size``) lies among them, the state there goes
to the column which that boundary completes, to be found by later requests.

    running = tokens whose state stands in the running column
    new     = tokens that are final after this step
    aligned = the last boundary at or before ``new``

``aligned < running``: no boundary was reached. Otherwise the wanted state is
``aligned - running`` tokens past the running one. If it belongs into the running column itself,
it is shifted into place there, and the accepted count, by which the next forward would look for
it further on, becomes 1.
"""

import triton
import triton.language as tl

from kernels.copy_block import copy_state_block
from kernels.launch import one_launch_at_a_time


@one_launch_at_a_time
@triton.jit
def postprocess_mamba_fused_kernel(
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
    block_size: tl.constexpr,
    COPY_BLOCK_SIZE: tl.constexpr,
    CONV_STATE_DIM_FIRST: tl.constexpr,
    HAS_IDX_MAPPING: tl.constexpr = False,
    PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False,
    num_blocks=0,
):
    """Decide per request, then copy per state (section 3.2).

    Grid ``(num_reqs, num_states)``; a third axis shares out the bytes of large states. The first
    five tensors are int32, per request: at the batch index, or (``HAS_IDX_MAPPING``) at the slot
    ``idx_mapping[batch]``. With ``PRECOMPUTED_NEW_COMPUTED`` the fourth holds the advanced counts,
    and the third and fifth are not read. ``num_blocks`` 0 = unknown.

    Every program of a request decides for itself, from ``num_accepted_tokens``. So pass
    a snapshot of the counts there, or another tensor as ``num_accepted_tokens_out``: with None
    the count is reset in place, and a program that starts after that sees the wrong one.
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

    accepted = tl.load(num_accepted_tokens + slot)
    if PRECOMPUTED_NEW_COMPUTED:
        new = tl.load(num_computed_tokens + slot)
        running = new - accepted + 1
    else:
        computed = tl.load(num_computed_tokens + slot)
        scheduled = tl.load(num_scheduled_tokens + slot)
        drafts = tl.load(num_draft_tokens + slot)
        running = computed + scheduled - drafts
        new = running + accepted - 1

    aligned = new // block_size * block_size
    if (new >= 0) & (aligned >= running):
        bias = aligned - running
        src_col = tl.load(mamba_state_idx + slot)
        dst_col = aligned // block_size - 1
        if (src_col != dst_col) | (bias > 0):
            copy_state_block(
                state,
                batch,
                src_col,
                dst_col,
                bias,
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
        # Once per request, by the program that a launch starts last, and not before all warps
        # of this one have read the count.
        is_last = (state == tl.num_programs(1) - 1) & (tl.program_id(2) == tl.num_programs(2) - 1)
        if (src_col == dst_col) & is_last:
            tl.debug_barrier()
            if num_accepted_tokens_out is None:
                tl.store(num_accepted_tokens + slot, 1)
            else:
                tl.store(num_accepted_tokens_out + slot, 1)
