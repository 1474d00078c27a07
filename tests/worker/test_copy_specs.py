"""Copy specs (section 3.6)."""

from __future__ import annotations

import pytest
import torch

from mambaviz.worker import get_conv_copy_spec, get_temporal_copy_spec

ROW = [7, 2, 5, 3]


def padded(num_blocks: int, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """``[num_blocks, *shape]`` whose pages are 6 elements longer than the data."""
    natural = torch.Size(shape).numel()
    return torch.zeros(num_blocks, natural + 6, dtype=dtype)[:, :natural].unflatten(1, shape)


@pytest.mark.parametrize("num_accepted", [1, 2, 3])
def test_conv_sd_starts_at_the_accepted_row_of_the_current_block(num_accepted: int) -> None:
    state = padded(9, 5, 3)  # 5 token rows of 3 channels
    spec = get_conv_copy_spec(state, ROW, 1, num_accepted)
    page, row = (15 + 6) * 2, 3 * 2  # bytes
    assert spec.start_addr == state.data_ptr() + 2 * page + (num_accepted - 1) * row
    assert spec.num_elements == (5 - (num_accepted - 1)) * 3


def test_conv_ds_is_the_whole_block_when_nothing_is_shifted() -> None:
    state = padded(9, 3, 5)
    spec = get_conv_copy_spec(state, ROW, 2, 1, conv_state_dim_first=True)
    assert spec.start_addr == state[5].data_ptr()
    assert spec.num_elements == 15


def test_conv_ds_shifted_is_not_one_region_and_names_the_fused_kernel() -> None:
    with pytest.raises(ValueError, match="precopy_mamba_align_fused_kernel"):
        get_conv_copy_spec(padded(9, 3, 5), ROW, 2, 2, conv_state_dim_first=True)


@pytest.mark.parametrize("num_accepted", [1, 2, 3])
def test_temporal_is_a_whole_block_one_column_per_accepted_token_further(num_accepted) -> None:
    state = padded(9, 2, 4, dtype=torch.float32)
    spec = get_temporal_copy_spec(state, ROW, 1, num_accepted)
    assert spec.start_addr == state[ROW[num_accepted]].data_ptr()
    assert spec.num_elements == 8  # the natural block, without the padding


@pytest.mark.parametrize("copy_func", [get_conv_copy_spec, get_temporal_copy_spec])
def test_no_accepted_token_at_all_is_refused(copy_func) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        copy_func(padded(9, 5, 3), ROW, 1, 0)
