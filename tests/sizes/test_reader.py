"""config.json files as they are published, and bad ones: each gets one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.sizes import export
from mambaviz.sizes.families import CLASSES, FAMILIES, Mamba2, SizesError
from mambaviz.sizes.layers import Layers, LayersError, count_layers
from mambaviz.sizes.model import Heads, Latent
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.reader import BY_MODEL_TYPE, DIALECTS, parse_config, read_config
from mambaviz.sizes.report import size
from mambaviz.sizes.settings import Settings, settings_of

# As on the hub, with fields that no size needs.
GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attention_multiplier": 0.0078125,
    "bos_token_id": 100257,
    "embedding_multiplier": 12,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 768,
    "layer_types": ["mamba"] * 5 + ["attention"] + ["mamba"] * 9 + ["attention"] + ["mamba"] * 24,
    "mamba_chunk_size": 256,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 128,
    "model_type": "granitemoehybrid",
    "num_attention_heads": 32,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
    "vocab_size": 100352,
}
QWEN = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "image_token_id": 248056,
    "model_type": "qwen3_5",
    "text_config": {
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_size": 2560,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "model_type": "qwen3_5_text",
        "num_attention_heads": 16,
        "num_hidden_layers": 32,
        "num_key_value_heads": 4,
        "rope_parameters": {"rope_theta": 10000000},
    },
    "vision_config": {"depth": 24, "hidden_size": 1024, "model_type": "qwen3_5"},
}
BAMBA = {
    "architectures": ["BambaForCausalLM"],
    "attn_layer_indices": [9, 18, 27],
    "hidden_size": 4096,
    "mamba_d_conv": 4,
    "mamba_d_head": "auto",
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 128,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}


def parsed(config: dict[str, Any], **changes: Any) -> Any:
    return parse_config(json.dumps({**config, **changes}))


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def test_a_published_config_is_taken_as_it_is() -> None:
    model = parsed(GRANITE)
    assert (model.mamba_layers, model.attention_layers, model.chunk_size) == (38, 2, 256)
    assert model.attention == Heads(kind="heads", num_key_value_heads=8, head_dim=128)
    assert size(model, Settings()).page.bytes == 2_147_840


def test_a_text_config_inside_a_vision_model_is_found_and_said() -> None:
    model = parsed(QWEN)
    assert size(model, Settings()).block == 528
    assert model.state_dtype_rule == "qwen field"
    assert model.assumed == (
        "The fields were read from text_config; vision_config around it keeps no recurrent state "
        "and is left out.",
    )


def test_a_head_dim_of_auto_is_worked_out() -> None:
    model = parsed(BAMBA)
    assert isinstance(model.recurrence, Mamba2)
    assert model.recurrence.mamba_head_dim == 64
    assert (model.mamba_layers, model.attention_layers) == (29, 3)


def test_falcon_mamba_expand_is_not_read() -> None:
    falcon = {
        "architectures": ["FalconMambaForCausalLM"],
        "conv_kernel": 4,
        "expand": 16,
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "num_hidden_layers": 64,
        "state_size": 16,
        "torch_dtype": "bfloat16",
    }
    assert size(parsed(falcon), Settings()).page.bytes == 311_296


def test_falcon_h1_inner_size_wins_over_expand() -> None:
    names = ("mamba_d_ssm", "mamba_expand", "hidden_size")
    falcon = {**GRANITE, "architectures": ["FalconH1ForCausalLM"], **dict.fromkeys(names, 0)}
    falcon |= {"mamba_d_ssm": 3072, "mamba_n_heads": 24, "mamba_d_head": 128, "mamba_expand": 2}
    falcon |= {"hidden_size": 3072, "mamba_d_state": 256, "head_dim": 128}
    model = parsed(without(falcon, "layer_types"))
    assert (model.mamba_layers, model.attention_layers) == (40, 40)
    assert size(model, Settings()).page.bytes == 1_594_368


def test_zamba2_attention_head_is_doubled() -> None:
    zamba = {
        "architectures": ["Zamba2ForCausalLM"],
        "hidden_size": 3584,
        "hybrid_layer_ids": [6, 11, 17],
        "mamba_d_conv": 4,
        "mamba_d_state": 64,
        "mamba_expand": 2,
        "mamba_ngroups": 2,
        "n_mamba_heads": 112,
        "num_attention_heads": 32,
        "num_hidden_layers": 81,
        "num_key_value_heads": 32,
    }
    model = parsed(zamba)
    assert model.attention == Heads(kind="heads", num_key_value_heads=32, head_dim=224)
    assert (model.mamba_layers, model.attention_layers) == (81, 3)
    assert model.assumed == ("The config names no dtype: bfloat16 is assumed.",)


def test_kimi_keeps_its_recurrent_part_in_a_config_of_its_own() -> None:
    kimi = {
        "architectures": ["KimiLinearForCausalLM"],
        "head_dim": 72,
        "kv_lora_rank": 512,
        "linear_attn_config": {
            "full_attn_layers": [4],
            "head_dim": 128,
            "kda_layers": [1, 2, 3],
            "num_heads": 32,
            "short_conv_kernel_size": 4,
        },
        "num_attention_heads": 32,
        "num_hidden_layers": 4,
        "qk_rope_head_dim": 64,
    }
    model = parsed(kimi)
    assert model.attention == Latent(kind="latent", kv_lora_rank=512, qk_rope_head_dim=64)
    assert size(model, Settings()).page.bytes == 2_170_880
    assert size(model, Settings()).block == 1920


def test_the_first_mamba_checkpoints_name_width_depth_and_kind_only() -> None:
    model = parsed({"d_model": 768, "n_layer": 24, "ssm_cfg": {}, "vocab_size": 50277})
    assert size(model, Settings()).page.shapes.temporal == (1536, 16)
    assert model.mamba_layers == 24


def test_a_model_in_float32_has_sizes_in_float32_and_says_so() -> None:
    model = parsed(GRANITE, torch_dtype="float32")
    assert size(model, Settings()).page.bytes == 2 * 2_147_840
    assert model.assumed[0].startswith("The config says float32, so a number has 4 bytes.")


def test_every_model_type_leads_to_a_known_architecture() -> None:
    assert set(BY_MODEL_TYPE.values()) <= DIALECTS.keys()
    model = parsed(without(GRANITE, "architectures"))
    assert model.architecture == "GraniteMoeHybridForCausalLM"


@pytest.mark.parametrize("family", FAMILIES)
def test_an_unknown_architecture_can_give_its_family_and_fields(family: str) -> None:
    fields = {name: 4 for name in CLASSES[family].model_fields if name != "family"}
    fields = dict.fromkeys(fields, 4) | ({"d_inner": 16} if "d_inner" in fields else {})
    model = parsed({"architectures": ["New"], "family": family, **fields}, num_hidden_layers=2)
    assert (model.recurrence.family, model.mamba_layers, model.name) == (family, 2, "New")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hybrid_override_pattern": "MEM*EM-"}, Layers(3, 1)),
        ({"layers_block_type": ["mamba", "hybrid", "mlp", "moe", "attention"]}, Layers(2, 2)),
        ({"attn_type_list": [0, 0, 0, 1]}, Layers(3, 1)),
        ({"full_attn_idxs": [2, 5], "num_hidden_layers": 8}, Layers(6, 2)),
        (
            {"attn_layer_period": 8, "attn_layer_offset": 4, "num_hidden_layers": 32},
            Layers(28, 4),
        ),
        ({"full_attention_interval": 4, "num_hidden_layers": 48}, Layers(36, 12)),
        ({"mamba_step": 2, "num_hidden_layers": 16}, Layers(8, 8)),
        ({"layers": {"mamba": 4, "attention": 0}}, Layers(4, 0)),
        ({}, None),
    ],
)
def test_layers_in_every_notation(fields: dict[str, Any], expected: Layers | None) -> None:
    assert count_layers(fields) == expected


def test_an_unknown_kind_of_layer_is_named() -> None:
    with pytest.raises(LayersError, match="“wkv” is no kind of layer; known are"):
        count_layers({"layer_types": ["mamba", "wkv"]})


def bad(text: str) -> str:
    with pytest.raises(SizesError) as caught:
        parse_config(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no text; a config.json is an object such as {…}"),
        ("model: mamba", "this is not JSON: Expecting value at line 1, column 1"),
        ('{"a": 1,}', "this is not JSON: Expecting property name enclosed in double quotes"),
        ("[1]", "a config.json is an object of fields, and this is a list"),
        ('"mamba"', "a config.json is an object of fields, and this is a single value"),
        ("[" * 100_000, "this is not the JSON of a config"),
        ("1" * 5000, "this is not the JSON of a config"),
        ("x" * 1_000_001, "this text has 1,000,001 characters"),
        ('{"model_type": "\\ud800"}', "this is not JSON: half of a"),
        ("{}", "this names no architecture whose rule is known"),
    ],
)
def test_text_that_is_no_config(text: str, sentence: str) -> None:
    assert bad(text).startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"mamba_d_state": None},
            "mamba_d_state: this config lacks it, and GraniteMoeHybridForCausalLM cannot be sized "
            "without it",
        ),
        ({"mamba_n_heads": -128}, "mamba_n_heads = -128: must be a whole number from 1 to"),
        ({"mamba_n_heads": True}, "mamba_n_heads = true: must be a whole number from 1 to"),
        ({"mamba_d_conv": 1}, "mamba_d_conv = 1: must be a whole number from 2 to"),
        ({"mamba_d_conv": 3.5}, "mamba_d_conv = 3.5: must be a whole number from 2 to"),
        ({"mamba_d_conv": "4"}, 'mamba_d_conv = "4": must be a whole number from 2 to'),
        ({"mamba_d_state": 10**40}, "mamba_d_state = 1000000"),
        ({"torch_dtype": "int7"}, 'torch_dtype = "int7": must be bfloat16, float16 or float32'),
        ({"mamba_d_ssm": 100}, "mamba_d_ssm = 100: must be heads × head_dim = 128 × 64 = 8,192"),
        ({"layer_types": None}, "layer_types: this config does not say which layers"),
        (
            {"layer_types": ["attention"] * 40},
            "GraniteMoeHybridForCausalLM has 40 attention layers and no recurrent one here",
        ),
        ({"num_attention_heads": 31}, "hidden_size = 4,096: is no multiple of num_attention_heads"),
        ({"num_attention_heads": None}, "num_attention_heads: this config lacks it"),
    ],
)
def test_a_bad_field_is_named_as_the_config_names_it(
    changes: dict[str, Any], sentence: str
) -> None:
    assert bad(json.dumps({**GRANITE, **changes})).startswith(sentence)


def test_a_vision_tower_without_a_text_model() -> None:
    sentence = bad(json.dumps({"architectures": ["SomeVLM"], "vision_config": {"depth": 2}}))
    assert sentence.startswith("SomeVLM has vision_config and no text_config")


def test_a_vision_tower_around_a_text_model_without_state() -> None:
    llava = {
        "architectures": ["Llava"],
        "vision_config": {},
        "text_config": {"model_type": "llama"},
    }
    sentence = bad(json.dumps(llava))
    assert sentence.startswith("Llava (its text model is in text_config) is no architecture whose")


def test_an_unknown_architecture_says_which_fields_it_would_need() -> None:
    config = {"architectures": ["NewNet"], "linear_num_value_heads": 8}
    assert bad(json.dumps(config)) == (
        'NewNet is no architecture whose rule is known; add "family" and its fields, gdn with '
        "linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim, "
        'linear_conv_kernel_dim, and "layers": {"mamba": n, "attention": n} (with attention also '
        "num_key_value_heads and head_dim)"
    )
    assert all(f"{family} with " in bad('{"architectures": ["Foo"]}') for family in FAMILIES)


def test_a_split_that_cannot_be_is_refused() -> None:
    nemotron = read_config(
        {
            "architectures": ["NemotronHForCausalLM"],
            "conv_kernel": 4,
            "head_dim": 128,
            "layers": {"mamba": 2, "attention": 1},
            "mamba_head_dim": 64,
            "mamba_num_heads": 96,
            "n_groups": 8,
            "num_key_value_heads": 6,
            "ssm_state_size": 128,
        }
    )
    with pytest.raises(SizesError, match="tp = 16 does not divide n_groups = 8: groups are only"):
        size(nemotron, settings_of({"tp": 16}))
    with pytest.raises(SizesError, match="tp = 5 does not divide mamba_num_heads = 96"):
        size(nemotron, settings_of({"tp": 5}))
    with pytest.raises(SizesError, match="6 KV heads can neither be split over 4 ranks nor"):
        size(nemotron, settings_of({"tp": 4}))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"tp": 0}, "tp = 0: allowed 1 to 256"),
        ({"num_spec": -1}, "num_spec = -1: allowed 0 to 64"),
        ({"mode": "some"}, "mode = 'some': input should be 'none', 'align' or 'all'"),
        ({"blocksize": 16}, "blocksize: there is no such field; did you mean block_size?"),
    ],
)
def test_a_bad_setting_is_named(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SizesError) as caught:
        settings_of(values)
    assert str(caught.value) == sentence


STRANGE = [None, True, 0, -1, 1, 3, 2**31 - 1, 10**30, 1.5, float("nan"), "", "x", [], [7], {}]


@pytest.mark.parametrize("slug", MODELS)
def test_whatever_stands_in_a_field_gives_sizes_or_a_sentence(slug: str) -> None:
    """Every field of every config, its value replaced by strange ones; inner configs too."""
    config = MODELS[slug].config
    places: list[tuple[str, ...]] = []
    for name, value in config.items():
        places.append((name,))
        places += [(name, inner) for inner in (value if isinstance(value, dict) else ())]
    for place in places:
        for strange in [*STRANGE, ["mamba"] * 20_000]:
            changed = json.loads(json.dumps(config))
            owner = changed if len(place) == 1 else changed[place[0]]
            owner[place[-1]] = strange
            outcome = sized_or_said(json.dumps(changed))
            assert isinstance(outcome, int) or (outcome.isprintable() and len(outcome) < 1200)
            assert outcome


def sized_or_said(text: str) -> int | str:
    """Bytes of the state page, or the sentence on why there are none."""
    try:
        report = size(parse_config(text), settings_of({"num_spec": 2, "tp": 2}))
        return json.loads(export.to_json(report))["sizes"]["mamba_page_bytes"]
    except SizesError as error:
        return str(error)
