"""Section 4.2: which rows are decodes."""

from __future__ import annotations

import pytest

from mambaviz.attention import explain_split, split_decodes_and_prefills
from mambaviz.attention.split import RowRule
from tests.attention.batches import Setup, batch, counts, int32

DRAFTS = Setup(num_spec=2)


def test_decodes_then_prefills() -> None:
    common = batch([1, 1, 5, 7], [9, 4, 5, 11], [False, False, True, True])
    assert counts(Setup().builder().build(0, common)) == (2, 2, 2, 12)


def test_without_prefills_all_rows_and_tokens_are_decodes() -> None:
    assert counts(Setup().builder().build(0, batch([1, 1], [9, 4]))) == (2, 0, 2, 0)


def test_padding_rows_count_as_decodes_but_not_as_tokens() -> None:
    assert counts(Setup().builder().build(0, batch([1, 0, 0], [9, 0, 0]))) == (3, 0, 1, 0)


def test_without_prefills_the_actual_tokens_count_not_the_offsets() -> None:
    common = batch([1, 1], [9, 4], num_actual_tokens=1)
    assert counts(Setup().builder().build(0, common)) == (2, 0, 1, 0)


def test_prefill_tokens_are_the_rest_of_the_actual_tokens() -> None:
    common = batch([1, 5], [9, 5], [False, True], num_actual_tokens=5)
    assert counts(Setup().builder().build(0, common)) == (1, 1, 1, 4)


@pytest.mark.parametrize(
    ("setup", "threshold"),
    [
        (Setup(), 1),
        (Setup(num_spec=2), 3),
        (Setup(num_spec=2, parallel_drafting=True), 5),
    ],
)
def test_reorder_batch_threshold(setup: Setup, threshold: int) -> None:
    assert setup.builder().reorder_batch_threshold == threshold
    common = batch([threshold, threshold + 1], [20, 20], columns=20)
    accepted = int32([1, 1])
    split = counts(setup.builder().build(0, common, num_accepted_tokens=accepted))
    assert split == (1, 1, threshold, threshold + 1)


def test_without_accepted_counts_only_one_token_is_a_decode() -> None:
    common = batch([3, 3], [9, 9])
    builder = DRAFTS.builder()
    assert counts(builder.build(0, common)) == (0, 2, 0, 6)
    assert counts(builder.build(0, common, num_accepted_tokens=int32([1, 1]))) == (2, 0, 6, 0)


def test_first_row_above_the_threshold_leaves_no_decodes() -> None:
    assert counts(Setup().builder().build(0, batch([2, 1, 1], [9, 9, 9]))) == (0, 3, 0, 4)


def test_one_token_extend_with_state_is_a_decode() -> None:
    assert counts(Setup().builder().build(0, batch([1], [5], [True]))) == (1, 0, 1, 0)


def test_one_token_first_chunk_is_a_prefill() -> None:
    assert counts(Setup().builder().build(0, batch([1], [1], [True]))) == (0, 1, 0, 1)


def test_first_chunk_of_a_padded_tail_is_a_prefill_too() -> None:
    metadata = DRAFTS.builder().build(
        0,
        batch([3], [3], [True]),
        num_accepted_tokens=int32([1]),
        num_decode_draft_tokens_cpu=int32([2]),
    )
    assert counts(metadata) == (0, 1, 0, 3)


def test_a_short_extend_within_the_threshold_is_still_a_prefill() -> None:
    metadata = DRAFTS.builder().build(0, batch([2], [9], [True]), num_accepted_tokens=int32([1]))
    assert counts(metadata) == (0, 1, 0, 2)


@pytest.mark.parametrize(
    ("query", "drafts", "decodes"),
    [
        (3, 2, 1),  # one prompt token, two placeholders
        (2, 1, 1),
        (3, 1, 0),  # more than the drafts explain: two prompt tokens
        (2, 2, 0),
        (3, -1, 0),  # no draft row
        (1, 0, 1),
    ],
)
def test_padded_prompt_tail(query: int, drafts: int, decodes: int) -> None:
    metadata = DRAFTS.builder().build(
        0,
        batch([query], [9], [True]),
        num_accepted_tokens=int32([1]),
        num_decode_draft_tokens_cpu=int32([drafts]),
    )
    assert counts(metadata)[0] == decodes


def test_an_empty_query_is_no_tail_of_minus_one_drafts() -> None:
    """-1 + 1 = 0 tokens: only `drafts >= 0` keeps a prefilling row without tokens a prefill."""
    metadata = DRAFTS.builder().build(
        0,
        batch([1, 0], [9, 8], [False, True]),
        num_accepted_tokens=int32([1, 1]),
        num_decode_draft_tokens_cpu=int32([0, -1]),
    )
    assert counts(metadata) == (1, 1, 1, 0)


def test_the_threshold_wins_over_a_padded_tail() -> None:
    """Without accepted counts the threshold is 1, so three tokens are a prefill whatever else."""
    metadata = DRAFTS.builder().build(
        0, batch([3], [9], [True]), num_decode_draft_tokens_cpu=int32([2])
    )
    assert counts(metadata) == (0, 1, 0, 3)


def test_a_decode_behind_a_prefill_is_a_prefill() -> None:
    common = batch([1, 4, 1], [9, 9, 9], [False, True, False])
    assert counts(Setup().builder().build(0, common)) == (1, 2, 1, 5)


def test_state_is_judged_on_the_cpu_lengths(device: str) -> None:
    """The device says 1 of 1, the CPU 1 of 5: the row has state."""
    common = batch([1], [1], [True], device=device, seq_lens_cpu_upper_bound=int32([5]))
    assert counts(Setup().builder(device).build(0, common)) == (1, 0, 1, 0)


def test_query_lengths_are_judged_on_the_cpu_offsets(device: str) -> None:
    common = batch([1], [5], device=device, query_start_loc=int32([0, 2], device))
    assert counts(Setup().builder(device).build(0, common)) == (1, 0, 1, 0)


def test_an_empty_batch_has_nothing_on_either_side() -> None:
    assert counts(Setup().builder().build(0, batch([], []))) == (0, 0, 0, 0)


# The function on its own.


def test_short_extends_are_decodes_when_asked_for() -> None:
    common = batch([1, 2, 3, 4], [9, 2, 9, 9], [False, True, True, True])
    assert split_decodes_and_prefills(common, 3) == (3, 1, 6, 4)


def test_by_default_neither_flags_nor_state_are_needed() -> None:
    common = batch([1, 3], [9, 9], is_prefilling=None, seq_lens_cpu_upper_bound=None)
    assert split_decodes_and_prefills(common) == (1, 1, 1, 3)


def test_short_extends_are_prefills_when_not() -> None:
    common = batch([1, 1, 3], [9, 9, 9], [False, True, True])
    split = split_decodes_and_prefills(common, 3, treat_short_extends_as_decodes=False)
    assert split == (1, 2, 1, 4)


def test_uniform_decodes_are_as_long_as_the_first_row() -> None:
    common = batch([3, 3, 2, 3], [9, 9, 9, 9])
    assert split_decodes_and_prefills(common, 3) == (4, 0, 11, 0)
    assert split_decodes_and_prefills(common, 3, require_uniform=True) == (2, 2, 6, 5)


def test_uniform_decodes_may_be_padded() -> None:
    common = batch([3, 3, 0, 0], [9, 9, 0, 0])
    assert split_decodes_and_prefills(common, 3, require_uniform=True) == (4, 0, 6, 0)


def test_splitting_needs_the_flags_it_judges() -> None:
    common = batch([1], [9], is_prefilling=None)
    with pytest.raises(ValueError, match="is_prefilling is missing"):
        split_decodes_and_prefills(common, treat_short_extends_as_decodes=False)


# Why a row is what it is.


def test_every_rule_can_be_the_reason() -> None:
    common = batch(
        [1, 0, 1, 3, 2, 1, 4, 1],
        [9, 0, 9, 9, 9, 1, 9, 9],
        [False, False, True, True, True, True, False, False],
    )
    drafts = int32([0, -1, -1, 2, -1, -1, -1, -1])
    rows = explain_split(common, 3, drafts)
    assert [(row.row, row.rule, row.row_class) for row in rows] == [
        (0, RowRule.DECODING, "decode"),
        (1, RowRule.PADDING, "decode"),
        (2, RowRule.ONE_TOKEN_EXTEND, "decode"),
        (3, RowRule.PADDED_TAIL, "decode"),
        (4, RowRule.PREFILLING, "prefill"),
        (5, RowRule.FIRST_CHUNK, "prefill"),
        (6, RowRule.LONG_QUERY, "prefill"),
        (7, RowRule.BEHIND_A_PREFILL, "prefill"),
    ]
    assert {row.rule for row in rows} == set(RowRule)


def test_reasons_are_sentences_with_the_numbers_of_the_row() -> None:
    rows = explain_split(batch([3, 4, 1], [9, 9, 9], [True, False, False]), 3, int32([2, -1, -1]))
    assert rows[0].reason == "it prefills one token, padded with 2 placeholder drafts"
    assert rows[1].reason == "its query of 4 tokens is longer than the threshold of 3"
    assert rows[2].reason == "it stands behind row 1, which is a prefill"


def test_the_builder_explains_with_the_threshold_it_builds_with() -> None:
    builder, common = DRAFTS.builder(), batch([3, 1], [9, 9])
    for accepted in (None, int32([1, 1])):
        classes = [row.row_class for row in builder.explain_split(common, accepted)]
        assert classes.count("decode") == builder.build(0, common, accepted).num_decodes
