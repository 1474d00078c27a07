"""What both runners share: the worker's books, the metadata, the forward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernels import KernelSet
from mambaviz.attention import (
    CommonAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.attention.split import RowDecision
from mambaviz.cache.tensors import StateCache, kv_cache_config, layer_name, state_kinds
from mambaviz.config import (
    CacheConfig,
    CompilationConfig,
    EngineConfig,
    ModelConfig,
    SchedulerConfig,
    SpeculativeConfig,
)
from mambaviz.layer import layer_params
from mambaviz.mixer import MixerConfig, ReplayRing, run_layer
from mambaviz.scenario import Edit, Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Decision, StateKind
from mambaviz.worker import (
    CpuGpuBuffer,
    get_conv_copy_spec,
    get_mamba_groups,
    get_temporal_copy_spec,
)
from mambaviz.worker.copy_specs import CopyFunc
from mambaviz.worker.input_batch import CachedRequest, InputBatch
from mambaviz.worker.launch import LaunchObserver

COPY_FUNC_OF: Mapping[StateKind, CopyFunc] = {
    "conv": get_conv_copy_spec,
    "temporal": get_temporal_copy_spec,
}


def engine_config(scenario: Scenario) -> EngineConfig:
    """A scenario's settings as the builders and worker functions read them (section 6)."""
    engine = scenario.engine
    return EngineConfig(
        cache_config=CacheConfig(
            mamba_cache_mode=engine.mode,
            enable_prefix_caching=engine.mode != "none",
            use_replayssm=engine.replayssm_buffer_len > 0,
            replayssm_buffer_len=max(engine.replayssm_buffer_len, 1),
        ),
        scheduler_config=SchedulerConfig(
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
        ),
        speculative_config=SpeculativeConfig(engine.num_spec) if engine.num_spec else None,
        compilation_config=CompilationConfig(full_cuda_graphs=engine.full_cuda_graphs),
        model_config=ModelConfig(
            max_model_len=engine.max_model_len, chunk_size=scenario.layer.chunk_size
        ),
    )


@dataclass(frozen=True)
class BoundLayer:
    """A layer as the worker functions see it: its state tensors, conv before temporal."""

    kv_cache: Sequence[torch.Tensor]


@dataclass(frozen=True)
class BatchTokens:
    """The batch's query tokens in batch order, and where each row's begin."""

    token_ids: list[int]
    positions: list[int]
    query_start_loc: list[int]  # one entry more than rows

    @classmethod
    def of(cls, output: SchedulerOutput) -> BatchTokens:
        token_ids: list[int] = []
        positions: list[int] = []
        starts = [0]
        for req_id in output.batch_order:
            request = output.requests[req_id]
            token_ids += request.token_ids
            positions += range(request.num_computed, request.num_computed + request.num_scheduled)
            starts.append(len(token_ids))
        return cls(token_ids, positions, starts)


@dataclass(frozen=True)
class RequestBooks:
    """What a runner knows of one request between two steps."""

    num_computed: int
    num_accepted: int
    rows: tuple[tuple[int, ...], ...]  # per cache group, append-only


@dataclass(frozen=True)
class WorkerBooks:
    """All that a runner remembers between two steps beside the caches' contents.

    ``places`` are V1's running columns or V2's slots, by request; ``slots`` holds V2's arrays
    by slot, the free slots first (V1: empty). ``memory`` is what a mistaken runner remembers
    besides; hashable, and without block ids.
    """

    requests: Mapping[str, RequestBooks]
    places: Mapping[str, int]
    slots: tuple[tuple[int, ...], ...] = ()
    memory: Hashable = ()


class ModelRunner(ABC):
    """One engine's worker: the caches, who is in the batch, and the kernels it launches."""

    def __init__(
        self, scenario: Scenario, kernels: KernelSet, device: torch.device, observer: LaunchObserver
    ) -> None:
        self.scenario = scenario
        self.kernels = kernels
        self.device = device
        self.observer = observer
        self.engine = scenario.engine
        self.config = engine_config(scenario)
        self.kv_cache_config = kv_cache_config(scenario)
        self.group_ids, self.spec = get_mamba_groups(self.kv_cache_config)
        self.cache = StateCache(scenario, device)
        self.state_kinds = state_kinds(scenario)
        self.copy_funcs = tuple(COPY_FUNC_OF[kind] for kind in self.state_kinds)
        self.forward_context = {
            layer_name(cache.layer): BoundLayer(cache.states) for cache in self.cache.layers
        }
        self.params = layer_params(scenario.layer)
        self.mixer_config = MixerConfig(
            mode=self.engine.mode,
            block_size=self.spec.block_size,
            num_spec=self.engine.num_spec,
            layout=self.engine.layout,
        )
        self.builders = {gid: self._make_builder(gid) for gid in self.group_ids}
        self.requests: dict[str, CachedRequest] = {}
        self.batch = InputBatch.create(
            self.engine.max_num_seqs,
            {gid: self._max_columns() for gid in self.group_ids},
            device,
        )

    @property
    def conv_state_dim_first(self) -> bool:
        """How copies take the conv state: DS (True) or SD."""
        return self.engine.layout == "DS"

    def _make_builder(self, gid: int) -> Mamba2AttentionMetadataBuilder:
        layers = self.kv_cache_config.kv_cache_groups[gid].layer_names
        return Mamba2AttentionMetadataBuilder(self.spec, layers, self.config, self.device)

    def _max_columns(self) -> int:
        if self.engine.mode == "none":
            return 1 + self.engine.num_spec
        return -(-self.engine.max_model_len // self.spec.block_size) + self.engine.num_spec

    # Books.

    def update_states(self, output: SchedulerOutput) -> None:
        """Take over what the scheduler announced: who left, who came, what rows grew."""
        for req_id in output.finished_req_ids | output.preempted_req_ids:
            self.requests.pop(req_id, None)
        for new in output.scheduled_new_reqs:
            self._admit(new.req_id, new.num_computed_tokens, new.block_ids)
        cached = output.scheduled_cached_reqs
        for req_id in cached.req_ids:
            if req_id in cached.resumed_req_ids:
                self._admit(
                    req_id, cached.num_computed_tokens[req_id], cached.new_block_ids[req_id]
                )
            else:
                self.requests[req_id].append(cached.new_block_ids[req_id])
                self.requests[req_id].num_computed_tokens = cached.num_computed_tokens[req_id]
        self.batch.lay_out(output.batch_order, self.requests)

    def _admit(self, req_id: str, num_computed: int, block_ids: Sequence[Sequence[int]]) -> None:
        rows = [list(row) for row in block_ids]
        self.requests[req_id] = CachedRequest(req_id, num_computed, rows)

    def save(self) -> WorkerBooks:
        """The books as they stand; `restore` brings them back, in another runner too."""
        return WorkerBooks(
            {
                name: RequestBooks(
                    request.num_computed_tokens,
                    request.num_accepted_tokens,
                    tuple(map(tuple, request.block_ids)),
                )
                for name, request in self.requests.items()
            },
            *self._save_places(),
            self._save_memory(),
        )

    def restore(self, books: WorkerBooks) -> None:
        """Go on from these books as if all steps so far had been this runner's own."""
        self.requests = {
            name: CachedRequest(
                name,
                request.num_computed,
                [list(row) for row in request.rows],
                request.num_accepted,
            )
            for name, request in books.requests.items()
        }
        self._restore_places(books)
        self._restore_memory(books.memory)

    @abstractmethod
    def _save_places(self) -> tuple[Mapping[str, int], tuple[tuple[int, ...], ...]]:
        """``places`` and ``slots`` of the books."""

    @abstractmethod
    def _restore_places(self, books: WorkerBooks) -> None:
        """Take over ``places`` and ``slots``."""

    def _save_memory(self) -> Hashable:
        """``memory`` of the books: none in a right runner."""
        return ()

    def _restore_memory(self, memory: Hashable) -> None:  # noqa: B027 (nothing to take over)
        """Take over ``memory``."""

    @property
    def num_reqs(self) -> int:
        return len(self.batch.req_ids)

    def padded_num_reqs(self, output: SchedulerOutput) -> int:
        """Rows of the batch as a captured graph replays it (section 4.9); else `num_reqs`.

        Only a batch without prefills is a graph's: it is padded to the next captured size,
        powers of two up to ``max_num_seqs``.
        """
        if not self.engine.full_cuda_graphs or not output.order:
            return self.num_reqs
        rows = self._explain_split(output, self.num_reqs)
        if any(row.row_class == "prefill" for row in rows):
            return self.num_reqs
        size = 1
        while size < self.num_reqs:
            size *= 2
        return min(size, self.engine.max_num_seqs)

    def make_buffer(self, n: int, dtype: torch.dtype) -> CpuGpuBuffer:
        return CpuGpuBuffer(n, dtype=dtype, device=self.device)

    # What the two runners do differently.

    @abstractmethod
    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        """Bring every state into the block of this step.

        Returns the decisions that were taken outside a fused kernel (the V1 copy list).
        """

    @abstractmethod
    def accepted_by_row(self, num_rows: int) -> torch.Tensor:
        """Accepted counts of the first ``num_rows`` batch rows, int32; 1 in a padded row."""

    @abstractmethod
    def post_copy(self, output: SchedulerOutput, accepted: Mapping[str, int]) -> None:
        """Save boundary states that the accepted tokens reached; settle the next counts."""

    @abstractmethod
    def state_column(self, req_id: str) -> int | None:
        """The running-state column, as the worker knows it; None where it has none."""

    @abstractmethod
    def accepted_count(self, req_id: str) -> int:
        """The accepted count that the next forward will see."""

    def slot_of(self, req_id: str) -> int | None:  # noqa: ARG002 (V1 has no slots)
        """V2: the request's slot."""
        return None

    # Metadata.

    def build_metadata(self, output: SchedulerOutput) -> dict[int, Mamba2AttentionMetadata]:
        """Per Mamba group what the mixer kernels will read (section 4)."""
        num_rows = self.padded_num_reqs(output)
        common = self._common_metadata(output, num_rows)
        return {
            gid: builder.build(
                0,
                replace(common, block_table_tensor=self._table_for_metadata(gid, num_rows)),
                num_accepted_tokens=self._accepted_for_metadata(num_rows),
                prev_last_scheduled_idx=self._prev_last_scheduled(num_rows),
                num_decode_draft_tokens_cpu=self._draft_counts(output, num_rows),
            )
            for gid, builder in self.builders.items()
        }

    def explain_rows(self, output: SchedulerOutput) -> dict[str, str]:
        """Why the builder classes each row as decode or prefill (section 4.2)."""
        decisions = self._explain_split(output, self.num_reqs)
        return {self.batch.req_ids[decision.row]: decision.reason for decision in decisions}

    def _explain_split(self, output: SchedulerOutput, num_rows: int) -> tuple[RowDecision, ...]:
        return self.builders[self.group_ids[0]].explain_split(
            self._common_metadata(output, num_rows),
            self._accepted_for_metadata(num_rows),
            self._draft_counts(output, num_rows),
        )

    def _common_metadata(self, output: SchedulerOutput, num_rows: int) -> CommonAttentionMetadata:
        """The batch, padded to ``num_rows``: empty queries, nothing computed, null tables."""
        tokens = BatchTokens.of(output)
        rows = [output.requests[req_id] for req_id in output.batch_order]
        padding = num_rows - len(rows)
        starts = tokens.query_start_loc + padding * tokens.query_start_loc[-1:]
        query_start_loc = torch.tensor(starts, dtype=torch.int32)
        lengths = [row.num_computed + row.num_scheduled for row in rows]
        seq_lens = torch.tensor(lengths + padding * [0], dtype=torch.int32)
        return CommonAttentionMetadata(
            query_start_loc=query_start_loc.to(self.device),
            query_start_loc_cpu=query_start_loc,
            seq_lens=seq_lens.to(self.device),
            num_reqs=num_rows,
            num_actual_tokens=len(tokens.token_ids),
            max_query_len=max((row.num_scheduled for row in rows), default=0),
            max_seq_len=int(seq_lens.max()) if rows else 0,
            block_table_tensor=self._table_for_metadata(self.group_ids[0], num_rows),
            is_prefilling=torch.tensor(
                [row.is_prefilling for row in rows] + padding * [False], dtype=torch.bool
            ),
            seq_lens_cpu_upper_bound=seq_lens,
            replayssm_decode_base_cpu=torch.tensor(
                [row.prefill_end for row in rows] + padding * [0], dtype=torch.int32
            ),
        )

    def _table_for_metadata(self, gid: int, num_rows: int) -> torch.Tensor:
        return self.batch.block_table[gid].get_device_tensor(num_rows)

    def _accepted_for_metadata(self, num_rows: int) -> torch.Tensor | None:
        """With drafts configured the builder always gets the counts (section 5.2)."""
        return self.accepted_by_row(num_rows) if self.engine.num_spec else None

    def _draft_counts(self, output: SchedulerOutput, num_rows: int) -> torch.Tensor | None:
        """Drafts of each row, -1 where it has none; None without drafts configured."""
        if not self.engine.num_spec:
            return None
        drafts = output.scheduled_spec_decode_tokens
        counts = [len(drafts[r]) if r in drafts else -1 for r in output.batch_order]
        return torch.tensor(counts + (num_rows - len(counts)) * [-1], dtype=torch.int32)

    def _prev_last_scheduled(self, num_rows: int) -> torch.Tensor | None:  # noqa: ARG002
        """All mode with drafts: where each row's step before wrote; V1 only."""
        return None

    # What-if: a number overwritten by hand.

    def edit_row(self, edit: Edit) -> str:
        """Put a block id into a worker row; what came of it, in words."""
        assert edit.request is not None
        assert edit.column is not None
        words = f"edit of {edit.request}'s row, column {edit.column}"
        request = self.requests.get(edit.request)
        if request is None:
            return f"{words}: refused, the worker does not know it in this step"
        row = request.block_ids[edit.group]
        if edit.column >= len(row):
            return f"{words}: refused, the row has {len(row)} columns"
        old, row[edit.column] = row[edit.column], edit.value
        self.batch.lay_out(self.batch.req_ids, self.requests)
        return f"{words}: block {old} became {edit.value}"

    def edit_metadata(self, metadata: dict[int, Mamba2AttentionMetadata], edit: Edit) -> str:
        """Overwrite one entry of a built tensor; what came of it, in words."""
        assert edit.field is not None
        assert edit.index is not None
        words = f"edit of {edit.field}{edit.index}"
        built = metadata.get(edit.group)
        tensor = getattr(built, edit.field, None)
        if built is None or not isinstance(tensor, torch.Tensor):
            return f"{words}: refused, this step's metadata has no such tensor"
        shape = list(tensor.shape)
        if len(edit.index) != len(shape) or any(
            i >= size for i, size in zip(edit.index, shape, strict=True)
        ):
            return f"{words}: refused, the tensor has shape {shape}"
        edited = tensor.clone()  # the builder's buffer is not ours to change
        edited[tuple(edit.index)] = edit.value
        change: dict[str, Any] = {edit.field: edited}
        metadata[edit.group] = replace(built, **change)
        return f"{words}: {int(tensor[tuple(edit.index)])} became {edit.value}"

    # Forward.

    def forward(
        self, output: SchedulerOutput, metadata: Mapping[int, Mamba2AttentionMetadata]
    ) -> list[torch.Tensor]:
        """Run every layer on the batch; outputs float32 ``[num_tokens, dim]``, by layer."""
        return [self.forward_layer(layer, output, metadata) for layer in range(len(self.params))]

    def forward_layer(
        self, layer: int, output: SchedulerOutput, metadata: Mapping[int, Mamba2AttentionMetadata]
    ) -> torch.Tensor:
        """Run one layer on the batch; float32 ``[num_tokens, dim]``."""
        tokens = BatchTokens.of(output)
        cache = self.cache.layers[layer]
        copied = dict(zip(self.state_kinds, cache.states, strict=False))
        ring = cache.states[len(copied) :]
        return run_layer(
            self.params[layer],
            self.mixer_config,
            tokens.token_ids,
            tokens.positions,
            metadata[self.group_ids[cache.group]],
            copied.get("conv"),
            copied.get("temporal"),
            ReplayRing(*ring) if ring else None,
            kernels=self.kernels,
            observer=self.observer,
        )

    def layer_of(self, gid: int) -> int:
        """The first layer of a Mamba group."""
        group = self.group_ids.index(gid)
        return next(cache.layer for cache in self.cache.layers if cache.group == group)
