"""Shifts in place: the result is as if the source had been read whole before any write."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kernels
from kernels import KernelSet
from kernels.pieces import PIECE_BYTES, num_programs
from tests.kernels.fast import fast_kernel_set
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    ints,
    launch_postprocess,
    launch_precopy,
)

LAYOUTS = pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])


def conv(width: int, dim: int, dtype: torch.dtype = torch.float16) -> StateSpec:
    return StateSpec("conv", (width, dim), dtype, conv=True)


@LAYOUTS
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("bias", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("tiles", [1, 3])
def test_in_place_over_many_chunks(
    ks: KernelSet, dim_first: bool, dtype: torch.dtype, bias: int, tiles: int
) -> None:
    """Chunks of 16 units cut through tokens and channels; tiles must not work side by side."""
    memory = StateMemory([conv(6, 7, dtype)], 4, device_of(ks), dim_first=dim_first, salt=bias)
    # The same id in two columns: another column, but the very same bytes.
    tables = Tables.of([[[3, 3]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [1], [bias], tiles=tiles, block=16)
    assert np.array_equal(memory.bytes(0), memory.copied(memory.start_bytes(0), 0, 3, 3, bias))


@LAYOUTS
@pytest.mark.parametrize("tiles", [1, 4])
def test_between_blocks_over_many_chunks(ks: KernelSet, dim_first: bool, tiles: int) -> None:
    specs = [conv(6, 7), StateSpec("temporal", (3, 5), torch.bfloat16, conv=False)]
    memory = StateMemory(specs, 5, device_of(ks), dim_first=dim_first)
    tables = Tables.of([[[2, 3, 4]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [2], [1], tiles=tiles, block=16)
    assert np.array_equal(memory.bytes(0), memory.copied(memory.start_bytes(0), 0, 2, 4, 1))
    assert np.array_equal(memory.bytes(1), memory.copied(memory.start_bytes(1), 1, 3, 4, 0))


def test_one_id_twice_in_a_row_temporal(ks: KernelSet) -> None:
    """Source column + bias holds the destination's own block: it stays as it is."""
    spec = StateSpec("temporal", (40,), torch.float16, conv=False)
    memory = StateMemory([spec], 4, device_of(ks))
    tables = Tables.of([[[1, 2, 2]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [2], [1], block=16)
    assert np.array_equal(memory.bytes(0), memory.start_bytes(0))


@LAYOUTS
def test_last_rows_of_the_destination_stay(ks: KernelSet, dim_first: bool) -> None:
    memory = StateMemory([conv(5, 2)], 3, device_of(ks), dim_first=dim_first)
    view = memory.view(0)  # SD [blocks, 5, 2], DS [blocks, 2, 5]
    before = view.clone()
    launch_precopy(ks, memory, Tables.of([[[1, 2]]], memory.device), [0], [1], [3])
    token_axis = 1 if dim_first else 0
    old, new = before[1].movedim(token_axis, 0), view[2].movedim(token_axis, 0)
    same = torch.int16  # compare bits: the fill holds NaNs
    assert torch.equal(new[:2].view(same), old[3:].view(same))
    assert torch.equal(new[2:].view(same), before[2].movedim(token_axis, 0)[2:].view(same))


@LAYOUTS
def test_in_place_after_acceptance(ks: KernelSet, dim_first: bool) -> None:
    # running 6, accepted 3: new 8 = aligned, bias 2, column 1 is the running one.
    memory = StateMemory([conv(6, 5)], 4, device_of(ks), dim_first=dim_first)
    counts = ints([3], memory.device)
    tables = Tables.of([[[1, 2]]], memory.device)
    launch_postprocess(ks, memory, tables, counts.clone(), counts, [1], [5], [3], [2], block_size=4)
    assert counts.tolist() == [1]
    assert np.array_equal(memory.bytes(0), memory.copied(memory.start_bytes(0), 0, 2, 2, 2))


@pytest.mark.gpu
@LAYOUTS
@pytest.mark.parametrize("num_warps", [1, 4, 8, 32])
@pytest.mark.parametrize("tiles", [1, 16])
@pytest.mark.parametrize(
    ("width", "dim", "dtype", "bias"),
    [
        (6, 8192, torch.bfloat16, 1),
        (6, 8192, torch.bfloat16, 3),
        (7, 5121, torch.float16, 1),  # odd rows: byte by byte
        (9, 4096, torch.float32, 2),
        (4, 3001, torch.int8, 1),
    ],
)
def test_large_in_place_shifts_with_many_warps(
    dim_first: bool,
    num_warps: int,
    tiles: int,
    width: int,
    dim: int,
    dtype: torch.dtype,
    bias: int,
) -> None:
    """Real sizes, every request at once, three times over: warps and programs get out of step."""
    ks = kernels.kernel_set()
    if ks.backend != "cuda":
        pytest.skip(f"this process was told to run on {ks.backend!r}, where nothing runs at once")
    num_reqs = 48
    memory = StateMemory(
        [conv(width, dim, dtype)], num_reqs + 1, device_of(ks), dim_first=dim_first
    )
    tables = Tables.of([[[r + 1, r + 1] for r in range(num_reqs)]], memory.device)
    expected = memory.start_bytes(0)
    for block in (128, 1024, 4096):
        launch_precopy(
            ks,
            memory,
            tables,
            [0] * num_reqs,
            [1] * num_reqs,
            [bias] * num_reqs,
            tiles=tiles,
            block=block,
            num_warps=num_warps,
        )
        for r in range(num_reqs):
            expected = _shift_in_place(memory, expected, r + 1, bias)
        assert np.array_equal(memory.bytes(0), expected)


@pytest.mark.gpu
@LAYOUTS
@pytest.mark.parametrize("path", ["readable", "fast"])
def test_two_thousand_large_shifts_in_place(dim_first: bool, path: str) -> None:
    """8 warps, 96 requests at once; each launch is compared on the device with its own slices."""
    ks = kernels.kernel_set()
    if ks.backend != "cuda":
        pytest.skip(f"this process was told to run on {ks.backend!r}, where nothing runs at once")
    if path == "fast":
        ks = fast_kernel_set(
            programs=num_programs(kernels.device(), dim_first), piece_bytes=PIECE_BYTES
        )
    num_reqs, width, dim, bias = 96, 6, 8192, 1
    spec = conv(width, dim, torch.bfloat16)
    memory = StateMemory([spec], num_reqs + 1, device_of(ks), dim_first=dim_first)
    tables = Tables.of([[[r + 1, r + 1] for r in range(num_reqs)]], memory.device)
    state = memory.view(0).view(torch.int16)  # compare bits
    fresh = torch.empty_like(state)
    tokens = (state.transpose(1, 2) if dim_first else state)[1:]
    expected = (fresh.transpose(1, 2) if dim_first else fresh)[1:]
    columns = [[0] * num_reqs, [1] * num_reqs, [bias] * num_reqs]
    for _ in range(2000):
        state.random_()
        fresh.copy_(state)
        expected[:, : width - bias] = tokens[:, bias:].clone()
        launch_precopy(ks, memory, tables, *columns, tiles=4, num_warps=8)
        assert torch.equal(state, fresh)


def _shift_in_place(memory: StateMemory, data: np.ndarray, block: int, bias: int) -> np.ndarray:
    """``memory.copied`` for one block, without copying the whole buffer each time."""
    page = memory.pages[0]
    one = slice(block * page, (block + 1) * page)
    data[one] = memory.copied(data[one], 0, 0, 0, bias)
    return data
