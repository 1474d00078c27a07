"""Public bug reports about metadata, on the builder itself: the right numbers, and the fault's.

Each test names its report. Where an engine would refuse the configuration, the builder is asked
all the same: what it answers is the lesson.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
    split_decodes_and_prefills,
)
from mambaviz.attention.replayssm import ring_steps
from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, counts, int32, table


def prefill(setup: Setup, computed: int, scheduled: int) -> Mamba2AttentionMetadata:
    """One prefill row through the Mamba-2 builder."""
    common = batch([scheduled], [computed + scheduled], [True], columns=setup.table_columns)
    return setup.builder(cls=Mamba2AttentionMetadataBuilder).build(0, common)


def chunk_ends(metadata: Mamba2AttentionMetadata, computed: list[int]) -> list[int]:
    """Tokens of its own sequence that each chunk ends at."""
    cu, owners = metadata.cu_chunk_seqlen_p.tolist(), metadata.seq_idx_p.tolist()
    starts = metadata.query_start_loc_p.tolist()
    return [
        computed[owner] + end - starts[owner] for owner, end in zip(owners, cu[1:], strict=True)
    ]


def columns(metadata: BaseMambaAttentionMetadata) -> tuple[list[int], list[int], list[int]]:
    """(last computed, first scheduled, last scheduled) column of the prefill rows."""
    return (
        metadata.block_idx_last_computed_token.tolist(),
        metadata.block_idx_first_scheduled_token_p.tolist(),
        metadata.block_idx_last_scheduled_token.tolist(),
    )


def test_s13_the_second_group_refreshes_every_captured_buffer() -> None:
    """https://github.com/vllm-project/vllm/pull/34874

    All mode, B = 4, A with 8 and B with 4 computed tokens. The fault left the second group's
    graph with the columns of the replay before: [1, 1], from seq_lens [8, 5].
    """
    setup = Setup(mode="all", block_size=4, max_seqs=2, full_graphs=True)
    group0, group1 = setup.builder(), setup.builder()
    width = setup.table_columns
    captured = group1.build_for_cudagraph_capture(batch([1, 1], [1, 1], columns=width))

    earlier = group0.build(0, batch([1, 1], [8, 5], columns=width))
    group1.update_block_table(earlier, table(2, width, first=100), None)
    assert captured.block_idx_last_scheduled_token.tolist() == [1, 1]  # what the fault kept

    metadata = group0.build(0, batch([1, 1], [9, 5], columns=width))
    group1.update_block_table(metadata, table(2, width, first=100), None)
    for group in (metadata, captured):
        assert group.block_idx_last_scheduled_token.tolist() == [2, 1]
        assert group.block_idx_last_computed_token.tolist() == [1, 0]
    addresses = (metadata, captured)
    assert len({group.block_idx_last_scheduled_token.data_ptr() for group in addresses}) == 2


S14 = {"query_lens": [1, 0, 0, 0], "seq_lens": [20, 0, 0, 0]}


@pytest.mark.parametrize(
    ("padding_rows", "state_indices"),
    [
        ([[0, 0], [0, 0], [0, 0]], [[4], [0], [0], [0]]),
        ([[7, 8], [9, 0], [0, 0]], [[4], [7], [9], [0]]),  # stale rows: blocks 7 and 9 get hit
    ],
)
def test_s14_padding_rows_are_decodes_so_their_table_rows_must_be_null(
    padding_rows: list[list[int]], state_indices: list[list[int]]
) -> None:
    """https://github.com/vllm-project/vllm/pull/37728

    B = 16, one live row of 20 tokens, three padding rows. The builder makes neutral only what
    stands behind `num_decodes` (4), so whoever pads the batch must hand over null rows. The
    report names both `none` and `align`; block 4 stands in column 1, so the numbers are align's.
    """
    setup = Setup(mode="align", block_size=16, max_seqs=4, full_graphs=True)
    common = batch(**S14, blocks=int32([[0, 4], *padding_rows]))
    metadata = setup.builder().build(0, common)
    assert counts(metadata) == (4, 0, 1, 0)
    assert metadata.state_indices_tensor_d.tolist() == state_indices


def test_s16_a_first_chunk_of_one_token_is_no_decode() -> None:
    """https://github.com/vllm-project/vllm/pull/32118

    B gets the one token left in the budget. As a decode it would start from the bytes that the
    last owner of its block left there.
    """
    setup = Setup(block_size=16, chunk_size=4)
    common = batch([1, 1], [12, 1], [False, True])
    metadata = setup.builder(cls=Mamba2AttentionMetadataBuilder).build(0, common)
    assert counts(metadata) == (1, 1, 1, 1)
    assert metadata.has_initial_states_p.tolist() == [False]
    assert metadata.cu_chunk_seqlen_p.tolist() == [0, 1]
    assert metadata.seq_idx_p.tolist() == [0]
    assert metadata.last_chunk_indices_p.tolist() == [0]
    assert split_decodes_and_prefills(common) == (2, 0, 2, 0)  # the shortcut


def test_s17_a_last_prompt_token_with_state_is_a_decode() -> None:
    """https://github.com/vllm-project/vllm/pull/42430

    9 of B's 10 prompt tokens came from elsewhere. The batch looks uniform, so a decode graph is
    replayed: the metadata must say decodes too.
    """
    common = batch([1, 1], [12, 10], [False, True])
    assert counts(Setup(block_size=16).builder().build(0, common)) == (2, 0, 2, 0)
    by_the_flag_alone = split_decodes_and_prefills(common, treat_short_extends_as_decodes=False)
    assert by_the_flag_alone == (1, 1, 1, 1)


def ends_picked_by_stride(
    metadata: Mamba2AttentionMetadata, block_size: int, chunk_size: int
) -> list[int]:
    """Tokens in the states of a kernel that takes every (B // chunk)-th chunk for a boundary."""
    stride = block_size // chunk_size
    boundaries = metadata.block_idx_last_scheduled_token.item()
    ends = chunk_ends(metadata, [0])
    return [ends[(column + 1) * stride - 1] for column in range(boundaries)]


def test_s20_blocks_must_be_multiples_of_the_chunk() -> None:
    """https://github.com/vllm-project/vllm/issues/57266

    14 tokens in chunks of 4. With blocks of 8 the boundary is a chunk end; with blocks of 6 no
    state after 6 tokens exists, and counting chunks stores h(4) and h(8) for h(6) and h(12).
    """
    good = prefill(Setup(mode="all", block_size=8, chunk_size=4), 0, 14)
    assert good.cu_chunk_seqlen_p.tolist() == [0, 4, 8, 12, 14]
    assert good.seq_idx_p.tolist() == [0, 0, 0, 0]
    assert good.last_chunk_indices_p.tolist() == [3]
    assert columns(good) == ([0], [0], [1])
    assert ends_picked_by_stride(good, 8, 4) == [8]
    assert chunk_ends(good, [0])[good.last_chunk_indices_p.item()] == 14

    bad = prefill(Setup(mode="all", block_size=6, chunk_size=4), 0, 14)
    assert columns(bad) == ([0], [0], [2])
    assert ends_picked_by_stride(bad, 6, 4) == [4, 8]
    assert 6 not in chunk_ends(bad, [0])


def test_s21_a_continuation_first_completes_the_open_block() -> None:
    """https://github.com/vllm-project/vllm/pull/34798

    7 tokens, then 6 more, in blocks of 8: the second chunk of the prompt starts with one token,
    so that h(8) exists. On a grid of its own it would leave h(7) in a block hashed as 8 tokens.
    """
    setup = Setup(mode="all", block_size=8, chunk_size=4)
    assert chunk_ends(prefill(setup, 0, 7), [0]) == [4, 7]
    metadata = prefill(setup, 7, 6)
    assert metadata.cu_chunk_seqlen_p.tolist() == [0, 1, 5, 6]
    assert metadata.seq_idx_p.tolist() == [0, 0, 0]
    assert metadata.last_chunk_indices_p.tolist() == [2]
    assert chunk_ends(metadata, [7]) == [8, 12, 13]
    assert columns(metadata) == ([0], [0], [1])
    assert metadata.num_state_writes_p == 1


def test_s22_a_short_chunk_after_a_hit_reads_one_column_and_writes_another() -> None:
    """https://github.com/vllm-project/vllm/pull/56196

    8 tokens from a shared block, 2 new ones: fewer than the window of 3, so it must be pieced
    together from column 0 and written to column 1. The bytes are the forward's matter.
    """
    metadata = prefill(Setup(mode="all", block_size=8, chunk_size=4), 8, 2)
    assert columns(metadata) == ([0], [1], [1])
    assert metadata.num_state_writes_p == 0


S24_COMPUTED = [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("mode", "write_pos", "is_flush"),
    [
        ("align", [0, 1, 0, 1, 2, 3], [0, 1, 0, 0, 0, 1]),
        ("none", [0, 1, 2, 3, 0, 1], [0, 0, 0, 1, 0, 0]),
    ],
)
def test_s24_ring_position_and_flush(
    mode: CacheMode, write_pos: list[int], is_flush: list[int]
) -> None:
    """https://github.com/vllm-project/vllm/pull/48018

    A prompt of 6, a ring of 4, blocks of 8, one step after the other. "Preempted at 11" must mean
    11 tokens known: its replay writes h(11), and the next step starts a new ring.
    """
    builder = Setup(mode=mode, block_size=8, replayssm=True, ring_len=4).builder()

    def step(computed: int, base: int) -> tuple[int, int]:
        common = batch([1], [computed + 1], decode_base=[base])
        metadata = builder.build(0, common)
        return metadata.write_pos_d.item(), metadata.is_flush_d.item()

    steps = [step(computed, base=6) for computed in S24_COMPUTED]
    assert steps == list(zip(write_pos, is_flush, strict=True))
    assert step(9, base=10) == (0, 1)  # a leftover prompt token
    assert step(11, base=11) == (0, 0)  # resumed


def test_s24_without_the_anchor_at_the_block_start() -> None:
    """https://github.com/vllm-project/vllm/pull/48018

    The fault at 8 computed tokens: two entries of a ring that the new block never filled, and
    the step before stored no h(8).
    """
    computed = np.array(S24_COMPUTED)
    ones = np.ones_like(computed)
    unaware: Any = ring_steps(computed, ones, 6 * ones, ring_len=4, align_block_size=None)
    aware: Any = ring_steps(computed, ones, 6 * ones, ring_len=4, align_block_size=8)
    at_8, at_7 = 2, 1
    assert (unaware.steps[at_8], unaware.write_pos[at_8], unaware.is_flush[at_8]) == (2, 2, False)
    assert (aware.anchor[at_8], aware.steps[at_8], aware.write_pos[at_8]) == (8, 0, 0)
    assert (unaware.is_flush[at_7], aware.is_flush[at_7]) == (False, True)


@pytest.mark.parametrize(("mode", "state_writes"), [("all", 1), ("align", 0)])
def test_s36_chunks_and_conv_programs_of_a_mixed_batch(mode: CacheMode, state_writes: int) -> None:
    """https://github.com/vllm-project/vllm/pull/24683

    A starts with 5 tokens, B continues after 6 with 9; chunks of 4. A fixed grid over the flat
    tokens would mix A and B in one chunk and miss B's boundaries at 8 and 12.
    """
    setup = Setup(mode=mode, block_size=8, chunk_size=4)
    metadata = setup.builder(cls=Mamba2AttentionMetadataBuilder).build(
        0, batch([5, 9], [5, 15], [True, True])
    )
    assert metadata.query_start_loc_p.tolist() == [0, 5, 14]
    assert metadata.cu_chunk_seqlen_p.tolist() == [0, 4, 5, 7, 11, 14]
    assert metadata.seq_idx_p.tolist() == [0, 0, 1, 1, 1]
    assert metadata.last_chunk_indices_p.tolist() == [1, 4]
    assert chunk_ends(metadata, [0, 6]) == [4, 5, 8, 12, 15]
    assert metadata.has_initial_states_p.tolist() == [False, True]
    assert metadata.num_state_writes_p == state_writes

    programs = metadata.nums_dict[8]
    assert programs["nums"].tolist() == [1, 2]
    assert programs["tot"] == 3
    assert programs["mlist"].tolist() == [0, 1, 1]
    assert programs["offsetlist"].tolist() == [0, 0, 1]
    for pointer in (metadata.batch_ptr, metadata.token_chunk_offset_ptr):
        assert len(pointer) == 2048
        assert (pointer[3:] == -1).all()

    naive = [0, 4, 8, 12, 14]
    assert any(start < 5 < end for start, end in pairwise(naive))
    in_b = [6 + end - 5 for end in naive if end > 5]
    assert not {8, 12} & set(in_b)
