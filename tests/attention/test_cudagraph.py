"""Section 4.9: decode fields at fixed addresses, and graph capture."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    BaseMambaAttentionMetadataBuilder,
    CommonAttentionMetadata,
    Mamba1AttentionMetadataBuilder,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, int32

COLUMN_FIELDS = (
    "block_idx_last_scheduled_token",
    "block_idx_last_computed_token",
    "block_idx_last_scheduled_token_prev_step",
)


def graphs(mode: CacheMode = "none", num_spec: int = 0, **changes: Any) -> Setup:
    return Setup(mode=mode, num_spec=num_spec, full_graphs=True, max_seqs=6, **changes)


def inputs(setup: Setup, rows: int, device: str = "cpu") -> tuple[CommonAttentionMetadata, dict]:
    """`rows` full decode queries, and all keyword inputs the configuration knows."""
    query = 1 + setup.num_spec
    common = batch(
        [query] * rows,
        [9 + row for row in range(rows)],
        columns=setup.table_columns,
        decode_base=[7] * rows,
        device=device,
    )
    keywords = {"num_accepted_tokens": int32([1] * rows, device)}
    if setup.mode == "all" and setup.num_spec:
        keywords["prev_last_scheduled_idx"] = int32([1] * rows, device)
    return common, keywords


def decode_tensors(metadata: BaseMambaAttentionMetadata) -> dict[str, torch.Tensor]:
    names = (
        "state_indices_tensor_d",
        "num_accepted_tokens",
        "query_start_loc_d",
        *COLUMN_FIELDS,
        "write_pos_d",
        "is_flush_d",
        "bc_pre_scratch",
    )
    fields = {name: getattr(metadata, name) for name in names}
    return {name: value for name, value in fields.items() if value is not None}


SETUPS = {
    "none": graphs(),
    "none, drafts": graphs(num_spec=2),
    "align, drafts": graphs("align", 2),
    "all": graphs("all"),
    "all, drafts": graphs("all", 2),
    "none, replay": graphs(replayssm=True),
    "align, replay": graphs("align", replayssm=True),
}
EXPECTED_FIELDS = {
    "none": {"state_indices_tensor_d", "num_accepted_tokens"},
    "none, drafts": {"state_indices_tensor_d", "num_accepted_tokens", "query_start_loc_d"},
    "align, drafts": {"state_indices_tensor_d", "num_accepted_tokens", "query_start_loc_d"},
    "all": {"state_indices_tensor_d", "num_accepted_tokens", *COLUMN_FIELDS[:2]},
    "all, drafts": {
        "state_indices_tensor_d",
        "num_accepted_tokens",
        "query_start_loc_d",
        *COLUMN_FIELDS,
    },
    "none, replay": {
        "state_indices_tensor_d",
        "num_accepted_tokens",
        "write_pos_d",
        "is_flush_d",
        "bc_pre_scratch",
    },
    "align, replay": {
        "state_indices_tensor_d",
        "num_accepted_tokens",
        "write_pos_d",
        "is_flush_d",
        "bc_pre_scratch",
    },
}


@pytest.mark.parametrize("name", SETUPS)
def test_decode_fields_keep_their_address_and_not_that_of_the_input(name: str, device: str) -> None:
    setup = SETUPS[name]
    builder = setup.builder(device)
    addresses: dict[str, int] = {}
    for rows in (2, 5, 3):
        common, keywords = inputs(setup, rows, device)
        tensors = decode_tensors(builder.build(0, common, **keywords))
        assert set(tensors) == EXPECTED_FIELDS[name]
        given = {t.data_ptr() for t in (common.query_start_loc, *keywords.values())}
        given.add(common.block_table_tensor.data_ptr())
        for field, tensor in tensors.items():
            assert tensor.data_ptr() == addresses.setdefault(field, tensor.data_ptr()), field
            assert tensor.data_ptr() not in given, field
            assert tensor.device.type == device
        assert len(set(addresses.values())) == len(addresses)


@pytest.mark.parametrize("name", SETUPS)
def test_the_buffers_hold_what_a_build_without_graphs_gives(name: str, device: str) -> None:
    setup = SETUPS[name]
    common, keywords = inputs(setup, 4, device)
    padded = decode_tensors(setup.builder(device).build(0, common, **keywords))
    plain_setup = dataclasses.replace(setup, full_graphs=False)
    plain = decode_tensors(plain_setup.builder(device).build(0, common, **keywords))
    assert set(padded) == set(plain)
    for field, tensor in padded.items():
        if field != "bc_pre_scratch":
            assert tensor.tolist() == plain[field].tolist(), field
        assert tensor.shape == plain[field].shape
        assert tensor.dtype == plain[field].dtype


@pytest.mark.parametrize("name", SETUPS)
def test_rows_behind_the_batch_are_made_harmless(name: str, device: str) -> None:
    """A graph captured with more rows reads them, so nothing of the last build may be left."""
    setup = SETUPS[name]
    builder = setup.builder(device)
    common, keywords = inputs(setup, 6, device)
    large = decode_tensors(builder.build(0, common, **keywords))
    common, keywords = inputs(setup, 2, device)
    builder.build(0, common, **keywords)
    neutral = {"num_accepted_tokens": 1}
    for field, tensor in large.items():  # views of the buffers, as long as the larger batch
        if field == "query_start_loc_d":
            assert tensor[3:].tolist() == [tensor[2].item()] * 4
        elif field != "bc_pre_scratch":
            assert (tensor[2:] == neutral.get(field, 0)).all(), field


def test_padding_rows_keep_what_the_caller_put_in() -> None:
    """The split counts them as decodes, so the caller's null rows must be, and stay, null."""
    rows = int32([[5], [7], [0]])
    common = batch([1, 0, 0], [9, 0, 0], blocks=rows)
    metadata = graphs().builder().build(0, common, num_accepted_tokens=int32([1, 3, 1]))
    assert metadata.num_decodes == metadata.num_reqs == 3
    assert metadata.num_decode_tokens == 1
    assert metadata.state_indices_tensor_d.tolist() == [[5], [7], [0]]
    assert metadata.num_accepted_tokens.tolist() == [1, 3, 1]


def test_query_offsets_cover_the_padded_rows() -> None:
    setup = graphs(num_spec=2)
    common = batch([3, 0, 0], [9, 0, 0])
    metadata = setup.builder().build(0, common, num_accepted_tokens=int32([1, 1, 1]))
    assert metadata.query_start_loc_d.tolist() == [0, 3, 3, 3]


def in_buffers(setup: Setup, common: CommonAttentionMetadata) -> bool:
    """Whether two builds put the state indices into the same memory."""
    builder = setup.builder()
    first = builder.build(0, common).state_indices_tensor_d
    copied = common.replace(block_table_tensor=common.block_table_tensor.clone())
    second = builder.build(0, copied).state_indices_tensor_d
    return first.data_ptr() == second.data_ptr()


@pytest.mark.parametrize(
    ("cap", "rows", "expected"),
    [(None, 6, True), (None, 7, False), (4, 4, True), (4, 5, False), (9, 6, True), (9, 7, False)],
)
def test_the_limit_is_max_num_seqs_capped_by_the_capture_size(
    cap: int | None, rows: int, expected: bool
) -> None:
    setup = graphs(capture_cap=cap)
    assert setup.builder().decode_cudagraph_max_bs == min(6, cap or 6)
    assert in_buffers(setup, batch([1] * rows, [9] * rows)) is expected


def test_padding_rows_count_towards_the_limit() -> None:
    assert in_buffers(graphs(), batch([1, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0]))
    assert not in_buffers(graphs(), batch([1, 0, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0]))


def test_a_prefill_or_graphs_off_means_no_buffers() -> None:
    assert not in_buffers(graphs(), batch([1, 5], [9, 5], [False, True]))
    assert not in_buffers(Setup(max_seqs=6), batch([1], [9]))


@pytest.mark.parametrize(("mode", "num_spec", "width"), [("none", 2, 3), ("all", 2, 18)])
def test_buffer_width(mode: CacheMode, num_spec: int, width: int) -> None:
    """All mode: cdiv(64, 4) + 2 columns."""
    setup = graphs(mode, num_spec)
    common, keywords = inputs(setup, 2)
    metadata = setup.builder().build(0, common, **keywords)
    assert metadata.state_indices_tensor_d.shape == (2, width)


@pytest.mark.parametrize("columns", [15, 17])
def test_in_all_mode_the_table_must_be_as_wide_as_the_buffer(columns: int) -> None:
    builder = graphs("all").builder()
    with pytest.raises(ValueError, match=f"has {columns} columns.* rows of 16"):
        builder.build(0, batch([1], [9], columns=columns))


def test_a_partly_filled_last_block_counts_as_a_column() -> None:
    builder = graphs("all", max_len=61).builder()
    assert builder.build(0, batch([1], [9], columns=16)).state_indices_tensor_d.shape == (1, 16)


def test_wide_input_dtypes_land_in_the_buffers_dtype() -> None:
    common, _ = inputs(graphs(num_spec=2), 2)
    accepted = torch.tensor([2, 3])
    metadata = graphs(num_spec=2).builder().build(0, common, accepted)
    assert metadata.num_accepted_tokens.tolist() == [2, 3]
    assert metadata.num_accepted_tokens.dtype == torch.int32


# Capture.


@pytest.mark.parametrize("name", SETUPS)
def test_capture_and_later_builds_share_their_addresses(name: str, device: str) -> None:
    setup = SETUPS[name]
    builder = setup.builder(device)
    common, keywords = inputs(setup, 4, device)
    captured = decode_tensors(builder.build_for_cudagraph_capture(common))
    assert captured["num_accepted_tokens"].tolist() == [1 + setup.num_spec] * 4
    later = decode_tensors(builder.build(0, common, **keywords))
    assert {n: t.data_ptr() for n, t in captured.items()} == {
        n: t.data_ptr() for n, t in later.items()
    }


def test_capture_in_all_mode_with_drafts_takes_zeros_for_the_previous_step(device: str) -> None:
    setup = SETUPS["all, drafts"]
    common, _ = inputs(setup, 3, device)
    captured = setup.builder(device).build_for_cudagraph_capture(common)
    assert captured.block_idx_last_scheduled_token_prev_step.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["none", "none, drafts", "all"])
def test_elsewhere_capture_has_no_previous_step(name: str) -> None:
    common, _ = inputs(SETUPS[name], 3)
    captured = SETUPS[name].builder().build_for_cudagraph_capture(common)
    assert captured.block_idx_last_scheduled_token_prev_step is None


def test_capture_counts_every_row_as_a_decode() -> None:
    setup = graphs(num_spec=2)
    common, _ = inputs(setup, 4)
    captured = setup.builder().build_for_cudagraph_capture(common)
    assert (captured.num_decodes, captured.num_decode_tokens) == (4, 12)
    assert captured.num_prefills == 0


@pytest.mark.parametrize(
    "common",
    [
        batch([2, 2], [9, 9]),  # too short for 1 + 2 drafts
        batch([4, 4], [9, 9]),
        batch([3, 2], [9, 9]),  # not uniform
        batch([3, 3], [9, 9], max_query_len=4),
        batch([3] * 7, [9] * 7),  # beyond the limit of 6
        batch([3, 3], [9, 9], [False, True]),  # the second row is prefilling
    ],
)
def test_only_decode_batches_can_be_captured(common: CommonAttentionMetadata) -> None:
    with pytest.raises(ValueError, match="only decode batches can be captured"):
        graphs(num_spec=2).builder().build_for_cudagraph_capture(common)


def test_parallel_drafting_captures_the_plain_decode_query() -> None:
    builder = graphs(num_spec=2, parallel_drafting=True).builder()
    assert builder.build_for_cudagraph_capture(batch([3], [9])).num_decodes == 1
    with pytest.raises(ValueError, match="only decode batches can be captured"):
        builder.build_for_cudagraph_capture(batch([5], [9]))


@pytest.mark.parametrize(
    "cls",
    [
        BaseMambaAttentionMetadataBuilder,
        Mamba1AttentionMetadataBuilder,
        Mamba2AttentionMetadataBuilder,
    ],
)
def test_every_builder_can_capture(cls: type[BaseMambaAttentionMetadataBuilder]) -> None:
    builder = graphs(chunk_size=4).builder(cls=cls)
    captured = builder.build_for_cudagraph_capture(batch([1, 1], [9, 9]))
    assert captured.num_decodes == 2
    assert isinstance(captured, Mamba2AttentionMetadata) == (cls is Mamba2AttentionMetadataBuilder)
    with pytest.raises(ValueError, match="only decode batches"):
        builder.build_for_cudagraph_capture(batch([2, 2], [9, 9]))


def test_mamba1_captures_one_token_a_row_even_with_drafts_configured() -> None:
    """It takes no accepted counts, so a longer query could not be a decode."""
    builder = graphs(num_spec=2).builder(cls=Mamba1AttentionMetadataBuilder)
    assert builder.build_for_cudagraph_capture(batch([1], [9])).num_decodes == 1
    with pytest.raises(ValueError, match="only decode batches"):
        builder.build_for_cudagraph_capture(batch([3], [9]))


@pytest.mark.gpu
def test_a_replayed_graph_sees_the_metadata_of_the_latest_build() -> None:
    setup = graphs("all")
    builder = setup.builder("cuda")
    common, _ = inputs(setup, 4, "cuda")
    captured = builder.build_for_cudagraph_capture(common)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        seen = captured.state_indices_tensor_d + captured.block_idx_last_scheduled_token[:, None]
    later = batch([1] * 3 + [0], [20, 30, 40, 0], columns=setup.table_columns, device="cuda")
    metadata = builder.build(0, later)
    graph.replay()
    expected = metadata.state_indices_tensor_d + metadata.block_idx_last_scheduled_token[:, None]
    assert seen.tolist() == expected.tolist()
