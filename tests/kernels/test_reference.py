"""Decisions and plans, value by value; and the other back end against the twin on random input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import kernels
from kernels.reference import (
    CopyPlan,
    Outcome,
    PostprocessDecision,
    StateGeometry,
    decide_postprocess,
    decide_postprocess_advanced,
    decide_precopy,
    decide_preprocess,
    plan_copy,
)
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    ints,
    launch_postprocess,
    launch_precopy,
)

SD = StateGeometry(1000, 100, 2, 3, conv_width=5, group=0)
DS = StateGeometry(1000, 100, 2, 1, conv_width=5, group=1, dim_row_count=3, dim_row_stride=10)
TEMPORAL = StateGeometry(1000, 100, 4, 8, conv_width=0, group=0)


@pytest.mark.parametrize(
    ("computed", "scheduled", "drafts", "accepted", "column", "outcome", "derived", "count"),
    [
        # derived: running, new, aligned, bias, dst_col; block size 4
        (5, 3, 2, 1, 1, Outcome.NO_BOUNDARY, (6, 6, 4, None, None), 1),
        (5, 3, 2, 3, 1, Outcome.COPIED, (6, 8, 8, 2, 1), 1),
        (6, 3, 2, 3, 1, Outcome.COPIED, (7, 9, 8, 1, 1), 1),
        (7, 3, 2, 3, 1, Outcome.NO_SHIFT, (8, 10, 8, 0, 1), 1),
        (7, 3, 2, 2, 2, Outcome.COPIED, (8, 9, 8, 0, 1), 2),
        (0, 8, 0, 1, 1, Outcome.NO_SHIFT, (8, 8, 8, 0, 1), 1),
        (0, 7, 0, 1, 1, Outcome.NO_BOUNDARY, (7, 7, 4, None, None), 1),
    ],
)
def test_decision_after_acceptance(
    computed: int,
    scheduled: int,
    drafts: int,
    accepted: int,
    column: int,
    outcome: Outcome,
    derived: tuple[int, int, int, int | None, int | None],
    count: int,
) -> None:
    v1 = decide_postprocess(2, accepted, column, computed, scheduled, drafts, block_size=4)
    assert v1.outcome is outcome
    assert (v1.running, v1.new, v1.aligned, v1.bias, v1.dst_col) == derived
    assert (v1.slot, v1.src_col, v1.accepted_out) == (2, column, count)
    assert (v1.computed, v1.scheduled, v1.drafts) == (computed, scheduled, drafts)
    assert v1.resets_count == (derived[4] == column)

    assert v1.new is not None
    v2 = decide_postprocess_advanced(2, accepted, column, v1.new, block_size=4)
    assert (v2.computed, v2.scheduled, v2.drafts) == (None, None, None)
    assert (v2.outcome, v2.running, v2.bias, v2.dst_col) == (outcome, v1.running, *derived[3:])


def test_negative_slots_decide_nothing() -> None:
    nothing = PostprocessDecision(-1, Outcome.NEGATIVE_SLOT)
    assert decide_postprocess(-1, 1, 0, 4, 1, 0, block_size=4) == nothing
    assert decide_postprocess_advanced(-1, 1, 0, 4, block_size=4) == nothing
    assert not nothing.resets_count
    assert decide_precopy(-1, 0, 1, 0).outcome is Outcome.NEGATIVE_SLOT
    assert decide_preprocess(-1, 0, 4, 1, 1, block_size=4).outcome is Outcome.NEGATIVE_SLOT


@pytest.mark.parametrize(
    ("state_idx", "outcome", "count"),
    [
        (-1, Outcome.FRESH, 3),
        (0, Outcome.COLUMN_CHANGED, 1),
        (1, Outcome.COLUMN_KEPT, 3),
    ],
)
def test_decision_on_the_running_column(state_idx: int, outcome: Outcome, count: int) -> None:
    decision = decide_preprocess(0, state_idx, 4, 3, 3, block_size=4)
    assert (decision.outcome, decision.accepted_out) == (outcome, count)
    assert (decision.src_col, decision.src_off, decision.dst_col) == (state_idx, 2, 1)


@pytest.mark.parametrize(
    ("src", "dst", "outcome"),
    [(-1, 0, Outcome.FRESH), (1, 1, Outcome.SAME_COLUMN), (0, 1, Outcome.COPIED)],
)
def test_decision_on_the_precopy(src: int, dst: int, outcome: Outcome) -> None:
    decision = decide_precopy(3, src, dst, 2)
    assert (decision.slot, decision.src_col, decision.dst_col, decision.bias) == (3, src, dst, 2)
    assert decision.outcome is outcome


def test_plan_of_a_conv_state() -> None:
    sd = plan_copy(0, SD, [7, 8, 9], 0, 2, 2, conv_state_dim_first=False)
    assert (sd.src_block, sd.dst_block, sd.src_col, sd.skipped) == (7, 9, 0, None)
    assert list(sd.ranges()) == [(1000 + 700 + 12, 1000 + 900, 18)]  # 3 of 5 rows of 6 bytes
    ds = plan_copy(1, DS, [7, 8, 9], 0, 2, 2, conv_state_dim_first=True)
    assert list(ds.ranges()) == [(1704 + 10 * row, 1900 + 10 * row, 6) for row in range(3)]
    assert sd.num_bytes == ds.num_bytes == 18
    assert (sd.group, ds.group) == (0, 1)


def test_plan_of_a_temporal_state() -> None:
    plan = plan_copy(2, TEMPORAL, [7, 8, 9], 0, 2, 1, conv_state_dim_first=True)
    assert (plan.src_col, plan.src_block, plan.is_conv) == (1, 8, False)
    assert list(plan.ranges()) == [(1800, 1900, 32)]


def test_plan_wraps_an_address_stored_as_a_negative_number() -> None:
    high = StateGeometry(-(2**62), 100, 4, 8, conv_width=0, group=0)
    plan = plan_copy(0, high, [1, 2], 0, 1, 0, conv_state_dim_first=False)
    assert plan.src_addr == 2**64 - 2**62 + 100


@pytest.mark.parametrize(
    ("row", "src", "dst", "bias", "num_blocks", "reason"),
    [
        ([7, 8], 2, 0, 0, 0, "source column 2 is outside the row of 2 columns"),
        ([7, 8], 0, -1, 0, 0, "destination column -1 is outside the row of 2 columns"),
        ([0, 8], 0, 1, 0, 0, "source column 0 holds the null block"),
        ([7, -3], 0, 1, 0, 0, "destination column 1 holds the negative id -3"),
        ([7, 8], 0, 1, 0, 8, "destination column 1 holds id 8, but there are 8 blocks"),
        ([7, 8], 0, 1, -1, 0, "the bias -1 is negative"),
        ([7, 8], 0, 1, 5, 0, "nothing is left of 5 token rows after a shift by 5"),
    ],
)
def test_plan_says_why_there_is_no_copy(
    row: list[int], src: int, dst: int, bias: int, num_blocks: int, reason: str
) -> None:
    plan = plan_copy(0, SD, row, src, dst, bias, False, num_blocks)
    assert plan.skipped == reason
    assert plan.num_bytes == 0
    assert list(plan.ranges()) == []


def test_plan_judges_conv_and_temporal_by_the_columns_they_read() -> None:
    plans: list[CopyPlan] = [
        plan_copy(0, geometry, [7, 8], 1, 0, 1, conv_state_dim_first=False)
        for geometry in (SD, TEMPORAL)
    ]
    assert plans[0].skipped is None
    assert plans[1].skipped == "source column 2 is outside the row of 2 columns"


# ----------------------------------------------------------------------- against the other one

OTHER = pytest.mark.skipif(
    kernels.BACKEND == "reference", reason="this process has no back end beside the reference"
)
NUM_BLOCKS = 6
block_ids = st.integers(-1, NUM_BLOCKS + 1)  # null, foreign and repeated ids among them


@st.composite
def memories(draw: st.DrawFn) -> tuple[StateMemory, StateMemory]:
    """The same random states twice: for the reference, and for the process's own back end."""
    dtypes = st.sampled_from([torch.int8, torch.float16, torch.float32])
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    specs = [
        StateSpec("conv", shape, draw(dtypes), conv=True),
        StateSpec("temporal", (draw(st.integers(1, 9)),), draw(dtypes), conv=False),
    ]
    layout = {
        "dim_first": draw(st.booleans()),
        "page_padding": draw(st.integers(0, 5)),
        "misalign": draw(st.integers(0, 3)),
    }
    twin, own = (
        StateMemory(specs, NUM_BLOCKS, device_of(kernels.kernel_set(backend)), **layout)
        for backend in ("reference", kernels.BACKEND)
    )
    return twin, own


def assert_same_bytes(twin: StateMemory, own: StateMemory) -> None:
    for k in range(len(twin.specs)):
        assert np.array_equal(twin.bytes(k), own.bytes(k)), twin.specs[k].name


@OTHER
@given(pair=memories(), data=st.data())
@hypothesis_settings(max_examples=40)
def test_precopy_as_the_twin(pair: tuple[StateMemory, StateMemory], data: st.DataObject) -> None:
    columns = st.integers(-1, 4)
    row = data.draw(st.lists(block_ids, min_size=1, max_size=4))
    src, dst, bias = data.draw(columns), data.draw(columns), data.draw(st.integers(-1, 5))
    tiles, block = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([4, 64]))
    for memory, backend in zip(pair, ("reference", kernels.BACKEND), strict=True):
        launch_precopy(
            kernels.kernel_set(backend),
            memory,
            Tables.of([[row]], memory.device),
            [src],
            [dst],
            [bias],
            num_blocks=NUM_BLOCKS,
            tiles=tiles,
            block=block,
        )
    assert_same_bytes(*pair)


@OTHER
@given(pair=memories(), data=st.data())
@hypothesis_settings(max_examples=40)
def test_postprocess_as_the_twin(
    pair: tuple[StateMemory, StateMemory], data: st.DataObject
) -> None:
    row = data.draw(st.lists(block_ids, min_size=2, max_size=5))
    block_size = data.draw(st.integers(1, 4))
    drafts = data.draw(st.integers(0, 4))
    accepted = data.draw(st.integers(1, 1 + drafts))
    computed = data.draw(st.integers(0, 12))
    scheduled = drafts + data.draw(st.integers(1, 5))
    column = data.draw(st.integers(-1, 5))
    advanced = data.draw(st.booleans())
    new = computed + scheduled - drafts + accepted - 1
    counts_after = []
    for memory, backend in zip(pair, ("reference", kernels.BACKEND), strict=True):
        counts = ints([accepted], memory.device)
        launch_postprocess(
            kernels.kernel_set(backend),
            memory,
            Tables.of([[row]], memory.device),
            counts.clone(),
            counts,
            [column],
            [new if advanced else computed],
            None if advanced else [scheduled],
            None if advanced else [drafts],
            block_size=block_size,
            num_blocks=NUM_BLOCKS,
        )
        counts_after.append(counts.tolist())
    assert counts_after[0] == counts_after[1]
    assert_same_bytes(*pair)
