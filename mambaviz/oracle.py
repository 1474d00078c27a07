"""The independent truth: the layer from token 0 over the accepted tokens (section 5.3).

No cache, no blocks, no drafts, no kernels: plain numpy in float64, one token after another. It
shares nothing with the path it checks but the layer's parameters (``layer.py``).

A `Prefix` is what is true after the first n tokens; it depends on these n tokens alone, so
requests that begin alike share prefixes, and a run of many steps computes each of them once:

    oracle = Oracle(layer_params(settings))
    tokens = oracle.sequence(prompt)           # one per request
    tokens.extend([17, 18])                    # as tokens are accepted
    tokens.state_after(0, 6)                   # layer 0, after 6 tokens

How found numbers are judged (section 1) is said once, in `compare_window`, `compare_state`,
`compare_output` and `tolerance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mambaviz.layer import MAX_DECAY, LayerParams

DoubleArray = NDArray[np.float64]
CacheDtype = Literal["float32", "float16", "bfloat16"]

ARITHMETIC = 1e-5  # float32 exponentials and sums, ordered differently
MACHINE_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def tolerance(dtype: CacheDtype, decay: float = MAX_DECAY) -> float:
    """How far a number may lie off, relative to the largest value (section 1).

    A narrow cache rounds the state once a token, and each rounding fades by ``decay`` a token:
    the sum of them all is below ``eps / 2 / (1 - decay)``; four times that is allowed.
    """
    if dtype == "float32":
        return ARITHMETIC
    return 2 * MACHINE_EPSILON[dtype] / (1 - decay)


# ------------------------------------------------------------------------------- the recurrence


@dataclass(frozen=True, eq=False)
class LayerTruth:
    """One layer after a prefix.

    ``window`` [K-1, dim], oldest input first, zeros before token 0; ``state`` [H, P, N];
    ``output`` [dim] of the prefix's last token (None for the empty prefix). ``state_scale`` and
    ``output_scale`` [2]: the largest value so far, of head 0 and of the other heads.
    """

    window: DoubleArray
    state: DoubleArray
    output: DoubleArray | None
    state_scale: DoubleArray
    output_scale: DoubleArray


@dataclass(eq=False)
class Prefix:
    """What is true after a certain sequence of tokens, and the prefixes that continue it."""

    length: int
    layers: tuple[LayerTruth, ...]
    longer: dict[int, Prefix] = field(default_factory=dict)


class Oracle:
    """The truth about every prefix that was asked for; one for a run."""

    def __init__(self, layers: Sequence[LayerParams]) -> None:
        self.params = tuple(layers)
        self.root = Prefix(0, tuple(_before_token_0(params) for params in self.params))

    def sequence(self, tokens: Iterable[int] = ()) -> AcceptedSequence:
        """A request's accepted tokens so far; more are added with ``extend``."""
        return AcceptedSequence(self, tokens)

    def after(self, prefix: Prefix, token: int) -> Prefix:
        """``prefix`` and one more token; computed once, however many requests pass here."""
        found = prefix.longer.get(token)
        if found is None:
            layers = tuple(
                _next(params, truth, token, prefix.length)
                for params, truth in zip(self.params, prefix.layers, strict=True)
            )
            found = prefix.longer[token] = Prefix(prefix.length + 1, layers)
        return found


class AcceptedSequence:
    """The accepted tokens of one request, and the truth after each of them."""

    def __init__(self, oracle: Oracle, tokens: Iterable[int] = ()) -> None:
        self.oracle = oracle
        self.tokens: list[int] = []
        self.prefixes = [oracle.root]  # [n] = after n tokens
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.prefixes.append(self.oracle.after(self.prefixes[-1], token))
            self.tokens.append(token)

    def truth_after(self, layer: int, n: int) -> LayerTruth:
        """Layer ``layer`` after the first ``n`` tokens; IndexError where there are fewer."""
        if not 0 <= n <= len(self):
            raise IndexError(f"the oracle knows {len(self)} accepted tokens, not {n}")
        return self.prefixes[n].layers[layer]

    def window_after(self, layer: int, n: int) -> DoubleArray:
        """The last K - 1 inputs, oldest first, [K-1, dim]; zeros before token 0."""
        return self.truth_after(layer, n).window

    def positions_after(self, layer: int, n: int) -> list[int | None]:
        """Token position of each window row; None before token 0."""
        rows = len(self.window_after(layer, n))
        return [p if p >= 0 else None for p in range(n - rows, n)]

    def state_after(self, layer: int, n: int) -> DoubleArray:
        """The temporal state, [H, P, N]."""
        return self.truth_after(layer, n).state

    def output(self, layer: int, position: int) -> DoubleArray:
        """The output of the token at ``position``, [dim]."""
        output = self.truth_after(layer, position + 1).output
        assert output is not None  # only the empty prefix has none
        return output


def _before_token_0(params: LayerParams) -> LayerTruth:
    shape = params.shape
    return LayerTruth(
        window=np.zeros((shape.conv_kernel - 1, shape.dim)),
        state=np.zeros((shape.num_heads, shape.head_dim, shape.d_state)),
        output=None,
        state_scale=np.zeros(2),
        output_scale=np.zeros(2),
    )


def _next(params: LayerParams, before: LayerTruth, token: int, position: int) -> LayerTruth:
    """The formulas of section 5.1 for one more token."""
    heads, head_dim = params.shape.num_heads, params.shape.head_dim
    e = params.embedding([token])[0].astype(np.float64)  # [E]
    x = params.x_weight @ e  # [dim]
    x[0] = position + 1
    inputs = np.vstack([before.window, x])  # [K, dim]
    z = np.sum(params.conv_weight.T * inputs, axis=0) + params.conv_bias
    silu = z / (1 + np.exp(-z))
    u = (silu if params.shape.has_conv else x).reshape(heads, head_dim)

    dt = 0.5 + 1 / (1 + np.exp(-(params.dt_weight @ e)))  # [H]
    B = params.B_weight @ e  # [H, N]
    C = params.C_weight @ e  # [H, N]
    absorbed = u.copy()
    dt[0], B[0], absorbed[0] = 1, np.eye(len(B[0]))[0], 1  # the readable head

    decay = np.exp(dt * params.A)
    state = decay[:, None, None] * before.state + np.einsum("h,hp,hn->hpn", dt, absorbed, B)
    y = np.einsum("hpn,hn->hp", state, C) + params.D[:, None] * u
    if not params.shape.has_temporal:
        y = u
    state_scale = np.maximum(before.state_scale, _largest(state))
    return LayerTruth(
        window=inputs[1:],
        state=state,
        output=y.reshape(-1),
        state_scale=state_scale,
        output_scale=np.maximum.reduce([before.output_scale, _largest(y), state_scale]),
    )


def _largest(per_head: DoubleArray) -> DoubleArray:
    """The largest magnitude in head 0 and in the other heads (0 where there are none), [2]."""
    magnitudes = np.abs(per_head)
    return np.array([magnitudes[0].max(), magnitudes[1:].max(initial=0)])


# --------------------------------------------------------------------------------- the judgement


@dataclass(frozen=True)
class Comparison:
    """Found numbers beside the oracle's.

    ``compared`` counts numbers. ``worst`` is the largest difference, relative to the largest value,
    among those that a tolerance is granted; None if all had to be equal. ``where``, ``expected``
    and ``found`` name the worst offender; None where all is well.
    """

    compared: int
    worst: float | None = None
    where: str | None = None
    expected: str | None = None
    found: str | None = None

    @property
    def ok(self) -> bool:
        return self.where is None


def compare_window(truth: LayerTruth, found: ArrayLike) -> Comparison:
    """A window ``[K-1, dim]`` read from a cache of any dtype: every number must be equal."""
    return _judge(truth.window, np.asarray(found, np.float64), ("row", "channel"), None)


def compare_state(truth: LayerTruth, found: ArrayLike, dtype: CacheDtype) -> Comparison:
    """A temporal state ``[H, P, N]``: head 0 must be equal, the others within the tolerance.

    They are judged against the largest value that the state has had in these heads up to here:
    a rounding error fades with the value that was rounded, however the others cancel out.
    """
    expected, got = truth.state, np.asarray(found, np.float64)
    allowed = np.zeros_like(expected)
    allowed[1:] = tolerance(dtype) * truth.state_scale[1]
    scale = _per_head(truth.state_scale, expected)
    return _judge(expected, got, ("head", "channel", "state"), allowed, scale)


def compare_output(truth: LayerTruth, found: ArrayLike, dtype: CacheDtype) -> Comparison:
    """An output ``[dim]``: within the tolerance, in head 0 within that of float32.

    Head 0's window and state are exact in every dtype, so only the arithmetic can differ there. An
    output sums over the state, so the largest value of either is what it is judged against.
    """
    assert truth.output is not None
    heads = len(truth.state)
    expected = truth.output.reshape(heads, -1)
    got = np.asarray(found, np.float64).reshape(expected.shape)
    allowed = np.full_like(expected, ARITHMETIC * truth.output_scale[0])
    allowed[1:] = tolerance(dtype) * truth.output_scale[1]
    scale = _per_head(truth.output_scale, expected)
    return _judge(expected, got, ("head", "channel"), allowed, scale)


def _per_head(scale: DoubleArray, like: DoubleArray) -> DoubleArray:
    """``scale`` [2] (head 0, the others) spread to the shape of ``like``; never 0."""
    spread = np.full_like(like, scale[1])
    spread[0] = scale[0]
    return np.where(spread == 0, 1.0, spread)


def _judge(
    expected: DoubleArray,
    found: DoubleArray,
    axes: tuple[str, ...],
    allowed: DoubleArray | None,
    scale: DoubleArray | None = None,
) -> Comparison:
    """Compare element by element; ``allowed`` None or 0 = must be equal. NaN is never right."""
    if found.shape != expected.shape:
        raise ValueError(f"expected numbers of shape {expected.shape}, got {found.shape}")
    off = np.abs(found - expected)
    off[np.isnan(off)] = np.inf
    limit = np.zeros_like(off) if allowed is None else allowed
    worst = None
    if scale is not None and (limit > 0).any():
        worst = float((off / scale)[limit > 0].max())
    excess = off - limit
    if not (excess > 0).any():
        return Comparison(off.size, worst)
    index = np.unravel_index(int(np.argmax(excess)), off.shape)
    where = ", ".join(f"{axis} {position}" for axis, position in zip(axes, index, strict=True))
    return Comparison(off.size, worst, where, f"{expected[index]:.9g}", f"{found[index]:.9g}")
