"""Byte copies from address lists (section 3.5)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels import KernelSet
from tests.kernels.golden_cases import device_of, golden_bytes


def lists(
    device: torch.device, src: list[int], dst: list[int], sizes: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.tensor(src, dtype=torch.uint64, device=device),
        torch.tensor(dst, dtype=torch.uint64, device=device),
        torch.tensor(sizes, dtype=torch.int32, device=device),
    )


def test_copies_of_any_size_and_alignment(ks: KernelSet) -> None:
    device = device_of(ks)
    source = torch.from_numpy(golden_bytes(9000, 1)).to(device)
    target = torch.zeros(9000, dtype=torch.uint8, device=device)
    # (source offset, target offset, bytes)
    copies = [(0, 0, 4096), (4101, 4100, 1), (8, 4203, 1025), (12, 6000, 2500), (7, 8999, 0)]
    ks.batch_memcpy(
        *lists(
            device,
            [source.data_ptr() + s for s, _, _ in copies],
            [target.data_ptr() + d for _, d, _ in copies],
            [n for _, _, n in copies],
        )
    )
    expected = np.zeros(9000, dtype=np.uint8)
    for s, d, n in copies:
        expected[d : d + n] = source.cpu().numpy()[s : s + n]
    assert np.array_equal(target.cpu().numpy(), expected)


def test_more_bytes_than_one_turn_of_the_loop(ks: KernelSet) -> None:
    device = device_of(ks)
    source = torch.from_numpy(golden_bytes(203, 2)).to(device)
    target = torch.zeros_like(source)
    arrays = lists(device, [source.data_ptr()], [target.data_ptr()], [201])
    ks.batch_memcpy_kernel[(1,)](*arrays, BLOCK_SIZE=32)
    assert torch.equal(target[:201], source[:201])
    assert target[201:].tolist() == [0, 0]


def test_nothing_to_copy(ks: KernelSet) -> None:
    ks.batch_memcpy(*lists(device_of(ks), [], [], []))


@pytest.mark.parametrize(
    ("lengths", "named"), [((2, 1, 1), "2, 1 and 1"), ((0, 1, 1), "0, 1"), ((1, 1, 0), "and 0")]
)
def test_unequal_lengths(ks: KernelSet, lengths: tuple[int, int, int], named: str) -> None:
    src, dst, sizes = ([8] * n for n in lengths)
    with pytest.raises(ValueError, match=named):
        ks.batch_memcpy(*lists(device_of(ks), src, dst, sizes))
