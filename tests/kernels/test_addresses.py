"""Address arithmetic: padding, odd addresses and sizes, 64-bit products, addresses that wrap."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels import KernelSet
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    as_int64,
    device_of,
    launch_precopy,
)

CONV = StateSpec("conv", (5, 3), torch.float16, conv=True)
TEMPORAL = StateSpec("temporal", (2, 5), torch.bfloat16, conv=False)
LAYOUTS = pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])


def assert_one_copy(memory: StateMemory, src: int, dst: int, bias: int) -> None:
    for k in range(len(memory.specs)):
        expected = memory.copied(memory.start_bytes(k), k, src, dst, bias)
        assert np.array_equal(memory.bytes(k), expected), memory.specs[k].name


@LAYOUTS
@pytest.mark.parametrize("page_padding", [0, 1, 6, 64])
@pytest.mark.parametrize("misalign", [0, 1, 2, 4])
def test_padded_and_unaligned_pages(
    ks: KernelSet, dim_first: bool, page_padding: int, misalign: int
) -> None:
    """Elements at any byte address; the padding of the destination is not written."""
    memory = StateMemory(
        [CONV, TEMPORAL],
        4,
        device_of(ks),
        dim_first=dim_first,
        page_padding=page_padding,
        misalign=misalign,
    )
    tables = Tables.of([[[3, 3, 2]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [2], [1])
    assert_one_copy(memory, 3, 2, 1)


@LAYOUTS
def test_channel_rows_and_tokens_of_odd_bytes(ks: KernelSet, dim_first: bool) -> None:
    spec = StateSpec("conv", (5, 5), torch.int8, conv=True)
    memory = StateMemory([spec], 3, device_of(ks), dim_first=dim_first, page_padding=3)
    launch_precopy(ks, memory, Tables.of([[[2, 1]]], memory.device), [0], [1], [2], block=16)
    assert_one_copy(memory, 2, 1, 2)


def test_one_dimensional_state(ks: KernelSet) -> None:
    """Block stride = numel, inner size 1: one element per block moves (section 3.1)."""
    numel = 6
    spec = StateSpec("temporal", (1,), torch.float32, conv=False)
    memory = StateMemory([spec], 4, device_of(ks), page_padding=(numel - 1) * 4)
    assert memory.block_strides == [numel * 4]
    launch_precopy(ks, memory, Tables.of([[[1, 3]]], memory.device), [0], [1], [0])
    assert_one_copy(memory, 1, 3, 0)


@LAYOUTS
@pytest.mark.parametrize(
    ("first_id", "block_stride"),
    [
        pytest.param(2**31 - 8, None, id="large ids"),
        pytest.param(70_000, 2**20 + 2**10, id="large strides"),
    ],
)
def test_id_times_stride_past_32_bits(
    ks: KernelSet, dim_first: bool, first_id: int, block_stride: int | None
) -> None:
    """A cache of which only blocks first_id .. first_id + 3 exist: the base lies far below."""
    padding = 0 if block_stride is None else block_stride - CONV.natural_bytes
    memory = StateMemory([CONV], 4, device_of(ks), dim_first=dim_first, page_padding=padding)
    assert first_id * memory.block_strides[0] > 2**31
    memory.base_addrs = [memory.base_addrs[0] - first_id * memory.block_strides[0]]
    tables = Tables.of([[[first_id + 1, first_id + 3]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [1], [1], num_blocks=2**31 - 1)
    assert_one_copy(memory, 1, 3, 1)


@LAYOUTS
def test_base_address_past_2_to_the_63(ks: KernelSet, dim_first: bool) -> None:
    """Stored by bit pattern, so negative; with the block's offset it wraps to a real address."""
    first_id, page = 2**30, 2**18 + 96  # blocks first_id .. first_id + 2 are real, 2**48 bytes up
    memory = StateMemory(
        [CONV], 3, device_of(ks), dim_first=dim_first, page_padding=page - CONV.natural_bytes
    )
    memory.base_addrs = [(memory.base_addrs[0] - first_id * page) % 2**64]
    assert memory.base_addrs[0] >= 2**63
    tables = Tables.of([[[first_id + 1, first_id + 2]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [1], [1])
    assert_one_copy(memory, 1, 2, 1)


def test_groups_have_their_own_tables(ks: KernelSet) -> None:
    specs = [
        StateSpec("g0.conv", (5, 3), torch.float16, conv=True, group=0),
        StateSpec("g1.conv", (5, 3), torch.float16, conv=True, group=1),
    ]
    memory = StateMemory(specs, 6, device_of(ks))
    tables = Tables.of([[[1, 2]], [[4, 3]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [1], [2])
    for k, (src, dst) in enumerate([(1, 2), (4, 3)]):
        expected = memory.copied(memory.start_bytes(k), k, src, dst, 2)
        assert np.array_equal(memory.bytes(k), expected)


def test_table_that_is_a_view_of_a_wider_one(ks: KernelSet) -> None:
    """The row stride, not the number of columns in use, leads to the next request's row."""
    memory = StateMemory([CONV], 6, device_of(ks))
    wide = torch.tensor([[1, 2, 0, 0], [3, 4, 0, 0]], dtype=torch.int32, device=memory.device)
    tables = Tables((wide[:, :2],), torch.tensor([as_int64(wide.data_ptr())]).to(memory.device))
    assert tables.stride_req == 4
    launch_precopy(ks, memory, tables, [-1, 0], [-1, 1], [0, 1])
    assert_one_copy(memory, 3, 4, 1)
