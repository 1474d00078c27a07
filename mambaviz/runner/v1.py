"""The V1 runner: the worker functions of section 3.7 in the order an engine calls them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernels import KernelSet
from mambaviz.runner.base import ModelRunner, WorkerBooks
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Decision
from mambaviz.worker import (
    MambaBuffers,
    MambaSpecDecodeGPUContext,
    postprocess_mamba_align_gpu,
    postprocess_mamba_all,
    preprocess_mamba,
    preprocess_mamba_all_specdec,
    stage_postprocess_inputs_to_gpu,
)
from mambaviz.worker.launch import LaunchObserver
from mambaviz.worker.v1 import NO_COLUMN, StateMove


class V1Runner(ModelRunner):
    """Running columns in a Python dict, accepted counts by batch row on the CPU."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        super().__init__(scenario, kernels, device, observer)
        self.mamba_state_idx: dict[str, int] = {}
        max_num_reqs = self.engine.max_num_seqs
        with_drafts = self.engine.num_spec > 0
        self.buffers = MambaBuffers.create(
            max_num_reqs,
            self.kv_cache_config,
            self.copy_funcs,
            self.make_buffer,
            device,
            with_postprocess_align=self.engine.mode == "align" and with_drafts,
            conv_state_dim_first=self.conv_state_dim_first,
            on_launch=observer,
            kernels=kernels,
        )
        # A DS window that is shifted is no single region: only kernel 3.4 can move it.
        self.precopy_context = (
            MambaSpecDecodeGPUContext.create(
                max_num_reqs,
                self.kv_cache_config,
                len(self.copy_funcs),
                device,
                self.make_buffer,
                conv_state_dim_first=True,
                on_launch=observer,
                kernels=kernels,
            )
            if self.conv_state_dim_first
            else None
        )
        self.prev_last_scheduled_buf = self.make_buffer(max_num_reqs, torch.int32)
        self.prev_last_scheduled: torch.Tensor | None = None

    def _save_places(self) -> tuple[Mapping[str, int], tuple[tuple[int, ...], ...]]:
        return dict(self.mamba_state_idx), ()

    def _restore_places(self, books: WorkerBooks) -> None:
        self.mamba_state_idx = dict(books.places)

    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        if self.engine.mode == "none":
            return []
        if self.engine.mode == "all":
            self._recall_all_mode_columns(output)
            return []
        counts = self.batch.num_accepted_tokens_cpu
        before = {r: self.requests[r].num_accepted_tokens for r in self.batch.req_ids}
        moves = preprocess_mamba(
            output,
            self.kv_cache_config,
            self.config.cache_config,
            self.mamba_state_idx,
            self.batch,
            self.requests,
            self.forward_context,
            self.copy_funcs,
            self.buffers.preprocess,
            self.precopy_context,
        )
        for row, req_id in enumerate(self.batch.req_ids):
            self.requests[req_id].num_accepted_tokens = int(counts[row])
        return [
            self._decision(row, move, before[move.req_id], output) for row, move in enumerate(moves)
        ]

    def _decision(
        self, row: int, move: StateMove, accepted: int, output: SchedulerOutput
    ) -> Decision:
        request = output.requests[move.req_id]
        copies = move.src_col != NO_COLUMN
        return Decision(
            request=move.req_id,
            row=row,
            slot=None,
            computed=request.num_computed,
            scheduled=request.num_scheduled,
            drafts=request.drafts,
            accepted=accepted,
            bias=move.token_bias if copies else None,
            src_col=move.src_col if copies else None,
            dst_col=move.dst_col,
            accepted_out=int(self.batch.num_accepted_tokens_cpu[row]),
            copies=copies,
            outcome=(
                "a new running block: the state moves there"
                if copies
                else "nothing computed yet: no state to move"
                if request.num_computed == 0
                else "the running block stays"
            ),
        )

    def _recall_all_mode_columns(self, output: SchedulerOutput) -> None:
        if self.engine.num_spec == 0:
            return
        self.prev_last_scheduled = preprocess_mamba_all_specdec(
            output,
            self.batch,
            self.mamba_state_idx,
            self.num_reqs,
            self.prev_last_scheduled_buf,
        )

    def _prev_last_scheduled(self, num_rows: int) -> torch.Tensor | None:
        columns = self.prev_last_scheduled
        return None if columns is None else columns[:num_rows]

    def accepted_by_row(self, num_rows: int) -> torch.Tensor:
        counts = torch.from_numpy(self.batch.num_accepted_tokens_cpu[:num_rows].copy())
        return counts.to(self.device)

    def post_copy(self, output: SchedulerOutput, accepted: Mapping[str, int]) -> None:
        counts = torch.tensor([accepted[r] for r in self.batch.req_ids], dtype=torch.int32)
        if self.buffers.postprocess_align is not None:
            counts = self._checkpoint(output, counts)
        elif self.engine.mode == "all" and self.engine.num_spec:
            postprocess_mamba_all(
                output,
                self.kv_cache_config,
                self.batch,
                self.requests,
                self.mamba_state_idx,
                self.engine.num_spec,
                self.num_reqs,
            )
        for req_id, count in zip(self.batch.req_ids, counts.tolist(), strict=True):
            self.requests[req_id].num_accepted_tokens = count

    def _checkpoint(self, output: SchedulerOutput, counts: torch.Tensor) -> torch.Tensor:
        """Run the fused postprocess; int32 ``[num_reqs]``, the counts for the next step."""
        context = self.buffers.postprocess_align
        assert context is not None
        self._stage_checkpoint(context, output)
        after = torch.from_numpy(self.batch.num_accepted_tokens_cpu)
        postprocess_mamba_align_gpu(
            bufs=self.buffers,
            num_reqs=self.num_reqs,
            num_accepted_tokens_gpu=counts.to(self.device),
            num_accepted_tokens_cpu_tensor=after,
            input_batch=self.batch,
            kv_cache_config=self.kv_cache_config,
            forward_context=self.forward_context,
            mamba_state_copy_funcs=self.copy_funcs,
        )
        return after[: self.num_reqs]

    def _stage_checkpoint(
        self, context: MambaSpecDecodeGPUContext, output: SchedulerOutput
    ) -> None:
        """Upload what the step will be judged by."""
        stage_postprocess_inputs_to_gpu(
            context,
            output,
            self.batch.req_ids,
            self.num_reqs,
            self.requests,
            self.mamba_state_idx,
        )

    def state_column(self, req_id: str) -> int | None:
        return self.mamba_state_idx.get(req_id)

    def accepted_count(self, req_id: str) -> int:
        return self.requests[req_id].num_accepted_tokens
