"""`MambaSpecDecodeGPUContext`: metadata, its errors, and what each run hands to its kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernels import BACKEND, device, kernel_set
from mambaviz.config import KVCacheConfig
from mambaviz.worker import MambaSpecDecodeGPUContext
from mambaviz.worker.geometry import as_int64
from tests.worker.world import (
    BOTH,
    CONV_ONLY,
    REFERENCE_AND_OWN,
    TEMPORAL_ONLY,
    Layer,
    World,
    make_buffer,
)

ROWS = {"a": [[1, 2, 3, 4]], "b": [[5, 6, 7, 8]]}
READABLE = ["precopy_mamba_align_fused_kernel", "postprocess_mamba_fused_kernel"]
TWO_GROUPS = {"a": [[0], [1, 2, 3, 4], [4, 3, 2, 1]], "b": [[0], [5, 6, 7, 8], [8, 7, 6, 5]]}


# ------------------------------------------------------------------------- binding


def test_metadata_of_sd_conv_and_temporal_states() -> None:
    world = World(TWO_GROUPS, groups=2, layers=2, attention_first=True)
    ctx = world.context(bind=True)
    states = [state for layer in world.forward_context.values() for state in layer.kv_cache]
    page = 5 * 4 * 2 + 8 * 4 + 8  # conv bfloat16 [5, 4], temporal float32 [2, 2, 2], padding
    assert ctx.state_base_addrs.tolist() == [state.data_ptr() for state in states]
    assert ctx.state_block_strides.tolist() == [page] * 8
    assert ctx.state_elem_sizes.tolist() == [2, 4] * 4
    assert ctx.state_inner_sizes.tolist() == [4, 8] * 4
    assert ctx.state_conv_widths.tolist() == [5, 0] * 4
    # Positions among the Mamba groups: the attention group before them has no table here.
    assert ctx.state_group_indices.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert ctx.state_dim_row_count.tolist() == [0] * 8
    assert ctx.state_dim_row_stride.tolist() == [0] * 8
    assert ctx.block_table_ptrs.tolist() == [t.tensor.data_ptr() for t in world.tables[1:]]
    assert ctx.block_table_stride_req == 8
    assert ctx.num_blocks == 12
    for dtype, tensors in {
        torch.int64: (
            ctx.state_base_addrs,
            ctx.state_block_strides,
            ctx.state_inner_sizes,
            ctx.state_dim_row_stride,
            ctx.block_table_ptrs,
        ),
        torch.int32: (
            ctx.state_elem_sizes,
            ctx.state_conv_widths,
            ctx.state_group_indices,
            ctx.state_dim_row_count,
        ),
    }.items():
        assert {tensor.dtype for tensor in tensors} == {dtype}


def test_metadata_of_a_ds_conv_state() -> None:
    ctx = World(ROWS, dim_first=True).context(bind=True)
    assert ctx.state_conv_widths.tolist() == [5, 0]
    assert ctx.state_inner_sizes.tolist() == [1, 8]
    assert ctx.state_dim_row_count.tolist() == [4, 0]
    assert ctx.state_dim_row_stride.tolist() == [5 * 2, 0]


def test_a_one_dimensional_state_is_one_block() -> None:
    world = World(ROWS, copy_funcs=TEMPORAL_ONLY)
    world.forward_context["g0.l0"] = Layer([torch.zeros(10, dtype=torch.float16)])
    ctx = world.context(bind=True)
    assert ctx.state_block_strides.tolist() == [10 * 2]
    assert ctx.state_inner_sizes.tolist() == [1]
    assert ctx.num_blocks == 1  # so that no id leads behind its end


def test_an_address_above_the_middle_is_kept_by_its_bits() -> None:
    assert as_int64(2**63 - 1) == 2**63 - 1
    assert as_int64(2**63) == -(2**63)
    assert as_int64(2**64 - 8) == -8


@pytest.mark.parametrize(("copy_funcs", "widths"), [(CONV_ONLY, [5]), (TEMPORAL_ONLY, [0])])
def test_layers_with_one_kind_of_state(copy_funcs, widths) -> None:
    ctx = World(ROWS, copy_funcs=copy_funcs).context(bind=True)
    assert ctx.state_conv_widths.tolist() == widths


def test_replayssm_rings_behind_the_copied_states_are_left_out() -> None:
    world = World(ROWS, layers=2, extra_states=3)
    ctx = world.context(bind=True)
    conv_and_ssm = [s for layer in world.forward_context.values() for s in layer.kv_cache[:2]]
    assert len(world.states()) == 5
    assert ctx.state_base_addrs.tolist() == [state.data_ptr() for state in conv_and_ssm]


def test_binding_happens_once() -> None:
    world = World(ROWS)
    ctx = world.context()
    assert not ctx.is_initialized
    world.bind(ctx)
    assert ctx.is_initialized
    before = ctx.state_base_addrs.tolist(), ctx.block_table_ptrs.tolist()
    ctx.initialize_from_forward_context(KVCacheConfig(0, []), {}, (), [])  # not even looked at
    assert (ctx.state_base_addrs.tolist(), ctx.block_table_ptrs.tolist()) == before


@pytest.mark.parametrize("shape", [(12, 15), (12, 5, 3, 1)])
def test_a_conv_state_must_be_three_dimensional(shape) -> None:
    world = World(ROWS)
    world.states()[0] = torch.zeros(shape)
    with pytest.raises(ValueError, match=r"conv state 0 of layer g0.l0 must be 3-D.*\(12, "):
        world.context(bind=True)


def test_blocks_with_gaps_cannot_be_copied_whole() -> None:
    world = World(ROWS)
    world.states()[1] = torch.zeros(12, 2, 4)[:, :, :2]
    with pytest.raises(ValueError, match=r"each block of temporal state 1 .* contiguous"):
        world.context(bind=True)
    world = World(ROWS)
    world.states()[0] = torch.zeros(12, 5, 6)[:, :, ::2]
    with pytest.raises(ValueError, match=r"each row of conv state 0 .* contiguous"):
        world.context(bind=True)


def test_one_table_per_mamba_group() -> None:
    world = World(TWO_GROUPS, groups=2, attention_first=True)
    ctx = world.context()
    for tables in (world.mamba_tables()[:1], [table.tensor for table in world.tables]):
        with pytest.raises(ValueError, match=rf"got {len(tables)} with shapes .*\(2, 8\)"):
            ctx.initialize_from_forward_context(world.config, world.forward_context, BOTH, tables)
    assert not ctx.is_initialized


def test_tables_share_one_row_stride() -> None:
    world = World(TWO_GROUPS, groups=2, attention_first=True)
    tables = [torch.zeros(2, 8, dtype=torch.int32), torch.zeros(2, 9, dtype=torch.int32)]
    with pytest.raises(ValueError, match=r"strides \[8, 9\] for shapes \[\(2, 8\), \(2, 9\)\]"):
        world.context().initialize_from_forward_context(
            world.config, world.forward_context, BOTH, tables
        )
    # Different widths of equal stride are fine: the stride is what the kernels walk by.
    narrow = [tables[0], torch.zeros(2, 8, dtype=torch.int32)[:, :5]]
    world.context().initialize_from_forward_context(
        world.config, world.forward_context, BOTH, narrow
    )


@pytest.mark.parametrize(
    "table",
    [
        torch.zeros(2, 8),
        torch.zeros(8, dtype=torch.int32),
        torch.zeros(2, 8, dtype=torch.int32)[:0],
    ],
    ids=["float", "1-D", "empty"],
)
def test_a_table_is_int32_with_rows_and_columns(table) -> None:
    world = World(ROWS)
    with pytest.raises(ValueError, match=r"int32 \[num_reqs, max_cols\]"):
        world.context().initialize_from_forward_context(
            world.config, world.forward_context, BOTH, [table]
        )


def test_an_unknown_copy_function_is_named() -> None:
    def get_ring_copy_spec() -> None: ...

    world = World(ROWS)
    ctx = world.context()
    world.copy_funcs = (*CONV_ONLY, get_ring_copy_spec)
    with pytest.raises(ValueError, match="get_ring_copy_spec"):
        world.bind(ctx)


def test_a_missing_layer_or_state_is_named() -> None:
    world = World(ROWS)
    world.states().pop()
    with pytest.raises(ValueError, match=r"layer g0.l0 holds 1 state tensors, fewer than the 2"):
        world.context(bind=True)
    world.forward_context.clear()
    with pytest.raises(ValueError, match=r"no layer g0.l0"):
        world.context(bind=True)


def test_the_states_must_fill_the_room_they_were_given() -> None:
    world = World(ROWS)
    ctx = MambaSpecDecodeGPUContext.create(2, world.config, 3, "cpu", make_buffer)
    with pytest.raises(ValueError, match=r"created for 3 states.*give 2"):
        world.bind(ctx)


# ------------------------------------------------------------------------ launches


def run_all_three(ctx: MambaSpecDecodeGPUContext, num_reqs: int, world: World) -> None:
    zeros = world.tensor(0, 0)
    ctx.run_fused_postprocess(num_reqs, zeros, zeros, zeros, zeros, zeros)
    ctx.run_fused_postprocess_align(num_reqs, zeros, zeros, zeros, zeros)
    ctx.run_fused_precopy(num_reqs, zeros, zeros, zeros, None)


def test_nothing_is_launched_without_requests_or_before_binding() -> None:
    world = World(ROWS)
    run_all_three(world.context(), 2, world)
    run_all_three(world.context(bind=True), 0, world)
    assert world.launches == []
    run_all_three(world.context(bind=True), 1, world)  # the very same calls do launch
    assert len(world.launches) == 6


def test_more_requests_than_room_are_refused() -> None:
    world = World(ROWS)
    with pytest.raises(ValueError, match="num_reqs is 3, but the context was created for 2"):
        run_all_three(world.context(bind=True), 3, world)


def test_more_slots_than_room_are_refused() -> None:
    world = World(ROWS)
    ctx, slots = world.context(bind=True), world.tensor(1, 1, 1)
    with pytest.raises(ValueError, match=r"3 slots.* created for 2"):
        ctx.run_fused_postprocess_align(1, slots, slots, slots, world.tensor(0))


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
def test_v1_postprocess_checkpoints_and_leaves_the_given_counts_alone(own) -> None:
    world = World(ROWS, kernels=own[0], device=own[1])
    ctx = world.context(bind=True)
    # B = 4. a: 6 computed, 3 accepted of 3: tokens 7, 8, 9 with the boundary 8 inside, one past
    # running = 7; it stands in column 1 and belongs there. b: 4 computed, no boundary.
    expected = world.after_copies("a", 1, 1, bias=1)
    accepted = world.tensor(3, 2)
    ctx.run_fused_postprocess(
        2, accepted, world.tensor(1, 1), world.tensor(3, 3), world.tensor(6, 4), world.tensor(2, 2)
    )
    assert world.snapshot() == expected
    assert ctx.num_accepted_tokens_out.tolist() == [1, 2]
    assert accepted.tolist() == [3, 2]


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
def test_v2_postprocess_resets_the_live_counts_and_reads_a_snapshot(own) -> None:
    world = World(ROWS | {"c": [[9, 10, 11]]}, kernels=own[0], device=own[1])
    ctx = world.context(bind=True)
    # Batch: a in slot 2, b in slot 0, a slot gone meanwhile. Slot 1 is not in the batch.
    expected = world.after_copies("a", 1, 1, bias=1)
    accepted = world.tensor(2, 3, 3)
    ctx.run_fused_postprocess_align(
        3,
        accepted,
        world.tensor(1, 1, 1),
        world.tensor(6, 9, 9),  # already advanced; a: running 7, aligned 8
        world.tensor(2, 0, -1),
    )
    assert world.snapshot() == expected
    assert accepted.tolist() == [2, 3, 1]
    assert ctx.num_accepted_tokens_out.tolist() == [2, 3, 3]
    before = world.launches[0][1].inputs
    assert before["num_accepted_tokens"].data_ptr() == ctx.num_accepted_tokens_out.data_ptr()
    assert before["num_accepted_tokens_out"].data_ptr() == accepted.data_ptr()


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
@pytest.mark.parametrize("mapped", [False, True], ids=["batch-order", "slots"])
def test_precopy_with_and_without_slots(own, mapped) -> None:
    world = World(ROWS, kernels=own[0], device=own[1], dim_first=True)
    expected = world.after_copies("a", 0, 2, bias=2)
    # a moves from column 0 to 2, b is fresh
    by_row = [world.tensor(2, 1), world.tensor(0, -1), world.tensor(2, 0)]
    if mapped:  # a in slot 1, b in slot 0
        by_row = [tensor.flip(0) for tensor in by_row]
    mapping = world.tensor(1, 0) if mapped else None
    world.context(bind=True).run_fused_precopy(2, *by_row, mapping)
    assert world.snapshot() == expected


def test_ids_behind_the_caches_reach_no_address() -> None:
    world = World({"a": [[1, 2, 3]]}, num_blocks=12)
    world.tables[0].tensor[0, 2] = 12
    untouched = world.snapshot()
    ctx = world.context(bind=True)
    ctx.run_fused_precopy(1, world.tensor(1), world.tensor(2), world.tensor(0), None)
    assert world.snapshot() == untouched
    assert len(world.launches) == 2


def test_large_states_are_shared_out_to_several_programs() -> None:
    world = World({"a": [[1, 2]]}, copy_funcs=TEMPORAL_ONLY)
    world.forward_context["g0.l0"] = Layer([torch.rand(3, 40_000)])  # 160 000 bytes a block
    expected = world.after_copies("a", 0, 1, bias=0)
    ctx = world.context(bind=True)
    ctx.run_fused_precopy(1, world.tensor(1), world.tensor(0), world.tensor(0), None)
    assert world.launches[0][1].grid == (1, 1, 3)
    assert world.snapshot() == expected


def test_an_observer_sees_every_launch_before_and_after() -> None:
    world = World(ROWS)
    seen = []
    ctx = world.context(bind=True)
    ctx.on_launch = lambda when, launch: seen.append((when, launch.kernel, world.snapshot()))
    untouched = world.snapshot()
    moved = world.after_copies("a", 0, 1, bias=1)
    ctx.run_fused_precopy(1, world.tensor(1), world.tensor(0), world.tensor(1), None)
    kernel = "precopy_mamba_align_fused_kernel"
    assert seen == [("before", kernel, untouched), ("after", kernel, moved)]
    assert untouched != moved


def test_a_launch_names_every_input() -> None:
    world = World(ROWS)
    run_all_three(world.context(bind=True), 2, world)
    v1, v2, precopy = (launch for when, launch in world.launches if when == "before")
    assert v1.grid == v2.grid == precopy.grid == (2, 2, 1)
    per_request = ["num_scheduled_tokens", "num_computed_tokens", "num_draft_tokens"]
    assert [v1.inputs[name].tolist() for name in per_request] == [[0, 0]] * 3
    assert v1.inputs["PRECOMPUTED_NEW_COMPUTED"] is False
    assert v2.inputs["PRECOMPUTED_NEW_COMPUTED"] is True
    assert v1.inputs["idx_mapping"] is None
    assert v2.inputs["idx_mapping"].tolist() == [0, 0]
    assert precopy.inputs["block_table_stride_req"] == 8
    assert v1.inputs["num_blocks"] == precopy.inputs["num_blocks"] == 12


# ------------------------------------------------------------------------- the fast kernels


@pytest.mark.parametrize("own", REFERENCE_AND_OWN)
def test_the_fast_kernels_are_chosen_on_a_gpu(own) -> None:
    ctx = World(ROWS, kernels=own[0], device=own[1]).context(bind=True)
    on_gpu = ctx.state_base_addrs.device.type == "cuda"
    assert ctx.fast == on_gpu
    assert (ctx.pieces is not None) == on_gpu


@pytest.mark.parametrize("state_len", [5, 2000], ids=["fits a piece", "too tall for a piece"])
def test_what_cannot_be_cut_stays_with_the_readable_kernels(state_len) -> None:
    world = World(ROWS, state_len=state_len)
    ctx = world.context()
    ctx.fast = True
    world.bind(ctx)
    assert (ctx.pieces is not None) == (state_len == 5)


@pytest.mark.skipif(BACKEND == "reference", reason="needs triton")
@pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])
def test_the_fast_kernels_do_the_same_and_are_seen_as_what_they_stand_for(
    dim_first, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mambaviz.worker.context.num_programs", lambda *_: 2)
    world = World(ROWS, kernels=None, device=device(), dim_first=dim_first, layers=2)
    ctx = world.context()
    ctx.fast = True
    world.bind(ctx)
    own = kernel_set()
    monkeypatch.setattr(ctx, "kernels", replace(own, **dict.fromkeys(READABLE)))  # must not run
    moved = world.after_copies("a", 0, 1, bias=1)
    ctx.run_fused_precopy(2, world.tensor(1, 0), world.tensor(0, -1), world.tensor(1, 0), None)
    assert world.snapshot() == moved
    shifted = world.after_copies("a", 1, 1, bias=1)
    accepted = world.tensor(2, 3)
    ctx.run_fused_postprocess_align(
        2, accepted, world.tensor(1, 1), world.tensor(6, 9), world.tensor(1, 0)
    )
    assert world.snapshot() == shifted
    assert accepted.tolist() == [2, 1]
    assert [launch.kernel for when, launch in world.launches if when == "before"] == READABLE
