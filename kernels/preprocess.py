"""Before a forward, V2 runner: which column will a request run in (section 3.3).

The column that its last token of this step falls into. Where the state lies now (column, and
tokens past it) is put down first, for the pre-copy that follows (``precopy.py``). The pre-copy
brings exactly that state into the new column, so the accepted count starts there at 1 again.
"""

import triton
import triton.language as tl

from kernels.launch import one_launch_at_a_time


@one_launch_at_a_time
@triton.jit
def preprocess_mamba_align_fused_kernel(
    idx_mapping,
    state_idx,
    num_computed_tokens,
    query_start_loc,
    num_accepted_tokens,
    src_col,
    src_off,
    num_reqs,
    BLOCK_SIZE: tl.constexpr,
    MAMBA_BLOCK_SIZE: tl.constexpr,
):
    """One lane per batch entry, grid ``(cdiv(num_reqs, BLOCK_SIZE),)`` (section 3.3).

    ``idx_mapping`` int32 [num_reqs] (batch entry to slot), ``query_start_loc`` int32
    [num_reqs + 1]; the others int32 by slot, of which ``state_idx``, ``num_accepted_tokens``,
    ``src_col`` and ``src_off`` are written. Negative slots, and slots outside the batch, are not
    touched.
    """
    batch = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    in_batch = batch < num_reqs
    slot = tl.load(idx_mapping + batch, mask=in_batch, other=-1)
    live = slot >= 0  # implies in_batch

    old_col = tl.load(state_idx + slot, mask=live, other=-1)
    accepted = tl.load(num_accepted_tokens + slot, mask=live, other=1)
    computed = tl.load(num_computed_tokens + slot, mask=live, other=0)
    query_start = tl.load(query_start_loc + batch, mask=live, other=0)
    query_end = tl.load(query_start_loc + batch + 1, mask=live, other=0)
    # Threads may share a lane when there are few: no store before all of them have loaded.
    tl.debug_barrier()

    tl.store(src_col + slot, old_col, mask=live)
    tl.store(src_off + slot, tl.maximum(accepted - 1, 0), mask=live)

    tokens = computed + query_end - query_start
    new_col = (tokens + MAMBA_BLOCK_SIZE - 1) // MAMBA_BLOCK_SIZE - 1
    tl.store(state_idx + slot, new_col, mask=live)
    tl.store(num_accepted_tokens + slot, 1, mask=live & (old_col >= 0) & (old_col != new_col))
