"""What the V1 worker keeps between steps: the copy list, and the GPU context (section 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kernels import KernelSet
from mambaviz.config import KVCacheConfig
from mambaviz.worker.context import MambaSpecDecodeGPUContext
from mambaviz.worker.copy_specs import CopyFunc, state_kind
from mambaviz.worker.cpu_gpu import CpuGpuBuffer, MakeBuffer
from mambaviz.worker.groups import get_mamba_groups, num_mamba_layers
from mambaviz.worker.launch import LaunchObserver


@dataclass(frozen=True)
class SkippedCopy:
    """A copy that a guard of section 3.1 left out: a column or an id that is no address."""

    layer_name: str
    state_index: int
    src_col: int
    dst_col: int
    reason: str


@dataclass
class MambaCopyBuffers:
    """The list of copies that one launch of ``batch_memcpy`` will do.

    Entry ``i`` of the three buffers is one copy: source address, destination address
    (uint64), bytes (int32). ``offset`` counts the entries filled, ``skipped`` says what the
    guards kept out of the list; both start anew with each step.
    """

    src_ptrs: CpuGpuBuffer
    dst_ptrs: CpuGpuBuffer
    sizes: CpuGpuBuffer
    conv_state_dim_first: bool = False
    kernels: KernelSet | None = None  # None: the process's own
    on_launch: LaunchObserver | None = None
    offset: int = 0
    skipped: list[SkippedCopy] = field(default_factory=list)

    @classmethod
    def create(
        cls,
        max_num_reqs: int,
        kv_cache_config: KVCacheConfig,
        copy_funcs: Sequence[CopyFunc],
        make_buffer: MakeBuffer,
        conv_state_dim_first: bool = False,
        on_launch: LaunchObserver | None = None,
        kernels: KernelSet | None = None,
    ) -> MambaCopyBuffers:
        """Room for one copy per request, layer and state type. Section 3.7.

        ValueError without a Mamba group or with an unknown copy function.
        """
        for copy_func in copy_funcs:
            state_kind(copy_func)
        group_ids, _ = get_mamba_groups(kv_cache_config)
        n = max_num_reqs * num_mamba_layers(kv_cache_config, group_ids) * len(copy_funcs)
        return cls(
            src_ptrs=make_buffer(n, dtype=torch.uint64),
            dst_ptrs=make_buffer(n, dtype=torch.uint64),
            sizes=make_buffer(n, dtype=torch.int32),
            conv_state_dim_first=conv_state_dim_first,
            kernels=kernels,
            on_launch=on_launch,
        )

    @property
    def capacity(self) -> int:
        return len(self.sizes.np)

    def clear(self) -> None:
        self.offset = 0
        self.skipped.clear()

    def append(self, src_addr: int, dst_addr: int, num_bytes: int) -> None:
        if self.offset == self.capacity:
            raise ValueError(
                f"the copy list is full: it was created for {self.capacity} copies "
                "(max_num_reqs * layers * state types)"
            )
        self.src_ptrs.np[self.offset] = src_addr
        self.dst_ptrs.np[self.offset] = dst_addr
        self.sizes.np[self.offset] = num_bytes
        self.offset += 1


@dataclass
class MambaBuffers:
    """``preprocess`` for the copies before a forward, ``postprocess_align`` for the fused kernels.

    Only align mode with drafts moves state after acceptance, so only there is a GPU context
    worth its memory; elsewhere ``postprocess_align`` is None.
    """

    preprocess: MambaCopyBuffers
    postprocess_align: MambaSpecDecodeGPUContext | None

    @classmethod
    def create(
        cls,
        max_num_reqs: int,
        kv_cache_config: KVCacheConfig,
        copy_funcs: Sequence[CopyFunc],
        make_buffer: MakeBuffer,
        device: torch.device | str,
        with_postprocess_align: bool,
        conv_state_dim_first: bool = False,
        on_launch: LaunchObserver | None = None,
        kernels: KernelSet | None = None,
    ) -> MambaBuffers:
        """Both parts, for at most ``max_num_reqs`` requests a step. Section 3.7."""
        context = None
        if with_postprocess_align:
            context = MambaSpecDecodeGPUContext.create(
                max_num_reqs,
                kv_cache_config,
                len(copy_funcs),
                device,
                make_buffer,
                conv_state_dim_first,
                on_launch,
                kernels,
            )
        copies = MambaCopyBuffers.create(
            max_num_reqs,
            kv_cache_config,
            copy_funcs,
            make_buffer,
            conv_state_dim_first,
            on_launch,
            kernels,
        )
        return cls(preprocess=copies, postprocess_align=context)
