"""Section 4.6: the columns read and written in all mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.attention.batches import Setup, batch, int32

ALL = Setup(mode="all", block_size=4)


def build(setup: Setup, computed: list[int], query: list[int], device: str = "cpu", **kw: Any):
    common = batch(
        query,
        [c + q for c, q in zip(computed, query, strict=True)],
        [q > 1 for q in query],
        device=device,
    )
    return setup.builder(device).build(0, common, **kw)


@pytest.mark.parametrize(
    ("computed", "query", "last_computed", "first_scheduled", "last_scheduled"),
    [
        (0, 3, 0, 0, 0),
        (0, 4, 0, 0, 0),
        (0, 5, 0, 0, 1),
        (3, 2, 0, 0, 1),
        (4, 2, 0, 1, 1),  # the next token opens column 1, the state is read from column 0
        (5, 2, 1, 1, 1),
        (8, 9, 1, 2, 4),
    ],
)
def test_columns_of_a_prefill(
    computed: int,
    query: int,
    last_computed: int,
    first_scheduled: int,
    last_scheduled: int,
    device: str,
) -> None:
    metadata = build(ALL, [computed], [query], device)
    assert metadata.block_idx_last_computed_token.tolist() == [last_computed]
    assert metadata.block_idx_first_scheduled_token_p.tolist() == [first_scheduled]
    assert metadata.block_idx_last_scheduled_token.tolist() == [last_scheduled]
    assert metadata.num_computed_tokens_p.tolist() == [computed]
    for name in (
        "block_idx_last_computed_token",
        "block_idx_first_scheduled_token_p",
        "block_idx_last_scheduled_token",
        "num_computed_tokens_p",
    ):
        assert getattr(metadata, name).dtype == torch.int32


def test_only_the_p_fields_are_cut_to_the_prefill_rows() -> None:
    metadata = build(ALL, [4, 9, 0], [1, 3, 6])
    assert metadata.num_decodes == 1
    assert metadata.block_idx_last_computed_token.tolist() == [0, 2, 0]
    assert metadata.block_idx_last_scheduled_token.tolist() == [1, 2, 1]
    assert metadata.block_idx_first_scheduled_token_p.tolist() == [2, 0]
    assert metadata.num_computed_tokens_p.tolist() == [9, 0]


def test_padding_rows_get_column_zero() -> None:
    metadata = ALL.builder().build(0, batch([1, 0], [9, 0]))
    assert metadata.block_idx_last_computed_token.tolist() == [1, 0]
    assert metadata.block_idx_last_scheduled_token.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("computed", "query", "writes"),
    [(0, 3, 0), (0, 4, 0), (0, 5, 1), (3, 2, 1), (4, 2, 0), (3, 10, 3), (8, 9, 2)],
)
def test_state_writes(computed: int, query: int, writes: int) -> None:
    assert build(ALL, [computed], [query]).num_state_writes_p == writes


def test_state_writes_add_up_over_prefills_alone() -> None:
    # The decode row crosses a boundary too (3 -> 5 would be a write) but is no prefill.
    setup = Setup(mode="all", block_size=4, num_spec=1)
    common = batch([2, 5, 9], [5, 5, 17], [False, True, True])
    metadata = setup.builder().build(0, common, num_accepted_tokens=int32([1, 1, 1]))
    assert metadata.num_decodes == 1
    assert metadata.num_state_writes_p == 1 + 2


def test_a_row_that_ends_at_its_start_takes_no_write_away() -> None:
    # c = s = 4: cdiv(4, 4) - 8//4 = -1 must not cancel the other row's write.
    common = batch([0, 5], [4, 5], [True, True])
    assert ALL.builder().build(0, common).num_state_writes_p == 1


def test_state_writes_come_from_the_cpu_lengths(device: str) -> None:
    """Device: c = 0, s = 6, one write. CPU: c = 3, s = 9, two."""
    common = batch([6], [6], [True], device=device)
    assert ALL.builder(device).build(0, common).num_state_writes_p == 1
    common = common.replace(seq_lens_cpu_upper_bound=int32([9]))
    assert ALL.builder(device).build(0, common).num_state_writes_p == 2


def test_outside_all_mode_there_are_no_columns() -> None:
    for mode in ("none", "align"):
        metadata = Setup(mode=mode).builder().build(0, batch([1, 5], [6, 5], [False, True]))
        assert metadata.num_state_writes_p == 0
        for name in (
            "block_idx_last_computed_token",
            "block_idx_first_scheduled_token_p",
            "block_idx_last_scheduled_token",
            "block_idx_last_scheduled_token_prev_step",
            "num_computed_tokens_p",
        ):
            assert getattr(metadata, name) is None


def test_without_prefills_the_p_fields_are_none() -> None:
    metadata = ALL.builder().build(0, batch([1], [6]))
    assert metadata.block_idx_first_scheduled_token_p is None
    assert metadata.num_computed_tokens_p is None
    assert metadata.num_state_writes_p == 0


@pytest.mark.parametrize(
    ("recorded", "computed", "expected"),
    [(2, 5, 2), (0, 9, 0), (-1, 0, 0), (-1, 4, 0), (-1, 5, 1), (-1, 8, 1), (-1, 9, 2)],
)
def test_column_of_the_previous_step(
    recorded: int, computed: int, expected: int, device: str
) -> None:
    metadata = build(
        Setup(mode="all", block_size=4, num_spec=2),
        [computed],
        [1],
        device,
        num_accepted_tokens=int32([1], device),
        prev_last_scheduled_idx=int32([recorded], device),
    )
    assert metadata.block_idx_last_scheduled_token_prev_step.tolist() == [expected]


def test_the_previous_step_needs_drafts_and_a_record() -> None:
    with_record = build(ALL, [5], [1], prev_last_scheduled_idx=int32([2]))
    assert with_record.block_idx_last_scheduled_token_prev_step is None
    drafts = Setup(mode="all", num_spec=2)
    without = build(drafts, [5], [1], num_accepted_tokens=int32([1]))
    assert without.block_idx_last_scheduled_token_prev_step is None


def test_the_previous_step_is_kept_for_all_rows() -> None:
    setup = Setup(mode="all", num_spec=2)
    metadata = build(
        setup,
        [5, 0],
        [1, 6],
        num_accepted_tokens=int32([1, 1]),
        prev_last_scheduled_idx=int32([2, -1]),
    )
    assert metadata.num_decodes == 1
    assert metadata.block_idx_last_scheduled_token_prev_step.tolist() == [2, 0]
