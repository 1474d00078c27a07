"""The small layer that makes real state: one forward over one batch (sections 5.1, 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from kernels import KernelSet
from mambaviz.attention import Mamba2AttentionMetadata
from mambaviz.config import CacheMode
from mambaviz.layer import LayerParams
from mambaviz.worker.launch import LaunchObserver

Layout = Literal["SD", "DS"]


@dataclass(frozen=True)
class MixerConfig:
    """What a layer knows of the engine beside the metadata.

    ``conv_window_from_last_computed`` is a named fault of section 5.2 (all mode with drafts).
    """

    mode: CacheMode
    block_size: int
    num_spec: int = 0
    layout: Layout = "SD"
    conv_window_from_last_computed: bool = False


@dataclass(frozen=True, eq=False)
class ReplayRing:
    """The last inputs of a ReplaySSM layer (section 4.8): states 2, 3, 4 of its cache.

    ``x`` [num_blocks, H, L, P], ``dt`` float32 [num_blocks, H, L], ``B`` [num_blocks, H, L, N].
    """

    x: torch.Tensor
    dt: torch.Tensor
    B: torch.Tensor


def run_layer(
    params: LayerParams,
    config: MixerConfig,
    token_ids: Sequence[int],
    positions: Sequence[int],
    metadata: Mamba2AttentionMetadata,
    conv_state: torch.Tensor | None,
    ssm_state: torch.Tensor | None,
    ring: ReplayRing | None = None,
    *,
    kernels: KernelSet | None = None,
    observer: LaunchObserver | None = None,
) -> torch.Tensor:
    """One layer over one batch: updates the caches in place, gives float32 ``[num_tokens, dim]``.

    ``token_ids`` and ``positions`` are those of the batch's tokens in batch order (decodes first).
    ``conv_state`` SD ``[num_blocks, state_len, dim]`` or DS ``[num_blocks, dim, state_len]``;
    ``ssm_state`` ``[num_blocks, H, P, N]``; views with any block stride, on ``kernels.device()``.
    Without a conv state the layer has no convolution and u = x; without a temporal state y = u.
    """
    raise NotImplementedError("being written")
