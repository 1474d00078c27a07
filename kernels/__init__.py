"""Triton kernels that move Mamba state between cache blocks (section 3) and make it (section 5).

Reading order: ``memcpy.py`` (the loop that moves bytes), ``copy_block.py`` (one state of one
request), ``preprocess.py`` and ``precopy.py`` (before a forward), ``postprocess.py`` (after
acceptance), ``mixer.py`` (the forward). ``reference.py`` and ``mixer_reference.py`` say all of it
again without Triton: the plain twins. ``pieces.py`` and ``fast_copy.py`` do 3.2 and 3.4 once more,
for speed.

The kernels named here are those of the process's back end (``backend.py``), launched as
``kernel[grid](...)`` with the arguments of section 3. ``kernel_set("reference")`` gives the
twins beside them in any process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels import mixer_reference, reference
from kernels.backend import BACKEND, BACKENDS, BackendError, BackendName, device, launch_lock
from kernels.launch import Kernel

if BACKEND == "reference":
    from kernels.mixer_reference import (
        causal_conv1d_decode_kernel,
        causal_conv1d_prefill_kernel,
        replay_state_decode_kernel,
        selective_state_decode_kernel,
        selective_state_prefill_kernel,
    )
    from kernels.reference import (
        batch_memcpy,
        batch_memcpy_kernel,
        postprocess_mamba_fused_kernel,
        precopy_mamba_align_fused_kernel,
        preprocess_mamba_align_fused_kernel,
    )
else:
    from kernels.fast_copy import (
        postprocess_mamba_pieces_kernel,
        precopy_mamba_align_pieces_kernel,
    )
    from kernels.memcpy import batch_memcpy, batch_memcpy_kernel
    from kernels.mixer import (
        causal_conv1d_decode_kernel,
        causal_conv1d_prefill_kernel,
        replay_state_decode_kernel,
        selective_state_decode_kernel,
        selective_state_prefill_kernel,
    )
    from kernels.postprocess import postprocess_mamba_fused_kernel
    from kernels.precopy import precopy_mamba_align_fused_kernel
    from kernels.preprocess import preprocess_mamba_align_fused_kernel

__all__ = [
    "BACKEND",
    "BackendError",
    "BackendName",
    "Kernel",
    "KernelSet",
    "batch_memcpy",
    "batch_memcpy_kernel",
    "causal_conv1d_decode_kernel",
    "causal_conv1d_prefill_kernel",
    "device",
    "kernel_set",
    "launch_lock",
    "postprocess_mamba_fused_kernel",
    "precopy_mamba_align_fused_kernel",
    "preprocess_mamba_align_fused_kernel",
    "replay_state_decode_kernel",
    "selective_state_decode_kernel",
    "selective_state_prefill_kernel",
]


@dataclass(frozen=True)
class KernelSet:
    """The kernels of one back end."""

    backend: BackendName
    postprocess_mamba_fused_kernel: Kernel
    preprocess_mamba_align_fused_kernel: Kernel
    precopy_mamba_align_fused_kernel: Kernel
    batch_memcpy_kernel: Kernel
    batch_memcpy: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
    causal_conv1d_decode_kernel: Kernel
    causal_conv1d_prefill_kernel: Kernel
    selective_state_decode_kernel: Kernel
    selective_state_prefill_kernel: Kernel
    replay_state_decode_kernel: Kernel
    # The fast path (``fast_copy.py``); the reference has none.
    postprocess_mamba_pieces_kernel: Kernel | None = None
    precopy_mamba_align_pieces_kernel: Kernel | None = None


def kernel_set(backend: BackendName | None = None) -> KernelSet:
    """The kernels of ``backend``; None = this process's own (section 5.4).

    ``reference`` is there in every process, on CPU tensors. BackendError for another back end
    than the process's own: Triton can't have both, so that takes a second process.
    """
    if backend is None:
        backend = BACKEND
    if backend not in BACKENDS:
        raise BackendError(f"{backend!r} is no back end; it must be one of {', '.join(BACKENDS)}")
    if backend == "reference":
        return KernelSet(
            "reference",
            reference.postprocess_mamba_fused_kernel,
            reference.preprocess_mamba_align_fused_kernel,
            reference.precopy_mamba_align_fused_kernel,
            reference.batch_memcpy_kernel,
            reference.batch_memcpy,
            mixer_reference.causal_conv1d_decode_kernel,
            mixer_reference.causal_conv1d_prefill_kernel,
            mixer_reference.selective_state_decode_kernel,
            mixer_reference.selective_state_prefill_kernel,
            mixer_reference.replay_state_decode_kernel,
        )
    if backend != BACKEND:
        raise BackendError(
            f"this process runs the kernels on {BACKEND!r}; for {backend!r} start another process "
            f"with MAMBAVIZ_BACKEND={backend} (kernels.backend.child_environment)"
        )
    return KernelSet(
        backend,
        postprocess_mamba_fused_kernel,
        preprocess_mamba_align_fused_kernel,
        precopy_mamba_align_fused_kernel,
        batch_memcpy_kernel,
        batch_memcpy,
        causal_conv1d_decode_kernel,
        causal_conv1d_prefill_kernel,
        selective_state_decode_kernel,
        selective_state_prefill_kernel,
        replay_state_decode_kernel,
        postprocess_mamba_pieces_kernel,
        precopy_mamba_align_pieces_kernel,
    )
