"""The oracle against the formulas of section 5.1 written down another way, and its judgement."""

from __future__ import annotations

import numpy as np
import pytest

from mambaviz import oracle as oracle_module
from mambaviz.layer import LayerParams, LayerShape
from mambaviz.oracle import (
    Oracle,
    compare_output,
    compare_state,
    compare_window,
    tolerance,
)

SHAPE = LayerShape(3, 2, 5, 4)
PARAMS = LayerParams.create(SHAPE, seed=4)
TOKENS = [11, 12, 900, 13, 5, 5, 77, 10**12]


def unrolled(tokens: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x [T, dim], the last state [H, P, N] and the last y [H, P], without any recurrence:
    h = sum over tokens t of exp(A * sum of dt behind t) * dt_t * outer(u_t, B_t)."""
    T, H, K = len(tokens), SHAPE.num_heads, SHAPE.conv_kernel
    e = PARAMS.embedding(tokens).astype(np.float64)
    x = e @ PARAMS.x_weight.T
    x[:, 0] = np.arange(T) + 1
    padded = np.concatenate([np.zeros((K - 1, SHAPE.dim)), x])
    z = sum(padded[k : k + T] * PARAMS.conv_weight[:, k] for k in range(K)) + PARAMS.conv_bias
    u = (z / (1 + np.exp(-z))).reshape(T, H, SHAPE.head_dim)
    dt = 0.5 + 1 / (1 + np.exp(-(e @ PARAMS.dt_weight.T)))
    B = np.einsum("te,hne->thn", e, PARAMS.B_weight)
    C = np.einsum("te,hne->thn", e, PARAMS.C_weight)
    absorbed = u.copy()
    dt[:, 0], absorbed[:, 0], B[:, 0] = 1, 1, [1, 0, 0, 0, 0]
    behind = dt.sum(0) - np.cumsum(dt, axis=0)  # [T, H]
    kept = np.exp(PARAMS.A * behind) * dt
    h = np.einsum("th,thp,thn->hpn", kept, absorbed, B)
    return x, h, np.einsum("hpn,hn->hp", h, C[-1]) + PARAMS.D[:, None] * u[-1]


@pytest.mark.parametrize("n", range(1, len(TOKENS) + 1))
def test_the_recurrence_is_the_sum_over_all_tokens(n):
    x, h, y = unrolled(TOKENS[:n])
    sequence = Oracle([PARAMS]).sequence(TOKENS)
    window = np.concatenate([np.zeros((3, SHAPE.dim)), x])[-3:]
    np.testing.assert_array_equal(sequence.window_after(0, n), window)
    np.testing.assert_allclose(sequence.state_after(0, n), h, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sequence.output(0, n - 1), y.reshape(-1), rtol=1e-12, atol=1e-12)


def test_windows_say_which_tokens_they_hold():
    sequence = Oracle([PARAMS]).sequence(TOKENS)
    assert sequence.positions_after(0, 2) == [None, 0, 1]
    assert sequence.positions_after(0, 6) == [3, 4, 5]
    assert (sequence.window_after(0, 6)[:, 0] == [4, 5, 6]).all()
    assert not sequence.window_after(0, 0).any()


def test_requests_that_begin_alike_share_what_they_share(monkeypatch):
    calls = []
    honest = oracle_module._next
    monkeypatch.setattr(oracle_module, "_next", lambda *a: calls.append(a[2:]) or honest(*a))
    oracle = Oracle([PARAMS])
    one, two = oracle.sequence([1, 2, 3]), oracle.sequence([1, 2])
    two.extend([9])
    one.extend([4])
    assert len(calls) == 5  # 1, 2, 3 at once, then 9 and 4
    assert one.prefixes[2] is two.prefixes[2]
    assert one.prefixes[3] is not two.prefixes[3]
    assert one.tokens == [1, 2, 3, 4]
    assert len(two) == 3


def test_a_prefix_that_is_not_known_is_refused():
    sequence = Oracle([PARAMS]).sequence([1, 2])
    for n in (-1, 3):
        with pytest.raises(IndexError, match="knows 2 accepted tokens"):
            sequence.state_after(0, n)


def test_tolerances_are_those_of_section_1():
    assert tolerance("float32") == 1e-5
    assert tolerance("bfloat16", 0.8) == pytest.approx(2 * 2**-7 / 0.2)
    assert tolerance("float16", 0.5) == pytest.approx(2 * 2**-10 / 0.5)


# ----------------------------------------------------------------------------------- the judgement


def truth(n: int = 6):
    return Oracle([PARAMS]).sequence(TOKENS).truth_after(0, n)


def test_what_is_equal_is_well():
    expected = truth()
    for comparison in (
        compare_window(expected, expected.window),
        compare_state(expected, expected.state.astype(np.float32), "float32"),
        compare_output(expected, expected.output.astype(np.float32), "float32"),
    ):
        assert comparison.ok
        assert comparison.expected is None
    assert compare_window(expected, expected.window).worst is None
    assert compare_window(expected, expected.window).compared == 18


@pytest.mark.parametrize("index", [(0, 0), (2, 5)])
def test_a_window_must_be_equal_to_the_last_bit(index):
    expected = truth()
    found = expected.window.astype(np.float32)
    found[index] = np.nextafter(found[index], np.float32(np.inf))
    comparison = compare_window(expected, found)
    assert comparison.where == f"row {index[0]}, channel {index[1]}"


def test_head_0_must_be_equal_in_every_dtype():
    expected = truth()
    found = expected.state.copy()
    found[0, 1, 0] = 5
    comparison = compare_state(expected, found, "bfloat16")
    assert (comparison.where, comparison.expected, comparison.found) == (
        "head 0, channel 1, state 0",
        "6",
        "5",
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_other_heads_may_lie_off_by_the_tolerance_and_no_more(dtype):
    expected = truth()
    scale = expected.state_scale[1]
    for factor, ok in ((0.9, True), (1.1, False)):
        found = expected.state.copy()
        found[2, 1, 3] += factor * tolerance(dtype) * scale
        comparison = compare_state(expected, found, dtype)
        assert comparison.ok is ok
        assert comparison.worst == pytest.approx(factor * tolerance(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_output_may_lie_off_by_the_tolerance_and_no_more(dtype):
    expected = truth()
    assert expected.output is not None
    head_0, others = expected.output_scale
    for channel, allowed in ((1, 1e-5 * head_0), (4, tolerance(dtype) * others)):
        for factor, ok in ((0.9, True), (1.1, False)):
            found = expected.output.copy()
            found[channel] += factor * allowed
            assert compare_output(expected, found, dtype).ok is ok


def test_numbers_that_are_none_are_never_right():
    expected = truth()
    for bad in (np.nan, np.inf):
        state, output, window = (
            expected.state.copy(),
            expected.output.copy(),
            expected.window.copy(),
        )
        state[1, 0, 0] = output[3] = window[0, 0] = bad
        assert not compare_state(expected, state, "bfloat16").ok
        assert not compare_output(expected, output, "bfloat16").ok
        assert not compare_window(expected, window).ok


def test_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 6\), got \(2, 6\)"):
        compare_window(truth(), np.zeros((2, 6)))


def test_scales_are_the_largest_values_so_far():
    sequence = Oracle([PARAMS]).sequence(TOKENS)
    states = [sequence.state_after(0, n) for n in range(len(TOKENS) + 1)]
    for n in range(1, len(TOKENS) + 1):
        at = sequence.truth_after(0, n)
        assert at.state_scale[0] == n
        assert at.state_scale[1] == max(np.abs(state[1:]).max() for state in states[: n + 1])
        outputs = [np.abs(sequence.output(0, p).reshape(3, -1)[1:]).max() for p in range(n)]
        assert at.output_scale[1] == max(*outputs, at.state_scale[1])
