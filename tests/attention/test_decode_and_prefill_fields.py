"""Sections 4.4 and 4.5: query offsets, accepted counts, the conv1d program list."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mambaviz.attention import (
    PAD_SLOT_ID,
    BaseMambaAttentionMetadataBuilder,
    compute_causal_conv1d_metadata,
)
from tests.attention.batches import Setup, batch, int32

MIXED: dict[str, Any] = {
    "query_lens": [3, 1, 5, 9],
    "seq_lens": [6, 7, 5, 20],
    "prefilling": [False, False, True, True],
}
ACCEPTED = [2, 1, 1, 1]


def test_decode_offsets_and_counts_with_drafts(device: str) -> None:
    metadata = (
        Setup(num_spec=2)
        .builder(device)
        .build(0, batch(**MIXED, device=device), num_accepted_tokens=int32(ACCEPTED, device))
    )
    assert metadata.query_start_loc_d.tolist() == [0, 3, 4]
    assert metadata.num_accepted_tokens.tolist() == [2, 1]


def test_without_drafts_configured_counts_pass_through() -> None:
    accepted = int32([1, 1])
    metadata = Setup().builder().build(0, batch([1, 5], [6, 5], [False, True]), accepted)
    assert metadata.query_start_loc_d is None
    assert metadata.num_accepted_tokens is accepted


def test_without_decodes_counts_pass_through() -> None:
    accepted = int32([1])
    metadata = Setup(num_spec=2).builder().build(0, batch([5], [5], [True]), accepted)
    assert metadata.query_start_loc_d is None
    assert metadata.num_accepted_tokens is accepted


def test_without_counts_there_are_no_decode_offsets() -> None:
    metadata = Setup(num_spec=2).builder().build(0, batch([1], [6]))
    assert metadata.query_start_loc_d is None
    assert metadata.num_accepted_tokens is None


def test_prefill_offsets_start_at_zero(device: str) -> None:
    metadata = (
        Setup(num_spec=2)
        .builder(device)
        .build(0, batch(**MIXED, device=device), num_accepted_tokens=int32(ACCEPTED, device))
    )
    assert metadata.query_start_loc_p.tolist() == [0, 5, 14]
    assert metadata.query_start_loc_p.dtype == torch.int32
    assert metadata.has_initial_states_p.tolist() == [False, True]
    assert metadata.has_initial_states_p.dtype == torch.bool


def test_one_computed_token_is_a_state_to_start_from() -> None:
    metadata = Setup().builder().build(0, batch([5, 5], [6, 5], [True, True]))
    assert metadata.has_initial_states_p.tolist() == [True, False]


def test_initial_states_are_judged_on_the_device_lengths(device: str) -> None:
    """The CPU lengths are an upper bound; the kernels must start from what there really is."""
    common = batch([5], [5], [True], device=device, seq_lens_cpu_upper_bound=int32([7]))
    metadata = Setup().builder(device).build(0, common)
    assert metadata.has_initial_states_p.tolist() == [False]


def test_without_prefills_there_are_no_prefill_fields() -> None:
    metadata = Setup().builder().build(0, batch([1], [6]))
    for name in (
        "query_start_loc_p",
        "has_initial_states_p",
        "nums_dict",
        "batch_ptr",
        "token_chunk_offset_ptr",
    ):
        assert getattr(metadata, name) is None


def test_conv1d_programs_of_mixed_prefills(device: str) -> None:
    nums_dict, batch_ptr, offset_ptr = compute_causal_conv1d_metadata(
        int32([0, 8, 9, 9, 26]), device=device
    )
    programs = nums_dict[8]
    assert programs["nums"].tolist() == [1, 1, 0, 3]
    assert programs["tot"] == programs["mlist_len"] == 5
    assert programs["mlist"].tolist() == [0, 1, 3, 3, 3]
    assert programs["offsetlist"].tolist() == [0, 0, 0, 1, 2]
    assert programs["batch_ptr"] is batch_ptr
    assert programs["token_chunk_offset_ptr"] is offset_ptr
    assert batch_ptr[:6].tolist() == [0, 1, 3, 3, 3, PAD_SLOT_ID]
    assert offset_ptr[:6].tolist() == [0, 0, 0, 1, 2, PAD_SLOT_ID]
    for pointer in (batch_ptr, offset_ptr):
        assert pointer.shape == (2048,)
        assert pointer.dtype == torch.int32
        assert pointer.device.type == device
        assert (pointer[5:] == PAD_SLOT_ID).all()


def test_the_conv1d_list_grows_with_its_programs() -> None:
    programs = 1025
    _, batch_ptr, offset_ptr = compute_causal_conv1d_metadata(
        int32([0, 8 * programs]), device="cpu"
    )
    assert batch_ptr.shape == offset_ptr.shape == (2 * programs,)
    assert offset_ptr[: programs + 1].tolist() == [*range(programs), PAD_SLOT_ID]
    _, at_limit, _ = compute_causal_conv1d_metadata(int32([0, 8 * 1024]), device="cpu")
    assert at_limit.shape == (2048,)


def test_a_builder_can_do_without_conv1d_programs() -> None:
    class WithoutConv1d(BaseMambaAttentionMetadataBuilder):
        needs_causal_conv1d_metadata = False

    metadata = Setup().builder(cls=WithoutConv1d).build(0, batch([5], [5], [True]))
    assert metadata.nums_dict is None
    assert metadata.batch_ptr is None
    assert metadata.token_chunk_offset_ptr is None
    assert metadata.query_start_loc_p.tolist() == [0, 5]


@pytest.mark.parametrize("mode", ["none", "align", "all"])
def test_counts_and_lengths_are_there_in_every_mode(mode: Any) -> None:
    common = batch([1, 5], [6, 5], [False, True])
    metadata = Setup(mode=mode).builder().build(0, common)
    assert metadata.num_reqs == 2
    assert metadata.seq_lens is common.seq_lens
