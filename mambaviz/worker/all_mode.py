"""All mode with drafts: which column the step before wrote its states to (section 3.7).

Token ``i`` of a full decode query leaves its state in column ``last_scheduled + i``. The
next step finds the accepted one from there, so the worker remembers ``last_scheduled``;
any other query leaves its last state where its token count says, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import torch

from mambaviz.config import KVCacheConfig
from mambaviz.worker.cpu_gpu import CpuGpuBuffer
from mambaviz.worker.groups import get_mamba_groups
from mambaviz.worker.protocols import InputBatchView, RequestView, SchedulerOutputView
from mambaviz.worker.staging import require
from mambaviz.worker.v1 import cleanup_mamba_state_idx


def postprocess_mamba_all(
    scheduler_output: SchedulerOutputView,
    kv_cache_config: KVCacheConfig,
    input_batch: InputBatchView,
    requests: Mapping[str, RequestView],
    mamba_state_idx: MutableMapping[str, int],
    num_spec_tokens: int,
    num_reqs: int,
) -> None:
    """Remember the last scheduled column of each full decode query, forget the other rows.

    ``num_computed_tokens`` of the requests is still the count before this step. Section 3.7.
    """
    _, spec = get_mamba_groups(kv_cache_config)
    for req_id in input_batch.req_ids[:num_reqs]:
        num_query = scheduler_output.num_scheduled_tokens[req_id]
        if num_query == 1 + num_spec_tokens:
            last_token = requests[req_id].num_computed_tokens + num_query - 1
            mamba_state_idx[req_id] = max(0, last_token // spec.block_size)
        else:
            mamba_state_idx.pop(req_id, None)


def preprocess_mamba_all_specdec(
    scheduler_output: SchedulerOutputView,
    input_batch: InputBatchView,
    mamba_state_idx: MutableMapping[str, int],
    num_reqs: int,
    prev_last_scheduled_idx_buf: CpuGpuBuffer,
) -> torch.Tensor:
    """Upload each row's remembered column, -1 where there is none; int32, the whole buffer.

    The tail behind ``num_reqs`` is -1 too: padding rows must not see an older step's
    columns. Section 3.7.
    """
    buffer = require(prev_last_scheduled_idx_buf, "prev_last_scheduled_idx_buf")
    cleanup_mamba_state_idx(scheduler_output, mamba_state_idx)
    for row, req_id in enumerate(input_batch.req_ids[:num_reqs]):
        buffer.np[row] = mamba_state_idx.get(req_id, -1)
    buffer.np[num_reqs:] = -1
    return buffer.copy_to_gpu()
