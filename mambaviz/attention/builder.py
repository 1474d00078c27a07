"""One batch in, the tensors the mixer kernels read out (section 4).

The builder decides on the CPU copies of the lengths and computes with the device tensors; each
group of fields has its own module. `BaseMambaAttentionMetadataBuilder` makes what every Mamba
layer reads, the Mamba-1 and Mamba-2 builders add their chunks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import torch

from mambaviz.attention.all_mode import (
    block_columns,
    count_state_writes,
    last_scheduled_of_previous_step,
)
from mambaviz.attention.chunks import ChunkTensors, plan_chunks
from mambaviz.attention.common import (
    CommonAttentionMetadata,
    HostBatch,
    host_batch,
    require_rows,
)
from mambaviz.attention.conv1d import Conv1dPrograms, compute_causal_conv1d_metadata
from mambaviz.attention.cudagraph import DecodeBuffers, decode_cudagraph_max_bs
from mambaviz.attention.metadata import BaseMambaAttentionMetadata, Mamba2AttentionMetadata
from mambaviz.attention.replayssm import ReplaySSM, ReplaySSMFields
from mambaviz.attention.split import BatchSplit, RowDecision, explain_split, split_batch
from mambaviz.attention.state_indices import mamba_get_block_table_tensor, split_state_indices
from mambaviz.config import EngineConfig, MambaSpec

M = TypeVar("M", bound=BaseMambaAttentionMetadata)


class BaseMambaAttentionMetadataBuilder:
    """Builds the metadata of one cache group; usable as it is (section 4)."""

    needs_causal_conv1d_metadata: ClassVar[bool] = True

    def __init__(
        self,
        kv_cache_spec: MambaSpec,
        layer_names: Sequence[str],
        engine_config: EngineConfig,
        device: torch.device | str,
    ) -> None:
        """Read the configuration and allocate what keeps its address from build to build.

        The cache mode is ``engine_config.cache_config.mamba_cache_mode``; a spec that names
        another one is refused. Raises ValueError for a configuration no batch can be built with.
        """
        self.kv_cache_spec = kv_cache_spec
        self.layer_names = list(layer_names)
        self.engine_config = engine_config
        self.device = torch.device(device)
        self.block_size = kv_cache_spec.block_size
        self.mode = engine_config.cache_config.mamba_cache_mode
        self.num_spec = engine_config.num_speculative_tokens
        self._check_mode()

        self.reorder_batch_threshold = self._reorder_batch_threshold()
        self.decode_cudagraph_max_bs = decode_cudagraph_max_bs(engine_config)
        self.supports_update_block_table = self.num_spec == 0
        self.replayssm = self._make_replayssm()
        self.decode_buffers = (
            DecodeBuffers.create(kv_cache_spec, engine_config, self.device)
            if engine_config.compilation_config.full_cuda_graphs
            else None
        )

    def build(
        self,
        common_prefix_len: int,  # noqa: ARG002 (part of the public signature; no Mamba use)
        common: CommonAttentionMetadata,
        num_accepted_tokens: torch.Tensor | None = None,
        prev_last_scheduled_idx: torch.Tensor | None = None,
        num_decode_draft_tokens_cpu: torch.Tensor | None = None,
    ) -> BaseMambaAttentionMetadata:
        """Make the metadata of one batch (sections 4.2 to 4.9).

        ``num_accepted_tokens`` device int32 ``[R]``; ``prev_last_scheduled_idx`` device int32
        ``[R]`` (all mode with drafts; -1 = not known); ``num_decode_draft_tokens_cpu`` CPU
        ``[R]`` (-1 where a row is not a draft row). Inputs are not changed; results can be views
        of them and of buffers that the next build overwrites.

        Raises ValueError naming the input that is missing, misshapen or impossible.
        """
        batch = host_batch(common)
        for name, tensor in (
            ("num_accepted_tokens", num_accepted_tokens),
            ("prev_last_scheduled_idx", prev_last_scheduled_idx),
        ):
            if tensor is not None:
                require_rows(name, tensor, common.num_reqs)
        threshold = self._decode_threshold(num_accepted_tokens)
        split = self._split(common, batch, threshold, num_decode_draft_tokens_cpu)
        metadata = self._counts_and_state_indices(common, split)
        metadata = self._with_decode_fields(metadata, common, num_accepted_tokens)
        metadata = self._with_prefill_fields(metadata, common, batch)
        if self.mode == "all":
            metadata = self._with_block_columns(metadata, common, batch, prev_last_scheduled_idx)
        metadata = self._with_chunks(metadata, batch)
        metadata = self._with_replayssm(metadata, common, batch)
        return self._padded(metadata)

    def build_for_cudagraph_capture(
        self, common: CommonAttentionMetadata
    ) -> BaseMambaAttentionMetadata:
        """Metadata of a dummy decode batch, to capture a CUDA graph with (section 4.9).

        Raises ValueError unless every row is a full decode query of ``1 + num_spec`` tokens and
        the rows fit the largest captured batch.
        """
        self._check_capturable(common)
        no_previous_step = None
        if self.mode == "all" and self.num_spec:
            no_previous_step = torch.zeros(common.num_reqs, dtype=torch.int32, device=self.device)
        return self.build(
            0,
            common,
            num_accepted_tokens=common.query_lens(),
            prev_last_scheduled_idx=no_previous_step,
        )

    def update_block_table(
        self,
        metadata: M,
        blk_table: torch.Tensor,
        slot_mapping: torch.Tensor | None,  # noqa: ARG002 (public signature; never read)
    ) -> M:
        """The same metadata for another cache group with its own table (section 4.10).

        ``blk_table`` int32 ``[R, columns]``. The decode fields land in *this* builder's
        persistent buffers, all of them: a graph captured for this group reads no other.

        Raises ValueError with drafts, and for a table with another number of requests.
        """
        if not self.supports_update_block_table:
            raise ValueError(
                f"update_block_table is not available with drafts (num_spec {self.num_spec}): "
                "build the metadata of each cache group anew"
            )
        if blk_table.shape[0] != metadata.num_reqs:
            raise ValueError(
                f"the block table has {blk_table.shape[0]} requests, "
                f"the metadata has {metadata.num_reqs}"
            )
        table = mamba_get_block_table_tensor(
            blk_table, metadata.seq_lens, self.kv_cache_spec, self.mode
        )
        decodes, prefills = split_state_indices(
            table, metadata.num_decodes, self.num_spec, self.mode
        )
        return self._padded(
            dataclasses.replace(
                metadata, state_indices_tensor_d=decodes, state_indices_tensor_p=prefills
            )
        )

    def explain_split(
        self,
        common: CommonAttentionMetadata,
        num_accepted_tokens: torch.Tensor | None = None,
        num_decode_draft_tokens_cpu: torch.Tensor | None = None,
    ) -> tuple[RowDecision, ...]:
        """Why `build` with the same inputs classes each row as it does (section 4.2)."""
        threshold = self._decode_threshold(num_accepted_tokens)
        return explain_split(common, threshold, num_decode_draft_tokens_cpu)

    # What the builders of Mamba-1 and Mamba-2 decide differently.

    def _chunk_tokens(self) -> int | None:
        """Tokens per chunk of the prefill scan; None: these layers read no chunks."""
        return None

    def _captured_query_len(self) -> int:
        """Query tokens of every row of a captured decode batch."""
        return 1 + self.num_spec

    # Construction.

    def _check_mode(self) -> None:
        # "none" is what a spec says by default, so it contradicts nothing.
        if self.kv_cache_spec.mamba_cache_mode not in ("none", self.mode):
            raise ValueError(
                f"the spec has mamba_cache_mode {self.kv_cache_spec.mamba_cache_mode!r}, "
                f"the cache configuration {self.mode!r}: both must say the same"
            )

    def _reorder_batch_threshold(self) -> int:
        """The longest query that can be a decode, when accepted counts are given (4.2)."""
        spec = self.engine_config.speculative_config
        if spec is not None and spec.parallel_drafting:
            return 1 + 2 * self.num_spec
        return 1 + self.num_spec

    def _make_replayssm(self) -> ReplaySSM | None:
        cache = self.engine_config.cache_config
        if not cache.use_replayssm or cache.use_recoverssm:
            return None
        max_decodes = max(
            self.decode_cudagraph_max_bs, self.engine_config.scheduler_config.max_num_seqs
        )
        return ReplaySSM(self.kv_cache_spec, self.engine_config, max_decodes, self.device)

    # One group of fields each.

    def _decode_threshold(self, num_accepted_tokens: torch.Tensor | None) -> int:
        # Only with accepted counts can a decode kernel take more than one token of a row.
        return 1 if num_accepted_tokens is None else self.reorder_batch_threshold

    def _split(
        self,
        common: CommonAttentionMetadata,
        batch: HostBatch,
        decode_threshold: int,
        num_decode_draft_tokens_cpu: torch.Tensor | None,
    ) -> BatchSplit:
        return split_batch(
            batch, common.num_actual_tokens, decode_threshold, num_decode_draft_tokens_cpu
        )

    def _counts_and_state_indices(
        self, common: CommonAttentionMetadata, split: BatchSplit
    ) -> BaseMambaAttentionMetadata:
        table = mamba_get_block_table_tensor(
            common.block_table_tensor,
            common.seq_lens,
            self.kv_cache_spec,
            self.mode,
            seq_lens_cpu=common.seq_lens_cpu_upper_bound,
        )
        decodes, prefills = split_state_indices(table, split.num_decodes, self.num_spec, self.mode)
        return BaseMambaAttentionMetadata(
            num_prefills=split.num_prefills,
            num_prefill_tokens=split.num_prefill_tokens,
            num_decodes=split.num_decodes,
            num_decode_tokens=split.num_decode_tokens,
            num_reqs=common.num_reqs,
            seq_lens=common.seq_lens,
            state_indices_tensor_d=decodes,
            state_indices_tensor_p=prefills,
        )

    def _with_decode_fields(
        self, metadata: M, common: CommonAttentionMetadata, accepted: torch.Tensor | None
    ) -> M:
        decodes = metadata.num_decodes
        if self.num_spec == 0 or accepted is None or decodes == 0:
            return dataclasses.replace(metadata, num_accepted_tokens=accepted)
        return dataclasses.replace(
            metadata,
            query_start_loc_d=common.query_start_loc[: decodes + 1],
            num_accepted_tokens=accepted[:decodes],
        )

    def _with_prefill_fields(
        self, metadata: M, common: CommonAttentionMetadata, batch: HostBatch
    ) -> M:
        decodes, tokens = metadata.num_decodes, metadata.num_decode_tokens
        if metadata.num_prefills == 0:
            return metadata
        metadata = dataclasses.replace(
            metadata,
            query_start_loc_p=common.query_start_loc[decodes:] - tokens,
            has_initial_states_p=common.compute_num_computed_tokens()[decodes:] > 0,
        )
        if not self.needs_causal_conv1d_metadata:
            return metadata
        offsets_p = torch.from_numpy(batch.query_start_loc[decodes:] - tokens)
        nums_dict: dict[int, Conv1dPrograms]
        nums_dict, batch_ptr, offset_ptr = compute_causal_conv1d_metadata(
            offsets_p, device=self.device
        )
        return dataclasses.replace(
            metadata,
            nums_dict=nums_dict,
            batch_ptr=batch_ptr,
            token_chunk_offset_ptr=offset_ptr,
        )

    def _with_block_columns(
        self,
        metadata: M,
        common: CommonAttentionMetadata,
        batch: HostBatch,
        prev_last_scheduled_idx: torch.Tensor | None,
    ) -> M:
        B, decodes = self.block_size, metadata.num_decodes
        num_computed = common.compute_num_computed_tokens()
        columns = block_columns(num_computed, common.seq_lens, B)
        metadata = dataclasses.replace(
            metadata,
            block_idx_last_computed_token=columns.last_computed,
            block_idx_last_scheduled_token=columns.last_scheduled,
        )
        if self.num_spec and prev_last_scheduled_idx is not None:
            metadata = dataclasses.replace(
                metadata,
                block_idx_last_scheduled_token_prev_step=last_scheduled_of_previous_step(
                    prev_last_scheduled_idx, num_computed, B
                ),
            )
        if metadata.num_prefills == 0:
            return metadata
        return dataclasses.replace(
            metadata,
            block_idx_first_scheduled_token_p=columns.first_scheduled[decodes:],
            num_computed_tokens_p=num_computed[decodes:],
            num_state_writes_p=count_state_writes(
                batch.num_computed[decodes:], batch.seq_lens[decodes:], B
            ),
        )

    def _with_chunks(self, metadata: M, batch: HostBatch) -> M:
        chunk_tokens = self._chunk_tokens()
        if chunk_tokens is None or metadata.num_prefills == 0:
            return metadata
        decodes = metadata.num_decodes
        chunks: ChunkTensors = plan_chunks(
            batch.num_computed[decodes:], batch.query_lens[decodes:], chunk_tokens
        ).to(self.device)
        return dataclasses.replace(
            metadata,
            cu_chunk_seqlen_p=chunks.cu_chunk_seqlen_p,
            seq_idx_p=chunks.seq_idx_p,
            last_chunk_indices_p=chunks.last_chunk_indices_p,
        )

    def _with_replayssm(self, metadata: M, common: CommonAttentionMetadata, batch: HostBatch) -> M:
        if self.replayssm is None:
            return metadata
        return _replace_replayssm(
            metadata, self.replayssm.fields(common, batch, metadata.num_decodes)
        )

    # CUDA graphs.

    def _padded(self, metadata: M) -> M:
        """Move the decode fields into the persistent buffers where a graph can replay (4.9)."""
        buffers = self.decode_buffers
        if buffers is None or not buffers.fits(metadata.num_prefills, metadata.num_decodes):
            return metadata
        if self.replayssm is not None and metadata.num_decodes:
            # Metadata of another group comes with that group's scratch: the graph has this one.
            scratch = self.replayssm.scratch(metadata.num_reqs)
            metadata = dataclasses.replace(
                metadata,
                bc_pre_scratch=scratch.bc_pre_scratch,
                replayssm_scratch=scratch.replayssm_scratch,
            )
        return buffers.pad(metadata)

    def _check_capturable(self, common: CommonAttentionMetadata) -> None:
        query_len, limit = self._captured_query_len(), self.decode_cudagraph_max_bs
        batch = host_batch(common)
        if common.max_query_len != query_len or (batch.query_lens != query_len).any():
            problem = f"every query must have {query_len} tokens, got {batch.query_lens.tolist()}"
        elif common.num_reqs > limit:
            problem = f"at most {limit} rows fit, got {common.num_reqs}"
        elif split_batch(batch, common.num_actual_tokens, query_len).num_prefills:
            problem = "some rows are prefilling"
        else:
            return
        raise ValueError(f"only decode batches can be captured: {problem}")


class Mamba1AttentionMetadataBuilder(BaseMambaAttentionMetadataBuilder):
    """Mamba-1: in all mode its scan leaves a state at every block end (section 4.7)."""

    def build(  # type: ignore[override]  # Mamba-1 decodes without drafts: no keyword inputs
        self, common_prefix_len: int, common: CommonAttentionMetadata
    ) -> BaseMambaAttentionMetadata:
        """Make the metadata of one batch; as the base builder, with chunks of a block."""
        return super().build(common_prefix_len, common)

    def build_for_cudagraph_capture(
        self, common: CommonAttentionMetadata
    ) -> BaseMambaAttentionMetadata:
        """Metadata of a dummy decode batch of one token a row (section 4.9)."""
        self._check_capturable(common)
        return self.build(0, common)

    def _chunk_tokens(self) -> int | None:
        return self.block_size if self.mode == "all" else None

    def _captured_query_len(self) -> int:
        return 1


class Mamba2AttentionMetadataBuilder(BaseMambaAttentionMetadataBuilder):
    """Mamba-2: its prefill scan works in chunks of the model's chunk size (section 4.7)."""

    def __init__(
        self,
        kv_cache_spec: MambaSpec,
        layer_names: Sequence[str],
        engine_config: EngineConfig,
        device: torch.device | str,
    ) -> None:
        """As the base builder; ValueError without a ``model_config.chunk_size``."""
        super().__init__(kv_cache_spec, layer_names, engine_config, device)
        chunk_size = engine_config.model_config.chunk_size
        if chunk_size is None or chunk_size < 1:
            raise ValueError(
                "a Mamba-2 builder needs model_config.chunk_size, the tokens of one chunk of its "
                f"prefill scan, got {chunk_size}"
            )
        self.chunk_size = chunk_size

    def build(
        self,
        common_prefix_len: int,
        common: CommonAttentionMetadata,
        num_accepted_tokens: torch.Tensor | None = None,
        prev_last_scheduled_idx: torch.Tensor | None = None,
        num_decode_draft_tokens_cpu: torch.Tensor | None = None,
    ) -> Mamba2AttentionMetadata:
        """Make the metadata of one batch; as the base builder, with the Mamba-2 fields."""
        base = super().build(
            common_prefix_len,
            common,
            num_accepted_tokens,
            prev_last_scheduled_idx,
            num_decode_draft_tokens_cpu,
        )
        prefills = host_batch(common).has_state[base.num_decodes :]
        return Mamba2AttentionMetadata.from_base(base, self.chunk_size, bool(prefills.any()))

    def _chunk_tokens(self) -> int | None:
        return self.chunk_size


def _replace_replayssm(metadata: M, fields: ReplaySSMFields) -> M:
    return dataclasses.replace(
        metadata,
        write_pos_d=fields.write_pos_d,
        is_flush_d=fields.is_flush_d,
        bc_pre_scratch=fields.bc_pre_scratch,
        replayssm_scratch=fields.replayssm_scratch,
    )
