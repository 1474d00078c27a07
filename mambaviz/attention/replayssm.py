"""Decode that keeps its last inputs in a ring and seldom writes the state (section 4.8).

A decode step appends its inputs at ``write_pos`` of the ring; on a flush it writes the full state
instead, and the ring starts again. Both follow from how many steps ago a full state was last
exact, which is why the CPU must know the lengths exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mambaviz.attention.common import (
    BoolArray,
    CommonAttentionMetadata,
    HostBatch,
    IntArray,
    require_rows,
)
from mambaviz.config import EngineConfig, MambaSpec

X_RING, DT_RING, B_RING = 2, 3, 4
"""Where the rings stand among the five state tensors: conv, ssm, x, dt, B."""


@dataclass(frozen=True, eq=False)
class RingSteps:
    """Where each decode row stands in its ring; CPU arrays ``[D]``."""

    anchor: IntArray  # tokens at which a full state was last exact
    steps: IntArray  # decode steps since then
    write_pos: IntArray  # ring entry this step fills
    is_flush: BoolArray  # whether this step writes the full state


@dataclass(frozen=True, eq=False)
class ReplaySSMFields:
    """The ReplaySSM part of the metadata; device tensors, None where it has no content."""

    write_pos_d: torch.Tensor | None = None  # int32 [D]
    is_flush_d: torch.Tensor | None = None  # int8 [D]
    bc_pre_scratch: torch.Tensor | None = None  # float32 [D, ngroups, L]
    replayssm_scratch: tuple[torch.Tensor, ...] | None = None  # three tensors, [D, ...] each


def ring_steps(
    num_computed: IntArray,
    query_lens: IntArray,
    decode_base: IntArray,
    ring_len: int,
    align_block_size: int | None,
) -> RingSteps:
    """Work out ring position and flush of every decode row (section 4.8).

    All arrays ``[D]``. ``decode_base``: tokens known when the request was last admitted or
    resumed, whose state its prefill wrote. ``align_block_size``: block size in align mode, else
    None; there the align copy leaves an exact state at the block start, and a block that ends
    with this step must hold its state.
    """
    live = query_lens > 0
    anchor = decode_base
    if align_block_size is not None:
        anchor = np.maximum(decode_base, num_computed // align_block_size * align_block_size)
    since_anchor = num_computed - anchor
    # A row before its base still absorbs its prompt: the ring must not outlive this step.
    leftover = since_anchor < 0
    steps = np.where(live, np.maximum(since_anchor, 0), 0)
    write_pos = steps % ring_len
    is_flush = live & ((write_pos == ring_len - 1) | leftover)
    if align_block_size is not None:
        is_flush |= live & ((num_computed + query_lens) % align_block_size == 0)
    return RingSteps(anchor, steps, write_pos, is_flush)


class ReplaySSM:
    """ReplaySSM as one builder runs it: its settings and its persistent scratch (section 4.8)."""

    def __init__(
        self,
        kv_cache_spec: MambaSpec,
        engine_config: EngineConfig,
        max_decodes: int,
        device: torch.device,
    ) -> None:
        """Allocate the scratch for ``max_decodes`` rows.

        Raises ValueError when the layer has no rings, the ring has no entries, or the FlashInfer
        back end is asked for and the library is not there.
        """
        self.block_size = kv_cache_spec.block_size
        self.ring_len = engine_config.cache_config.replayssm_buffer_len
        self.mode = engine_config.cache_config.mamba_cache_mode
        self.num_spec = engine_config.num_speculative_tokens
        self.async_scheduling = engine_config.scheduler_config.async_scheduling
        self.device = device
        if self.ring_len < 1:
            raise ValueError(f"replayssm_buffer_len must be at least 1, got {self.ring_len}")
        if len(kv_cache_spec.shapes) <= B_RING:
            raise ValueError(
                "a ReplaySSM layer holds five state tensors (conv, ssm, x ring, dt ring, B ring), "
                f"but its spec lists {len(kv_cache_spec.shapes)}"
            )
        self.bc_pre_scratch: torch.Tensor | None = None
        self.flashinfer_scratch: tuple[torch.Tensor, ...] | None = None
        if engine_config.mamba_config.backend == "flashinfer":
            self.flashinfer_scratch = _flashinfer_scratch(
                engine_config, heads=kv_cache_spec.shapes[X_RING][0], device=device
            )
        else:
            ngroups = kv_cache_spec.shapes[B_RING][0]
            self.bc_pre_scratch = torch.zeros(
                max_decodes, ngroups, self.ring_len, dtype=torch.float32, device=device
            )

    def scratch(self, num_decodes: int) -> ReplaySSMFields:
        """The scratch of this builder cut to ``num_decodes`` rows, and nothing else."""
        if self.flashinfer_scratch is not None:
            return ReplaySSMFields(
                replayssm_scratch=tuple(part[:num_decodes] for part in self.flashinfer_scratch)
            )
        assert self.bc_pre_scratch is not None
        return ReplaySSMFields(bc_pre_scratch=self.bc_pre_scratch[:num_decodes])

    def fields(
        self, common: CommonAttentionMetadata, batch: HostBatch, num_decodes: int
    ) -> ReplaySSMFields:
        """The ReplaySSM fields of one batch; all None without decodes (section 4.8).

        Raises ValueError that says exact CPU lengths are needed when the decode base is missing
        or lengths are not exact, and when there are more decodes than scratch rows.
        """
        self._check_configuration()
        if num_decodes == 0:
            return ReplaySSMFields()
        scratch = self.scratch(num_decodes)
        self._check_room(scratch, num_decodes)
        if self.flashinfer_scratch is not None:
            return scratch
        base = common.replayssm_decode_base_cpu
        if base is None:
            raise ValueError(
                "replayssm_decode_base_cpu is missing: exact CPU lengths are needed to know "
                "where a row stands in its ring"
            )
        require_rows("replayssm_decode_base_cpu", base, common.num_reqs)
        ring = ring_steps(
            batch.num_computed[:num_decodes],
            batch.query_lens[:num_decodes],
            base.numpy()[:num_decodes],
            self.ring_len,
            self.block_size if self.mode == "align" else None,
        )
        return ReplaySSMFields(
            write_pos_d=self._upload(ring.write_pos, np.int32),
            is_flush_d=self._upload(ring.is_flush, np.int8),
            bc_pre_scratch=scratch.bc_pre_scratch,
        )

    def _check_configuration(self) -> None:
        if self.num_spec and self.async_scheduling:
            raise ValueError(
                "ReplaySSM with async scheduling and drafts: exact CPU lengths are needed, and "
                "the CPU learns how many drafts were accepted only after the next step"
            )
        if self.num_spec:
            raise ValueError(f"ReplaySSM does not run with drafts, got num_spec {self.num_spec}")
        if self.mode == "all":
            raise ValueError("ReplaySSM runs in mode none or align, got all")

    def _check_room(self, scratch: ReplaySSMFields, num_decodes: int) -> None:
        part = scratch.bc_pre_scratch
        if part is None and scratch.replayssm_scratch:
            part = scratch.replayssm_scratch[0]
        if part is not None and len(part) < num_decodes:
            raise ValueError(
                f"{num_decodes} decode rows, but the ReplaySSM scratch has {len(part)}: "
                "a batch holds at most max_num_seqs rows"
            )

    def _upload(self, values: np.ndarray, dtype: type[np.integer]) -> torch.Tensor:
        return torch.from_numpy(values.astype(dtype)).to(self.device, non_blocking=True)


def _flashinfer_scratch(
    engine_config: EngineConfig, heads: int, device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Three tensors from the library's own allocator, one row per sequence."""
    try:
        from flashinfer.mamba import allocate_checkpointing_ssu_scratch
    except ImportError as error:
        raise ValueError(
            "mamba_config.backend='flashinfer' needs flashinfer, which is not installed: "
            "install flashinfer-python (NVIDIA only) or choose backend='triton'"
        ) from error
    return tuple(
        allocate_checkpointing_ssu_scratch(
            batch_size=engine_config.scheduler_config.max_num_seqs,
            num_heads=heads,
            num_predicted_tokens=1,
            max_window=engine_config.cache_config.replayssm_buffer_len,
            dtype=engine_config.model_config.dtype,
            device=device,
        )
    )
