"""Section 4.3: which blocks of a row the kernels get."""

from __future__ import annotations

import pytest
import torch

from mambaviz.attention import mamba_get_block_table_tensor
from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, int32, table


@pytest.mark.parametrize("mode", ["none", "all"])
def test_none_and_all_hand_on_the_table_itself(mode: CacheMode, device: str) -> None:
    blocks = table(2, 5, device)
    spec = Setup(mode=mode).kv_cache_spec()
    assert mamba_get_block_table_tensor(blocks, int32([9, 1], device), spec, mode) is blocks


@pytest.mark.parametrize(
    ("seq_len", "start"), [(0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (9, 2), (12, 2)]
)
def test_align_takes_the_running_block_and_its_scratch(
    seq_len: int, start: int, device: str
) -> None:
    blocks = table(2, 5, device, first=10)
    spec = Setup(mode="align", num_spec=2).kv_cache_spec()
    got = mamba_get_block_table_tensor(blocks, int32([seq_len, 1], device), spec, "align")
    assert got.tolist() == [[10 + start, 11 + start, 12 + start], [15, 16, 17]]
    assert got.dtype == torch.int32
    assert got.device == blocks.device


def test_align_needs_every_column_up_to_the_last_scratch() -> None:
    spec = Setup(mode="align", num_spec=2).kv_cache_spec()
    blocks = table(2, 4)
    assert mamba_get_block_table_tensor(blocks, int32([1, 8]), spec, "align").shape == (2, 3)
    with pytest.raises(ValueError, match=r"row 1 has seq_len 9.* columns up to 4.* has 4"):
        mamba_get_block_table_tensor(blocks, int32([1, 9]), spec, "align")


def test_the_builder_checks_columns_on_the_cpu_lengths(device: str) -> None:
    """The device lengths fit: so this is found out without asking the device."""
    builder = Setup(mode="align", num_spec=2).builder(device)
    common = batch([8], [8], [True], columns=4, device=device)
    assert builder.build(0, common).num_prefills == 1
    with pytest.raises(ValueError, match="row 0 has seq_len 9"):
        builder.build(0, common.replace(seq_lens_cpu_upper_bound=int32([9])))


@pytest.mark.parametrize("mode", ["none", "align"])
def test_decodes_keep_a_column_per_draft_prefills_the_first(mode: CacheMode, device: str) -> None:
    common = batch([3, 1, 5], [6, 7, 5], [False, False, True], columns=6, device=device)
    metadata = (
        Setup(mode=mode, num_spec=2)
        .builder(device)
        .build(0, common, num_accepted_tokens=int32([1, 1, 1], device))
    )
    first = {"none": [1, 7, 13], "align": [2, 8, 14]}[mode]
    assert metadata.state_indices_tensor_d.tolist() == [[f, f + 1, f + 2] for f in first[:2]]
    assert metadata.state_indices_tensor_p.tolist() == first[2:]


def test_more_scratch_than_drafts_is_cut() -> None:
    setup = Setup(mode="align", num_spec=1, scratch=2)
    metadata = setup.builder().build(0, batch([1], [1], columns=6))
    assert metadata.state_indices_tensor_d.tolist() == [[1, 2]]


def test_all_mode_keeps_whole_rows(device: str) -> None:
    common = batch([1, 5], [6, 5], [False, True], columns=6, device=device)
    metadata = Setup(mode="all").builder(device).build(0, common)
    assert metadata.state_indices_tensor_d.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert metadata.state_indices_tensor_p.tolist() == [[7, 8, 9, 10, 11, 12]]


@pytest.mark.parametrize(("mode", "width"), [("none", 3), ("align", 3), ("all", 6)])
def test_a_part_without_rows_is_empty_not_none(mode: CacheMode, width: int) -> None:
    builder = Setup(mode=mode, num_spec=2).builder()
    decodes = builder.build(0, batch([1], [6], columns=6))
    assert decodes.state_indices_tensor_p.shape == ((0, 6) if mode == "all" else (0,))
    prefills = builder.build(0, batch([5], [5], [True], columns=6))
    assert prefills.state_indices_tensor_d.shape == (0, width)


def test_a_row_without_scratch_for_its_drafts_is_refused() -> None:
    builder = Setup(num_spec=2).builder()
    with pytest.raises(ValueError, match="2 columns, but a row needs 3"):
        builder.build(0, batch([1], [6], columns=2))
    prefill = builder.build(0, batch([5], [5], [True], columns=1))
    assert prefill.state_indices_tensor_p.tolist() == [1]
