"""What a reader can choose beside the model: how it is served, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mambaviz.scenario import Grammar, explain
from mambaviz.sizes.families import SizesError

Mode = Literal["none", "align", "all"]
MODES: tuple[Mode, ...] = get_args(Mode)
Layout = Literal["SD", "DS"]
StateDtypeChoice = Literal["auto", "float32", "bfloat16", "float16"]
KvDtypeChoice = Literal["auto", "bfloat16", "float16", "fp8"]

Tokens = Annotated[int, Field(ge=1, le=16_777_216)]


class Settings(BaseModel):
    """Everything on ``auto`` and nothing configured, as an engine starts by itself.

    ``block_size`` and ``kernel_block`` None: what the engine and its attention backend take.
    ``tp`` ranks; ``memory_gib`` is what is left for the cache on each. ``acceptance`` is the
    chance of each draft to be kept if those before it were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tp: Annotated[int, Field(ge=1, le=256)] = 1
    num_spec: Annotated[int, Field(ge=0, le=64)] = 0
    mode: Mode = "align"
    layout: Layout = "SD"
    kv_dtype: KvDtypeChoice = "auto"
    conv_dtype: StateDtypeChoice = "auto"
    temporal_dtype: StateDtypeChoice = "auto"
    block_size: Tokens | None = None
    kernel_block: Annotated[int, Field(ge=1, le=4096)] | None = None
    flashinfer_gdn: bool = False
    prefill_checkpoints: bool = False
    sequence: Tokens = 32_768
    prompt: Tokens = 4_096
    prefill_budget: Tokens = 8_192
    memory_gib: Annotated[float, Field(ge=0.001, le=100_000)] = 40.0
    acceptance: Annotated[float, Field(ge=0, le=1)] = 0.7


SETTINGS_GRAMMAR = Grammar(Settings, {}, {})


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Settings from plain values. Raises SizesError naming field, value and range."""
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        raise SizesError(explain(error, SETTINGS_GRAMMAR)) from None


def bounds(name: str) -> tuple[float, float]:
    """The least and the most that a number's setting allows."""
    schema = Settings.model_json_schema()["properties"][name]
    limits = schema["anyOf"][0] if "anyOf" in schema else schema
    return limits["minimum"], limits["maximum"]
