"""A model from its config.json, as it is published: many more fields, and other names.

Nothing has to be removed or renamed beforehand. Each architecture has a `Dialect`: which of its
fields means what. The names of the first column (`families`) are understood everywhere, so that a
config of an architecture that is not known can say ``"family"`` and give them.

Sentences that are raised name the field as the architecture itself calls it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from mambaviz.limits import LONGEST_TEXT
from mambaviz.scenario import one_line
from mambaviz.sizes.families import (
    CLASSES,
    FAMILIES,
    LEAST_KERNEL,
    MOST,
    Dtype,
    Family,
    GatedDeltaNet,
    KimiDelta,
    LinearAttention,
    Mamba1,
    Mamba2,
    Recurrence,
    ShortConv,
    SizesError,
)
from mambaviz.sizes.layers import MOST_LAYERS, Layers, LayersError, count_layers
from mambaviz.sizes.model import Attention, Heads, Latent, Model, StateDtypeRule

WRAPPERS = ("text_config", "llm_config", "language_config", "thinker_config")
TOWERS = ("vision_config", "audio_config", "visual")
DEEPEST = 3  # wrappers inside each other


@dataclass(frozen=True)
class Dialect:
    """What an architecture's fields mean: canonical name → its own names, the first found counts.

    ``all_mamba``: every layer is recurrent where the config lists no kinds; ``both``: and has
    attention too. ``temporal`` names the rule of the temporal state's dtype.
    """

    family: Family
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    all_mamba: bool = False
    both: bool = False
    temporal: str = "conv"
    doubled_head_dim: bool = False  # attention works on twice the hidden size
    grouped_conv: bool = True  # B and C pass through the conv


_D_CONV = {"conv_kernel": ("mamba_d_conv",), "ssm_state_size": ("mamba_d_state",)}
_BAMBA = Dialect(
    "mamba2",
    {
        **_D_CONV,
        "mamba_num_heads": ("mamba_n_heads",),
        "mamba_head_dim": ("mamba_d_head",),
        "n_groups": ("mamba_n_groups",),
        "d_inner": ("mamba_d_ssm",),
        "expand": ("mamba_expand",),
    },
)
_FALCON_H1 = Dialect("mamba2", _BAMBA.names, all_mamba=True, both=True)
# Its ``expand`` is not read: heads × head_dim is the inner size.
_NEMOTRON = Dialect("mamba2", temporal="nemotron")
_ZAMBA2 = Dialect(
    "mamba2",
    {
        **_D_CONV,
        "mamba_num_heads": ("n_mamba_heads",),
        "mamba_head_dim": ("mamba_headdim",),
        "n_groups": ("mamba_ngroups",),
        "expand": ("mamba_expand",),
    },
    all_mamba=True,
    doubled_head_dim=True,
)
_PLAMO2 = Dialect(
    "mamba2", {**_D_CONV, "mamba_head_dim": ("hidden_size_per_head",)}, grouped_conv=False
)
_MAMBA2 = Dialect(
    "mamba2",
    {
        "mamba_num_heads": ("num_heads",),
        "mamba_head_dim": ("head_dim",),
        "ssm_state_size": ("state_size",),
    },
    all_mamba=True,
)
_MAMBA1 = Dialect(
    "mamba1",
    {"ssm_state_size": ("state_size",), "d_inner": ("intermediate_size",)},
    all_mamba=True,
)
_JAMBA = Dialect("mamba1", {**_D_CONV, "expand": ("mamba_expand",)})
_QWEN_NEXT = Dialect("gdn")
_QWEN_35 = Dialect("gdn", temporal="qwen")
_KIMI = Dialect(
    "kda",
    {
        "linear_num_heads": ("num_heads",),
        "linear_head_dim": ("head_dim",),
        "linear_conv_kernel_dim": ("short_conv_kernel_size",),
    },
    temporal="kda",
)
_LFM2 = Dialect("short_conv", {"conv_kernel": ("conv_L_cache",)})
_MINIMAX = Dialect(
    "linear_attention",
    {"linear_num_heads": ("num_attention_heads",), "linear_head_dim": ("head_dim",)},
)

DIALECTS: Mapping[str, Dialect] = {
    "MambaForCausalLM": _MAMBA1,
    "FalconMambaForCausalLM": _MAMBA1,
    "JambaForCausalLM": _JAMBA,
    "Mamba2ForCausalLM": _MAMBA2,
    "BambaForCausalLM": _BAMBA,
    "GraniteMoeHybridForCausalLM": _BAMBA,
    "FalconH1ForCausalLM": _FALCON_H1,
    "NemotronHForCausalLM": _NEMOTRON,
    "NemotronHPuzzleForCausalLM": _NEMOTRON,
    "NemotronH_Nano_VL_V2": _NEMOTRON,
    "Zamba2ForCausalLM": _ZAMBA2,
    "Plamo2ForCausalLM": _PLAMO2,
    "Qwen3NextForCausalLM": _QWEN_NEXT,
    "Qwen3_5ForCausalLM": _QWEN_35,
    "Qwen3_5ForConditionalGeneration": _QWEN_35,
    "Qwen3_5MoeForCausalLM": _QWEN_35,
    "Qwen3_5MoeForConditionalGeneration": _QWEN_35,
    "KimiLinearForCausalLM": _KIMI,
    "Lfm2ForCausalLM": _LFM2,
    "Lfm2MoeForCausalLM": _LFM2,
    "Lfm2VlForConditionalGeneration": _LFM2,
    "MiniMaxForCausalLM": _MINIMAX,
    "MiniMaxText01ForCausalLM": _MINIMAX,
    "MiniMaxM1ForCausalLM": _MINIMAX,
    "MiniMaxVL01ForConditionalGeneration": _MINIMAX,
}
# Configs without ``architectures``: inner ones, mostly.
BY_MODEL_TYPE: Mapping[str, str] = {
    "mamba": "MambaForCausalLM",
    "falcon_mamba": "FalconMambaForCausalLM",
    "jamba": "JambaForCausalLM",
    "mamba2": "Mamba2ForCausalLM",
    "bamba": "BambaForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "zamba2": "Zamba2ForCausalLM",
    "plamo2": "Plamo2ForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "minimax": "MiniMaxForCausalLM",
    "minimax_text_01": "MiniMaxText01ForCausalLM",
    "minimax_m1": "MiniMaxM1ForCausalLM",
}


# --------------------------------------------------------------------------------------
# The way in
# --------------------------------------------------------------------------------------


def parse_config(text: str) -> Model:
    """The model of a config.json's text. Raises SizesError with one sentence."""
    if len(text) > LONGEST_TEXT:
        raise SizesError(f"this text has {len(text):,} characters; a config.json has some thousand")
    if not text.strip():
        raise SizesError("there is no text; a config.json is an object such as {…}")
    try:
        data = json.loads(text.removeprefix("\ufeff"))
        json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SizesError(f"this is not JSON: {error.msg} at {place}") from None
    except UnicodeEncodeError:
        raise SizesError("this is not JSON: half of a \\u surrogate pair is no text") from None
    except (RecursionError, ValueError):  # ValueError: a number of thousands of digits
        raise SizesError("this is not the JSON of a config: far too deep, or too long") from None
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise SizesError(f"a config.json is an object of fields, and this is {kind}")
    return read_config(data)


def read_config(data: Mapping[str, Any]) -> Model:
    """The model of a config's fields. Raises SizesError with one sentence."""
    try:
        return _read(data)
    except ValidationError as error:  # of a number that follows from others
        first = error.errors(include_url=False)[0]
        raise SizesError(
            f"{first['loc'][-1]} = {_shown(first['input'])}: follows from this config, and "
            f"{first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None


def _read(data: Mapping[str, Any]) -> Model:
    inner, wrapper = _unwrapped(data)
    assumed = _tower_notes(data, wrapper)
    architecture, dialect = _dialect(data, inner, wrapper)
    if "ssm_cfg" in inner:
        inner = _as_published_by_mamba_ssm(inner)
    fields = Fields(inner, dialect, architecture, assumed)
    layers = _layers(fields, dialect)
    dtype = _model_dtype(data, inner, assumed)
    state_dtype, rule = _state_dtype(fields, dialect)
    recurrence = RECURRENCES[dialect.family](fields)
    return Model(
        name=_name(data, architecture),
        architecture=architecture,
        recurrence=recurrence,
        mamba_layers=layers.mamba,
        attention_layers=layers.attention,
        attention=_attention(fields, dialect) if layers.attention else None,
        dtype=dtype,
        state_dtype=state_dtype,
        state_dtype_rule=rule,
        chunk_size=fields.maybe("mamba_chunk_size", "chunk_size"),
        assumed=tuple(assumed),
    )


# --------------------------------------------------------------------------------------
# Fields and their names
# --------------------------------------------------------------------------------------


class Fields:
    """A config's fields by canonical name, each number judged when it is read."""

    def __init__(
        self,
        data: Mapping[str, Any],
        dialect: Dialect,
        architecture: str,
        assumed: list[str],
    ) -> None:
        self.data, self.dialect, self.architecture = data, dialect, architecture
        self.names = dialect.names
        self.assumed = assumed  # sentences on what the config leaves open

    def own_names(self, canonical: str) -> tuple[str, ...]:
        return (*self.names.get(canonical, ()), canonical)

    def maybe(self, canonical: str, *others: str, least: int = 1) -> int | None:
        """A whole number, None if there is no such field or it is null."""
        for name in (canonical, *self.names.get(canonical, ()), *others):
            value = self.data.get(name)
            if value is not None:
                return _whole(name, value, least)
        return None

    def number(self, canonical: str, least: int = 1, instead: str = "") -> int:
        """A whole number that has to be there."""
        value = self.maybe(canonical, least=least)
        if value is None:
            name = self.own_names(canonical)[0]
            raise SizesError(
                f"{name}: this config lacks it, and {self.architecture} cannot be sized without "
                f"it{instead}"
            )
        return value


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise SizesError(
            f"{name} = {_shown(value)}: must be a whole number from {least} to {MOST:,}"
        )
    return value


def _shown(value: Any) -> str:
    text = one_line(json.dumps(value, default=str, ensure_ascii=False))
    return text if len(text) <= 60 else text[:59] + "…"


# --------------------------------------------------------------------------------------
# Which model it is
# --------------------------------------------------------------------------------------


def _unwrapped(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The text model's fields, and the path to them (empty: not wrapped)."""
    path: list[str] = []
    inner = data
    for _ in range(DEEPEST):
        name = next((name for name in WRAPPERS if isinstance(inner.get(name), dict)), None)
        if name is None:
            break
        path.append(name)
        inner = inner[name]
    return inner, ".".join(path)


def _tower_notes(data: Mapping[str, Any], wrapper: str) -> list[str]:
    tower = next((name for name in TOWERS if isinstance(data.get(name), dict)), None)
    if tower is None:
        return [f"The fields were read from {wrapper}."] if wrapper else []
    if wrapper:
        return [
            f"The fields were read from {wrapper}; {tower} around it keeps no recurrent state and "
            "is left out."
        ]
    return []


def _dialect(
    data: Mapping[str, Any], inner: Mapping[str, Any], wrapper: str
) -> tuple[str, Dialect]:
    """The architecture and how to read it. Raises SizesError for one that is not known."""
    asked = [*_architectures(data), *(_architectures(inner) if wrapper else [])]
    for name in asked:
        if name in DIALECTS:
            return name, DIALECTS[name]
    for source in (inner, data):
        known = BY_MODEL_TYPE.get(str(source.get("model_type")))
        if known:
            return known, DIALECTS[known]
    if isinstance(inner.get("ssm_cfg"), dict):
        first = inner["ssm_cfg"].get("layer", "Mamba1") == "Mamba1"
        return ("MambaForCausalLM", _MAMBA1) if first else ("Mamba2ForCausalLM", _MAMBA2)
    family = data.get("family")
    if family in FAMILIES:
        name = asked[0] if asked else str(family)
        return name, Dialect(family, all_mamba=True, temporal="kda" if family == "kda" else "conv")
    raise SizesError(_unknown(data, inner, wrapper, asked))


def _architectures(data: Mapping[str, Any]) -> list[str]:
    listed = data.get("architectures", data.get("architecture"))
    names = listed if isinstance(listed, list) else [listed]
    return [one_line(name, 80) for name in names if isinstance(name, str) and name]


def _unknown(
    data: Mapping[str, Any], inner: Mapping[str, Any], wrapper: str, asked: list[str]
) -> str:
    kind = inner.get("model_type") or data.get("model_type")
    name = asked[0] if asked else one_line(str(kind), 80) if kind else ""
    where = f" (its text model is in {wrapper})" if wrapper else ""
    tower = next((tower for tower in TOWERS if isinstance(data.get(tower), dict)), None)
    if tower and not wrapper:
        return (
            f"{name or 'this config'} has {tower} and no {WRAPPERS[0]}: without the text model's "
            "fields there is no recurrent layer to size; paste the config of the text model"
        )
    said = f"{name}{where} is no architecture" if name else "this names no architecture"
    likely = _likely_family(inner)
    needs = " or ".join(
        f"{family} with {', '.join(_needed(family))}"
        for family in ((likely,) if likely else FAMILIES)
    )
    return (
        f'{said} whose rule is known; add "family" and its fields, {needs}, and "layers": '
        '{"mamba": n, "attention": n} (with attention also num_key_value_heads and head_dim)'
    )


def _needed(family: Family) -> list[str]:
    return [name for name in CLASSES[family].model_fields if name != "family"]


def _likely_family(fields: Mapping[str, Any]) -> Family | None:
    """The family whose canonical fields, all of which differ, the config has some of."""
    for family in ("gdn", "kda", "mamba2", "mamba1"):
        own = set(_needed(family)) - {"conv_kernel", "d_inner", "n_groups", "ssm_state_size"}
        if own & fields.keys() or (family == "mamba1" and "ssm_state_size" in fields):
            return family
    return None


def _name(data: Mapping[str, Any], architecture: str) -> str:
    for field_name in ("name", "_name_or_path", "hf_id"):
        name = data.get(field_name)
        if isinstance(name, str) and name.strip("./ "):
            return one_line(name.rstrip("/").rpartition("/")[2] or name, 80)
    return architecture


def _as_published_by_mamba_ssm(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first Mamba checkpoints: width, depth and layer kind; the rest are that layer's own
    defaults unless ``ssm_cfg`` says otherwise."""
    cfg = data["ssm_cfg"] if isinstance(data["ssm_cfg"], dict) else {}
    first = cfg.get("layer", "Mamba1") == "Mamba1"
    hidden = _whole("d_model", data.get("d_model", 0), 1)
    d_inner = _whole("expand", cfg.get("expand", 2), 1) * hidden
    fields = {
        "num_hidden_layers": data.get("n_layer"),
        "hidden_size": hidden,
        "d_inner": d_inner,
        "ssm_state_size": cfg.get("d_state", 16 if first else 128),
        "conv_kernel": cfg.get("d_conv", 4),
        "full_attn_idxs": data.get("attn_layer_idx") or None,
        "chunk_size": None if first else cfg.get("chunk_size", 256),
    }
    attention = data.get("attn_cfg") if isinstance(data.get("attn_cfg"), dict) else {}
    assert attention is not None
    fields["num_attention_heads"] = attention.get("num_heads")
    fields["num_key_value_heads"] = attention.get("num_heads_kv")
    fields["attention_head_dim"] = attention.get("head_dim")
    if not first:
        head_dim = _whole("ssm_cfg.headdim", cfg.get("headdim", 64), 1)
        fields["mamba_head_dim"] = head_dim
        fields["mamba_num_heads"] = d_inner // head_dim
        fields["n_groups"] = cfg.get("ngroups", 1)
    return {**{name: value for name, value in data.items() if name != "ssm_cfg"}, **fields}


# --------------------------------------------------------------------------------------
# Layers and dtypes
# --------------------------------------------------------------------------------------


def _layers(fields: Fields, dialect: Dialect) -> Layers:
    try:
        layers = count_layers(fields.data)
    except LayersError as error:
        raise SizesError(str(error)) from None
    if layers is None and dialect.all_mamba:
        total = fields.number("num_hidden_layers")
        layers = Layers(total, total if dialect.both else 0)
    if layers is None:
        raise SizesError(
            f"layer_types: this config does not say which layers of {fields.architecture} are "
            'recurrent; give layer_types, or "layers": {"mamba": n, "attention": n}'
        )
    if max(layers.mamba, layers.attention) > MOST_LAYERS:
        raise SizesError(
            f"num_hidden_layers: {layers.mamba:,} recurrent and {layers.attention:,} attention "
            f"layers are more than the {MOST_LAYERS:,} that are sized"
        )
    if layers.mamba == 0:
        raise SizesError(
            f"{fields.architecture} has {layers.attention} attention layers and no recurrent one "
            "here: there is no state to size"
        )
    return layers


def _model_dtype(data: Mapping[str, Any], inner: Mapping[str, Any], assumed: list[str]) -> Dtype:
    for source in (inner, data):
        for name in ("torch_dtype", "dtype"):
            if source.get(name) is not None:
                dtype = _dtype(name, source[name])
                if dtype == "float32":
                    assumed.append(
                        "The config says float32, so a number has 4 bytes. An engine may run such "
                        "a model in 16 bits: set the dtypes then."
                    )
                return dtype
    assumed.append("The config names no dtype: bfloat16 is assumed.")
    return "bfloat16"


def _dtype(name: str, value: Any) -> Dtype:
    text = str(value).removeprefix("torch.").lower()
    text = {"half": "float16", "float": "float32", "fp16": "float16", "bf16": "bfloat16"}.get(
        text, text
    )
    if text not in ("float32", "bfloat16", "float16"):
        raise SizesError(f"{name} = {_shown(value)}: must be bfloat16, float16 or float32")
    return text  # type: ignore[return-value]


def _state_dtype(fields: Fields, dialect: Dialect) -> tuple[Dtype | None, StateDtypeRule]:
    """The temporal state's dtype while everything is on auto; None: as the conv state."""
    if dialect.temporal == "kda":
        return "float32", "kda"
    if dialect.temporal == "nemotron":
        said = fields.data.get("mamba_ssm_cache_dtype")
        if said is None:
            return "float32", "nemotron absent"
        return _dtype("mamba_ssm_cache_dtype", said), "nemotron field"
    said = fields.data.get("mamba_ssm_dtype") if dialect.temporal == "qwen" else None
    return (_dtype("mamba_ssm_dtype", said), "qwen field") if said else (None, "conv")


# --------------------------------------------------------------------------------------
# Facts of each family
# --------------------------------------------------------------------------------------


def _mamba1(fields: Fields) -> Recurrence:
    return Mamba1(
        family="mamba1",
        d_inner=_inner(fields),
        ssm_state_size=fields.number("ssm_state_size"),
        conv_kernel=fields.number("conv_kernel", LEAST_KERNEL),
    )


def _mamba2(fields: Fields) -> Recurrence:
    heads = fields.number("mamba_num_heads")
    head_dim = _mamba_head_dim(fields, heads)
    stated = fields.maybe("d_inner")
    if stated is not None and stated != heads * head_dim:
        name = next(n for n in fields.own_names("d_inner") if fields.data.get(n) is not None)
        raise SizesError(
            f"{name} = {stated:,}: must be heads × head_dim = {heads} × {head_dim} = "
            f"{heads * head_dim:,}"
        )
    groups = fields.number("n_groups", least=0) if fields.dialect.grouped_conv else 0
    return Mamba2(
        family="mamba2",
        mamba_num_heads=heads,
        mamba_head_dim=head_dim,
        ssm_state_size=fields.number("ssm_state_size"),
        n_groups=groups,
        conv_kernel=fields.number("conv_kernel", LEAST_KERNEL),
    )


def _mamba_head_dim(fields: Fields, heads: int) -> int:
    """As stated; ``"auto"`` or nothing: what the heads have to share."""
    own = fields.own_names("mamba_head_dim")
    stated = next((fields.data[name] for name in own if fields.data.get(name) is not None), None)
    if stated is not None and stated != "auto":
        return fields.number("mamba_head_dim")
    width = _inner(fields)
    if width % heads:
        raise SizesError(
            f"{own[0]}: this config lacks it, and d_inner = {width:,} is no multiple of {heads} "
            "heads"
        )
    return width // heads


def _inner(fields: Fields) -> int:
    """The explicit inner size wins over expand × hidden_size, which need not agree with it."""
    stated = fields.maybe("d_inner")
    if stated is not None:
        return stated
    hint = "; d_inner would do instead"
    return fields.number("expand", instead=hint) * fields.number("hidden_size", instead=hint)


def _numbers(fields: Fields, family: Family) -> dict[str, int]:
    """All facts of a family, each under its canonical name."""
    return {
        name: fields.number(name, LEAST_KERNEL if "kernel" in name else 1)
        for name in _needed(family)
    }


def _gdn(fields: Fields) -> Recurrence:
    return GatedDeltaNet.model_validate({"family": "gdn"} | _numbers(fields, "gdn"))


def _kda(fields: Fields) -> Recurrence:
    """The recurrent part stands in a config of its own."""
    own = fields.data.get("linear_attn_config")
    if isinstance(own, dict):
        fields = Fields(own, fields.dialect, f"{fields.architecture}’s linear_attn_config", [])
    else:
        fields = Fields(fields.data, Dialect("kda"), fields.architecture, [])
    return KimiDelta.model_validate({"family": "kda"} | _numbers(fields, "kda"))


def _short_conv(fields: Fields) -> Recurrence:
    width = fields.maybe("conv_dim", "d_inner")
    if width is None:
        width = fields.number("hidden_size", instead="; conv_dim would do instead")
        fields.assumed.append("The config has no conv_dim: hidden_size is taken.")
    return ShortConv(
        family="short_conv", conv_dim=width, conv_kernel=fields.number("conv_kernel", LEAST_KERNEL)
    )


def _linear_attention(fields: Fields) -> Recurrence:
    heads = fields.number("linear_num_heads")
    head_dim = fields.maybe("linear_head_dim")
    if head_dim is None:
        head_dim = _quotient(fields, "hidden_size", "linear_num_heads")
    return LinearAttention(
        family="linear_attention", linear_num_heads=heads, linear_head_dim=head_dim
    )


RECURRENCES: Mapping[Family, Callable[[Fields], Recurrence]] = {
    "mamba1": _mamba1,
    "mamba2": _mamba2,
    "gdn": _gdn,
    "kda": _kda,
    "short_conv": _short_conv,
    "linear_attention": _linear_attention,
}


def _attention(fields: Fields, dialect: Dialect) -> Attention:
    if fields.data.get("kv_lora_rank") is not None:
        rope = fields.number("qk_rope_head_dim", least=0)
        return Latent(
            kind="latent", kv_lora_rank=fields.number("kv_lora_rank"), qk_rope_head_dim=rope
        )
    kv_heads = fields.maybe("num_key_value_heads")
    if kv_heads is None:
        hint = "; num_key_value_heads would do instead"
        kv_heads = fields.number("num_attention_heads", instead=hint)
    return Heads(
        kind="heads", num_key_value_heads=kv_heads, head_dim=_attention_head_dim(fields, dialect)
    )


def _attention_head_dim(fields: Fields, dialect: Dialect) -> int:
    """As stated, else the hidden size shared by the heads (of Zamba2: twice that)."""
    stated = fields.maybe("attention_head_dim", "head_dim")
    if stated is not None:
        return stated
    return _quotient(fields, "hidden_size", "num_attention_heads") * (
        2 if dialect.doubled_head_dim else 1
    )


def _quotient(fields: Fields, whole: str, parts: str) -> int:
    hint = "; head_dim would do instead"
    size, count = fields.number(whole, instead=hint), fields.number(parts, instead=hint)
    if size % count:
        raise SizesError(
            f"{whole} = {size:,}: is no multiple of {parts} = {count}, and there is no head_dim"
        )
    return size // count
