"""Mistakes of the two runners: books, decisions, what they hand to builder and kernels.

Every method does the right thing first or last (``super()``), and next to it, by name, what a
fault does instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernels import KernelSet
from mambaviz.attention import Mamba2AttentionMetadata, Mamba2AttentionMetadataBuilder
from mambaviz.mistakes.copies import (
    Move,
    Spoil,
    SpoiledKernel,
    WrongCopies,
    arrays_by_batch_row,
    never_launched,
    reset_in_place_by_the_first,
    table_by_slot,
)
from mambaviz.mistakes.metadata import MistakenBuilder
from mambaviz.runner import ModelRunner, V1Runner, V2Runner
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Decision
from mambaviz.worker import MambaSpecDecodeGPUContext, cleanup_mamba_state_idx
from mambaviz.worker.launch import LaunchObserver


@dataclass(frozen=True)
class ReplayedColumns:
    """The columns of all mode that a graph was last replayed with, by row."""

    last_scheduled: tuple[int, ...]
    last_computed: tuple[int, ...]


class MistakenRunner(ModelRunner):
    """The mistakes that both runners can make."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        self.faults = frozenset(scenario.faults)
        super().__init__(scenario, kernels, device, observer)
        self.mixer_config = replace(
            self.mixer_config,
            conv_window_from_last_computed="window-from-computed-column" in self.faults,
            short_chunk_writes_its_source="short-chunk-writes-its-source" in self.faults,
        )
        self.copies = WrongCopies(
            self,
            unordered="unordered-in-place-shift" in self.faults,
            without_bias="temporal-source-without-bias" in self.faults,
        )
        # What stood in each row of a group's table when it was last in use.
        self._rows_before = {
            gid: table.device_tensor.clone() for gid, table in self.batch.block_table.items()
        }
        self._columns_before: dict[int, ReplayedColumns] = {}

    # Books.

    def _save_memory(self) -> Hashable:
        # The rows behind a batch (padding-not-null) are left out: no kernel reads them.
        order = tuple(self.batch.req_ids) if "counts-permuted-twice" in self.faults else ()
        return order, tuple(self._columns_before.items())

    def _restore_memory(self, memory: Hashable) -> None:
        assert isinstance(memory, tuple)
        order, columns = memory
        self.batch.req_ids = list(order)
        self._columns_before = dict(columns)

    def update_states(self, output: SchedulerOutput) -> None:
        self._output = output
        for gid, table in self.batch.block_table.items():
            rows = table.get_device_tensor(self.num_reqs)
            self._rows_before[gid][: self.num_reqs] = rows
        if "worker-row-not-grown" in self.faults:
            output = without_growth(output)
        super().update_states(output)

    # Copies.

    @property
    def conv_state_dim_first(self) -> bool:
        return super().conv_state_dim_first and "ds-copied-flat" not in self.faults

    def spoiled(self, kernels: KernelSet) -> KernelSet:
        """The copy kernels as this run's faults launch them."""
        before: Spoil | None = None
        after: Spoil | None = None
        if "block-table-row-by-slot" in self.faults:
            before = after = table_by_slot(self)
        if "request-arrays-by-batch-row" in self.faults:
            before = after = arrays_by_batch_row
        if "reset-seen-by-siblings" in self.faults:
            after = reset_in_place_by_the_first
        if self.copies.unordered or self.copies.without_bias:
            before, after = self.copies.after_columns, self.copies.after_decisions
        if "pre-copy-skipped" in self.faults:
            before = never_launched
            kernels = replace(kernels, batch_memcpy=never_launched)
        precopy = kernels.precopy_mamba_align_fused_kernel
        postprocess = kernels.postprocess_mamba_fused_kernel
        return replace(
            kernels,
            precopy_mamba_align_fused_kernel=SpoiledKernel(precopy, before) if before else precopy,
            postprocess_mamba_fused_kernel=(
                SpoiledKernel(postprocess, after) if after else postprocess
            ),
        )

    def rows_with_boundary(
        self, output: SchedulerOutput, accepted: Mapping[str, int]
    ) -> torch.Tensor:
        """Batch rows whose accepted tokens reach a boundary (section 3.2); bool ``[num_reqs]``."""
        reached = []
        for req_id in self.batch.req_ids:
            request = output.requests[req_id]
            running = request.num_computed + request.num_scheduled - request.drafts
            new = running + accepted[req_id] - 1
            reached.append(new // self.spec.block_size * self.spec.block_size >= running)
        return torch.tensor(reached, dtype=torch.bool, device=self.device)

    # Metadata.

    def _make_builder(self, gid: int) -> Mamba2AttentionMetadataBuilder:
        layers = self.kv_cache_config.kv_cache_groups[gid].layer_names
        return MistakenBuilder(self.faults, self.spec, layers, self.config, self.device)

    def build_metadata(self, output: SchedulerOutput) -> dict[int, Mamba2AttentionMetadata]:
        built = super().build_metadata(output)
        if "metadata-of-another-group" in self.faults:
            return dict.fromkeys(built, built[self.group_ids[0]])
        if "stale-graph-buffers" in self.faults:
            for gid in self.group_ids[1:]:
                built[gid] = self._with_columns_of_the_replay_before(gid, built[gid])
        return built

    def _with_columns_of_the_replay_before(
        self, gid: int, metadata: Mamba2AttentionMetadata
    ) -> Mamba2AttentionMetadata:
        if metadata.num_prefills:
            return metadata  # no graph is replayed
        before = self._columns_before.get(gid)
        assert metadata.block_idx_last_scheduled_token is not None
        assert metadata.block_idx_last_computed_token is not None
        self._columns_before[gid] = ReplayedColumns(
            tuple(metadata.block_idx_last_scheduled_token.tolist()),
            tuple(metadata.block_idx_last_computed_token.tolist()),
        )
        if before is None or len(before.last_scheduled) != metadata.num_reqs:
            return metadata  # another graph

        def on_device(columns: tuple[int, ...]) -> torch.Tensor:
            return torch.tensor(columns, dtype=torch.int32, device=self.device)

        return replace(
            metadata,
            block_idx_last_scheduled_token=on_device(before.last_scheduled),
            block_idx_last_computed_token=on_device(before.last_computed),
        )

    def _table_for_metadata(self, gid: int, num_rows: int) -> torch.Tensor:
        table = super()._table_for_metadata(gid, num_rows)
        if "wrong-block-table-row" in self.faults:
            return table.roll(-1, dims=0)
        if "padding-not-null" in self.faults:
            return torch.cat([table[: self.num_reqs], self._rows_before[gid][self.num_reqs :]])[
                :num_rows
            ]
        return table

    def _accepted_for_metadata(self, num_rows: int) -> torch.Tensor | None:
        counts = super()._accepted_for_metadata(num_rows)
        if counts is None or "offset-lost-without-drafts" not in self.faults:
            return counts
        drafts = self._draft_counts(self._output, num_rows)
        assert drafts is not None
        return torch.where(drafts.to(self.device) < 0, 1, counts)


class MistakenV1Runner(MistakenRunner, V1Runner):
    """The V1 runner with the faults of its scenario."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        super().__init__(scenario, kernels, device, observer)
        spoiled = self.spoiled(kernels)
        self.buffers.preprocess.kernels = spoiled
        for context in (self.buffers.postprocess_align, self.precopy_context):
            if context is not None:
                context.launch_with(spoiled)

    def update_states(self, output: SchedulerOutput) -> None:
        before = list(self.batch.req_ids)
        super().update_states(output)
        if "counts-permuted-twice" in self.faults:
            self._gather_counts_again(before)

    def _gather_counts_again(self, before: Sequence[str]) -> None:
        """Each row takes the count at its request's row of the step before; a new request, 1."""
        counts = self.batch.num_accepted_tokens_cpu
        gathered = counts.copy()
        for row, req_id in enumerate(self.batch.req_ids):
            counts[row] = gathered[before.index(req_id)] if req_id in before else 1
            self.requests[req_id].num_accepted_tokens = int(counts[row])

    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        counts = self.batch.num_accepted_tokens_cpu
        before = counts.tolist()
        if "stale-column" in self.faults:
            output = without_preemptions(output)
        if "column-in-wrong-block-size" in self.faults:
            output = self._seed_in_the_wrong_block_size(output)
        if "bias-off-by-one" in self.faults:
            counts[: self.num_reqs] += 1
        # A fused pre-copy is spoiled where it is launched; the copy list, here.
        if self.copies.without_bias and self.precopy_context is None:
            decisions: list[Decision] = []
            with self.copies.instead(lambda: moves_of(decisions)):
                decisions += super().pre_copy(output)
        else:
            decisions = super().pre_copy(output)
        if "bias-off-by-one" in self.faults:
            decisions = self._count_as_before(
                decisions, before, {d.row for d in decisions if not d.copies}
            )
        if "accepted-count-not-reset" in self.faults:
            decisions = self._count_as_before(decisions, before, {d.row for d in decisions})
        return decisions

    def _seed_in_the_wrong_block_size(self, output: SchedulerOutput) -> SchedulerOutput:
        cleanup_mamba_state_idx(output, self.mamba_state_idx)
        for req_id in self.batch.req_ids:
            computed = self.requests[req_id].num_computed_tokens
            if computed and req_id not in self.mamba_state_idx:
                self.mamba_state_idx[req_id] = wrong_column(computed, self.spec.block_size)
        return without_preemptions(output)  # cleaned up already

    def _count_as_before(
        self, decisions: Sequence[Decision], before: Sequence[int], rows: set[int]
    ) -> list[Decision]:
        """The decisions, and the counts of these rows what they were."""
        for row in rows:
            self.batch.num_accepted_tokens_cpu[row] = before[row]
            self.requests[self.batch.req_ids[row]].num_accepted_tokens = before[row]
        return [
            decision.model_copy(update={"accepted_out": before[decision.row]})
            if decision.row in rows
            else decision
            for decision in decisions
        ]

    def _checkpoint(self, output: SchedulerOutput, counts: torch.Tensor) -> torch.Tensor:
        if "bias-off-by-one" in self.faults:
            return self._checkpoint_one_further(output, counts)
        after = super()._checkpoint(output, counts)
        return counts if "accepted-count-not-reset" in self.faults else after

    def _checkpoint_one_further(
        self, output: SchedulerOutput, counts: torch.Tensor
    ) -> torch.Tensor:
        """One token less believed to be running: the same boundary, one further away."""
        accepted = dict(zip(self.batch.req_ids, counts.tolist(), strict=True))
        self._further = self.rows_with_boundary(output, accepted)
        staged = counts + self._further.cpu().int()
        after = super()._checkpoint(output, staged)
        return torch.where(after == staged, counts, after)

    def _stage_checkpoint(
        self, context: MambaSpecDecodeGPUContext, output: SchedulerOutput
    ) -> None:
        super()._stage_checkpoint(context, output)
        if "bias-off-by-one" in self.faults:
            context.num_computed_tokens_buf.gpu[: self.num_reqs] -= self._further.int()


class MistakenV2Runner(MistakenRunner, V2Runner):
    """The V2 runner with the faults of its scenario."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        self._stale_columns: dict[str, int] = {}
        super().__init__(scenario, kernels, device, observer)
        self.context.launch_with(self.spoiled(kernels))

    def _save_memory(self) -> Hashable:
        return super()._save_memory(), tuple(self._stale_columns.items())

    def _restore_memory(self, memory: Hashable) -> None:
        assert isinstance(memory, tuple)
        common, stale = memory
        super()._restore_memory(common)
        self._stale_columns = dict(stale)

    def update_states(self, output: SchedulerOutput) -> None:
        if "stale-column" in self.faults:
            for req_id in output.preempted_req_ids & self.slots.keys():
                self._stale_columns[req_id] = int(self.state_idx[self.slots[req_id]])
        super().update_states(output)

    def _seed(self, req_id: str, num_computed: int) -> None:
        super()._seed(req_id, num_computed)
        slot = self.slots[req_id]
        if req_id in self._stale_columns:
            self.state_idx[slot] = self._stale_columns.pop(req_id)
        if "column-in-wrong-block-size" in self.faults and num_computed:
            self.state_idx[slot] = wrong_column(num_computed, self.spec.block_size)

    @property
    def _batch_slots(self) -> torch.Tensor:
        return self.idx_mapping[: self.num_reqs].long()

    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        counts = self.num_accepted.clone()
        decisions = super().pre_copy(output)
        if "accepted-count-not-reset" in self.faults:
            self.num_accepted.copy_(counts)
        return decisions

    def _launch_preprocess(self, num_rows: int, query_start_loc: Sequence[int]) -> None:
        super()._launch_preprocess(num_rows, query_start_loc)
        if "bias-off-by-one" in self.faults:
            self.src_off[self._batch_slots] += 1

    def _checkpoint(self, output: SchedulerOutput) -> None:
        right, slots = self.num_accepted.clone(), self._batch_slots
        if "bias-off-by-one" in self.faults:
            # One token more accepted, as many final: one less running, the boundary further away.
            accepted = dict(zip(self.batch.req_ids, right[slots].tolist(), strict=True))
            self.num_accepted[slots] += self.rows_with_boundary(output, accepted).int()
        staged = self.num_accepted.clone()
        super()._checkpoint(output)
        if "bias-off-by-one" in self.faults:
            kept = self.num_accepted == staged  # not reset
            self.num_accepted.copy_(torch.where(kept, right, self.num_accepted))
        if "accepted-count-not-reset" in self.faults:
            self.num_accepted.copy_(right)


def wrong_column(computed: int, block_size: int) -> int:
    """The column of the last computed token, counted in blocks of half the size."""
    return (computed - 1) // (block_size // 2)


def moves_of(decisions: Sequence[Decision]) -> list[Move]:
    """The copies that decisions of the V1 copy list stand for."""
    moves = []
    for decision in decisions:
        if decision.copies:
            assert decision.src_col is not None
            assert decision.dst_col is not None
            assert decision.bias is not None
            moves.append(Move(decision.row, decision.src_col, decision.dst_col, decision.bias))
    return moves


def without_growth(output: SchedulerOutput) -> SchedulerOutput:
    """The step as a worker hears it that takes no new columns for requests it knows."""
    cached = output.scheduled_cached_reqs
    grown = {
        req_id: new if req_id in cached.resumed_req_ids else tuple(() for _ in new)
        for req_id, new in cached.new_block_ids.items()
    }
    return replace(output, scheduled_cached_reqs=replace(cached, new_block_ids=grown))


def without_preemptions(output: SchedulerOutput) -> SchedulerOutput:
    """The step as a worker hears it that is told of no preemption and no resumption."""
    cached = replace(output.scheduled_cached_reqs, resumed_req_ids=frozenset())
    return replace(output, preempted=(), scheduled_cached_reqs=cached)
