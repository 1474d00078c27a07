"""Words, warnings, exports, measured rates, the small run, the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mambaviz.command_line import main
from mambaviz.engine import run
from mambaviz.sizes import export
from mambaviz.sizes.copy_rates import CopyRate, measured, nearest
from mambaviz.sizes.explained import sections
from mambaviz.sizes.models import DEFAULT_MODEL, MODELS
from mambaviz.sizes.report import Report, size
from mambaviz.sizes.settings import Settings, settings_of
from mambaviz.sizes.small import small_scenario
from mambaviz.sizes.warnings import warnings

RATES = (
    CopyRate("small", 1, 1, "SD", 1_000_000, 2.0, "a card"),
    CopyRate("large", 1, 24, "SD", 100_000_000, 50.0, "a card"),
    CopyRate("other", 1, 24, "DS", 100_000_000, 80.0, "a card"),
)


def report(model: str = DEFAULT_MODEL, **settings: Any) -> Report:
    return size(MODELS[model].model, settings_of(settings), RATES)


def facts(told: Report) -> dict[str, Any]:
    return {fact.key: fact for section in sections(told) for fact in section.facts}


@pytest.mark.parametrize("mode", ["none", "align", "all"])
@pytest.mark.parametrize("model", MODELS)
def test_every_number_tells_formula_rule_and_source(model: str, mode: str) -> None:
    told = facts(report(model, mode=mode, num_spec=2))
    assert len(told) == sum(len(s.facts) for s in sections(report(model, mode=mode, num_spec=2)))
    for fact in told.values():
        assert fact.label
        assert fact.shown
        assert fact.formula
        assert fact.rule.endswith(".")
        assert fact.source


def test_the_block_sizes_of_a_model_in_one_place() -> None:
    told = facts(report())
    assert told["attention_block_size"].value == 784
    assert told["attention_block_size"].formula == "16 × ⌈3,207,168 / (16 × 4,096)⌉"
    assert told["mamba_block_size"].value == 784
    assert told["hash_block_size"].value == 784
    assert told["chunk_size"].value is None
    assert told["padding_percent"].value == "0.13 %"
    assert facts(report(mode="none"))["hash_block_size"].value is None
    assert facts(report(mode="none"))["mamba_block_size"].value == "the whole length"


def test_a_crossing_by_hand() -> None:
    """S = 1, always kept: 2 tokens a step, both copies with half a row's bias; DS as SD."""
    told = facts(report(num_spec=1, acceptance=1.0))
    page, row = 61_440 // 3 * 4 + 3_145_728, 20_480
    assert told["crossings_per_thousand"].value == pytest.approx(
        1000 * 2 / told["grain"].value / 50
    )
    assert told["migrate_bytes"].value == 48 * (page - row // 2)
    assert told["checkpoint_bytes"].value == 48 * (page - row // 2)
    assert told["crossing_bytes"].value == 96 * (page - row // 2)
    # Each copy is nearest to the large measured one: 2 bytes a picosecond.
    assert told["crossing_us"].value == pytest.approx(96 * (page - row // 2) / 2e6)
    swapped = facts(report(num_spec=1, acceptance=1.0, layout="DS"))
    assert swapped["crossing_bytes"].value == told["crossing_bytes"].value
    assert swapped["conv_state_shape"].value == (10_240, 4)
    assert swapped["crossing_us"].value == pytest.approx(told["crossing_us"].value * 1.6)


def test_only_align_copies_and_no_rate_gives_no_time() -> None:
    assert facts(report(mode="none"))["crossing_bytes"].value == 0
    assert "crossing_us" not in facts(report(mode="all"))
    bare = facts(size(MODELS[DEFAULT_MODEL].model, Settings()))
    assert bare["crossing_us"].value is None


def said(told: Report) -> str:
    return " ".join(warnings(told))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"prompt": 784}, "784 tokens do not pass one block of 784"),
        ({"prefill_budget": 512}, "wider than the prefill budget of 512: no chunk covers one"),
        ({"mode": "none"}, "Prefix caching is off"),
        ({"model": "granite-4-0-h-small"}, "528 tokens is no multiple of the model’s chunk of 256"),
        (
            {"model": "mamba2-2-7b", "mode": "all", "block_size": 100},
            "inert: a block of 100 tokens is no multiple of the chunk of 256",
        ),
        ({"model": "jamba-1-5-mini", "num_spec": 2}, "mamba1 layers take no draft tokens: the 2"),
        ({"model": "mamba2-2-7b"}, "Without attention there is no page to align with"),
        ({"model": "mamba2-2-7b", "num_spec": 20}, "20 tokens does not fit a block of 16"),
        (
            {"flashinfer_gdn": True, "mode": "none"},
            "FlashInfer prefill matters to gated",
        ),
    ],
)
def test_warnings(settings: dict[str, Any], sentence: str) -> None:
    assert sentence in said(report(**settings))


def test_nothing_to_warn_of() -> None:
    assert said(report(prompt=785)) == ""


def test_exports_hold_input_and_numbers() -> None:
    told = report(num_spec=2, tp=2)
    data = json.loads(export.to_json(told))
    assert data["settings"]["tp"] == 2
    assert data["model"]["recurrence"]["linear_num_value_heads"] == 48
    assert data["sizes"]["attention_block_size"] == told.block
    assert data["sizes"]["conv_state_shape"] == [5, 5120]
    rows = list(csv.DictReader(io.StringIO(export.to_csv(told))))
    assert len(rows) == len(data["explained"]) == len(facts(told))
    assert {row["number"]: row["value"] for row in rows}["Attention block"] == str(told.block)


def test_headline_and_sentence() -> None:
    assert (
        export.headline(report()) == "Qwen3.8-27B: blocks of 784 tokens, pages of 3,211,264 bytes"
    )
    assert "raised from 16 to 784 tokens, and 0.13 % of padding" in export.sentence(report())
    assert "covers the state of 8,192 bytes already" in export.sentence(report("lfm2-1-2b"))
    assert "no attention" in export.sentence(report("falcon-mamba-7b"))


# ---- measured rates -------------------------------------------------------------------------


def test_the_committed_measurements_are_read() -> None:
    rates = measured()
    assert {rate.layout for rate in rates} == {"SD", "DS"}
    one = next(r for r in rates if (r.crossing, r.layers, r.layout) == (1, 24, "SD"))
    assert one.bytes == 24 * (4 * 2**20 + 5 * 10_240 * 2)
    assert all(0.1e6 < rate.bytes_per_microsecond < 10e6 for rate in rates)


def test_no_measurement_and_a_broken_one(tmp_path: Path) -> None:
    assert measured(tmp_path / "none.json") == ()
    broken = tmp_path / "broken.json"
    broken.write_text('{"cases": 3}')
    with pytest.raises(ValueError, match=r"broken\.json cannot be read"):
        measured(broken)


def test_the_nearest_case_is_nearest_as_a_ratio_and_of_the_same_layout_if_there_is_one() -> None:
    assert nearest(RATES, 9_000_000, "SD") == RATES[0]
    assert nearest(RATES, 11_000_000, "SD") == RATES[0]
    assert nearest(RATES, 13_000_000, "SD") == RATES[1]
    assert nearest(RATES, 13_000_000, "DS") == RATES[2]
    assert nearest(RATES, 5_000_000, "DS") == RATES[0]
    assert nearest(RATES, 10**12, "DS") == RATES[2]
    assert nearest((), 1, "SD") is None


def test_a_small_copy_gets_no_time_from_a_large_one() -> None:
    assert nearest(RATES, 100_000, "SD") is None
    told = facts(report("lfm2-1-2b"))
    assert told["crossing_us"].value is None
    assert told["crossing_us"].formula == "no measured launch copies nearly as little"


# ---- small ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "align", "all"])
@pytest.mark.parametrize(
    "model", [DEFAULT_MODEL, "falcon-mamba-7b", "lfm2-1-2b", "minimax-text-01"]
)
def test_every_shape_runs_small(model: str, mode: str) -> None:
    scenario = small_scenario(report(model, mode=mode, num_spec=2, layout="DS"))
    trace = run(scenario, backend="reference")
    assert trace.violations == []
    assert trace.scenario.engine.mode == mode


def test_ratios_are_kept() -> None:
    """784 tokens become 4: a prompt of 3,920 becomes 20, a budget of 1,568 becomes 8."""
    scenario = small_scenario(report(prompt=3920, prefill_budget=1568))
    assert scenario.engine.block_size == 4
    assert scenario.requests[0].num_prompt_tokens == 20
    assert scenario.engine.max_num_batched_tokens == 8
    assert scenario.layer.num_layers == 3  # 48 to 16
    sides = (scenario.layer.num_heads, scenario.layer.head_dim, scenario.layer.d_state)
    assert sides == (2, 4, 4)  # 48, 128, 128
    assert scenario.engine.attention_group
    assert "One token here stands for 196 of Qwen3.8-27B" in scenario.story


def test_what_is_inert_stays_inert_small() -> None:
    """B asks with A's prompt: of a prompt within one block it finds nothing."""
    for prompt, finds in ((700, False), (2400, True)):
        trace = run(small_scenario(report(prompt=prompt)), backend="reference")
        first = next(s.requests["B"] for s in trace.steps if "B" in s.requests)
        assert (first.num_computed > 0) == finds


# ---- command line ---------------------------------------------------------------------------


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizes", DEFAULT_MODEL, "num_spec=7", "block_size=816"]) == 0
    out = capsys.readouterr().out
    assert "1,632 tokens" in out
    assert "99.51 %" in out
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MODELS["lfm2-1-2b"].config))
    assert main(["sizes", str(config), "kv_dtype=fp8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"]["aligned_page_bytes"] == 16_384
    assert main(["sizes", DEFAULT_MODEL, "--csv"]) == 0
    assert capsys.readouterr().out.startswith("section,number,value")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope"], "nope: neither a file nor a model; the models are"),
        (["nope.json"], "nope.json: cannot be read: No such file"),
        ([DEFAULT_MODEL, "tp=7"], "tp = 7 does not divide linear_num_key_heads = 16"),
        ([DEFAULT_MODEL, "tp"], "tp: a setting is name=value; the names are tp,"),
        ([DEFAULT_MODEL, "mode=[[["], "mode = '[[[': input should be 'none', 'align' or 'all'"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sizes", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert error.count("\n") == 1
