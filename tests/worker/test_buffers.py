"""Staging memory: `CpuGpuBuffer`, `MambaCopyBuffers`, `MambaBuffers` (section 3.7)."""

from __future__ import annotations

import pytest
import torch

from mambaviz.worker import CpuGpuBuffer, MambaBuffers, MambaCopyBuffers
from tests.worker.world import BOTH, CONV_ONLY, World, make_buffer


def test_the_device_half_changes_only_with_an_upload() -> None:
    buffer = CpuGpuBuffer(4, torch.int32, "cpu")
    buffer.np[:] = [1, 2, 3, 4]
    assert buffer.cpu.tolist() == [1, 2, 3, 4]
    assert buffer.gpu.tolist() == [0, 0, 0, 0]
    filled = buffer.copy_to_gpu(2)
    assert filled.tolist() == [1, 2]
    assert buffer.gpu.tolist() == [1, 2, 0, 0]
    assert filled.data_ptr() == buffer.gpu.data_ptr()  # a view: kernels keep its address
    assert buffer.copy_to_gpu().tolist() == [1, 2, 3, 4]


def test_addresses_keep_all_64_bits() -> None:
    buffer = CpuGpuBuffer(1, torch.uint64, "cpu")
    buffer.np[0] = 2**64 - 8
    assert buffer.copy_to_gpu().numpy().tolist() == [2**64 - 8]


def test_memory_is_pinned_where_cuda_exists_and_only_there() -> None:
    assert CpuGpuBuffer(3, torch.int32, "cpu").cpu.is_pinned() == torch.cuda.is_available()


@pytest.mark.gpu
def test_the_device_half_lives_on_the_device() -> None:
    buffer = CpuGpuBuffer(3, torch.int32, "cuda")
    buffer.np[:] = [5, 6, 7]
    uploaded = buffer.copy_to_gpu(2)
    assert uploaded.is_cuda
    assert uploaded.tolist() == [5, 6]


@pytest.mark.parametrize(("copy_funcs", "kinds"), [(BOTH, 2), (CONV_ONLY, 1)])
def test_room_for_one_copy_per_request_layer_and_state_type(copy_funcs, kinds) -> None:
    world = World(
        {"a": [[1], [1], [1]]}, groups=2, layers=3, attention_first=True, copy_funcs=copy_funcs
    )
    bufs = MambaCopyBuffers.create(5, world.config, copy_funcs, make_buffer)
    assert bufs.capacity == 5 * 6 * kinds
    assert bufs.offset == 0
    dtypes = [buffer.cpu.dtype for buffer in (bufs.src_ptrs, bufs.dst_ptrs, bufs.sizes)]
    assert dtypes == [torch.uint64, torch.uint64, torch.int32]


def test_one_copy_too_many_is_refused() -> None:
    bufs = World({"a": [[1]]}).copy_bufs()
    bufs.append(16, 32, 4)
    bufs.append(16, 32, 4)
    with pytest.raises(ValueError, match="created for 2 copies"):
        bufs.append(16, 32, 4)


def test_an_unknown_copy_function_is_named() -> None:
    def get_ring_copy_spec() -> None: ...

    with pytest.raises(ValueError, match="get_ring_copy_spec"):
        MambaCopyBuffers.create(1, World({"a": [[1]]}).config, (get_ring_copy_spec,), make_buffer)


def test_the_gpu_context_exists_only_where_it_was_asked_for() -> None:
    world = World({"a": [[1]]})
    without = MambaBuffers.create(1, world.config, BOTH, make_buffer, "cpu", False)
    assert without.preprocess.capacity == 2
    assert without.postprocess_align is None
    having = MambaBuffers.create(1, world.config, BOTH, make_buffer, "cpu", True, True)
    assert having.preprocess.capacity == 2
    assert having.preprocess.conv_state_dim_first
    assert having.postprocess_align.conv_state_dim_first
    assert not having.postprocess_align.is_initialized
