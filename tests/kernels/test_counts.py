"""The accepted counts: reset once per request, and seen unchanged by every program of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import kernels
from kernels import KernelSet
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    ints,
    launch_postprocess,
)

BLOCK_SIZE = 4


def many_states(num_layers: int, num_blocks: int, device: torch.device) -> StateMemory:
    specs = [
        spec
        for layer in range(num_layers)
        for spec in (
            StateSpec(f"l{layer}.conv", (5, 3), torch.float16, conv=True),
            StateSpec(f"l{layer}.temporal", (2, 3), torch.float32, conv=False),
        )
    ]
    return StateMemory(specs, num_blocks, device)


def launch(
    ks: KernelSet,
    memory: StateMemory,
    num_reqs: int,
    counts: torch.Tensor,
    counts_out: torch.Tensor | None,
    **options: Any,
) -> None:
    """Every request: running 3, accepted 3, so new 5, aligned 4, bias 1 in place of column 0."""
    tables = Tables.of([[[2 * r + 1, 2 * r + 2] for r in range(num_reqs)]], memory.device)
    launch_postprocess(
        ks,
        memory,
        tables,
        counts,
        counts_out,
        [0] * num_reqs,
        [0] * num_reqs,
        [5] * num_reqs,
        [2] * num_reqs,
        block_size=BLOCK_SIZE,
        **options,
    )


def assert_every_state_shifted(memory: StateMemory, num_reqs: int) -> None:
    for k, spec in enumerate(memory.specs):
        expected = memory.start_bytes(k)
        for r in range(num_reqs):
            src = 2 * r + 1 if spec.conv else 2 * r + 2
            expected = memory.copied(expected, k, src, 2 * r + 1, 1)
        assert np.array_equal(memory.bytes(k), expected), spec.name


@pytest.mark.parametrize("num_states_at_once", ["all", "one"])
@pytest.mark.parametrize("tiles", [1, 2])
def test_siblings_see_the_snapshot(ks: KernelSet, num_states_at_once: str, tiles: int) -> None:
    """A sibling that starts after the reset reads the snapshot, which still has the old count.

    One launch per state stands for the latest possible start: all others are over by then.
    """
    memory = many_states(3, 5, device_of(ks))
    counts = ints([3, 3], memory.device)
    snapshot = counts.clone()
    if num_states_at_once == "all":
        launch(ks, memory, 2, snapshot, counts, tiles=tiles)
    else:
        for memory_of_one in _one_by_one(memory):
            launch(ks, memory_of_one, 2, snapshot, counts, tiles=tiles)
            assert counts.tolist() == [1, 1]
    assert counts.tolist() == [1, 1]
    assert snapshot.tolist() == [3, 3]
    assert_every_state_shifted(memory, 2)


def _one_by_one(memory: StateMemory) -> list[StateMemory]:
    """The same buffers, seen as memories of one state each."""
    singles = []
    for k, spec in enumerate(memory.specs):
        single = StateMemory([spec], memory.num_blocks, memory.device)
        single.buffers, single.start = [memory.buffers[k]], [memory.start[k]]
        single.base_addrs = [memory.base_addrs[k]]
        singles.append(single)
    return singles


def test_none_writes_into_the_counts_themselves(ks: KernelSet) -> None:
    """One program per request: no sibling that could see the reset."""
    memory = StateMemory([StateSpec("conv", (5, 3), torch.float16, conv=True)], 5, device_of(ks))
    counts = ints([3, 3], memory.device)
    launch(ks, memory, 2, counts, None)
    assert counts.tolist() == [1, 1]
    assert_every_state_shifted(memory, 2)


def test_none_is_right_where_programs_run_in_order(ks: KernelSet) -> None:
    """The last program of a request resets, so those before it decide from the old count."""
    if ks.backend == "cuda":
        pytest.skip("on a GPU programs run in no order: section 3.2 wants a snapshot there")
    memory = many_states(3, 5, device_of(ks))
    counts = ints([3, 3], memory.device)
    launch(ks, memory, 2, counts, None, tiles=2)
    assert counts.tolist() == [1, 1]
    assert_every_state_shifted(memory, 2)


def test_other_requests_keep_their_count(ks: KernelSet) -> None:
    """Nothing is written for them: what stands in the output, count or not, remains."""
    memory = many_states(1, 9, device_of(ks))
    tables = Tables.of([[[1, 2], [3, 4], [5, 6]]], memory.device)
    counts = ints([2, 3, 2], memory.device)
    out = ints([70, 71, 72], memory.device)
    # no boundary (running 5, new 6) | in place | boundary in another column (running 7, new 8)
    launch_postprocess(
        ks,
        memory,
        tables,
        counts,
        out,
        [1, 0, 0],
        [4, 0, 6],
        [2, 5, 2],
        [1, 2, 1],
        block_size=BLOCK_SIZE,
    )
    assert counts.tolist() == [2, 3, 2]
    assert out.tolist() == [70, 1, 72]


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", [1, 8])
def test_siblings_see_the_snapshot_with_many_states_at_once(num_warps: int) -> None:
    ks = kernels.kernel_set()
    if ks.backend != "cuda":
        pytest.skip(f"this process was told to run on {ks.backend!r}, where nothing runs at once")
    num_reqs = 64
    memory = many_states(150, 2 * num_reqs + 1, device_of(ks))
    counts = ints([3] * num_reqs, memory.device)
    launch(ks, memory, num_reqs, counts.clone(), counts, num_warps=num_warps)
    assert counts.tolist() == [1] * num_reqs
    assert_every_state_shifted(memory, num_reqs)
