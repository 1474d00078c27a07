"""A tiny engine around the worker functions: caches of recognisable bytes, tables, requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from kernels import KernelSet, device, kernel_set
from mambaviz.config import (
    AttentionSpec,
    CacheConfig,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
)
from mambaviz.worker import (
    CpuGpuBuffer,
    Launch,
    MambaBuffers,
    MambaCopyBuffers,
    MambaSpecDecodeGPUContext,
    get_conv_copy_spec,
    get_temporal_copy_spec,
)

BOTH = (get_conv_copy_spec, get_temporal_copy_spec)
CONV_ONLY = (get_conv_copy_spec,)
TEMPORAL_ONLY = (get_temporal_copy_spec,)
WITH_PREFIX_CACHE = CacheConfig(mamba_cache_mode="align", enable_prefix_caching=True)

REFERENCE = kernel_set("reference")
# Each with the device its tensors must live on. The process's own set is given as None, the
# way the engine asks for it.
REFERENCE_AND_OWN = [
    pytest.param((REFERENCE, torch.device("cpu")), id="reference"),
    pytest.param((None, device()), id="own"),
]


def make_buffer(n: int, *, dtype: torch.dtype = torch.int32) -> CpuGpuBuffer:
    return CpuGpuBuffer(n, dtype, "cpu")


@dataclass
class Layer:
    kv_cache: list[torch.Tensor]


@dataclass
class Request:
    num_computed_tokens: int
    block_ids: list[list[int]]


@dataclass
class CachedRequests:
    resumed_req_ids: set[str] = field(default_factory=set)


@dataclass
class SchedulerOutput:
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)
    finished_req_ids: set[str] = field(default_factory=set)
    preempted_req_ids: set[str] | None = None
    scheduled_cached_reqs: CachedRequests = field(default_factory=CachedRequests)


@dataclass
class Table:
    """A persistent block table ``[max_reqs, cols]``."""

    tensor: torch.Tensor

    def get_device_tensor(self, num_reqs: int) -> torch.Tensor:
        return self.tensor[:num_reqs]


@dataclass
class Batch:
    req_ids: list[str]
    num_accepted_tokens_cpu: np.ndarray
    block_table: list[Table]


def random_pages(
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[torch.dtype],
    num_blocks: int,
    page_bytes: int,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
) -> list[torch.Tensor]:
    """State tensors that share one padded page per block, over random bytes."""
    raw = torch.randint(0, 256, (num_blocks * page_bytes,), dtype=torch.uint8, generator=generator)
    raw = raw.to(device)
    tensors, offset = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        assert offset % dtype.itemsize == page_bytes % dtype.itemsize == 0, "would overlap"
        strides = torch.empty(shape, device="meta").stride()
        whole = raw.view(dtype)
        tensors.append(
            whole.as_strided(
                (num_blocks, *shape),
                (page_bytes // dtype.itemsize, *strides),
                offset // dtype.itemsize,
            )
        )
        offset += torch.Size(shape).numel() * dtype.itemsize
    return tensors


def block_bytes(state: torch.Tensor) -> list[bytes]:
    """The natural bytes of each block."""
    return [block.cpu().contiguous().view(torch.uint8).numpy().tobytes() for block in state]


class World:
    """Caches, block tables and requests in which one worker function can be called.

    ``rows`` maps a request to its worker rows, one per cache group. Groups: ``groups`` Mamba
    groups of ``layers`` layers each; ``attention_first`` puts an attention group before them.
    """

    def __init__(
        self,
        rows: dict[str, list[list[int]]],
        *,
        block_size: int = 4,
        groups: int = 1,
        layers: int = 1,
        attention_first: bool = False,
        dim_first: bool = False,
        state_len: int = 5,
        copy_funcs: tuple = BOTH,
        extra_states: int = 0,
        num_blocks: int = 12,
        cols: int = 8,
        kernels: KernelSet | None = REFERENCE,
        device: torch.device | str = "cpu",
    ) -> None:
        self.kernels, self.device = kernels, device
        self.copy_funcs = copy_funcs
        self.dim_first = dim_first
        self.launches: list[tuple[str, Launch]] = []
        conv = (4, state_len) if dim_first else (state_len, 4)
        shape_of = {get_conv_copy_spec: conv, get_temporal_copy_spec: (2, 2, 2)}
        dtype_of = {get_conv_copy_spec: torch.bfloat16, get_temporal_copy_spec: torch.float32}
        shapes = tuple(shape_of[f] for f in copy_funcs) + ((2, 2),) * extra_states
        dtypes = tuple(dtype_of[f] for f in copy_funcs) + (torch.float16,) * extra_states
        spec = MambaSpec(block_size, shapes, dtypes, "align", num_speculative_blocks=2)
        mamba = [
            KVCacheGroupSpec([f"g{g}.l{n}" for n in range(layers)], spec) for g in range(groups)
        ]
        attention = [KVCacheGroupSpec(["attention"], AttentionSpec(block_size))]
        self.config = KVCacheConfig(num_blocks, [*(attention * attention_first), *mamba])
        generator = torch.Generator().manual_seed(0)
        page = spec.page_size_natural + 8  # bytes, 8 of them padding
        self.forward_context = {
            name: Layer(random_pages(shapes, dtypes, num_blocks, page, generator, device))
            for group in mamba
            for name in group.layer_names
        }
        self.requests = {req: Request(0, block_ids) for req, block_ids in rows.items()}
        self.tables = [
            Table(torch.zeros(len(rows), cols, dtype=torch.int32, device=device))
            for _ in self.config.kv_cache_groups
        ]
        for row, block_ids in enumerate(rows.values()):
            for gid, ids in enumerate(block_ids):
                self.tables[gid].tensor[row, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
        self.batch = Batch(list(rows), np.ones(len(rows), dtype=np.int32), self.tables)
        self.state_idx: dict[str, int] = {}

    # ------------------------------------------------------------------ set up

    def computed(self, **tokens: int) -> World:
        for req, count in tokens.items():
            self.requests[req].num_computed_tokens = count
        return self

    def accepted(self, *counts: int) -> World:
        self.batch.num_accepted_tokens_cpu[:] = counts
        return self

    def observe(self, when: str, launch: Launch) -> None:
        self.launches.append((when, launch))

    def make_buffer(self, n: int, *, dtype: torch.dtype) -> CpuGpuBuffer:
        return CpuGpuBuffer(n, dtype, self.device)

    def copy_bufs(self) -> MambaCopyBuffers:
        return self.buffers(with_postprocess_align=False).preprocess

    def context(self, bind: bool = False) -> MambaSpecDecodeGPUContext:
        ctx = self.buffers(with_postprocess_align=True).postprocess_align
        assert ctx is not None
        if bind:
            self.bind(ctx)
        return ctx

    def buffers(self, with_postprocess_align: bool = True) -> MambaBuffers:
        return MambaBuffers.create(
            len(self.requests),
            self.config,
            self.copy_funcs,
            self.make_buffer,
            self.device,
            with_postprocess_align,
            self.dim_first,
            self.observe,
            self.kernels,
        )

    def bind(self, ctx: MambaSpecDecodeGPUContext) -> None:
        ctx.initialize_from_forward_context(
            self.config, self.forward_context, self.copy_funcs, self.mamba_tables()
        )

    def mamba_tables(self) -> list[torch.Tensor]:
        return [
            table.tensor
            for table, group in zip(self.tables, self.config.kv_cache_groups, strict=True)
            if isinstance(group.kv_cache_spec, MambaSpec)
        ]

    def tensor(self, *values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    # ------------------------------------------------------------------ look at

    def states(self, layer: str = "g0.l0") -> list[torch.Tensor]:
        return self.forward_context[layer].kv_cache

    def snapshot(self) -> dict[tuple[str, int], list[bytes]]:
        return {
            (name, index): block_bytes(state)
            for name, layer in self.forward_context.items()
            for index, state in enumerate(layer.kv_cache)
        }

    def after_copies(self, req: str, src_col: int, dst_col: int, bias: int):
        """`snapshot` as it must be after one request's move, worked out block by block."""
        expected = {key: list(blocks) for key, blocks in self.snapshot().items()}
        for gid, group in enumerate(self.config.kv_cache_groups):
            if not isinstance(group.kv_cache_spec, MambaSpec):
                continue
            row = self.requests[req].block_ids[gid]
            for name in group.layer_names:
                for index, copy_func in enumerate(self.copy_funcs):
                    state = self.forward_context[name].kv_cache[index]
                    if copy_func is get_temporal_copy_spec:
                        new = state[row[src_col + bias]].clone()
                    else:
                        new = state[row[dst_col]].clone()
                        source = state[row[src_col]].clone()
                        length = source.shape[1 if self.dim_first else 0] - bias
                        if self.dim_first:
                            new[:, :length] = source[:, bias:]
                        else:
                            new[:length] = source[bias:]
                    expected[name, index][row[dst_col]] = block_bytes(new[None])[0]
        return expected


def schedule(**num_scheduled: int) -> SchedulerOutput:
    return SchedulerOutput(num_scheduled_tokens=dict(num_scheduled))
