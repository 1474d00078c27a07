"""What `run_layer` accepts, launches and tells; and how the kernels round."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kernels import BACKEND
from mambaviz.layer import LayerParams, LayerShape
from mambaviz.mixer import MixerConfig, ReplayRing, project, run_layer
from mambaviz.oracle import Oracle, compare_output
from tests.mixer.conftest import OWN, Place
from tests.mixer.test_rules import PARAMS, SHAPE, Bench
from tests.mixer.world import Setup, World, bits


def mixed_batch(bench: Bench):
    """One decode row and one prefill row."""
    decode, prefill = bench.decodes([[4]]), bench.prefills([7], [4], [3])
    return dataclasses.replace(
        prefill,
        num_decodes=1,
        num_decode_tokens=1,
        num_reqs=2,
        state_indices_tensor_d=decode.state_indices_tensor_d,
    )


def test_an_observer_sees_every_launch_before_and_after(place: Place):
    bench, seen = Bench(place), []

    def observer(when, launch):
        seen.append((when, launch.kernel, launch.grid, len(bench.changed()[0])))
        assert launch.inputs["num_blocks"] == 12
        assert launch.inputs["num_tokens"] in (1, 3)

    tokens = [0, 1, 2, 3]
    run_layer(
        PARAMS, bench.config, tokens, tokens, mixed_batch(bench), bench.conv_state,
        bench.ssm_state, kernels=place.kernels, observer=observer,
    )  # fmt: skip
    names = [
        "causal_conv1d_decode_kernel",
        "causal_conv1d_prefill_kernel",
        "selective_state_decode_kernel",
        "selective_state_prefill_kernel",
    ]
    assert [name for when, name, _, _ in seen if when == "after"] == names
    assert [when for when, *_ in seen] == ["before", "after"] * 4
    assert [changed for *_, changed in seen] == [0, 1, 1, 2, 2, 2, 2, 2]
    assert {grid for _, _, grid, _ in seen} == {(1,)}


def test_a_layer_without_a_temporal_state_gives_u(place: Place):
    whole, half = Bench(place), Bench(place)
    tokens = [0, 1, 2, 3]
    u = run_layer(
        PARAMS, half.config, tokens, tokens, mixed_batch(half), half.conv_state, None,
        kernels=place.kernels,
    )  # fmt: skip
    whole.run(mixed_batch(whole))
    inputs = torch.cat([half.conv_before[7], half.x(4)[1:]])
    weight = torch.from_numpy(PARAMS.conv_weight).to(place.device)
    bias = torch.from_numpy(PARAMS.conv_bias).to(place.device)
    z = (inputs.unfold(0, 4, 1) * weight).sum(-1) + bias
    torch.testing.assert_close(u[1:], torch.nn.functional.silu(z))
    assert torch.equal(bits(whole.conv_state), bits(half.conv_state))
    assert half.changed() == ({4, 7}, set())


def test_a_layer_without_a_conv_state_absorbs_x(place: Place):
    bench = Bench(place)
    tokens = [0, 1, 2, 3]
    run_layer(
        PARAMS, bench.config, tokens, tokens, mixed_batch(bench), None, bench.ssm_state,
        kernels=place.kernels,
    )  # fmt: skip
    inputs = project(PARAMS, [0], [0], place.device)
    A = torch.from_numpy(PARAMS.A).to(place.device)
    absorbed = inputs.x[0].view(2, 2).clone()
    absorbed[0] = 1
    new = (inputs.dt[0, :, None] * absorbed)[:, :, None] * inputs.B[0, :, None, :]
    h = torch.exp(inputs.dt[0] * A)[:, None, None] * bench.before[1][2:-2][4] + new
    torch.testing.assert_close(bench.ssm_state[4], h)
    assert bench.changed() == (set(), {4, 7})


@pytest.mark.parametrize("kind", ["conv", "temporal"])
def test_a_layer_with_one_kind_of_state_agrees_with_the_oracle(place: Place, kind):
    shape = LayerShape(has_conv=kind == "conv", has_temporal=kind == "temporal")
    params = LayerParams.create(shape, seed=11)
    bench = Bench(place)
    sequence = Oracle([params]).sequence(range(40, 50))
    y = run_layer(
        params, bench.config, range(40, 50), range(10), bench.prefills([4], [0], [10]),
        bench.conv_state if shape.has_conv else None,
        bench.ssm_state if shape.has_temporal else None,
        kernels=place.kernels,
    )  # fmt: skip
    for position in range(10):
        truth = sequence.truth_after(0, position + 1)
        assert compare_output(truth, y[position].cpu(), "float32").ok


# ---------------------------------------------------------------------------------------- refusals


def refused(bench: Bench, match: str, metadata, tokens: int, **changes) -> None:
    arguments = {
        "params": PARAMS,
        "config": bench.config,
        "token_ids": range(tokens),
        "positions": range(tokens),
        "metadata": metadata,
        "conv_state": bench.conv_state,
        "ssm_state": bench.ssm_state,
        **changes,
    }
    with pytest.raises(ValueError, match=match):
        run_layer(**arguments)
    assert bench.changed() == (set(), set())


def test_tokens_that_the_metadata_does_not_describe():
    bench = Bench(OWN)
    refused(bench, "describes 1 tokens, but there are 2", bench.decodes([[4]]), 2)
    refused(bench, "and 3 positions", bench.decodes([[4]]), 1, positions=range(3))


def test_caches_of_another_layer():
    bench, metadata = Bench(OWN), Bench(OWN).decodes([[4]])
    drafts = MixerConfig("none", 4, num_spec=1)
    refused(bench, r"conv state: .* shape \(4, 4\), got \(3, 4\)", metadata, 1, config=drafts)
    layout = MixerConfig("none", 4, layout="DS")
    refused(bench, r"conv state: .* shape \(4, 3\), got \(3, 4\)", metadata, 1, config=layout)
    other = LayerParams.create(LayerShape(1, 4, 4, 4))
    refused(bench, r"temporal state: .* shape \(1, 4, 4\)", metadata, 1, params=other)
    swapped = bench.ssm_state.transpose(1, 2)
    refused(bench, "elements of a block must be contiguous", metadata, 1, ssm_state=swapped)


def test_a_ring_without_its_metadata_and_the_other_way_round():
    world = World(Setup(mode="none", ring_len=3), OWN)
    bench = Bench(OWN)
    assert world.ring is not None
    refused(bench, "the metadata field is missing", bench.decodes([[4]]), 1, ring=world.ring)
    metadata = dataclasses.replace(bench.decodes([[4]]), write_pos_d=bench.int32([0]))
    refused(bench, "the ring is missing", metadata, 1)
    one_group = ReplayRing(world.ring.x, world.ring.dt, world.ring.B[:, :1])
    refused(bench, r"B ring: .* shape \(2, 3, 4\), got \(1, 3, 4\)", metadata, 1, ring=one_group)


def test_metadata_that_leaves_out_what_the_kernels_need():
    bench = Bench(OWN, "all", num_spec=1)
    metadata = bench.decodes([[4, 5]], [1], [1], block_idx_last_scheduled_token=[0])
    refused(bench, "build it with prev_last_scheduled_idx", metadata, 1)
    bench = Bench(OWN)
    for name in ("nums_dict", "cu_chunk_seqlen_p"):
        metadata = dataclasses.replace(bench.prefills([4], [0], [2]), **{name: None})
        refused(bench, name, metadata, 2)


# ---------------------------------------------------------------------------------------- numbers


@pytest.mark.skipif(BACKEND == "reference", reason="a twin rounds as PyTorch does")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_stores_round_to_nearest_even_and_loads_are_exact(dtype):
    """Bit by bit as PyTorch does, the odd cases included: halves, signs, subnormals, NaN."""
    from tests.mixer.rounding import through_the_cache

    patterns = torch.randint(-(2**31), 2**31, (4000,), generator=torch.Generator().manual_seed(2))
    random = patterns.to(torch.int32).view(torch.float32)
    random = random[random.abs() < 60000]  # not beyond float16
    halves = torch.tensor(
        [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 1 + 2**-11, 1 + 3 * 2**-11]
    )
    odd = torch.tensor([0.0, -0.0, 2**-130, 255.5, 256.0, 257.0, -3e-42, float("inf"), -1e-7])
    values = torch.cat([random, halves, -halves, odd]).to(OWN.device)
    stored, loaded = through_the_cache(values, dtype)
    assert torch.equal(bits(stored), bits(values.to(dtype)))
    assert torch.equal(bits(loaded), bits(stored.float()))
    nan, _ = through_the_cache(torch.full((4,), torch.nan, device=OWN.device), dtype)
    assert nan.isnan().all()


@pytest.mark.gpu
def test_block_offsets_pass_31_bits():
    """The last block of a cache of more than 2**31 elements."""
    if BACKEND != "cuda":
        pytest.skip("the own back end is not the GPU")
    stride = 2**28
    blocks = 11
    pool = torch.zeros(stride * (blocks - 1) + 64, dtype=torch.bfloat16, device=OWN.device)
    conv = pool.as_strided((blocks, 3, SHAPE.dim), (stride, SHAPE.dim, 1))
    ssm = pool.as_strided((blocks, 2, 2, 4), (stride, 8, 4, 1), 16)
    bench = Bench(OWN)
    run_layer(PARAMS, bench.config, [5], [5], bench.decodes([[10]]), conv, ssm, kernels=OWN.kernels)
    assert conv[10, -1, 0] == 6
    assert ssm[10, 0, 0, 0] == 1
    assert pool[: 10 * stride].count_nonzero() == 0
