"""The V1 worker: decide on the CPU before a forward, clean up on the GPU after it (section 3.7).

Per step, in align mode:

    preprocess_mamba                 which block does each request work in now? if it is a new
                                     one, move the state there (MIGRATE)
    stage_postprocess_inputs_to_gpu  upload what the step will be judged by
    … forward, sampling, acceptance …
    postprocess_mamba_align_gpu      keep the state at a block boundary that the accepted
                                     drafts reached (CHECKPOINT)
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import torch

from kernels import kernel_set
from mambaviz.config import CacheConfig, KVCacheConfig
from mambaviz.worker.buffers import MambaBuffers, MambaCopyBuffers, SkippedCopy
from mambaviz.worker.context import MambaSpecDecodeGPUContext
from mambaviz.worker.copy_specs import CopyFunc, MambaCopySpec
from mambaviz.worker.groups import StateTensor, get_mamba_groups, iter_state_tensors
from mambaviz.worker.launch import Launch, observed
from mambaviz.worker.protocols import (
    ForwardContext,
    InputBatchView,
    RequestView,
    SchedulerOutputView,
)
from mambaviz.worker.staging import require

NO_COLUMN = -1  # a request without state: nothing computed yet


@dataclass(frozen=True)
class StateMove:
    """What `preprocess_mamba` decided for one batch row.

    ``src_col`` is `NO_COLUMN` when nothing moves: a fresh request, or one that goes on in the
    same block. ``token_bias`` is then 0.
    """

    req_id: str
    src_col: int
    dst_col: int
    token_bias: int


def cleanup_mamba_state_idx(
    scheduler_output: SchedulerOutputView, mamba_state_idx: MutableMapping[str, int]
) -> None:
    """Forget the running columns of finished, preempted and resumed requests.

    Their blocks are gone. Resumed ones too: a preemption that was forced between two steps
    may show up only as a resumption. Section 3.7.
    """
    gone = [
        *scheduler_output.finished_req_ids,
        *(scheduler_output.preempted_req_ids or ()),
        *scheduler_output.scheduled_cached_reqs.resumed_req_ids,
    ]
    for req_id in gone:
        mamba_state_idx.pop(req_id, None)


# ------------------------------------------------------------------ before the forward


def preprocess_mamba(
    scheduler_output: SchedulerOutputView,
    kv_cache_config: KVCacheConfig,
    cache_config: CacheConfig,
    mamba_state_idx: MutableMapping[str, int],
    input_batch: InputBatchView,
    requests: Mapping[str, RequestView],
    forward_context: ForwardContext,
    mamba_state_copy_funcs: Sequence[CopyFunc],
    copy_bufs: MambaCopyBuffers,
    align_ctx: MambaSpecDecodeGPUContext | None = None,
) -> list[StateMove]:
    """Give every request of the batch its running column, and move its state there.

    Updates ``mamba_state_idx`` and sets the accepted count of each request whose state moved
    to 1 (the move has already dropped the rows before the wanted one). The copies go out in
    one launch: of the copy list, or, with ``align_ctx``, of kernel 3.4, the only one that can
    shift a DS window. Returns the decisions in batch order. ValueError without prefix
    caching. Section 3.7.
    """
    if not cache_config.enable_prefix_caching:
        raise ValueError(
            "preprocess_mamba moves states between the blocks of a prefix cache: "
            "cache_config.enable_prefix_caching must be True"
        )
    group_ids, spec = get_mamba_groups(kv_cache_config)
    cleanup_mamba_state_idx(scheduler_output, mamba_state_idx)
    moves = _plan_moves(scheduler_output, spec.block_size, mamba_state_idx, input_batch, requests)
    if align_ctx is not None:
        _bind(align_ctx, kv_cache_config, forward_context, mamba_state_copy_funcs, input_batch)
        _launch_fused_precopy(align_ctx, moves)
        return moves
    copy_bufs.clear()
    for move in moves:
        if move.src_col == NO_COLUMN:
            continue
        collect_mamba_copy_meta(
            copy_bufs,
            kv_cache_config,
            mamba_state_copy_funcs,
            group_ids,
            move.src_col,
            move.dst_col,
            move.token_bias,
            requests[move.req_id],
            forward_context,
        )
    do_mamba_copy_block(copy_bufs)
    return moves


def _plan_moves(
    scheduler_output: SchedulerOutputView,
    block_size: int,
    mamba_state_idx: MutableMapping[str, int],
    input_batch: InputBatchView,
    requests: Mapping[str, RequestView],
) -> list[StateMove]:
    """Decide for each batch row, and record the decisions (running column, accepted count)."""
    moves = []
    for row, req_id in enumerate(input_batch.req_ids):
        computed = requests[req_id].num_computed_tokens
        total = computed + scheduler_output.num_scheduled_tokens[req_id]
        # New or resumed: its state, if any, is a prefix hit's, in the last computed column.
        prev = mamba_state_idx.get(req_id, (computed - 1) // block_size)
        curr = -(-total // block_size) - 1  # cdiv - 1: the column of the last token
        mamba_state_idx[req_id] = curr
        if prev in (NO_COLUMN, curr):
            moves.append(StateMove(req_id, NO_COLUMN, curr, 0))
            continue
        bias = int(input_batch.num_accepted_tokens_cpu[row]) - 1
        moves.append(StateMove(req_id, prev, curr, bias))
        input_batch.num_accepted_tokens_cpu[row] = 1
    return moves


def collect_mamba_copy_meta(
    copy_bufs: MambaCopyBuffers,
    kv_cache_config: KVCacheConfig,
    mamba_state_copy_funcs: Sequence[CopyFunc],
    mamba_group_ids: Sequence[int],
    src_block_idx: int,
    dest_block_idx: int,
    accept_token_bias: int,
    req_state: RequestView,
    forward_context: ForwardContext,
) -> None:
    """Append one request's copies to the list: one per layer and state type.

    Columns, not ids: ``src_block_idx`` to ``dest_block_idx`` of the request's worker row,
    ``accept_token_bias`` tokens on. Nothing to do when they are equal and the bias is 0. A
    copy whose column or id is no address is left out, as in the kernels (section 3.1), and
    noted in ``copy_bufs.skipped``. Section 3.7.
    """
    if src_block_idx == dest_block_idx and accept_token_bias == 0:
        return
    states = iter_state_tensors(
        kv_cache_config, mamba_group_ids, forward_context, mamba_state_copy_funcs
    )
    for state in states:
        row = req_state.block_ids[state.group]
        # A conv copy reads inside the source column, a temporal one `bias` columns further.
        read_col = src_block_idx + (accept_token_bias if state.kind == "temporal" else 0)
        num_blocks = state.tensor.shape[0]
        reason = _why_no_address(row, read_col, num_blocks) or _why_no_address(
            row, dest_block_idx, num_blocks
        )
        if reason is not None:
            copy_bufs.skipped.append(
                SkippedCopy(state.layer_name, state.index, read_col, dest_block_idx, reason)
            )
            continue
        source = _copy_source(state, row, src_block_idx, accept_token_bias, copy_bufs)
        copy_bufs.append(
            source.start_addr,
            state.tensor[row[dest_block_idx]].data_ptr(),
            source.num_elements * state.tensor.element_size(),
        )


def _why_no_address(row: Sequence[int], col: int, num_blocks: int) -> str | None:
    """The guards of section 3.1 for one column of a worker row; None when it is fine."""
    if not 0 <= col < len(row):
        return f"column {col} lies outside the row's {len(row)} columns"
    if not 0 < row[col] < num_blocks:
        return f"column {col} holds id {row[col]}, not one of the blocks 1..{num_blocks - 1}"
    return None


def _copy_source(
    state: StateTensor, row: Sequence[int], col: int, bias: int, copy_bufs: MambaCopyBuffers
) -> MambaCopySpec:
    layout = (copy_bufs.conv_state_dim_first,) if state.kind == "conv" else ()
    return state.copy_func(state.tensor, row, col, bias + 1, *layout)


def do_mamba_copy_block(copy_bufs: MambaCopyBuffers) -> None:
    """Do the copies of the list in one launch of ``batch_memcpy``; no launch when it is empty.

    Section 3.7.
    """
    n = copy_bufs.offset
    if n == 0:
        return
    src_ptrs = copy_bufs.src_ptrs.copy_to_gpu(n)
    dst_ptrs = copy_bufs.dst_ptrs.copy_to_gpu(n)
    sizes = copy_bufs.sizes.copy_to_gpu(n)
    launch = Launch(
        "batch_memcpy_kernel", (n,), {"src_ptrs": src_ptrs, "dst_ptrs": dst_ptrs, "sizes": sizes}
    )
    run = (copy_bufs.kernels or kernel_set(None)).batch_memcpy
    with observed(copy_bufs.on_launch, launch):
        run(src_ptrs, dst_ptrs, sizes)


def _launch_fused_precopy(ctx: MambaSpecDecodeGPUContext, moves: Sequence[StateMove]) -> None:
    n = len(moves)
    ctx.mamba_state_idx_buf.np[:n] = [move.dst_col for move in moves]
    ctx.src_col_buf.np[:n] = [move.src_col for move in moves]
    ctx.token_bias_buf.np[:n] = [move.token_bias for move in moves]
    ctx.run_fused_precopy(
        n,
        ctx.mamba_state_idx_buf.copy_to_gpu(n),
        ctx.src_col_buf.copy_to_gpu(n),
        ctx.token_bias_buf.copy_to_gpu(n),
        idx_mapping=None,  # V1: batch order is slot order
    )


# ------------------------------------------------------------------- after acceptance


def postprocess_mamba_align_gpu(
    *,
    bufs: MambaBuffers,
    num_reqs: int,
    num_accepted_tokens_gpu: torch.Tensor,
    num_accepted_tokens_cpu_tensor: torch.Tensor,
    input_batch: InputBatchView,
    kv_cache_config: KVCacheConfig,
    forward_context: ForwardContext,
    mamba_state_copy_funcs: Sequence[CopyFunc],
) -> None:
    """Keep the boundary states that the accepted tokens reached; hand back the counts.

    Reads what `stage_postprocess_inputs_to_gpu` uploaded. ``num_accepted_tokens_gpu``: int
    ``[>= num_reqs]``, this step's counts in batch order; the counts for the next step land in
    ``num_accepted_tokens_cpu_tensor[:num_reqs]``. Binds the context on first use. ValueError
    without a GPU context. Section 3.7.
    """
    ctx = require(bufs.postprocess_align, "the GPU context (MambaBuffers.postprocess_align)")
    _bind(ctx, kv_cache_config, forward_context, mamba_state_copy_funcs, input_batch)
    ctx.run_fused_postprocess(
        num_reqs,
        num_accepted_tokens_gpu,
        ctx.mamba_state_idx_buf.gpu,
        ctx.num_scheduled_tokens_buf.gpu,
        ctx.num_computed_tokens_buf.gpu,
        ctx.num_draft_tokens_buf.gpu,
    )
    # Blocking: the next step's decisions are taken on the CPU, from these counts.
    num_accepted_tokens_cpu_tensor[:num_reqs].copy_(ctx.num_accepted_tokens_out[:num_reqs])


def _bind(
    ctx: MambaSpecDecodeGPUContext,
    kv_cache_config: KVCacheConfig,
    forward_context: ForwardContext,
    copy_funcs: Sequence[CopyFunc],
    input_batch: InputBatchView,
) -> None:
    """Lazily: neither caches nor block tables exist yet when the context is created.

    Only the first time does anything. An empty batch cannot be it: its tables have no address.
    """
    num_reqs = len(input_batch.req_ids)
    if num_reqs == 0:
        return
    group_ids, _ = get_mamba_groups(kv_cache_config)
    tables = [input_batch.block_table[gid].get_device_tensor(num_reqs) for gid in group_ids]
    ctx.initialize_from_forward_context(kv_cache_config, forward_context, copy_funcs, tables)
