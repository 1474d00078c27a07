"""Section 4.10: the same metadata for another cache group."""

from __future__ import annotations

import dataclasses

import pytest

from mambaviz.attention import Mamba2AttentionMetadata, Mamba2AttentionMetadataBuilder
from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, table

COMMON = {"query_lens": [1, 5], "seq_lens": [6, 5], "prefilling": [False, True]}


@pytest.mark.parametrize(
    ("mode", "decode", "prefill"),
    [
        ("none", [[101]], [117]),
        ("align", [[102]], [118]),
        ("all", [list(range(101, 117))], [list(range(117, 133))]),
    ],
)
def test_only_the_state_indices_are_new(
    mode: CacheMode, decode: list[list[int]], prefill: list[int], device: str
) -> None:
    builder = Setup(mode=mode, chunk_size=4).builder(device, Mamba2AttentionMetadataBuilder)
    metadata = builder.build(0, batch(**COMMON, columns=16, device=device))
    before = metadata.state_indices_tensor_d.tolist()
    updated = builder.update_block_table(metadata, table(2, 16, device, first=101), None)
    assert isinstance(updated, Mamba2AttentionMetadata)
    assert updated.state_indices_tensor_d.tolist() == decode
    assert updated.state_indices_tensor_p.tolist() == prefill
    for field in dataclasses.fields(metadata):
        if not field.name.startswith("state_indices"):
            assert getattr(updated, field.name) is getattr(metadata, field.name), field.name
    assert metadata.state_indices_tensor_d.tolist() == before


@pytest.mark.parametrize("mode", ["none", "align", "all"])
def test_it_is_what_a_build_with_that_table_gives(mode: CacheMode, device: str) -> None:
    setup = Setup(mode=mode)
    other = table(2, 16, device, first=101)
    updated = setup.builder(device).update_block_table(
        setup.builder(device).build(0, batch(**COMMON, columns=16, device=device)), other, None
    )
    built = setup.builder(device).build(0, batch(**COMMON, blocks=other, device=device))
    assert updated.state_indices_tensor_d.tolist() == built.state_indices_tensor_d.tolist()
    assert updated.state_indices_tensor_p.tolist() == built.state_indices_tensor_p.tolist()


def test_under_a_graph_every_decode_field_lands_in_the_second_builders_buffers(
    device: str,
) -> None:
    setup = Setup(mode="all", full_graphs=True)
    first, second = setup.builder(device), setup.builder(device)
    captured = second.build_for_cudagraph_capture(batch([1, 1], [5, 5], columns=16, device=device))
    metadata = first.build(0, batch([1, 1], [9, 5], columns=16, device=device))
    second.update_block_table(metadata, table(2, 16, device, first=101), None)
    # What the graph of the second group reads: the views it was captured with.
    assert captured.state_indices_tensor_d[:, 0].tolist() == [101, 117]
    assert captured.block_idx_last_scheduled_token.tolist() == [2, 1]
    assert captured.block_idx_last_computed_token.tolist() == [1, 0]
    # And the first group's metadata is still its own.
    assert metadata.state_indices_tensor_d[:, 0].tolist() == [1, 17]


def test_under_a_graph_the_scratch_is_the_second_builders() -> None:
    setup = Setup(replayssm=True, full_graphs=True)
    first, second = setup.builder(), setup.builder()
    common = batch([1, 1], [9, 5], decode_base=[7, 4])
    own = second.build(0, common)
    updated = second.update_block_table(first.build(0, common), table(2, 20, first=101), None)
    for name in ("write_pos_d", "is_flush_d", "bc_pre_scratch"):
        assert getattr(updated, name).data_ptr() == getattr(own, name).data_ptr(), name
    assert updated.write_pos_d.tolist() == [1, 0]
    assert updated.is_flush_d.tolist() == [0, 0]


def test_a_group_can_update_its_own_metadata() -> None:
    builder = Setup(mode="all", full_graphs=True).builder()
    metadata = builder.build(0, batch([1, 1], [9, 5], columns=16))
    updated = builder.update_block_table(metadata, table(2, 16, first=101), None)
    assert updated.block_idx_last_scheduled_token.tolist() == [2, 1]
    assert updated.state_indices_tensor_d[:, 0].tolist() == [101, 117]


def test_another_number_of_requests_is_an_error() -> None:
    builder = Setup().builder()
    metadata = builder.build(0, batch(**COMMON))
    with pytest.raises(ValueError, match=r"has 3 requests.* has 2"):
        builder.update_block_table(metadata, table(3, 16), None)


def test_it_is_not_available_with_drafts() -> None:
    assert Setup().builder().supports_update_block_table is True
    builder = Setup(num_spec=2).builder()
    assert builder.supports_update_block_table is False
    metadata = builder.build(0, batch([1], [6]))
    with pytest.raises(ValueError, match="not available with drafts"):
        builder.update_block_table(metadata, table(1, 16), None)


def test_in_align_mode_the_other_table_must_be_wide_enough_too() -> None:
    builder = Setup(mode="align").builder()
    metadata = builder.build(0, batch(**COMMON))
    with pytest.raises(ValueError, match="row 0 has seq_len 6"):
        builder.update_block_table(metadata, table(2, 1), None)
