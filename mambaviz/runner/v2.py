"""The V2 runner: per-request arrays live on the device in slots; the batch is a mapping into them.

Nothing comes back to the CPU between steps. Per step, in align mode:

    preprocess kernel (3.3)    where each state lies, which column it will run in
    precopy kernel (3.4)       MIGRATE
    … metadata, forward, acceptance …
    postprocess kernel (3.2)   CHECKPOINT, from the advanced counts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kernels import KernelSet
from mambaviz.runner.base import BatchTokens, ModelRunner, WorkerBooks
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Decision
from mambaviz.worker import MambaSpecDecodeGPUContext
from mambaviz.worker.launch import Launch, LaunchObserver, observed

PREPROCESS_LANES = 4  # batch entries per program of the preprocess kernel


class V2Runner(ModelRunner):
    """Slots are handed out from the far end, so that no slot is its own batch row by luck."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        super().__init__(scenario, kernels, device, observer)
        num_slots = self.engine.max_num_seqs

        def slots(value: int) -> torch.Tensor:
            return torch.full((num_slots,), value, dtype=torch.int32, device=device)

        self.free_slots = list(range(num_slots))  # the last one is taken next
        self.slots: dict[str, int] = {}
        self.state_idx = slots(-1)
        self.num_computed = slots(0)
        self.num_accepted = slots(1)
        self.src_col = slots(-1)
        self.src_off = slots(0)
        self.idx_mapping = slots(-1)
        self.context = MambaSpecDecodeGPUContext.create(
            num_slots,
            self.kv_cache_config,
            len(self.copy_funcs),
            device,
            self.make_buffer,
            conv_state_dim_first=self.conv_state_dim_first,
            on_launch=observer,
            kernels=kernels,
        )
        self.context.initialize_from_forward_context(
            self.kv_cache_config,
            self.forward_context,
            self.copy_funcs,
            [self.batch.block_table[gid].device_tensor for gid in self.group_ids],
        )

    # Slots.

    def update_states(self, output: SchedulerOutput) -> None:
        resumed = output.scheduled_cached_reqs.resumed_req_ids
        leaving = output.finished_req_ids | output.preempted_req_ids | resumed
        # By slot: in a set's own order the next slots would depend on the hash seed.
        for req_id in sorted(leaving & self.slots.keys(), key=self.slots.__getitem__):
            self.free_slots.append(self.slots.pop(req_id))
        super().update_states(output)
        for req_id, request in self.requests.items():
            if req_id not in self.slots:
                self._seed(req_id, request.num_computed_tokens)
        self.idx_mapping.fill_(-1)  # a negative slot: a padded row, skipped by every kernel
        for row, req_id in enumerate(self.batch.req_ids):
            self.idx_mapping[row] = self.slots[req_id]

    def _seed(self, req_id: str, num_computed: int) -> None:
        """A fresh request's slot: the column of its last computed token, -1 for none."""
        slot = self.slots[req_id] = self.free_slots.pop()
        self.state_idx[slot] = (num_computed - 1) // self.spec.block_size
        self.num_computed[slot] = num_computed
        self.num_accepted[slot] = 1

    def slot_of(self, req_id: str) -> int | None:
        return self.slots.get(req_id)

    def _arrays(self) -> tuple[torch.Tensor, ...]:
        """What lives in slots, all of it."""
        return self.state_idx, self.num_computed, self.num_accepted, self.src_col, self.src_off

    def _save_places(self) -> tuple[Mapping[str, int], tuple[tuple[int, ...], ...]]:
        arrays = (tuple(array.tolist()) for array in self._arrays())
        return dict(self.slots), (tuple(self.free_slots), *arrays)

    def _restore_places(self, books: WorkerBooks) -> None:
        self.slots = dict(books.places)
        free, *arrays = books.slots
        self.free_slots = list(free)
        for array, values in zip(self._arrays(), arrays, strict=True):
            array.copy_(torch.tensor(values, dtype=torch.int32))

    # The step.

    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        if self.engine.mode != "align" or self.num_reqs == 0:
            return []
        num_rows = self.padded_num_reqs(output)
        starts = BatchTokens.of(output).query_start_loc
        starts += (num_rows - self.num_reqs) * starts[-1:]
        self._launch_preprocess(num_rows, starts)
        self.context.run_fused_precopy(
            num_rows, self.state_idx, self.src_col, self.src_off, self.idx_mapping
        )
        return []

    def _launch_preprocess(self, num_rows: int, query_start_loc: Sequence[int]) -> None:
        inputs: dict[str, torch.Tensor | int | None] = {
            "idx_mapping": self.idx_mapping,
            "state_idx": self.state_idx,
            "num_computed_tokens": self.num_computed,
            "query_start_loc": torch.tensor(query_start_loc, dtype=torch.int32, device=self.device),
            "num_accepted_tokens": self.num_accepted,
            "src_col": self.src_col,
            "src_off": self.src_off,
            "num_reqs": num_rows,
            "BLOCK_SIZE": PREPROCESS_LANES,
            "MAMBA_BLOCK_SIZE": self.spec.block_size,
        }
        grid = (-(-num_rows // PREPROCESS_LANES),)
        launch = Launch("preprocess_mamba_align_fused_kernel", grid, inputs)
        with observed(self.observer, launch):
            self.kernels.preprocess_mamba_align_fused_kernel[grid](**inputs)

    def accepted_by_row(self, num_rows: int) -> torch.Tensor:
        slots = self.idx_mapping[:num_rows].long()
        return torch.where(slots < 0, 1, self.num_accepted[slots])

    def post_copy(self, output: SchedulerOutput, accepted: Mapping[str, int]) -> None:
        for req_id in self.batch.req_ids:
            slot, request = self.slots[req_id], output.requests[req_id]
            self.num_accepted[slot] = accepted[req_id]
            kept = request.num_scheduled - request.drafts + accepted[req_id] - 1
            self.num_computed[slot] = request.num_computed + kept
        if self.engine.mode == "align" and self.engine.num_spec and self.num_reqs:
            self._checkpoint(output)

    def _checkpoint(self, output: SchedulerOutput) -> None:
        """Run the fused postprocess; it settles the counts for the next step."""
        self.context.run_fused_postprocess_align(
            self.padded_num_reqs(output),
            self.num_accepted,
            self.state_idx,
            self.num_computed,
            self.idx_mapping,
        )

    def state_column(self, req_id: str) -> int | None:
        column = int(self.state_idx[self.slots[req_id]])
        return column if column >= 0 else None

    def accepted_count(self, req_id: str) -> int:
        return int(self.num_accepted[self.slots[req_id]])
