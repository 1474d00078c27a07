"""What must not become an address: columns outside a row, null and foreign ids, negative slots."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels import KernelSet
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    ints,
    launch_postprocess,
    launch_precopy,
)

CONV = StateSpec("conv", (5, 3), torch.float16, conv=True)
TEMPORAL = StateSpec("temporal", (2, 4), torch.float32, conv=False)
NUM_BLOCKS = 8


@pytest.fixture(params=[False, True], ids=["SD", "DS"])
def memory(request: pytest.FixtureRequest, ks: KernelSet) -> StateMemory:
    return StateMemory([CONV, TEMPORAL], NUM_BLOCKS, device_of(ks), dim_first=request.param, salt=7)


def assert_copied(
    memory: StateMemory,
    conv: tuple[int, int, int] | None = None,
    temporal: tuple[int, int, int] | None = None,
) -> None:
    """Each state as after one copy (src block, dst block, bias), or untouched for None."""
    for k, copy in enumerate((conv, temporal)):
        expected = memory.start_bytes(k)
        if copy is not None:
            expected = memory.copied(expected, k, *copy)
        assert np.array_equal(memory.bytes(k), expected), memory.specs[k].name


@pytest.mark.parametrize(
    ("row", "src", "dst", "bias", "conv", "temporal"),
    [
        pytest.param([1, 2, 3, 4], 0, 2, 1, (1, 3, 1), (2, 3, 0), id="all good"),
        pytest.param([1, 2, 3, 4], 2, 1, 1, (3, 2, 1), (4, 2, 0), id="last column is inside"),
        pytest.param([1, 2, 3, 4], 3, 1, 1, (4, 2, 1), None, id="temporal read past the row"),
        pytest.param([1, 2, 3, 4], 4, 1, 0, None, None, id="source column past the row"),
        pytest.param([1, 2, 3, 4], 0, 4, 0, None, None, id="destination column past the row"),
        pytest.param([1, 2, 3, 4], 0, -1, 0, None, None, id="destination column negative"),
        pytest.param([1, 2, 3, 4], 0, 2**31 - 1, 0, None, None, id="destination column huge"),
        pytest.param([1, 2, 3, 4], 0, 2, 2**31 - 1, None, None, id="bias huge"),
        pytest.param([1, 2, 3, 4], 1, 2, -1, None, None, id="bias negative"),
        pytest.param([0, 2, 3, 4], 0, 2, 0, None, None, id="source null"),
        pytest.param([0, 2, 3, 4], 0, 2, 1, None, (2, 3, 0), id="only the conv source null"),
        pytest.param([1, 0, 3, 4], 0, 2, 1, (1, 3, 1), None, id="only the temporal source null"),
        pytest.param([1, 2, 0, 4], 0, 2, 0, None, None, id="destination null"),
        pytest.param([-5, 2, 3, 4], 0, 2, 0, None, None, id="source id negative"),
        pytest.param([1, 2, -5, 4], 0, 2, 0, None, None, id="destination id negative"),
        pytest.param([8, 2, 3, 4], 0, 2, 1, None, (2, 3, 0), id="conv source id foreign"),
        pytest.param([1, 99, 3, 4], 0, 2, 1, (1, 3, 1), None, id="temporal source id foreign"),
        pytest.param([1, 2, 8, 4], 0, 2, 0, None, None, id="destination id foreign"),
        pytest.param([1, 2, 7, 4], 0, 2, 0, (1, 7, 0), (1, 7, 0), id="last block is no stranger"),
    ],
)
def test_bounds(
    ks: KernelSet,
    memory: StateMemory,
    row: list[int],
    src: int,
    dst: int,
    bias: int,
    conv: tuple[int, int, int] | None,
    temporal: tuple[int, int, int] | None,
) -> None:
    tables = Tables.of([[row]], memory.device)
    launch_precopy(ks, memory, tables, [src], [dst], [bias], num_blocks=NUM_BLOCKS)
    assert_copied(memory, conv, temporal)


def test_a_row_of_one_column_and_one_block(ks: KernelSet) -> None:
    """Triton folds an integer argument of 1 into the code; nothing may hang on its being one."""
    memory = StateMemory([CONV, TEMPORAL], 2, device_of(ks))
    tables = Tables.of([[[1]]], memory.device)
    launch_precopy(ks, memory, tables, [0], [1], [0], num_blocks=1)
    assert_copied(memory)


@pytest.mark.parametrize("row", [[3, 2], [9, 2], [0, 2]], ids=["copied", "foreign id", "null"])
def test_count_is_reset_whatever_becomes_of_the_copy(
    ks: KernelSet, memory: StateMemory, row: list[int]
) -> None:
    # running 3, new 5, aligned 4: bias 1, into column 0 where the state already runs.
    counts = ints([3], memory.device)
    tables = Tables.of([[row]], memory.device)
    launch_postprocess(
        ks,
        memory,
        tables,
        counts.clone(),
        counts,
        [0],
        [0],
        [5],
        [2],
        block_size=4,
        num_blocks=NUM_BLOCKS,
    )
    assert counts.tolist() == [1]
    if row[0] == 3:
        assert_copied(memory, (3, 3, 1), (2, 3, 0))
    else:
        assert_copied(memory)


def test_no_boundary_copies_nothing_and_keeps_the_count(ks: KernelSet, memory: StateMemory) -> None:
    counts = ints([2], memory.device)
    tables = Tables.of([[[1, 2]]], memory.device)
    launch_postprocess(ks, memory, tables, counts.clone(), counts, [0], [1], [3], [2], block_size=4)
    assert counts.tolist() == [2]
    assert_copied(memory)


def test_boundary_before_the_first_block_is_no_column(ks: KernelSet, memory: StateMemory) -> None:
    # running 0, aligned 0: the "block before" would be column -1.
    counts = ints([1], memory.device)
    tables = Tables.of([[[1, 2]]], memory.device)
    launch_postprocess(ks, memory, tables, counts.clone(), counts, [0], [0], [0], [0], block_size=4)
    assert counts.tolist() == [1]
    assert_copied(memory)


def test_same_column_without_shift_resets_the_count_only(
    ks: KernelSet, memory: StateMemory
) -> None:
    # running 4 = aligned: the running column is the boundary's own, nothing lies elsewhere.
    counts = ints([3], memory.device)
    tables = Tables.of([[[1, 2]]], memory.device)
    launch_postprocess(ks, memory, tables, counts.clone(), counts, [0], [3], [3], [2], block_size=4)
    assert counts.tolist() == [1]
    assert_copied(memory)


@pytest.mark.parametrize("tiles", [1, 3])
def test_negative_slots_are_skipped_by_the_copies(
    ks: KernelSet, memory: StateMemory, tiles: int
) -> None:
    """Batch row 1 has no slot; rows 0 and 2 sit in slots 2 and 0, nobody in slot 1."""
    rows = [[1, 2], [3, 4], [5, 6]]
    tables = Tables.of([rows], memory.device)
    src, dst, bias = [0, 0, 0], [1, 1, 1], [0, 0, 0]
    launch_precopy(ks, memory, tables, src, dst, bias, idx_mapping=[2, -1, 0], tiles=tiles)
    for k in range(2):
        expected = memory.copied(memory.start_bytes(k), k, 1, 2, 0)
        expected = memory.copied(expected, k, 5, 6, 0)
        assert np.array_equal(memory.bytes(k), expected)


@pytest.mark.parametrize("in_place", [False, True])
def test_negative_slots_are_skipped_after_acceptance(
    ks: KernelSet, memory: StateMemory, in_place: bool
) -> None:
    tables = Tables.of([[[1, 2], [3, 4], [5, 6]]], memory.device)
    counts = ints([2, 7, 3], memory.device)
    snapshot = None if in_place else counts.clone()
    # Slot 2 (row 0): new 5, running 3, aligned 4, in place. Slot 0 (row 2): new 8, running 7,
    # aligned 8, from column 0 to column 1. Slot 1 would cross a boundary too.
    launch_postprocess(
        ks,
        memory,
        tables,
        counts if snapshot is None else snapshot,
        None if in_place else counts,
        [0, 0, 0],
        [8, 8, 5],
        idx_mapping=[2, -1, 0],
        block_size=4,
    )
    assert counts.tolist() == [2, 7, 1]
    for k, temporal_source in ((0, None), (1, (2, 6))):
        first, second = temporal_source or (1, 5)
        expected = memory.copied(memory.start_bytes(k), k, first, 1, 1)
        expected = memory.copied(expected, k, second, 6, 1)
        assert np.array_equal(memory.bytes(k), expected)


def test_batch_rows_past_num_reqs_do_nothing(ks: KernelSet, memory: StateMemory) -> None:
    """A captured graph launches the grid of its largest batch."""
    tables = Tables.of([[[1, 2], [3, 4]]], memory.device)
    launch_precopy(ks, memory, tables, [0, 0], [1, 1], [0, 0], num_reqs=1)
    assert_copied(memory, (1, 2, 0), (1, 2, 0))

    counts = ints([2, 2], memory.device)
    launch_postprocess(
        ks,
        memory,
        tables,
        counts.clone(),
        counts,
        [0, 0],
        [4, 4],
        block_size=4,
        idx_mapping=[0, 1],
        num_reqs=0,
    )
    assert counts.tolist() == [2, 2]
    assert_copied(memory, (1, 2, 0), (1, 2, 0))


@pytest.mark.parametrize(
    ("src", "dst"), [(-1, 1), (1, 1), (-1, -1)], ids=["fresh", "same column", "both"]
)
def test_precopy_leaves_fresh_and_staying_requests(
    ks: KernelSet, memory: StateMemory, src: int, dst: int
) -> None:
    tables = Tables.of([[[1, 2, 3]]], memory.device)
    launch_precopy(ks, memory, tables, [src], [dst], [1])
    assert_copied(memory)


def test_block_table_is_read_at_the_batch_row(ks: KernelSet, memory: StateMemory) -> None:
    """Per-request arrays at the slot, but table rows are compact: row 0 is slot 2's."""
    tables = Tables.of([[[1, 2], [3, 4], [5, 6]]], memory.device)
    src, dst, bias = [-1, -1, 0], [-1, -1, 1], [0, 0, 2]
    launch_precopy(ks, memory, tables, src, dst, bias, idx_mapping=[2, 0, 1])
    # temporal reads column 2, outside; conv slides by two tokens.
    assert_copied(memory, (1, 2, 2), None)
