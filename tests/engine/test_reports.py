"""Public bug reports about moving state: the right numbers in the real engine, and the fault's.

Each test names its report. Where a report's prompt would be cut at a block boundary first, the
draft model drops the last matched block (`ONE_CHUNK`), as EAGLE and MTP do: a prompt of less than
two blocks is then computed in one chunk, and the steps are the report's own. Block ids are ours.

The fault is shown by what the code was fed, or by a stand-in for the code that had it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import kernels.reference
import mambaviz.worker.v1
from kernels import kernel_set
from kernels.reference import (
    CopyPlan,
    Outcome,
    decide_postprocess_advanced,
    plan_copy,
    read_geometries,
)
from mambaviz.scenario import Scenario
from mambaviz.trace import PhaseName, tokens_absorbed, window_rows
from mambaviz.worker import (
    MambaCopySpec,
    StateMove,
    get_conv_copy_spec,
    get_temporal_copy_spec,
    preprocess_mamba,
)
from tests.attention.batches import Setup, batch
from tests.engine.reports import ONE_CHUNK, Play, Post, Pre, broken, is_sound, scenario
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    backends,
    device_of,
    ints,
    launch_postprocess,
    launch_precopy,
)
from tests.worker.world import WITH_PREFIX_CACHE, SchedulerOutput, World, schedule

RUNNERS = pytest.mark.parametrize("runner", ["v1", "v2"])
LAYOUTS = pytest.mark.parametrize("layout", ["SD", "DS"])
BACKENDS = pytest.mark.parametrize("backend", backends())

CONV = StateSpec("conv", (6, 3), torch.float16, conv=True)
TEMPORAL = StateSpec("temporal", (2, 4), torch.float32, conv=False)


def preprocess(
    world: World, output: SchedulerOutput, fused: bool = False
) -> tuple[list[StateMove], list[str]]:
    """`preprocess_mamba` in a small world: its decisions, and why copies of its list were skipped.

    With ``fused`` there is no list; the kernel's own guards say nothing.
    """
    bufs = world.copy_bufs()
    moves = preprocess_mamba(
        output,
        world.config,
        WITH_PREFIX_CACHE,
        world.state_idx,
        world.batch,
        world.requests,
        world.forward_context,
        world.copy_funcs,
        bufs,
        world.context() if fused else None,
    )
    return moves, [skip.reason for skip in bufs.skipped]


# ------------------------------------------------------------------------------ S01


S01 = scenario(
    {"id": "A", "prompt_len": 14, "max_tokens": 4},
    events=[{"step": 3, "kind": "reset_running"}],
    num_spec=0,
    prefill_chunk_limit=8,
)


def test_s01_a_resumed_request_has_no_running_column_any_more() -> None:
    """https://github.com/vllm-project/vllm/pull/35157

    B = 4, a prompt of 14. The report computes it in one step; ours takes 8, 4 and 2 (a chunk
    limit, and the stop at 12), so that the resumption in step 3 gets the report's 8 tokens.
    """
    play = Play(S01).run(4)
    assert play.v1.mamba_state_idx == {"A": 1}
    play.run()
    assert (play.pre(2, "A").curr, play.pre(2, "A").num_blocks) == (3, 4)
    assert play.columns[3] == {"A": 3}  # before the cleanup of step 3
    assert play.pre(3, "A") == Pre(prev=-1, curr=1, num_blocks=2, accepted_after=1)
    assert play.copies(3, "pre-copy", "A") == []
    assert is_sound(play.trace)


def test_s01_the_stale_column_asks_for_a_copy_from_outside_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """https://github.com/vllm-project/vllm/pull/35157

    Without resumed requests in the cleanup. The report's engine knew this preemption by the
    resumption only; ours announces both, so the stand-in forgets neither.
    """

    def forget_finished(output: SchedulerOutput, state_idx: dict[str, int]) -> None:
        for name in output.finished_req_ids:
            state_idx.pop(name, None)

    monkeypatch.setattr(mambaviz.worker.v1, "cleanup_mamba_state_idx", forget_finished)
    play = Play(S01).run()
    stale = play.pre(3, "A")
    assert (stale.prev, stale.curr, stale.num_blocks, stale.bias) == (3, 1, 2, 0)
    assert stale.accepted_after == 1
    assert {(c.src_col, c.dst_col) for c in play.copies(3, "pre-copy", "A")} == {(3, 1)}
    assert (stale.conv, stale.temporal) == (None, None)  # stopped by the guard of the copy list
    assert broken(play.trace) == {("I7", 3)}  # no such column in the row of 2

    for fused in (False, True):
        world = World({"A": [[7, 8]]})
        world.state_idx["A"] = 3
        before = world.snapshot()
        moves, reasons = preprocess(world, schedule(A=8), fused)
        assert moves == [StateMove("A", 3, 1, 0)]
        assert reasons == ["column 3 lies outside the row's 2 columns"] * (0 if fused else 2)
        assert world.snapshot() == before
    with pytest.raises(IndexError):  # what the report's engine died of
        get_temporal_copy_spec(world.states()[1], [7, 8], 3, 1)


# ------------------------------------------------------------------------------ S02


def test_s02_the_bias_stays_inside_the_row() -> None:
    """https://github.com/vllm-project/vllm/issues/41884

    B = 4, S = 3, every draft accepted. A step leaves at least ``S`` columns behind its running
    one, so column ``prev + accepted - 1`` is inside the row whatever count up to ``1 + S`` comes.
    """
    request = {"id": "A", "prompt_len": 6, "max_tokens": 40, "accept": [3]}
    play = Play(scenario(request, num_spec=3, **ONE_CHUNK)).run()
    assert play.pre(0, "A") == Pre(prev=-1, curr=1, num_blocks=5, accepted_after=1)
    assert play.pre(1, "A") == Pre(
        prev=1, curr=2, num_blocks=6, bias=0, conv=(1, 0, 2), temporal=(1, 2), accepted_after=1
    )
    assert play.post(1, "A") == Post(
        running=7,
        new_computed=10,
        aligned=8,
        src=2,
        accepted_out=4,
        bias=1,
        dst=1,
        conv=(2, 1, 1),
        temporal=(3, 1),
    )
    assert play.pre(2, "A") == Pre(
        prev=2, curr=3, num_blocks=7, bias=3, conv=(2, 3, 3), temporal=(5, 3), accepted_after=1
    )
    assert is_sound(play.trace)
    for step in play.trace.steps[1:]:
        prev = play.pre(step.index, "A").prev
        bias = play.pre(step.index, "A").bias or 0
        assert prev + bias <= prev + 3 < len(play.worker_row(step.index - 1, "A"))


@pytest.mark.parametrize(
    ("columns", "accepted", "in_bounds"),
    [
        pytest.param(7, 4, True, id="as it should be"),
        pytest.param(7, 2, True, id="another row's count"),
        pytest.param(6, 4, True, id="not grown in step 2"),
        pytest.param(5, 4, False, id="not grown in steps 1 and 2"),
        pytest.param(5, 3, True, id="nor this, with one token less accepted"),
    ],
)
def test_s02_what_it_takes_to_walk_past_the_end(
    columns: int, accepted: int, in_bounds: bool
) -> None:
    """https://github.com/vllm-project/vllm/issues/41884

    The cause was never settled, so the numbers were worked out again. The right ones hold. Of the
    two causes that the report supposes, a count from another row (S11) can't be it alone: a count
    is at most ``1 + S``, and the row has the columns for that. One missed growth is not enough
    either. A row of 5 is that of step 0: two growths short, or a column that is stale (S01).
    """
    world = World({"A": [[*range(1, columns + 1)]]}, state_len=6).computed(A=10)
    world.accepted(accepted)
    world.state_idx["A"] = 2
    moves, reasons = preprocess(world, schedule(A=4))
    assert moves == [StateMove("A", 2, 3, accepted - 1)]
    outside = f"column {2 + accepted - 1} lies outside the row's {columns} columns"
    assert reasons == ([] if in_bounds else [outside])
    row = world.requests["A"].block_ids[0]
    if not in_bounds:
        with pytest.raises(IndexError):
            get_temporal_copy_spec(world.states()[1], row, 2, accepted)


# ------------------------------------------------------------------------------ S03, S04


def exactly_to_the_boundary(**engine: Any) -> Scenario:
    """5 tokens, then two accepted drafts: 8, in the column that the boundary completes."""
    request = {"id": "A", "prompt_len": 5, "max_tokens": 8, "accept": [2]}
    return scenario(request, num_spec=2, **engine, **ONE_CHUNK)


SHIFT_IN_PLACE = Post(
    running=6,
    new_computed=8,
    aligned=8,
    src=1,
    accepted_out=1,
    bias=2,
    dst=1,
    conv=(1, 2, 1),
    temporal=(3, 1),
)


def window(play: Play, step: int, phase: PhaseName, column: int) -> list[int | None]:
    block = play.worker_row(step, "A")[column]
    layout = play.trace.scenario.engine.layout
    return window_rows(play.state(step, phase, "conv", block), layout)


@LAYOUTS
@RUNNERS
def test_s03_a_shift_in_place_reads_before_it_writes(runner: str, layout: str) -> None:
    """https://github.com/vllm-project/vllm/pull/50729

    B = 4, S = 2. The window's rows a b c d e are the tokens 3 to 7. Only the first three mean
    something afterwards: a window of K - 1, as the report's width 5 less the bias of 2.
    """
    play = Play(exactly_to_the_boundary(runner=runner, layout=layout)).run()
    assert play.pre(1, "A") == Pre(prev=1, curr=1, num_blocks=4, accepted_after=1)
    assert play.post(1, "A") == SHIFT_IN_PLACE
    assert window(play, 1, "forward", 1) == [3, 4, 5, 6, 7]
    assert window(play, 1, "post-copy", 1) == [5, 6, 7, 6, 7]
    row = play.worker_row(1, "A")
    assert row[3] != row[1]  # temporal: two blocks, no overlap
    assert tokens_absorbed(play.state(1, "post-copy", "temporal", row[1])) == 8
    assert is_sound(play.trace)


def test_s03_from_the_far_end_the_source_is_gone_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """https://github.com/vllm-project/vllm/pull/50729

    The order that a parallel copy may happen to take: the last byte first.
    """

    def last_byte_first(plan: CopyPlan) -> None:
        for src, dst, size in plan.ranges():
            for byte in reversed(range(size)):
                ctypes.memmove(dst + byte, src + byte, 1)

    monkeypatch.setattr(kernels.reference, "execute_copy", last_byte_first)
    play = Play(exactly_to_the_boundary()).run()
    assert play.post(1, "A") == SHIFT_IN_PLACE  # the decision is right
    assert window(play, 1, "post-copy", 1) == [7, 6, 7, 6, 7]
    assert play.trace.steps[1].phase("post-copy").bytes_unexplained
    # The next step moves that window on, and registers the block for 8 tokens.
    assert {("I2", 2), ("I1", 2)} <= broken(play.trace)


@LAYOUTS
def test_s04_all_layers_shift_by_the_same_count(layout: str) -> None:
    """https://github.com/vllm-project/vllm/pull/50432

    `exactly_to_the_boundary` on V2, in three layers: a matrix of layers and states, all alike.
    """
    made = exactly_to_the_boundary(runner="v2", layout=layout)
    layers = made.layer.model_copy(update={"num_layers": 3})
    play = Play(made.model_copy(update={"layer": layers})).run()
    assert play.post(1, "A") == SHIFT_IN_PLACE
    copies = play.copies(1, "post-copy", "A")
    cells = {(c.layer, c.state): (c.src_col, c.dst_col, c.bias, c.skipped) for c in copies}
    assert len(cells) == len(copies) == 3 * 2
    for (_, state), cell in cells.items():
        assert cell == (1 if state == "conv" else 3, 1, 2, None)
    assert is_sound(play.trace)


@BACKENDS
@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])
def test_s04_a_layer_that_comes_late_must_not_see_the_reset(
    backend: Any, snapshot: bool, dim_first: bool
) -> None:
    """https://github.com/vllm-project/vllm/pull/50432

    Two launches stand in for two programs of one launch, an early and a late layer. In place the
    late one reads the count that the early one has reset, and leaves its state where it is.
    """
    right = decide_postprocess_advanced(slot=0, accepted=3, src_col=1, new=8, block_size=4)
    late = decide_postprocess_advanced(slot=0, accepted=1, src_col=1, new=8, block_size=4)
    assert (right.running, right.aligned, right.bias, right.dst_col) == (6, 8, 2, 1)
    assert (right.outcome, right.accepted_out) == (Outcome.COPIED, 1)
    assert (late.running, late.aligned, late.bias, late.dst_col) == (8, 8, 0, 1)
    assert (late.outcome, late.accepted_out) == (Outcome.NO_SHIFT, 1)

    ks = kernel_set(backend)
    device = device_of(ks)
    layers = [
        StateMemory([CONV, TEMPORAL], 6, device, dim_first=dim_first, salt=salt) for salt in (1, 2)
    ]
    tables = Tables.of([[[1, 2, 3, 4]]], device)
    counts = ints([3], device)
    read, written = (counts.clone(), counts) if snapshot else (counts, None)
    for layer in layers:
        launch_postprocess(
            ks, layer, tables, read, written, [1], [8], block_size=4, idx_mapping=[0]
        )
    assert counts.tolist() == [1]
    for layer, shifts in zip(layers, (True, snapshot), strict=True):
        for k, src in enumerate((2, 4)):
            before = layer.start_bytes(k)
            expected = layer.copied(before, k, src, 2, bias=2) if shifts else before
            assert np.array_equal(layer.bytes(k), expected)


# ------------------------------------------------------------------------------ S05


def test_s05_the_copies_of_a_slot_go_by_the_row_of_its_request() -> None:
    """https://github.com/vllm-project/vllm/pull/55506

    B = 4, S = 3, V2. X, Y and Z take the slots 2, 1 and 0; Y leaves after the first step. Step t
    is our step 1, with the mapping [2, 0].
    """
    play = Play(
        scenario(
            {"id": "X", "prompt_len": 6, "max_tokens": 12, "accept": [2]},
            {"id": "Y", "prompt_len": 3, "max_tokens": 1},
            {"id": "Z", "prompt_len": 6, "max_tokens": 12, "accept": "none"},
            runner="v2",
            num_spec=3,
            max_num_seqs=3,
            **ONE_CHUNK,
        )
    ).run(2)
    assert play.v2.slots == {"X": 2, "Z": 0}
    assert play.v2.idx_mapping.tolist() == [2, 0, -1]
    assert play.trace.steps[1].batch_order == ["X", "Z"]
    assert play.post(1, "X") == Post(
        running=7,
        new_computed=9,
        aligned=8,
        src=2,
        accepted_out=3,
        bias=1,
        dst=1,
        conv=(2, 1, 1),
        temporal=(3, 1),
    )
    assert play.post(1, "Z").dst is None
    row = play.worker_row(1, "X")
    for copy in play.copies(1, "post-copy", "X"):
        assert copy.src_block == row[2 if copy.state == "conv" else 3]
        assert copy.dst_block == row[1]
    assert is_sound(play.run().trace)


@BACKENDS
@pytest.mark.parametrize(
    ("order", "temporal", "conv"),
    [
        pytest.param("XZ", (34, 32), (33, 32), id="table of step t"),
        pytest.param("YXZ", (24, 22), (23, 22), id="table of step t+2"),
    ],
)
def test_s05_mapping_and_table_must_be_of_one_step(
    backend: Any, order: str, temporal: tuple[int, int], conv: tuple[int, int]
) -> None:
    """https://github.com/vllm-project/vllm/pull/55506

    The postprocess of step t, mapping [2, 0], over the table that was gathered for t or for t+2.
    With the latter Y's block 22 is overwritten, and X's block 32 never receives h(8).
    """
    ks = kernel_set(backend)
    device = device_of(ks)
    memory = StateMemory([CONV, TEMPORAL], 40, device, salt=5)
    rows = {
        name: [tens + n for n in range(1, 7)] for name, tens in (("X", 30), ("Y", 20), ("Z", 10))
    }
    tables = Tables.of([[rows[name] for name in order]], device)
    counts = ints([1, 1, 3], device)  # by slot: Z, Y, X
    launch_postprocess(
        ks,
        memory,
        tables,
        counts.clone(),
        counts,
        [1, 1, 2],
        [7, 7, 9],
        block_size=4,
        idx_mapping=[2, 0],
        num_reqs=2,
    )
    for k, (src, dst) in enumerate((conv, temporal)):
        assert np.array_equal(memory.bytes(k), memory.copied(memory.start_bytes(k), k, src, dst, 1))
    assert counts.tolist() == [1, 1, 3]


# ------------------------------------------------------------------------------ S11


def churn() -> Play:
    """A, B, C decode in step 1, where 3, 1, 2 tokens are kept; then A is gone and E is there."""
    return Play(
        scenario(
            {"id": "A", "prompt_len": 3, "max_tokens": 4, "accept": [2]},
            {"id": "B", "prompt_len": 3, "max_tokens": 12, "accept": [0]},
            {"id": "C", "prompt_len": 5, "max_tokens": 12, "accept": [1]},
            {"id": "E", "prompt_len": 9, "max_tokens": 4, "arrive": 2},
            num_spec=2,
            **ONE_CHUNK,
        )
    )


def test_s11_a_count_moves_with_its_request() -> None:
    """https://github.com/vllm-project/vllm/pull/53919

    B = 4, S = 2. Step N is our step 1. Our batch goes on as B, C, E and not as C, B, E: rows stand
    in order of arrival, not swapped. C leaves row 2 all the same, and its count with it.
    """
    play = churn().run()
    before, after = play.trace.steps[1], play.trace.steps[2]
    assert (before.batch_order, after.batch_order) == (["A", "B", "C"], ["B", "C", "E"])
    accepted = play.trace.tables_after(1, "accept").rows
    assert [accepted[name].num_accepted for name in "ABC"] == [3, 1, 2]
    gathered = play.trace.tables_after(2, "allocate").rows
    assert [gathered[name].num_accepted for name in "CBE"] == [2, 1, 1]

    assert play.post(1, "C") == Post(
        running=6, new_computed=7, aligned=4, src=1, accepted_out=2, bias=None, dst=None
    )
    assert play.pre(2, "C") == Pre(
        prev=1, curr=2, num_blocks=5, bias=1, conv=(1, 1, 2), temporal=(2, 2), accepted_after=1
    )
    row = play.worker_row(2, "C")
    assert tokens_absorbed(play.state(2, "pre-copy", "temporal", row[2])) == 7
    assert is_sound(play.trace)


def test_s11_gathered_twice_the_counts_are_another_request_s() -> None:
    """https://github.com/vllm-project/vllm/pull/53919

    The device's copy had landed before the rows were swapped, and the swapped buffer was gathered
    by previous positions again. C is left with E's 1: h(6) replaces h(7), and nothing raises.
    """

    def gather(buffer: Sequence[int], prev_positions: Sequence[int]) -> list[int]:
        return [1 if position < 0 else buffer[position] for position in prev_positions]

    prev_positions = [2, 1, -1]
    once = gather([3, 1, 2], prev_positions)
    assert once == [2, 1, 1]
    assert gather(once, prev_positions) == [1, 1, 1]

    play = churn().run(2)
    play.set_accepted("C", 1)
    play.run()
    assert play.pre(2, "C") == Pre(
        prev=1, curr=2, num_blocks=5, bias=0, conv=(1, 0, 2), temporal=(1, 2), accepted_after=1
    )
    row = play.worker_row(2, "C")
    assert tokens_absorbed(play.state(2, "pre-copy", "temporal", row[2])) == 6
    assert window_rows(play.state(2, "pre-copy", "conv", row[2]), "SD")[:3] == [3, 4, 5]
    assert ("I2", 2) in broken(play.trace)


# ------------------------------------------------------------------------------ S26


def no_drafts_after_three(runner: str) -> Play:
    """20 tokens, 3 drafts of which 2 are accepted, then a step without drafts."""
    request = {"id": "A", "prompt_len": 20, "max_tokens": 6, "drafts": [3, 0], "accept": [2]}
    return Play(scenario(request, mode="none", runner=runner, block_size=16, num_spec=3))


@RUNNERS
def test_s26_a_step_without_drafts_reads_at_the_accepted_offset(runner: str) -> None:
    """https://github.com/vllm-project/vllm/pull/56531

    none mode, S = 3. The report's blocks 10 to 13 are our 1 to 4.
    """
    play = no_drafts_after_three(runner).run()
    blocks = play.worker_row(1, "A")
    drafted, plain = (play.trace.steps[index].requests["A"] for index in (1, 2))
    assert (drafted.num_computed, drafted.num_scheduled, drafted.drafts) == (20, 4, 3)
    assert drafted.accepted_drafts == 2
    assert (plain.num_computed, plain.num_scheduled, plain.drafts) == (23, 1, 0)
    absorbed = [tokens_absorbed(play.state(1, "forward", "temporal", b)) for b in blocks]
    assert absorbed == [21, 22, 23, 24]

    assert plain.row_class == "decode"
    accepted = play.metadata(2, "num_accepted_tokens")[0]
    assert accepted - 1 == 2  # also the offset of the conv window
    assert play.metadata(2, "state_indices_tensor_d")[0][accepted - 1] == blocks[2]
    assert is_sound(play.trace)


@RUNNERS
def test_s26_without_the_offset_two_tokens_are_forgotten(runner: str) -> None:
    """https://github.com/vllm-project/vllm/pull/56531

    The plain decode path knows no accepted count: it reads the first block, at row 0.
    """
    play = no_drafts_after_three(runner).run(2)
    play.set_accepted("A", 1)
    play.run(3)
    blocks = play.worker_row(2, "A")
    assert play.metadata(2, "num_accepted_tokens")[0] - 1 == 0
    assert play.metadata(2, "state_indices_tensor_d")[0][0] == blocks[0]
    assert tokens_absorbed(play.state(2, "metadata", "temporal", blocks[0])) == 21
    assert {("I2", 2), ("I3", 2)} <= broken(play.trace)


@pytest.mark.parametrize("drafts", [0, -1])
def test_s26_a_decode_row_keeps_its_count_whatever_the_draft_marker(drafts: int) -> None:
    """https://github.com/vllm-project/vllm/pull/56531

    The report wants 0 for a decode row without drafts, and -1 for other rows only. Our builder
    goes by the configuration, never by the marker, so neither can lead down a path without
    counts: our runners mark such a row with -1, and it makes no difference.
    """
    setup = Setup(mode="none", block_size=16, num_spec=3)
    metadata = setup.builder().build(
        0,
        batch([1], [24], columns=4),
        num_accepted_tokens=torch.tensor([3], dtype=torch.int32),
        num_decode_draft_tokens_cpu=torch.tensor([drafts], dtype=torch.int32),
    )
    assert (metadata.num_decodes, metadata.num_prefills) == (1, 0)
    assert metadata.num_accepted_tokens.tolist() == [3]


# ------------------------------------------------------------------------------ S29


@RUNNERS
def test_s29_a_ds_window_slides_channel_by_channel(runner: str) -> None:
    """https://github.com/vllm-project/vllm/pull/45473

    B = 4, S = 2, two channels of 4 tokens, 2 bytes each: of every channel's 8 bytes the last 6
    move. The bias of 1 is that of S11's request C.
    """
    play = Play(
        scenario(
            {"id": "A", "prompt_len": 5, "max_tokens": 12, "accept": [1]},
            layer={"num_heads": 1, "head_dim": 2, "conv_kernel": 3, "cache_dtype": "float16"},
            runner=runner,
            layout="DS",
            num_spec=2,
            **ONE_CHUNK,
        )
    ).run()
    assert play.pre(2, "A").conv == (1, 1, 2)
    conv = [copy for copy in play.copies(2, "pre-copy", "A") if copy.state == "conv"]
    for copy in conv:
        assert copy.source is not None
        assert copy.target is not None
        assert copy.source.start - copy.target.start == 2
        for side in (copy.source, copy.target):
            assert (side.rows, side.length, side.stride) == (2, 6, 8)
    row = play.worker_row(2, "A")
    before = play.state(1, "commit", "conv", row[1])
    after = play.state(2, "pre-copy", "conv", row[2])
    assert after.shape == (2, 4)
    assert np.array_equal(after[:, :3], before[:, 1:])
    assert is_sound(play.trace)


A, B = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]  # two channels of four tokens


@BACKENDS
def test_s29_the_fused_kernel_moves_six_bytes_of_each_channel(backend: Any) -> None:
    """https://github.com/vllm-project/vllm/pull/45473"""
    ks = kernel_set(backend)
    spec = StateSpec("conv", (4, 2), torch.float16, conv=True)
    memory = StateMemory([spec], 3, device_of(ks), dim_first=True)
    state = memory.view(0)
    state[1], state[2] = torch.tensor([A, B]), 0
    launch_precopy(ks, memory, Tables.of([[[1, 2]]], memory.device), [0], [1], [1])
    assert state[2].tolist() == [[2, 3, 4, 0], [6, 7, 8, 0]]

    plan = plan_copy(0, read_geometries(*memory.metadata())[0], [1, 2], 0, 1, 1, True)
    assert (plan.num_rows, plan.row_bytes, plan.row_stride) == (2, 6, 8)
    assert plan.src_addr is not None
    assert plan.src_addr - memory.base_addrs[0] - memory.block_strides[0] == 2


def test_s29_a_flat_copy_puts_one_channel_into_another() -> None:
    """https://github.com/vllm-project/vllm/pull/45473

    The scalar helper refuses a DS window that has to slide. Told that the layout is SD, it takes
    the two channels for two tokens: 8 bytes from byte 8 on, channel b in channel a's place.
    """
    state = torch.zeros(3, 2, 4, dtype=torch.float16)
    state[1] = torch.tensor([A, B])
    with pytest.raises(ValueError, match="precopy_mamba_align_fused_kernel"):
        get_conv_copy_spec(state, [1, 2], 0, 2, conv_state_dim_first=True)
    flat = get_conv_copy_spec(state, [1, 2], 0, 2)
    assert flat == MambaCopySpec(state[1].data_ptr() + 8, 4)
    addresses = (flat.start_addr, state[2].data_ptr())
    kernel_set("reference").batch_memcpy(
        *(torch.tensor([address], dtype=torch.uint64) for address in addresses),
        torch.tensor([flat.num_elements * 2], dtype=torch.int32),
    )
    assert state[2].tolist() == [B, [0, 0, 0, 0]]
