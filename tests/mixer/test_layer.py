"""The layer's parameters: the same everywhere, exact, and fit to be judged (sections 1, 5.1)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mambaviz.layer import MAX_DECAY, LayerParams, LayerShape, layer_params
from mambaviz.mixer import project
from mambaviz.oracle import Oracle

CPU = torch.device("cpu")
SEEDS = range(40)


class Settings:
    num_layers, num_heads, head_dim, d_state, conv_kernel, seed = 3, 2, 2, 4, 3, 9
    states = "both"


def test_layers_share_the_embedding_and_nothing_else():
    layers = layer_params(Settings())
    assert [params.layer for params in layers] == [0, 1, 2]
    first, second, _ = layers
    np.testing.assert_array_equal(first.embedding([5, 6]), second.embedding([5, 6]))
    assert not np.array_equal(first.x_weight, second.x_weight)
    assert first.conv_weight.shape == (4, 3)


def test_another_seed_gives_another_layer():
    one, same, other = (LayerParams.create(LayerShape(), seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.C_weight, same.C_weight)
    assert not np.array_equal(one.C_weight, other.C_weight)
    assert not np.array_equal(one.embedding([3]), other.embedding([3]))


def test_the_numbers_are_the_same_on_every_machine():
    """A recorded run stays what it was only while these do."""
    params = LayerParams.create(LayerShape(), seed=0, layer=1)
    quarters = (params.embedding([1003, 2**63, 2**80 + 1]) * 4).astype(int)
    assert quarters.tolist() == [
        [-4, 2, -3, 3, 3, 2, -3, 3],
        [4, 1, 2, -1, 1, -4, 3, 1],
        [-2, -2, -2, 0, -1, 2, -1, 0],
    ]
    assert (params.conv_weight[0] * 16).astype(int).tolist() == [11, 7, 4, 3]


def test_any_token_has_an_embedding_of_its_own():
    params = LayerParams.create(LayerShape())
    tokens = [*range(3000), *(10**9 + i for i in range(100)), 2**60, 2**61 - 1]
    embeddings = params.embedding(tokens)
    assert np.abs(embeddings).max() == 1
    assert len(np.unique(embeddings, axis=0)) == len(tokens)
    assert abs(embeddings.mean()) < 0.01


@pytest.mark.parametrize("seed", [0, 7])
def test_conv_inputs_are_exact_in_every_cache_dtype(seed):
    params = LayerParams.create(LayerShape(4, 4, 4, 4), seed)
    tokens = range(2000)
    positions = [position % 255 for position in tokens]  # + 1 stays within bfloat16's 256
    x = project(params, tokens, positions, CPU).x
    for dtype in (torch.bfloat16, torch.float16):
        assert torch.equal(x.to(dtype).float(), x)
    exact = params.embedding(tokens).astype(np.float64) @ params.x_weight.T.astype(np.float64)
    np.testing.assert_array_equal(x[:, 1:].numpy(), exact[:, 1:])


def test_sums_of_the_convolution_are_exact_in_any_order():
    """Products and partial sums are multiples of 1/256 far below 2**24 of them."""
    params = LayerParams.create(LayerShape(4, 4, 4, 4))
    x = project(params, range(500), range(500), CPU).x.numpy()
    for unit, values in ((1 / 16, x), (1 / 16, params.conv_weight), (1 / 16, params.conv_bias)):
        np.testing.assert_array_equal(values / unit, np.round(values / unit))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_other_head_forgets_fast_enough(seed):
    """The tolerance of narrow caches rests on it."""
    params = LayerParams.create(LayerShape(16, 1, 1, 2), seed)
    dt = project(params, range(200), range(200), CPU).dt.numpy()
    decay = np.exp(dt * params.A)
    assert decay[:, 1:].max() <= MAX_DECAY
    assert decay[:, 1:].min() > 0.05  # and not at once
    assert (decay[:, 0] == 1).all()


@pytest.mark.parametrize("d_state", [1, 4, 32])
def test_an_output_never_weighs_a_state_by_more_than_four(d_state):
    """The tolerance of outputs rests on it: a state's error arrives at most fourfold."""
    params = LayerParams.create(LayerShape(2, 2, d_state, 4))
    C = project(params, range(1000), range(1000), CPU).C
    assert C.abs().sum(-1).max() <= 4


def test_the_readable_head():
    params = LayerParams.create(LayerShape())
    inputs = project(params, [7, 8, 9], [0, 41, 2], CPU)
    assert inputs.x[:, 0].tolist() == [1, 42, 3]
    assert inputs.dt[:, 0].tolist() == [1, 1, 1]
    assert inputs.B[:, 0].tolist() == [[1, 0, 0, 0]] * 3
    sequence = Oracle([params]).sequence(range(50, 60))
    for n in range(11):
        state = sequence.state_after(0, n)
        assert (state[0, :, 0] == n).all()
        assert not state[0, :, 1:].any()


def test_numbers_are_lively_enough_to_show_a_mistake():
    """One token more or less moves a state by far more than any tolerance."""
    params = LayerParams.create(LayerShape())
    sequence = Oracle([params]).sequence(range(1000, 1060))
    steps = [
        np.abs(sequence.state_after(0, n + 1)[1] - sequence.state_after(0, n)[1]).max()
        for n in range(10, 60)
    ]
    assert np.median(steps) > 0.1
