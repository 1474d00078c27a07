"""A model as far as its cache sizes depend on it. Where its facts come from is `reader`'s work."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mambaviz.sizes.families import MOST, Count, Dtype, Recurrence
from mambaviz.sizes.layers import MOST_LAYERS

# Why the temporal state has the dtype that ``auto`` gives it.
StateDtypeRule = Literal["conv", "nemotron field", "nemotron absent", "qwen field", "kda"]
STATE_DTYPE_RULES: dict[StateDtypeRule, str] = {
    "conv": "the temporal state takes the conv state's dtype",
    "nemotron field": "this family reads mamba_ssm_cache_dtype from the config",
    "nemotron absent": "this family reads mamba_ssm_cache_dtype; it is absent, so float32",
    "qwen field": "this family reads mamba_ssm_dtype from the config",
    "kda": "a KDA state is float32",
}


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Heads(_Facts):
    """Attention that keeps K and V of every KV head."""

    kind: Literal["heads"]
    num_key_value_heads: Count
    head_dim: Count


class Latent(_Facts):
    """MLA: one latent vector a token, the same on every rank."""

    kind: Literal["latent"]
    kv_lora_rank: Count
    qk_rope_head_dim: Annotated[int, Field(ge=0, le=MOST)]


Attention = Annotated[Heads | Latent, Field(discriminator="kind")]


class Model(_Facts):
    """``mamba_layers`` have a recurrent state, ``attention_layers`` a KV cache; a layer can have
    both, and one with neither counts for nothing. ``assumed`` says what the config left open."""

    name: Annotated[str, Field(max_length=200)]
    architecture: Annotated[str, Field(max_length=200)]
    recurrence: Recurrence
    mamba_layers: Annotated[int, Field(ge=1, le=MOST_LAYERS)]
    attention_layers: Annotated[int, Field(ge=0, le=MOST_LAYERS)] = 0
    attention: Attention | None = None
    dtype: Dtype = "bfloat16"
    state_dtype: Dtype | None = None  # None: as the conv state
    state_dtype_rule: StateDtypeRule = "conv"
    chunk_size: Count | None = None
    assumed: tuple[Annotated[str, Field(max_length=400)], ...] = ()
