"""Stand-ins for the V2 runner's seams, with the signatures of vLLM 0.30 and 0.32.

The state really does what sections 3.3 and 3.2 say of the decisions, for whole counts; no byte is
moved.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.recorder import engine

BLOCK_SIZE = 4


class MambaHybridModelState:
    def __init__(self, slots: int, align: bool = True) -> None:
        self._align_mode = align
        self.num_accepted_tokens_gpu = np.ones(slots, dtype=np.int32)
        if align:
            self._mamba_state_idx_gpu = np.full(slots, -1, dtype=np.int32)
            self._mamba_src_col_gpu = np.full(slots, -1, dtype=np.int32)
            self._mamba_src_off_gpu = np.zeros(slots, dtype=np.int32)
            self._mamba_ctx = SimpleNamespace(num_accepted_tokens_out=np.zeros(slots, np.int32))

    def preprocess_state(
        self, input_batch, block_tables, kv_cache_config, num_computed_tokens
    ) -> None:
        if not self._align_mode:
            return
        lengths = np.diff(input_batch.query_start_loc)
        for slot, length in zip(input_batch.idx_mapping, lengths, strict=True):
            old = self._mamba_src_col_gpu[slot] = self._mamba_state_idx_gpu[slot]
            self._mamba_src_off_gpu[slot] = self.num_accepted_tokens_gpu[slot] - 1
            new = -(-(num_computed_tokens[slot] + length) // BLOCK_SIZE) - 1
            self._mamba_state_idx_gpu[slot] = new
            if old >= 0 and old != new:
                self.num_accepted_tokens_gpu[slot] = 1

    def postprocess_state(self, idx_mapping, num_sampled, num_computed_tokens=None) -> None:
        self.num_accepted_tokens_gpu[idx_mapping] = np.maximum(num_sampled, 1)
        if self._align_mode and num_computed_tokens is not None:
            self._mamba_ctx.num_accepted_tokens_out[:] = self.num_accepted_tokens_gpu
            self.num_accepted_tokens_gpu[idx_mapping[0]] = 1  # a boundary in the running block


class GPUModelRunner:
    """Two slots more than requests; a request's rows are ``rows[name]``, one list a group."""

    def __init__(self, rows: dict[str, list[list[int]]], split: list[int] | None = None) -> None:
        self.kv_cache_config = engine.kv_cache_config()
        self.attn_groups = [[SimpleNamespace(metadata_builders=[engine.Builder()])]]
        self.vllm_config = SimpleNamespace(speculative_config=SimpleNamespace())
        self.model_state = MambaHybridModelState(len(rows) + 2)
        self.req_states = SimpleNamespace(
            req_id_to_index={name: 1 + index for index, name in enumerate(rows)}
        )
        groups = len(next(iter(rows.values())))
        self.block_tables = SimpleNamespace(
            num_blocks=SimpleNamespace(np=np.zeros((groups, len(rows) + 2), dtype=np.int32))
        )
        if split is not None:
            self.block_tables.blocks_per_kv_block = split
        self.rows = rows

    def initialize_kv_cache(
        self, kv_cache_config, is_profiling=False, kv_cache_allocation_context=None
    ) -> None: ...

    def prepare_inputs(self, scheduler_output, batch_req_state, batch_desc) -> Any:
        names = list(scheduler_output.num_scheduled_tokens)
        slots = np.array([self.req_states.req_id_to_index[name] for name in names])
        ends = np.cumsum([0, *scheduler_output.num_scheduled_tokens.values()])
        return SimpleNamespace(
            req_ids=names,
            idx_mapping=slots.astype(np.int32),
            idx_mapping_np=slots,
            query_start_loc=ends.astype(np.int32),
        )

    def gathered(self, batch: Any) -> tuple[np.ndarray, ...]:
        """The tables in batch order, wider than any row."""
        tables = []
        for group in range(len(self.block_tables.num_blocks.np)):
            table = np.full((len(batch.req_ids), 16), 99, dtype=np.int32)
            for index, name in enumerate(batch.req_ids):
                row = self.rows[name][group]
                table[index, : len(row)] = row
                slot = self.req_states.req_id_to_index[name]
                self.block_tables.num_blocks.np[group, slot] = len(row)
            tables.append(table)
        return tuple(tables)


def modules() -> dict[str, ModuleType]:
    """Module objects under the engine's names."""
    made = {}
    for name, content in (
        ("vllm.v1.worker.gpu.model_runner", GPUModelRunner),
        ("vllm.v1.worker.gpu.model_states.mamba_hybrid", MambaHybridModelState),
    ):
        made[name] = ModuleType(name)
        setattr(made[name], content.__name__, content)
    return made
