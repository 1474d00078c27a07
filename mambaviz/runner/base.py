"""What both runners share: the worker's books, the metadata, the forward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernels import KernelSet
from mambaviz.attention import (
    CommonAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.cache.tensors import StateCache, kv_cache_config, layer_name
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
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Decision
from mambaviz.worker import (
    CpuGpuBuffer,
    get_conv_copy_spec,
    get_mamba_groups,
    get_temporal_copy_spec,
)
from mambaviz.worker.copy_specs import CopyFunc
from mambaviz.worker.input_batch import CachedRequest, InputBatch
from mambaviz.worker.launch import LaunchObserver

COPY_FUNCS: tuple[CopyFunc, ...] = (get_conv_copy_spec, get_temporal_copy_spec)


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
        self.faults = frozenset(scenario.faults)
        self.config = engine_config(scenario)
        self.kv_cache_config = kv_cache_config(scenario)
        self.group_ids, self.spec = get_mamba_groups(self.kv_cache_config)
        self.cache = StateCache(scenario, device)
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
        self.builders = {
            gid: Mamba2AttentionMetadataBuilder(
                self.spec,
                self.kv_cache_config.kv_cache_groups[gid].layer_names,
                self.config,
                device,
            )
            for gid in self.group_ids
        }
        self.requests: dict[str, CachedRequest] = {}
        self.batch = InputBatch.create(
            self.engine.max_num_seqs,
            {gid: self._max_columns() for gid in self.group_ids},
            device,
        )

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

    @property
    def num_reqs(self) -> int:
        return len(self.batch.req_ids)

    def make_buffer(self, n: int, dtype: torch.dtype) -> CpuGpuBuffer:
        return CpuGpuBuffer(n, dtype=dtype, device=self.device)

    # What the two runners do differently.

    @abstractmethod
    def pre_copy(self, output: SchedulerOutput) -> list[Decision]:
        """Bring every state into the block of this step.

        Returns the decisions that were taken outside a fused kernel (the V1 copy list).
        """

    @abstractmethod
    def num_accepted_for_metadata(self) -> torch.Tensor | None:
        """Accepted counts by batch row, int32 ``[num_reqs]``; None without drafts configured."""

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
        common = self._common_metadata(output)
        accepted = self.num_accepted_for_metadata()
        drafts = self._draft_counts(output) if self.engine.num_spec else None
        return {
            gid: builder.build(
                0,
                replace(common, block_table_tensor=self._table_for_metadata(gid)),
                num_accepted_tokens=accepted,
                prev_last_scheduled_idx=self._prev_last_scheduled(),
                num_decode_draft_tokens_cpu=drafts,
            )
            for gid, builder in self.builders.items()
        }

    def explain_rows(self, output: SchedulerOutput) -> dict[str, str]:
        """Why the builder classes each row as decode or prefill (section 4.2)."""
        builder = self.builders[self.group_ids[0]]
        decisions = builder.explain_split(
            self._common_metadata(output),
            self.num_accepted_for_metadata(),
            self._draft_counts(output) if self.engine.num_spec else None,
        )
        return {self.batch.req_ids[decision.row]: decision.reason for decision in decisions}

    def _common_metadata(self, output: SchedulerOutput) -> CommonAttentionMetadata:
        tokens = BatchTokens.of(output)
        rows = [output.requests[req_id] for req_id in output.batch_order]
        query_start_loc = torch.tensor(tokens.query_start_loc, dtype=torch.int32)
        seq_lens = torch.tensor(
            [row.num_computed + row.num_scheduled for row in rows], dtype=torch.int32
        )
        return CommonAttentionMetadata(
            query_start_loc=query_start_loc.to(self.device),
            query_start_loc_cpu=query_start_loc,
            seq_lens=seq_lens.to(self.device),
            num_reqs=len(rows),
            num_actual_tokens=len(tokens.token_ids),
            max_query_len=max((row.num_scheduled for row in rows), default=0),
            max_seq_len=int(seq_lens.max()) if rows else 0,
            block_table_tensor=self._table_for_metadata(self.group_ids[0]),
            is_prefilling=torch.tensor([row.is_prefilling for row in rows], dtype=torch.bool),
            seq_lens_cpu_upper_bound=seq_lens,
            replayssm_decode_base_cpu=torch.tensor(
                [row.prefill_end for row in rows], dtype=torch.int32
            ),
        )

    def _table_for_metadata(self, gid: int) -> torch.Tensor:
        table = self.batch.block_table[gid].get_device_tensor(self.num_reqs)
        if "wrong-block-table-row" in self.faults:
            return table.roll(-1, dims=0)
        return table

    def _draft_counts(self, output: SchedulerOutput) -> torch.Tensor:
        drafts = output.scheduled_spec_decode_tokens
        counts = [len(drafts[r]) if r in drafts else -1 for r in output.batch_order]
        return torch.tensor(counts, dtype=torch.int32)

    def _prev_last_scheduled(self) -> torch.Tensor | None:
        """All mode with drafts: where each row's step before wrote; V1 only."""
        return None

    # Forward.

    def forward(
        self, output: SchedulerOutput, metadata: Mapping[int, Mamba2AttentionMetadata]
    ) -> list[torch.Tensor]:
        """Run every layer on the batch; outputs float32 ``[num_tokens, dim]``, by layer."""
        tokens = BatchTokens.of(output)
        outputs = []
        for cache, params in zip(self.cache.layers, self.params, strict=True):
            conv, temporal, *ring = cache.states
            outputs.append(
                run_layer(
                    params,
                    self.mixer_config,
                    tokens.token_ids,
                    tokens.positions,
                    metadata[self.group_ids[cache.group]],
                    conv,
                    temporal,
                    ReplayRing(*ring) if ring else None,
                    kernels=self.kernels,
                    observer=self.observer,
                )
            )
        return outputs
