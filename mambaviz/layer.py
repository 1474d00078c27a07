"""The small layer's parameters: all that the mixer and the oracle have in common (section 5.1).

Symbols
    H, P, N     heads, channels of a head (``head_dim``), ``d_state``
    dim         H * P channels
    K           conv kernel: a token sees itself and the K - 1 inputs before it
    E           width of a token's embedding

    e           = embedding of the token                                    [E]
    x           = x_weight @ e, but x[0] = position + 1                     [dim]
    dt          = 0.5 + sigmoid(dt_weight @ e), but 1 in head 0             [H]
    B, C        = B_weight @ e, C_weight @ e, but B = (1, 0, ..) in head 0  [H, N]
    u           = silu(conv over the last K x + conv_bias)                  [dim]
    h           = exp(dt * A) * h + dt * outer(u, B), but input 1 in head 0 [H, P, N]
    y           = h @ C + D * u                                             [H, P]

Head 0 also has A = 0: each token adds 1 to ``h[0, :, 0]``, so the state counts the tokens it has
absorbed, as channel 0 of the window says which tokens it holds (the readable head).

Departures from a real Mamba-2 layer: no gate, no norm, no output projection; the convolution runs
over x alone; every head is a group of its own (head 0 has its own B); dt stays between 0.5 and 1.5
so that a state forgets by the same measure everywhere (`MAX_DECAY`).

Every weight and every embedding is a small integer over a power of two. So each product of the
linear parts, and each sum of them, is exact in float32, in whichever order it is taken: the conv
inputs are the same numbers on every machine and in every cache dtype (they fit into the 8
significant bits of bfloat16), and windows can be compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

EMBEDDING_WIDTH = 8
MIN_DT = 0.5
MAX_DECAY = 0.8
"""No head but head 0 keeps more than this part of its state from one token to the next."""


class LayerLike(Protocol):
    """What of the scenario's ``LayerSettings`` decides the parameters."""

    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def d_state(self) -> int: ...
    @property
    def conv_kernel(self) -> int: ...
    @property
    def states(self) -> str: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class LayerShape:
    """Sizes of one layer (section 5.1); the defaults are the scenario's."""

    num_heads: int = 2
    head_dim: int = 2
    d_state: int = 4
    conv_kernel: int = 4
    has_conv: bool = True  # without: u = x
    has_temporal: bool = True  # without: y = u

    @property
    def dim(self) -> int:
        """Channels of the convolution."""
        return self.num_heads * self.head_dim


@dataclass(frozen=True, eq=False)
class LayerParams:
    """One layer's weights, float32; see the head of this file for what each does.

    ``x_weight`` [dim, E], ``dt_weight`` [H, E], ``B_weight`` and ``C_weight`` [H, N, E],
    ``conv_weight`` [dim, K] (the last tap meets the token itself), ``conv_bias`` [dim],
    ``A`` [H] (0 in head 0, negative elsewhere), ``D`` [H].
    """

    shape: LayerShape
    layer: int
    seed: int
    x_weight: FloatArray
    dt_weight: FloatArray
    B_weight: FloatArray
    C_weight: FloatArray
    conv_weight: FloatArray
    conv_bias: FloatArray
    A: FloatArray
    D: FloatArray

    @classmethod
    def create(cls, shape: LayerShape, seed: int = 0, layer: int = 0) -> LayerParams:
        """The weights of layer number ``layer``: the same for the same seed, on any machine."""
        H, N, dim, K = shape.num_heads, shape.d_state, shape.dim, shape.conv_kernel

        def weights(name: str, bound: int, unit: float, *size: int) -> FloatArray:
            keys = np.arange(np.prod(size)).reshape(size)
            return hashed_multiples(f"{seed}/{layer}/{name}", keys, bound, unit)

        conv_weight = weights("conv", 12, 1 / 16, dim, K)
        conv_weight[0] = np.abs(conv_weight[0])  # positions are positive: silu stays open for them
        A = -np.float32(0.45) - np.abs(weights("A", 14, 1 / 32, H))  # exp(-0.45 / 2) < MAX_DECAY
        A[0] = 0
        return cls(
            shape=shape,
            layer=layer,
            seed=seed,
            x_weight=weights("x", 3, 1 / 4, dim, EMBEDDING_WIDTH),
            dt_weight=weights("dt", 3, 1 / 4, H, EMBEDDING_WIDTH),
            B_weight=weights("B", 3, 1 / 4, H, N, EMBEDDING_WIDTH),
            # However large d_state is, the C of a token add up to 4 at most.
            C_weight=weights("C", 2, 1 / (4 * _power_of_two(N)), H, N, EMBEDDING_WIDTH),
            conv_weight=conv_weight,
            conv_bias=weights("bias", 8, 1 / 16, dim),
            A=A,
            D=np.float32(0.75) + weights("D", 4, 1 / 16, H),
        )

    def embedding(self, token_ids: Sequence[int]) -> FloatArray:
        """Quarters between -1 and 1, [tokens, E], the same in every layer; ids wrap at 2**61."""
        ids = np.array([token % 2**61 for token in token_ids], dtype=np.uint64)
        entry = np.arange(EMBEDDING_WIDTH, dtype=np.uint64)
        keys = ids[:, None] * np.uint64(EMBEDDING_WIDTH) + entry
        return hashed_multiples(f"{self.seed}/embedding", keys, 4, 1 / 4)


def layer_params(settings: LayerLike) -> list[LayerParams]:
    """The weights of every layer of a scenario's ``layer`` settings."""
    shape = LayerShape(
        settings.num_heads,
        settings.head_dim,
        settings.d_state,
        settings.conv_kernel,
        has_conv=settings.states != "temporal",
        has_temporal=settings.states != "conv",
    )
    return [LayerParams.create(shape, settings.seed, layer) for layer in range(settings.num_layers)]


def hashed_multiples(
    stream: str, keys: NDArray[np.integer[Any]], bound: int, unit: float
) -> FloatArray:
    """One multiple of ``unit`` for each key, from -bound to bound units; other streams, others.

    A hash (splitmix64) and no generator: a token's embedding needs no table, and no library's
    change of its random numbers can change a recorded run.
    """
    mixed = _splitmix64(keys.astype(np.uint64) ^ _salt(stream))
    spread = (mixed >> np.uint64(32)) % np.uint64(2 * bound + 1)
    return (spread.astype(np.float32) - np.float32(bound)) * np.float32(unit)


@lru_cache
def _salt(stream: str) -> NDArray[np.uint64]:
    salt = np.zeros(1, dtype=np.uint64)
    for byte in stream.encode():
        salt = _splitmix64(salt ^ np.uint64(byte))
    return salt


def _splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Well mixed bits for each value; arrays wrap modulo 2**64, as the hash wants."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()
