"""State shapes of the families of recurrent layers, one class of facts and one function each.

Symbols: K = conv kernel, S = draft tokens, T = tensor-parallel size, D = width of the conv. Shapes
are per rank and per block; a conv state is written ``(state_len, dim)``, the SD layout. DS swaps
the two and changes no byte count.

Why D is what it is: a mamba2 conv runs over x, B and C together, with one copy of B and C a group;
gdn and kda convolve q, k and v; mamba1 convolves x alone. Drafts lengthen the conv state by a row
each. The temporal state keeps its shape: its further copies are whole further blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

MOST = 2**31 - 1  # of any number in a config: beyond it nothing is a size any more

Family = Literal["mamba1", "mamba2", "gdn", "kda", "short_conv", "linear_attention"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Dtype = Literal["float32", "bfloat16", "float16", "fp8"]
BYTES_OF: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}

# Families whose model classes take draft tokens.
TAKES_DRAFTS: frozenset[Family] = frozenset({"mamba2", "gdn", "kda"})

Count = Annotated[int, Field(ge=1, le=MOST)]
LEAST_KERNEL = 2  # a window of no token would be no state
Kernel = Annotated[int, Field(ge=LEAST_KERNEL, le=MOST)]


class SizesError(ValueError):
    """A config or setting that gives no sizes. The message is one sentence for a screen."""


class _Facts(BaseModel):
    """``family`` has no default, so that links and files always name it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Mamba1(_Facts):
    family: Literal["mamba1"]
    d_inner: Count
    ssm_state_size: Count
    conv_kernel: Kernel


class Mamba2(_Facts):
    """``n_groups`` 0 means that only x passes through the conv."""

    family: Literal["mamba2"]
    mamba_num_heads: Count
    mamba_head_dim: Count
    ssm_state_size: Count
    n_groups: Annotated[int, Field(ge=0, le=MOST)]
    conv_kernel: Kernel

    @property
    def d_inner(self) -> int:
        return self.mamba_num_heads * self.mamba_head_dim


class GatedDeltaNet(_Facts):
    family: Literal["gdn"]
    linear_num_key_heads: Count
    linear_num_value_heads: Count
    linear_key_head_dim: Count
    linear_value_head_dim: Count
    linear_conv_kernel_dim: Kernel


class KimiDelta(_Facts):
    family: Literal["kda"]
    linear_num_heads: Count
    linear_head_dim: Count
    linear_conv_kernel_dim: Kernel


class ShortConv(_Facts):
    family: Literal["short_conv"]
    conv_dim: Count
    conv_kernel: Kernel


class LinearAttention(_Facts):
    family: Literal["linear_attention"]
    linear_num_heads: Count
    linear_head_dim: Count


Recurrence = Annotated[
    Mamba1 | Mamba2 | GatedDeltaNet | KimiDelta | ShortConv | LinearAttention,
    Field(discriminator="family"),
]
CLASSES: dict[Family, type[BaseModel]] = {
    "mamba1": Mamba1,
    "mamba2": Mamba2,
    "gdn": GatedDeltaNet,
    "kda": KimiDelta,
    "short_conv": ShortConv,
    "linear_attention": LinearAttention,
}


@dataclass(frozen=True)
class StateShapes:
    """Shapes of one layer's states per rank and block; None where a state does not exist.

    ``conv`` is ``(state_len, dim)``. The ``*_formula`` texts say how the numbers came about.
    """

    conv: tuple[int, int] | None
    temporal: tuple[int, ...] | None
    conv_dim_formula: str = ""
    conv_formula: str = ""
    temporal_formula: str = ""

    @property
    def conv_elements(self) -> int:
        return math.prod(self.conv) if self.conv else 0

    @property
    def temporal_elements(self) -> int:
        return math.prod(self.temporal) if self.temporal else 0


def mamba1_states(facts: Mamba1, tp: int) -> StateShapes:
    """conv ``(K-1, d_inner/T)``, temporal ``(d_inner/T, state)``. Takes no drafts."""
    dim = _split(facts.d_inner, tp, "d_inner")
    return StateShapes(
        conv=(facts.conv_kernel - 1, dim),
        temporal=(dim, facts.ssm_state_size),
        conv_dim_formula=f"d_inner = {facts.d_inner:,}: x alone passes through the conv",
        conv_formula=f"(K − 1, D / T) = ({facts.conv_kernel} − 1, {facts.d_inner:,} / {tp})",
        temporal_formula=f"(d_inner / T, state) = ({facts.d_inner:,} / {tp}, "
        f"{facts.ssm_state_size})",
    )


def mamba2_states(facts: Mamba2, tp: int, drafts: int) -> StateShapes:
    """conv ``(K-1+S, (d_inner + 2·G·state)/T)``, temporal ``(heads/T, head_dim, state)``."""
    heads = _split(facts.mamba_num_heads, tp, "mamba_num_heads")
    groups = sharded_groups(facts.n_groups, tp)
    state = facts.ssm_state_size
    width = facts.d_inner + 2 * groups * state
    repeated = "" if groups == facts.n_groups else f" (the one group repeated on {tp} ranks)"
    return StateShapes(
        conv=(facts.conv_kernel - 1 + drafts, width // tp),
        temporal=(heads, facts.mamba_head_dim, state),
        conv_dim_formula=f"d_inner + 2·G·state = {facts.d_inner:,} + 2·{groups}·{state} = "
        f"{width:,}{repeated}",
        conv_formula=_conv_formula(facts.conv_kernel, drafts, width, tp),
        temporal_formula=f"(heads / T, head_dim, state) = ({facts.mamba_num_heads} / {tp}, "
        f"{facts.mamba_head_dim}, {state})",
    )


def sharded_groups(n_groups: int, tp: int) -> int:
    """Groups of B and C over all ranks: every rank needs those of the groups its heads use.

    Split where T divides them. A single group is repeated on every rank, so that the conv state
    does not shrink by T then. The mixer allows nothing else.
    """
    if n_groups % tp == 0:
        return n_groups
    if n_groups == 1:
        return tp
    raise SizesError(
        f"tp = {tp} does not divide n_groups = {n_groups}: groups are only repeated where there "
        f"is a single one; choose a divisor of {n_groups}"
    )


def gdn_states(facts: GatedDeltaNet, tp: int, drafts: int) -> StateShapes:
    """conv ``(K-1+S, D/T)``, temporal ``(value_heads/T, value_dim, key_dim)``."""
    key_heads, value_heads = facts.linear_num_key_heads, facts.linear_num_value_heads
    key_dim, value_dim = facts.linear_key_head_dim, facts.linear_value_head_dim
    _split(key_heads, tp, "linear_num_key_heads")
    width = 2 * key_heads * key_dim + value_heads * value_dim
    return StateShapes(
        conv=(facts.linear_conv_kernel_dim - 1 + drafts, width // tp),
        temporal=(_split(value_heads, tp, "linear_num_value_heads"), value_dim, key_dim),
        conv_dim_formula=f"2·key_heads·key_dim + value_heads·value_dim = 2·{key_heads}·{key_dim} "
        f"+ {value_heads}·{value_dim} = {width:,}",
        conv_formula=_conv_formula(facts.linear_conv_kernel_dim, drafts, width, tp),
        temporal_formula=f"(value_heads / T, value_dim, key_dim) = ({value_heads} / {tp}, "
        f"{value_dim}, {key_dim})",
    )


def kda_states(facts: KimiDelta, tp: int, drafts: int) -> StateShapes:
    """conv ``(K-1+S, 3·heads·head_dim/T)``, temporal ``(heads/T, head_dim, head_dim)``."""
    heads, head_dim = facts.linear_num_heads, facts.linear_head_dim
    width = 3 * heads * head_dim
    return StateShapes(
        conv=(facts.linear_conv_kernel_dim - 1 + drafts, width // tp),
        temporal=(_split(heads, tp, "linear_num_heads"), head_dim, head_dim),
        conv_dim_formula=f"3·heads·head_dim = 3·{heads}·{head_dim} = {width:,}",
        conv_formula=_conv_formula(facts.linear_conv_kernel_dim, drafts, width, tp),
        temporal_formula=f"(heads / T, head_dim, head_dim) = ({heads} / {tp}, {head_dim}, "
        f"{head_dim})",
    )


def short_conv_states(facts: ShortConv, tp: int) -> StateShapes:
    """conv ``(K-1, conv_dim/T)`` and no temporal state. Takes no drafts."""
    return StateShapes(
        conv=(facts.conv_kernel - 1, _split(facts.conv_dim, tp, "conv_dim")),
        temporal=None,
        conv_dim_formula=f"conv_dim = {facts.conv_dim:,}",
        conv_formula=f"(K − 1, D / T) = ({facts.conv_kernel} − 1, {facts.conv_dim:,} / {tp})",
    )


def linear_attention_states(facts: LinearAttention, tp: int) -> StateShapes:
    """temporal ``(heads/T, head_dim, head_dim)`` and no conv state."""
    heads, head_dim = facts.linear_num_heads, facts.linear_head_dim
    return StateShapes(
        conv=None,
        temporal=(_split(heads, tp, "linear_num_heads"), head_dim, head_dim),
        temporal_formula=f"(heads / T, head_dim, head_dim) = ({heads} / {tp}, {head_dim}, "
        f"{head_dim})",
    )


_STATES: dict[Family, Callable[[Any, int, int], StateShapes]] = {
    "mamba1": lambda facts, tp, _: mamba1_states(facts, tp),
    "mamba2": mamba2_states,
    "gdn": gdn_states,
    "kda": kda_states,
    "short_conv": lambda facts, tp, _: short_conv_states(facts, tp),
    "linear_attention": lambda facts, tp, _: linear_attention_states(facts, tp),
}


def state_shapes(facts: Recurrence, tp: int = 1, drafts: int = 0) -> StateShapes:
    """Shapes of one layer's states, whatever its family. Drafts count where the family takes them.

    Raises SizesError where ``tp`` does not divide what has to be split.
    """
    return _STATES[facts.family](facts, tp, drafts)


def _conv_formula(kernel: int, drafts: int, width: int, tp: int) -> str:
    return f"(K − 1 + S, D / T) = ({kernel} − 1 + {drafts}, {width:,} / {tp})"


def _split(count: int, tp: int, name: str) -> int:
    if count % tp:
        raise SizesError(
            f"tp = {tp} does not divide {name} = {count:,}: every rank needs as many; "
            "choose a divisor"
        )
    return count // tp
