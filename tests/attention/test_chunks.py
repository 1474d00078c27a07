"""Section 4.7: chunks of the prefill scan, and what the Mamba-1 and Mamba-2 builders add."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    Mamba1AttentionMetadataBuilder,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.attention.chunks import plan_chunks
from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, int32

CHUNK_FIELDS = ("cu_chunk_seqlen_p", "seq_idx_p", "last_chunk_indices_p")


def plan(computed: list[int], query: list[int], chunk_size: int) -> tuple[list[int], ...]:
    chunks = plan_chunks(np.array(computed), np.array(query), chunk_size)
    return (
        chunks.cu_chunk_seqlen.tolist(),
        chunks.seq_idx.tolist(),
        chunks.last_chunk_indices.tolist(),
    )


@pytest.mark.parametrize(
    ("computed", "query", "cu", "seq_idx", "last"),
    [
        ([0, 3], [5, 4], [0, 4, 5, 6, 9], [0, 0, 1, 1], [1, 3]),  # the example of section 4.7
        ([0], [4], [0, 4], [0], [0]),
        ([4], [4], [0, 4], [0], [0]),  # aligned: no chunk of length 0 first
        ([1], [2], [0, 2], [0], [0]),  # ends before the boundary: one short chunk
        ([1], [3], [0, 3], [0], [0]),  # ends at it
        ([1], [4], [0, 3, 4], [0, 0], [1]),
        ([0], [1], [0, 1], [0], [0]),  # a first chunk of one token
        ([2, 2], [6, 6], [0, 2, 6, 8, 12], [0, 0, 1, 1], [1, 3]),
    ],
)
def test_chunks(
    computed: list[int], query: list[int], cu: list[int], seq_idx: list[int], last: list[int]
) -> None:
    assert plan(computed, query, 4) == (cu, seq_idx, last)


def test_no_new_tokens_inside_a_chunk_make_one_empty_chunk() -> None:
    assert plan([0, 3, 0], [5, 0, 2], 4) == ([0, 4, 5, 5, 7], [0, 0, 1, 2], [1, 2, 3])


def test_no_new_tokens_at_a_boundary_make_none() -> None:
    assert plan([0, 4, 0], [5, 0, 2], 4) == ([0, 4, 5, 7], [0, 0, 2], [1, 1, 2])
    assert plan([4], [0], 4) == ([0], [], [-1])


def mixed(device: str = "cpu", **changes: Any):
    return batch([1, 5, 4], [6, 5, 7], [False, True, True], device=device, **changes)


@pytest.mark.parametrize("mode", ["none", "align", "all"])
def test_mamba2_cuts_by_the_models_chunk_in_every_mode(mode: CacheMode, device: str) -> None:
    setup = Setup(mode=mode, block_size=8, chunk_size=4)
    metadata = setup.builder(device, Mamba2AttentionMetadataBuilder).build(0, mixed(device))
    assert isinstance(metadata, Mamba2AttentionMetadata)
    assert metadata.cu_chunk_seqlen_p.tolist() == [0, 4, 5, 6, 9]
    assert metadata.seq_idx_p.tolist() == [0, 0, 1, 1]
    assert metadata.last_chunk_indices_p.tolist() == [1, 3]
    assert metadata.chunk_size == 4
    assert metadata.prep_initial_states is True
    for name in CHUNK_FIELDS:
        assert getattr(metadata, name).dtype == torch.int32
        assert getattr(metadata, name).device.type == device


def test_mamba2_has_all_fields_of_the_base() -> None:
    setup = Setup(block_size=8, chunk_size=4)
    base = setup.builder().build(0, mixed())
    metadata = setup.builder(cls=Mamba2AttentionMetadataBuilder).build(0, mixed())
    assert metadata.num_decodes == base.num_decodes == 1
    assert metadata.query_start_loc_p.tolist() == base.query_start_loc_p.tolist()
    assert metadata.state_indices_tensor_p.tolist() == base.state_indices_tensor_p.tolist()


@pytest.mark.parametrize(
    ("query", "seq", "prefilling", "expected"),
    [
        ([1, 5], [6, 5], [False, True], False),  # the decode row has state, the prefill has none
        ([5, 5], [5, 6], [True, True], True),
        ([1], [6], [False], False),
    ],
)
def test_initial_states_are_prepared_if_any_prefill_has_one(
    query: list[int], seq: list[int], prefilling: list[bool], expected: bool
) -> None:
    builder = Setup(chunk_size=4).builder(cls=Mamba2AttentionMetadataBuilder)
    metadata = builder.build(0, batch(query, seq, prefilling))
    assert metadata.prep_initial_states is expected


def test_mamba2_without_prefills_has_no_chunks() -> None:
    metadata = (
        Setup(chunk_size=4).builder(cls=Mamba2AttentionMetadataBuilder).build(0, batch([1], [6]))
    )
    assert [getattr(metadata, name) for name in CHUNK_FIELDS] == [None] * 3
    assert metadata.chunk_size == 4


@pytest.mark.parametrize("chunk_size", [None, 0])
def test_mamba2_without_a_chunk_size_is_an_error(chunk_size: int | None) -> None:
    with pytest.raises(ValueError, match=r"needs model_config\.chunk_size"):
        Setup(chunk_size=chunk_size).builder(cls=Mamba2AttentionMetadataBuilder)


def test_mamba2_takes_the_keyword_inputs(device: str) -> None:
    setup = Setup(mode="all", block_size=4, num_spec=2, chunk_size=4)
    metadata = setup.builder(device, Mamba2AttentionMetadataBuilder).build(
        0,
        batch([3, 3], [6, 9], [False, True], device=device),
        num_accepted_tokens=int32([2, 1], device),
        prev_last_scheduled_idx=int32([3, -1], device),
        num_decode_draft_tokens_cpu=int32([2, 2]),
    )
    assert metadata.num_decodes == 2
    assert metadata.num_accepted_tokens.tolist() == [2, 1]
    assert metadata.block_idx_last_scheduled_token_prev_step.tolist() == [3, 1]


def test_the_base_builder_cuts_no_chunks() -> None:
    metadata = Setup(mode="all", chunk_size=4).builder().build(0, mixed())
    assert type(metadata) is BaseMambaAttentionMetadata
    assert [getattr(metadata, name) for name in CHUNK_FIELDS] == [None] * 3


def test_mamba1_cuts_by_the_block_in_all_mode(device: str) -> None:
    builder = Setup(mode="all", block_size=4).builder(device, Mamba1AttentionMetadataBuilder)
    metadata = builder.build(0, mixed(device))
    assert metadata.cu_chunk_seqlen_p.tolist() == [0, 4, 5, 6, 9]
    assert metadata.seq_idx_p.tolist() == [0, 0, 1, 1]
    assert metadata.last_chunk_indices_p.tolist() == [1, 3]
    without_prefills = builder.build(0, batch([1], [6], device=device))
    assert without_prefills.cu_chunk_seqlen_p is None


@pytest.mark.parametrize("mode", ["none", "align"])
def test_mamba1_cuts_no_chunks_elsewhere(mode: CacheMode) -> None:
    metadata = (
        Setup(mode=mode, chunk_size=4).builder(cls=Mamba1AttentionMetadataBuilder).build(0, mixed())
    )
    assert [getattr(metadata, name) for name in CHUNK_FIELDS] == [None] * 3


def test_mamba1_takes_no_keyword_inputs() -> None:
    builder = Setup().builder(cls=Mamba1AttentionMetadataBuilder)
    with pytest.raises(TypeError, match="num_accepted_tokens"):
        builder.build(0, batch([1], [6]), num_accepted_tokens=int32([1]))


def test_chunks_come_from_the_cpu_lengths(device: str) -> None:
    """Device: c = 0, aligned. CPU: c = 3, so a first chunk of one token."""
    common = batch([5], [5], [True], device=device, seq_lens_cpu_upper_bound=int32([8]))
    builder = Setup(chunk_size=4).builder(device, Mamba2AttentionMetadataBuilder)
    assert builder.build(0, common).cu_chunk_seqlen_p.tolist() == [0, 1, 5]
