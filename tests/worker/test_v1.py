"""The V1 worker: cleanup, the decisions before a forward, the copy list, after acceptance."""

from __future__ import annotations

import pytest
import torch

from mambaviz.config import CacheConfig
from mambaviz.worker import (
    StateMove,
    cleanup_mamba_state_idx,
    collect_mamba_copy_meta,
    do_mamba_copy_block,
    postprocess_mamba_align_gpu,
    preprocess_mamba,
    stage_postprocess_inputs_to_gpu,
)
from tests.worker.world import (
    BOTH,
    CONV_ONLY,
    REFERENCE_AND_OWN,
    TEMPORAL_ONLY,
    WITH_PREFIX_CACHE,
    CachedRequests,
    SchedulerOutput,
    World,
    schedule,
)

ROW = {"a": [[1, 2, 3, 4]]}
ROWS = {"a": [[1, 2, 3, 4]], "b": [[5, 6, 7, 8]]}


def collect(world: World, bufs, src: int, dst: int, bias: int, groups=(0,), req: str = "a") -> None:
    collect_mamba_copy_meta(
        bufs,
        world.config,
        world.copy_funcs,
        groups,
        src,
        dst,
        bias,
        world.requests[req],
        world.forward_context,
    )


def triples(bufs) -> list[tuple[int, int, int]]:
    n = bufs.offset
    columns = (bufs.src_ptrs.np[:n], bufs.dst_ptrs.np[:n], bufs.sizes.np[:n])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def preprocess(world: World, output: SchedulerOutput, bufs=None, align_ctx=None):
    return preprocess_mamba(
        output,
        world.config,
        WITH_PREFIX_CACHE,
        world.state_idx,
        world.batch,
        world.requests,
        world.forward_context,
        world.copy_funcs,
        bufs or world.copy_bufs(),
        align_ctx,
    )


# ------------------------------------------------------------------------- cleanup


def test_finished_preempted_and_resumed_requests_are_forgotten() -> None:
    state_idx = {"runs": 1, "finished": 2, "preempted": 3, "resumed": 4}
    output = SchedulerOutput(
        finished_req_ids={"finished", "never seen"},
        preempted_req_ids={"preempted"},
        scheduled_cached_reqs=CachedRequests({"resumed"}),
    )
    cleanup_mamba_state_idx(output, state_idx)
    assert state_idx == {"runs": 1}


def test_a_forced_preemption_may_show_only_as_a_resumption() -> None:
    state_idx = {"runs": 1, "resumed": 4}
    output = SchedulerOutput(
        preempted_req_ids=None, scheduled_cached_reqs=CachedRequests({"resumed"})
    )
    cleanup_mamba_state_idx(output, state_idx)
    assert state_idx == {"runs": 1}


# ------------------------------------------------------------------- the copy list


def test_one_copy_per_layer_and_state_type() -> None:
    world = World(ROW, layers=2)
    bufs = world.copy_bufs()
    collect(world, bufs, src=0, dst=2, bias=1)
    expected = []
    for layer in world.forward_context.values():
        conv, ssm = layer.kv_cache
        # conv: rows 1.. of block 1; temporal: the whole block one column further, 2
        expected += [
            (conv[1, 1:].data_ptr(), conv[3].data_ptr(), 4 * 4 * 2),
            (ssm[2].data_ptr(), ssm[3].data_ptr(), 8 * 4),
        ]
    assert triples(bufs) == expected


def test_every_group_reads_its_own_row() -> None:
    world = World({"a": [[9, 9], [1, 2], [4, 3]]}, groups=2, attention_first=True)
    bufs = world.copy_bufs()
    collect(world, bufs, src=0, dst=1, bias=0, groups=(1, 2))
    blocks = {"g0.l0": (1, 2), "g1.l0": (4, 3)}
    assert [triple[:2] for triple in triples(bufs)] == [
        (state[src].data_ptr(), state[dst].data_ptr())
        for layer, (src, dst) in blocks.items()
        for state in world.states(layer)
    ]


@pytest.mark.parametrize(("bias", "copies"), [(0, 0), (1, 2)])
def test_the_same_column_needs_a_copy_only_with_a_bias(bias, copies) -> None:
    world = World(ROW)
    bufs = world.copy_bufs()
    collect(world, bufs, src=1, dst=1, bias=bias)
    assert bufs.offset == copies


def test_copies_are_appended_behind_those_of_the_requests_before() -> None:
    world = World(ROWS)
    bufs = world.copy_bufs()
    collect(world, bufs, 0, 1, 0, req="a")
    first = triples(bufs)
    collect(world, bufs, 0, 1, 0, req="b")
    assert triples(bufs)[:2] == first
    assert bufs.offset == 4


@pytest.mark.parametrize(("copy_funcs", "extra"), [(CONV_ONLY, 0), (TEMPORAL_ONLY, 0), (BOTH, 3)])
def test_one_copy_per_copy_function_not_per_state_tensor(copy_funcs, extra) -> None:
    world = World(ROW, copy_funcs=copy_funcs, extra_states=extra)  # 3 more: ReplaySSM
    bufs = world.copy_bufs()
    collect(world, bufs, 0, 1, 0)
    assert [dst for _, dst, _ in triples(bufs)] == [
        state[2].data_ptr() for state in world.states()[: len(copy_funcs)]
    ]
    assert len(world.states()) == len(copy_funcs) + extra


def test_an_unknown_copy_function_is_named() -> None:
    def get_ring_copy_spec() -> None: ...

    world = World(ROW)
    bufs = world.copy_bufs()
    world.copy_funcs = (get_ring_copy_spec,)
    with pytest.raises(ValueError, match="get_ring_copy_spec"):
        collect(world, bufs, 0, 1, 0)


def test_a_ds_window_that_must_shift_is_refused_on_the_list() -> None:
    world = World(ROW, dim_first=True)
    bufs = world.copy_bufs()
    collect(world, bufs, 0, 1, 0)
    assert bufs.offset == 2
    with pytest.raises(ValueError, match="precopy_mamba_align_fused_kernel"):
        collect(world, bufs, 0, 1, 1)


@pytest.mark.parametrize(
    ("row", "move", "copied", "reasons"),
    [
        ([0, 2], (0, 1, 0), [], ["column 0 holds id 0"] * 2),
        ([1, 0], (0, 1, 0), [], ["column 1 holds id 0"] * 2),
        ([1, -1], (0, 1, 0), [], ["column 1 holds id -1"] * 2),
        ([12, 2], (0, 1, 0), [], ["column 0 holds id 12, not one of the blocks 1..11"] * 2),
        ([1, 2], (-2, 1, 0), [], ["column -2 lies outside the row's 2 columns"] * 2),
        ([1, 2], (0, 2, 0), [], ["column 2 lies outside the row's 2 columns"] * 2),
        # judged apart: only the temporal state reads `bias` columns further
        ([1, 2], (0, 1, 2), [0], ["column 2 lies outside"]),
        ([1, 2, 0], (0, 1, 2), [0], ["column 2 holds id 0"]),
        ([0, 2, 3], (0, 1, 2), [1], ["column 0 holds id 0"]),
    ],
)
def test_what_is_no_address_is_skipped_and_noted(row, move, copied, reasons) -> None:
    world = World({"a": [row]})
    bufs = world.copy_bufs()
    collect(world, bufs, *move)
    dst = row[move[1]] if copied else None
    assert [triple[1] for triple in triples(bufs)] == [
        world.states()[index][dst].data_ptr() for index in copied
    ]
    for skip, reason in zip(bufs.skipped, reasons, strict=True):
        assert skip.reason.startswith(reason)
        assert skip.layer_name == "g0.l0"
        assert skip.state_index not in copied


def test_an_empty_list_launches_nothing() -> None:
    world = World(ROW)
    do_mamba_copy_block(world.copy_bufs())
    assert world.launches == []


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
def test_the_list_goes_out_in_one_launch(own) -> None:
    world = World(ROW, layers=2, kernels=own[0], device=own[1])
    expected = world.after_copies("a", 0, 2, bias=1)
    bufs = world.copy_bufs()
    collect(world, bufs, 0, 2, 1)
    bufs.src_ptrs.np[bufs.offset :] = 1  # whatever lies behind the filled part is not touched
    do_mamba_copy_block(bufs)
    assert world.snapshot() == expected
    assert [when for when, _ in world.launches] == ["before", "after"]
    launch = world.launches[0][1]
    assert (launch.kernel, launch.grid) == ("batch_memcpy_kernel", (4,))
    assert launch.inputs["sizes"].tolist() == [4 * 4 * 2, 32] * 2


# --------------------------------------------------------------- before the forward


@pytest.mark.parametrize(
    ("computed", "known", "scheduled", "accepted", "src", "dst"),
    [
        pytest.param(0, None, 3, 1, -1, 0, id="fresh"),
        pytest.param(0, None, 9, 1, -1, 2, id="fresh, long"),
        pytest.param(0, None, 3, 2, -1, 0, id="fresh, whatever its count"),
        pytest.param(8, None, 3, 1, 1, 2, id="prefix hit"),
        pytest.param(5, 1, 3, 3, -1, 1, id="same column"),
        pytest.param(5, 1, 4, 2, 1, 2, id="next column"),
        pytest.param(4, 0, 1, 1, 0, 1, id="next column, no bias"),
        # B=4: n=5 ran in column 1; one accepted, no drafts: n=4 belongs in column 0
        pytest.param(3, 1, 1, 2, 1, 0, id="back"),
    ],
)
def test_the_running_column_of_one_request(computed, known, scheduled, accepted, src, dst) -> None:
    world = World(ROW).computed(a=computed).accepted(accepted)
    if known is not None:
        world.state_idx["a"] = known
    moved = src != -1
    bias = accepted - 1 if moved else 0
    expected = world.after_copies("a", src, dst, bias) if moved else world.snapshot()
    assert preprocess(world, schedule(a=scheduled)) == [StateMove("a", src, dst, bias)]
    assert world.state_idx == {"a": dst}
    assert world.batch.num_accepted_tokens_cpu.tolist() == [1 if moved else accepted]
    assert world.snapshot() == expected
    assert len(world.launches) == 2 * moved  # before and after, or no launch at all


def test_a_resumed_request_starts_from_its_computed_tokens() -> None:
    world = World(ROW).computed(a=8)
    world.state_idx["a"] = 3  # of its life before
    output = schedule(a=1)
    output.scheduled_cached_reqs = CachedRequests({"a"})
    assert preprocess(world, output) == [StateMove("a", 1, 2, 0)]


def test_requests_that_are_gone_are_cleaned_up_first() -> None:
    world = World(ROW)
    world.state_idx["gone"] = 3
    output = schedule(a=1)
    output.finished_req_ids = {"gone"}
    preprocess(world, output)
    assert world.state_idx == {"a": 0}


def test_all_requests_move_in_one_launch_and_only_their_counts_are_reset() -> None:
    rows = ROWS | {"c": [[9, 10]]}
    world = World(rows).computed(a=4, b=6, c=5).accepted(2, 3, 2)
    world.state_idx.update(a=0, b=1, c=1)
    bufs = world.copy_bufs()
    moves = preprocess(world, schedule(a=1, b=3, c=2), bufs)
    assert moves == [
        StateMove("a", 0, 1, 1),
        StateMove("b", 1, 2, 2),
        StateMove("c", -1, 1, 0),
    ]
    assert bufs.offset == 4
    assert world.batch.num_accepted_tokens_cpu.tolist() == [1, 1, 2]
    assert len(world.launches) == 2


def test_each_step_starts_a_new_list() -> None:
    world = World({"a": [[1, 2, 0, 4]]}).computed(a=4)
    bufs = world.copy_bufs()
    preprocess(world, schedule(a=1), bufs)
    assert (bufs.offset, bufs.skipped) == (2, [])
    world.computed(a=8)
    preprocess(world, schedule(a=1), bufs)  # into column 2, which holds null
    assert (bufs.offset, len(bufs.skipped)) == (0, 2)
    world.computed(a=9)
    preprocess(world, schedule(a=1), bufs)
    assert (bufs.offset, bufs.skipped) == (0, [])


def test_prefix_caching_is_required() -> None:
    world = World(ROW)
    with pytest.raises(ValueError, match="enable_prefix_caching"):
        preprocess_mamba(
            schedule(a=1),
            world.config,
            CacheConfig("align", enable_prefix_caching=False),
            world.state_idx,
            world.batch,
            world.requests,
            world.forward_context,
            world.copy_funcs,
            world.copy_bufs(),
        )
    assert world.state_idx == {}


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
@pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])
def test_with_a_context_the_fused_kernel_moves_the_state(own, dim_first) -> None:
    world = World(ROWS, dim_first=dim_first, kernels=own[0], device=own[1])
    world.computed(a=3, b=6).accepted(2, 3)
    world.state_idx.update(a=1, b=1)
    expected = world.after_copies("a", 1, 0, bias=1)
    ctx, bufs = world.context(), world.copy_bufs()
    moves = preprocess(world, schedule(a=1, b=1), bufs, ctx)
    assert moves == [StateMove("a", 1, 0, 1), StateMove("b", -1, 1, 0)]
    assert world.snapshot() == expected
    assert world.batch.num_accepted_tokens_cpu.tolist() == [1, 3]
    assert bufs.offset == 0
    assert ctx.is_initialized
    before, _ = (launch for _, launch in world.launches)
    assert before.kernel == "precopy_mamba_align_fused_kernel"
    assert before.inputs["HAS_IDX_MAPPING"] is False
    staged = ("src_col", "mamba_state_idx", "token_bias")
    assert [before.inputs[name].tolist() for name in staged] == [[1, -1], [0, 1], [1, 0]]


def test_the_list_and_the_fused_kernel_make_the_same_bytes() -> None:
    after = []
    for fused in (False, True):
        world = World(ROWS, layers=2).computed(a=6, b=3).accepted(3, 2)
        world.state_idx.update(a=1, b=1)
        preprocess(world, schedule(a=3, b=1), align_ctx=world.context() if fused else None)
        after.append((world.snapshot(), world.batch.num_accepted_tokens_cpu.tolist()))
    assert after[0] == after[1]


# ----------------------------------------------------------------- after acceptance


def stage_and_postprocess(world: World, bufs, output: SchedulerOutput, *accepted: int):
    num_reqs = len(world.batch.req_ids)
    counts = torch.zeros(num_reqs + 1, dtype=torch.int32)
    stage_postprocess_inputs_to_gpu(
        bufs.postprocess_align,
        output,
        world.batch.req_ids,
        num_reqs,
        world.requests,
        world.state_idx,
    )
    postprocess_mamba_align_gpu(
        bufs=bufs,
        num_reqs=num_reqs,
        num_accepted_tokens_gpu=world.tensor(*accepted),
        num_accepted_tokens_cpu_tensor=counts,
        input_batch=world.batch,
        kv_cache_config=world.config,
        forward_context=world.forward_context,
        mamba_state_copy_funcs=world.copy_funcs,
    )
    return counts


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
def test_the_boundary_state_is_kept_and_the_counts_come_back(own) -> None:
    world = World(
        {"a": [[9], [1, 2, 3, 4]], "b": [[9], [5, 6, 7, 8]]},
        attention_first=True,
        kernels=own[0],
        device=own[1],
    )
    world.computed(a=6, b=4)
    world.state_idx.update(a=1, b=1)
    output = schedule(a=3, b=3)
    output.scheduled_spec_decode_tokens = {"a": [7, 7], "b": [7, 7]}
    expected = world.after_copies("a", 1, 1, bias=1)
    bufs = world.buffers()
    counts = stage_and_postprocess(world, bufs, output, 3, 2)
    assert world.snapshot() == expected
    assert counts.tolist() == [1, 2, 0]  # nothing behind num_reqs
    assert bufs.postprocess_align.is_initialized


def test_the_context_is_bound_on_first_use_only() -> None:
    world = World(ROW).computed(a=6)
    world.state_idx["a"] = 1
    bufs = world.buffers()
    stage_and_postprocess(world, bufs, schedule(a=1), 1)
    world.forward_context.clear()  # a second binding would fail
    stage_and_postprocess(world, bufs, schedule(a=1), 1)
    assert len(world.launches) == 4


def test_an_empty_batch_launches_nothing_and_binds_nothing() -> None:
    world = World(ROW)
    world.batch.req_ids.clear()
    bufs = world.buffers()
    assert preprocess(world, schedule(), bufs.preprocess, bufs.postprocess_align) == []
    stage_and_postprocess(world, bufs, schedule())
    assert world.launches == []
    assert not bufs.postprocess_align.is_initialized


def test_without_a_context_there_is_nothing_to_run_on() -> None:
    world = World(ROW)
    with pytest.raises(ValueError, match="postprocess_align"):
        postprocess_mamba_align_gpu(
            bufs=world.buffers(with_postprocess_align=False),
            num_reqs=1,
            num_accepted_tokens_gpu=world.tensor(1),
            num_accepted_tokens_cpu_tensor=world.tensor(1),
            input_batch=world.batch,
            kv_cache_config=world.config,
            forward_context=world.forward_context,
            mamba_state_copy_funcs=world.copy_funcs,
        )
