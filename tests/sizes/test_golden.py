"""Every entry, variant and public statement of tests/golden/models.json, to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mambaviz.sizes.model import Model
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.reader import parse_config
from mambaviz.sizes.report import Report, size
from mambaviz.sizes.settings import settings_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "models.json").read_text())
ENTRIES = {entry["name"]: entry for entry in GOLDEN["models"]}
STATEMENTS = GOLDEN["statements"]
BY_NAME = {public.name: public.model for public in MODELS.values()}

CHANGES: dict[str, dict[str, Any]] = {
    "fp8 KV": {"kv_dtype": "fp8"},
    "float32 temporal state": {"temporal_dtype": "float32"},
    "bfloat16 temporal state": {"temporal_dtype": "bfloat16"},
    "TP=2": {"tp": 2},
    "2 draft tokens": {"num_spec": 2},
}
CASES = [(name, None) for name in ENTRIES] + [
    (name, index)
    for name, entry in ENTRIES.items()
    for index in range(len(entry["derived"]["variants"]))
]
INPUTS = {"variant", "variants", "assumes", "tp", "num_spec", "kv_dtype"}


def derived(report: Report) -> dict[str, Any]:
    """The report under the names of the golden data."""
    page, token, alignment = report.page, report.token, report.alignment
    found = {
        "conv_state_shape": page.shapes.conv and list(page.shapes.conv),
        "conv_state_dtype": page.conv_dtype,
        "temporal_state_shape": page.shapes.temporal and list(page.shapes.temporal),
        "temporal_state_dtype": page.temporal_dtype,
        "conv_bytes": page.conv_bytes,
        "temporal_bytes": page.temporal_bytes,
        "mamba_page_bytes": page.bytes,
        "mamba_bytes_all_layers": page.bytes * report.model.mamba_layers,
        "attention_bytes_per_token_per_layer": None,
        "attention_bytes_per_token_all_layers": None,
        "tokens_to_cover_state": None,
        "attention_block_size": None,
        "block_size_raised": None,
        "aligned_page_bytes": None,
        "padding_bytes": None,
        "padding_percent": None,
    }
    if token is not None and alignment is not None:
        found |= {
            "attention_bytes_per_token_per_layer": token.bytes,
            "attention_bytes_per_token_all_layers": token.bytes * report.model.attention_layers,
            "tokens_to_cover_state": alignment.tokens_to_cover,
            "attention_block_size": alignment.block,
            "block_size_raised": alignment.raised,
            "aligned_page_bytes": alignment.attention_page,
            "padding_bytes": alignment.padding,
            "padding_percent": round(alignment.padding_percent, 2),
        }
    return found


def wanted(name: str, variant: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a case and what has to come out."""
    case = ENTRIES[name]["derived"]
    if variant is None:
        return {}, case
    return CHANGES[case["variants"][variant]["variant"]], case["variants"][variant]


def test_the_data_has_every_entry_and_variant() -> None:
    assert len(ENTRIES) == 16
    assert len(CASES) - len(ENTRIES) == 51
    assert BY_NAME.keys() == ENTRIES.keys()


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_sizes_of_the_models_that_come_with_the_project(name: str, variant: int | None) -> None:
    settings, expected = wanted(name, variant)
    found = derived(size(BY_NAME[name], settings_of(settings)))
    keys = expected.keys() - INPUTS
    assert keys
    assert {key: found[key] for key in keys} == {key: expected[key] for key in keys}


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_pasted_under_the_names_of_the_data(name: str, variant: int | None) -> None:
    entry = ENTRIES[name]
    model = parse_config(json.dumps({"architecture": entry["architecture"], **entry["config"]}))
    settings, expected = wanted(name, variant)
    found = derived(size(model, settings_of(settings)))
    keys = expected.keys() - INPUTS
    assert {key: found[key] for key in keys} == {key: expected[key] for key in keys}
    assert model.recurrence.family == entry["family"]
    layers = entry["config"]["layers"]
    assert (model.mamba_layers, model.attention_layers) == (layers["mamba"], layers["attention"])


@pytest.mark.parametrize("row", range(len(STATEMENTS)))
def test_public_statements(row: int) -> None:
    statement = STATEMENTS[row]
    report = size(model_of(statement), settings_of(statement["settings"]))
    alignment, token, conv = report.alignment, report.token, report.page.shapes.conv
    assert alignment is not None
    assert token is not None
    assert conv is not None
    found = {
        "block": alignment.block,
        "percent": round(alignment.padding_percent, 2),
        "padding": alignment.padding,
        "page": alignment.attention_page,
        "mamba_page": report.page.bytes,
        "tokens_to_cover": alignment.tokens_to_cover,
        "token": token.bytes,
        "conv_dim": conv[1],
        "conv_bytes": report.page.conv_bytes,
        "temporal_bytes": report.page.temporal_bytes,
    }
    expected = statement["expected"]
    assert {name: found[name] for name in expected} == expected


def model_of(statement: dict[str, Any]) -> Model:
    if "config" in statement:
        return parse_config(json.dumps(statement["config"]))
    return BY_NAME[statement["model"]]


def test_all_mode_puts_the_chunk_into_the_block() -> None:
    """lcm(256, 16) = 256: 525 tokens need 3 of them. Without a chunk it is 2048."""
    granite = size(BY_NAME["Granite-4.0-H-Small"], settings_of({"mode": "all"}))
    assert granite.block == 768
    qwen = size(BY_NAME["Qwen3.8-27B"], settings_of({"mode": "all"}))
    assert qwen.block == 2048


def test_a_configured_block_that_is_wide_enough_stays() -> None:
    report = size(BY_NAME["Qwen3.8-27B"], settings_of({"block_size": 1024}))
    assert report.alignment is not None
    assert (report.block, report.alignment.raised) == (1024, False)
    assert report.alignment.padding == 1024 * 4096 - 3_207_168


def test_the_block_is_a_multiple_that_every_kernel_takes() -> None:
    settings = settings_of({"block_size": 1000, "kernel_block": 64})
    assert size(BY_NAME["Qwen3.8-27B"], settings).block == 1024


def test_ranks_beyond_the_kv_heads_repeat_them() -> None:
    """4 KV heads: from 4 ranks on a token does not shrink, the state does."""
    blocks = [size(BY_NAME["Qwen3.8-27B"], settings_of({"tp": tp})).block for tp in (2, 4, 8)]
    assert blocks == [784, 784, 400]
