"""From per-request Python values to arrays in batch order on the device (section 3.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

from mambaviz.worker.context import MambaSpecDecodeGPUContext
from mambaviz.worker.cpu_gpu import CpuGpuBuffer
from mambaviz.worker.protocols import RequestView, SchedulerOutputView

T = TypeVar("T")


def require(value: T | None, name: str) -> T:
    """The value; ValueError that names it when it is missing."""
    if value is None:
        raise ValueError(f"{name} is needed here but is None: create it before this step")
    return value


def stage_mamba_state_idx_to_gpu(
    mamba_state_idx: Mapping[str, int],
    req_ids: Sequence[str],
    num_reqs: int,
    gpu_buf: CpuGpuBuffer,
) -> torch.Tensor:
    """Upload the running columns of the first ``num_reqs`` requests; int32 ``[num_reqs]``.

    ValueError that names a request without a running column. Section 3.7.
    """
    gpu_buf = require(gpu_buf, "gpu_buf (mamba_state_idx_buf)")
    for row, req_id in enumerate(req_ids[:num_reqs]):
        if req_id not in mamba_state_idx:
            raise ValueError(
                f"request {req_id} has no running column in mamba_state_idx: "
                "preprocess_mamba must run first"
            )
        gpu_buf.np[row] = mamba_state_idx[req_id]
    return gpu_buf.copy_to_gpu(num_reqs)


def stage_postprocess_metadata_to_gpu(
    scheduler_output: SchedulerOutputView,
    req_ids: Sequence[str],
    num_reqs: int,
    requests: Mapping[str, RequestView],
    num_scheduled_tokens_buf: CpuGpuBuffer,
    num_computed_tokens_buf: CpuGpuBuffer,
    num_draft_tokens_buf: CpuGpuBuffer,
) -> None:
    """Upload query lengths, computed tokens (before this step) and draft counts, batch order.

    Section 3.7.
    """
    scheduled = require(num_scheduled_tokens_buf, "num_scheduled_tokens_buf")
    computed = require(num_computed_tokens_buf, "num_computed_tokens_buf")
    drafts = require(num_draft_tokens_buf, "num_draft_tokens_buf")
    draft_ids = scheduler_output.scheduled_spec_decode_tokens
    for row, req_id in enumerate(req_ids[:num_reqs]):
        scheduled.np[row] = scheduler_output.num_scheduled_tokens[req_id]
        computed.np[row] = requests[req_id].num_computed_tokens
        drafts.np[row] = len(draft_ids.get(req_id, ()))
    for buffer in (scheduled, computed, drafts):
        buffer.copy_to_gpu(num_reqs)


def stage_postprocess_inputs_to_gpu(
    ctx: MambaSpecDecodeGPUContext | None,
    scheduler_output: SchedulerOutputView,
    req_ids: Sequence[str],
    num_reqs: int,
    requests: Mapping[str, RequestView],
    mamba_state_idx: Mapping[str, int],
) -> None:
    """Everything `postprocess_mamba_align_gpu` will read, into the context's buffers.

    To be called between `preprocess_mamba` and the update of ``num_computed_tokens``.
    ValueError without a context, or for a request that preprocess has not seen. Section 3.7.
    """
    ctx = require(ctx, "the GPU context (MambaBuffers.postprocess_align)")
    stage_mamba_state_idx_to_gpu(mamba_state_idx, req_ids, num_reqs, ctx.mamba_state_idx_buf)
    stage_postprocess_metadata_to_gpu(
        scheduler_output,
        req_ids,
        num_reqs,
        requests,
        ctx.num_scheduled_tokens_buf,
        ctx.num_computed_tokens_buf,
        ctx.num_draft_tokens_buf,
    )
