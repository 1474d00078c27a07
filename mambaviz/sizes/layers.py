"""Which layers are recurrent and which have a KV cache: every way in which configs say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mambaviz.scenario import one_line

RECURRENT = frozenset({"mamba", "mamba2", "linear_attention", "conv", "recurrent", "m"})
ATTENTION = frozenset({"attention", "full_attention", "sliding_attention", "a", "*"})
BOTH = frozenset({"hybrid", "parallel_hybrid"})
NEITHER = frozenset({"mlp", "moe", "-", "e"})
MOST_LAYERS = 10_000


class LayersError(ValueError):
    """A list of layers that makes no sense, in one sentence."""


@dataclass(frozen=True)
class Layers:
    """Layers with a recurrent state, layers with a KV cache; one can be both, or neither."""

    mamba: int
    attention: int


def count_layers(data: Mapping[str, Any]) -> Layers | None:
    """The counts, by the first of the notations that the config uses; None if it uses none."""
    for way in WAYS:
        found = way(data)
        if found is not None:
            return found
    return None


def _counted(data: Mapping[str, Any]) -> Layers | None:
    """``"layers": {"mamba": 48, "attention": 16}``."""
    counts = data.get("layers")
    if not isinstance(counts, dict):
        return None
    return Layers(
        _whole("layers.mamba", counts.get("mamba"), 0),
        _whole("layers.attention", counts.get("attention", 0), 0),
    )


def _listed(data: Mapping[str, Any]) -> Layers | None:
    """A kind for each layer."""
    for name in ("layer_types", "layers_block_type"):
        kinds = data.get(name)
        if isinstance(kinds, list) and kinds:
            return _tally(name, [str(kind).lower() for kind in kinds])
    return None


def _pattern(data: Mapping[str, Any]) -> Layers | None:
    """Nemotron: M recurrent, * attention, - MLP, E experts."""
    pattern = data.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or not pattern:
        return None
    return _tally("hybrid_override_pattern", [*pattern.replace("|", "").lower()])


def _flags(data: Mapping[str, Any]) -> Layers | None:
    """MiniMax: 0 linear attention, 1 full attention."""
    flags = data.get("attn_type_list")
    if not isinstance(flags, list) or not flags:
        return None
    if any(flag not in (0, 1) for flag in flags):
        raise LayersError("attn_type_list: must be a list of 0 (linear) and 1 (full attention)")
    return Layers(flags.count(0), flags.count(1))


def _kimi(data: Mapping[str, Any]) -> Layers | None:
    """Kimi-Linear lists both kinds, counted from 1; only how many there are matters here."""
    own = data.get("linear_attn_config")
    if not isinstance(own, dict):
        return None
    kda, full = own.get("kda_layers"), own.get("full_attn_layers")
    if isinstance(kda, list) and isinstance(full, list):
        return Layers(len(kda), len(full))
    return None


def _indices(data: Mapping[str, Any]) -> Layers | None:
    """Where the attention layers are; the others are recurrent."""
    for name in ("attn_layer_indices", "full_attn_idxs", "full_attn_layers_1based"):
        indices = data.get(name)
        if isinstance(indices, list):
            total = _total(data)
            if len(set(map(str, indices))) > total:
                raise LayersError(f"{name}: has more entries than num_hidden_layers = {total}")
            return Layers(total - len(indices), len(indices))
    return None


def _shared(data: Mapping[str, Any]) -> Layers | None:
    """Zamba2: every layer is recurrent, some have attention besides."""
    ids = data.get("hybrid_layer_ids")
    return Layers(_total(data), len(ids)) if isinstance(ids, list) else None


def _period(data: Mapping[str, Any]) -> Layers | None:
    """Jamba: attention where the layer's index is ``offset`` modulo ``period``."""
    if data.get("attn_layer_period") is None:
        return None
    period = _whole("attn_layer_period", data["attn_layer_period"], 1)
    offset = _whole("attn_layer_offset", data.get("attn_layer_offset"), 0)
    total = _total(data)
    attention = sum(layer % period == offset for layer in range(total))
    return Layers(total - attention, attention)


def _interval(data: Mapping[str, Any]) -> Layers | None:
    """Qwen: every so many layers the last one is full attention."""
    for name in ("full_attention_interval", "full_attention_every"):
        if data.get(name) is not None:
            total = _total(data)
            attention = total // _whole(name, data[name], 1)
            return Layers(total - attention, attention)
    return None


def _plamo(data: Mapping[str, Any]) -> Layers | None:
    """PLaMo-2: attention in the middle of every ``mamba_step`` layers."""
    if data.get("mamba_step") is None:
        return None
    step, total = _whole("mamba_step", data["mamba_step"], 2), _total(data)
    attention = sum(layer % step == step // 2 for layer in range(total))
    if total <= step // 2:
        attention = 1
    return Layers(total - attention, attention)


WAYS: tuple[Callable[[Mapping[str, Any]], Layers | None], ...] = (
    _counted,
    _listed,
    _pattern,
    _flags,
    _kimi,
    _indices,
    _shared,
    _period,
    _interval,
    _plamo,
)


def _tally(name: str, kinds: list[str]) -> Layers:
    unknown = next((k for k in kinds if k not in RECURRENT | ATTENTION | BOTH | NEITHER), None)
    if unknown is not None:
        raise LayersError(
            f"{name}: “{one_line(unknown, 40)}” is no kind of layer; known are "
            f"{', '.join(sorted(RECURRENT | ATTENTION | BOTH | NEITHER))}"
        )
    counts = Counter(kinds)
    both = sum(counts[kind] for kind in BOTH)
    mamba = sum(counts[kind] for kind in RECURRENT)
    return Layers(mamba + both, sum(counts[kind] for kind in ATTENTION) + both)


def _total(data: Mapping[str, Any]) -> int:
    return _whole("num_hidden_layers", data.get("num_hidden_layers"), 1)


def _whole(name: str, value: Any, least: int) -> int:
    if value is None:
        raise LayersError(f"{name}: this config lacks it, and layers cannot be counted without it")
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_LAYERS:
        shown = one_line(repr(value), 40)
        raise LayersError(
            f"{name} = {shown}: must be a whole number from {least} to {MOST_LAYERS:,}"
        )
    return value
