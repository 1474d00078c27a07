"""Limits: stated once, held before work starts, and said with what to shrink."""

from __future__ import annotations

import random
import re
import tomllib
from dataclasses import asdict
from typing import Any

import pytest

from mambaviz import limits
from mambaviz.cache.layout import page_bytes
from mambaviz.explore.scope import MOST_SHAPES
from mambaviz.largest import largest_scenario
from mambaviz.limits import LARGE, USUAL
from mambaviz.pages.explorations import BOUND
from mambaviz.random_scenarios import random_scenario
from mambaviz.scenario import PRESETS, Scenario, ScenarioError, build
from mambaviz.workload import WORDS, Workload, guarded, within
from tests.project.sources import ROOT

A = {"id": "A", "prompt_len": 5}
BIG_LAYER = {"num_layers": 8, "num_heads": 16, "head_dim": 16, "d_state": 32}


def scenario(**fields: Any) -> Scenario:
    return build({"requests": [A], **fields})


def long(count: int = 1, **plan: Any) -> list[dict[str, Any]]:
    return [{**A, "id": f"r{index}", "accept": "none", **plan} for index in range(count)]


# What breaks each limit, and what its sentence names first.
TOO_MUCH = {
    "state_bytes": (
        {"engine": {"num_blocks": 4096}, "layer": BIG_LAYER},
        "engine.num_blocks = 4096: the run would come to 1,241,513,984 bytes of state",
    ),
    "steps": (
        {"engine": {"max_model_len": 65_536}, "requests": long(max_tokens=60_000)},
        "requests[0].max_tokens = 60000: the run would come to 60,000 steps, allowed are 2,000; "
        "requests[0].max_tokens can be 2000 at most here",
    ),
    "rows": (
        {
            "engine": {"max_model_len": 2_000, "max_num_seqs": 64},
            "requests": long(64, max_tokens=1_000),
        },
        "requests = 64 entries: the run would come to 384,640 request rows",
    ),
    "recurrences": (
        {
            "engine": {"max_model_len": 65_536, "max_num_batched_tokens": 65_536},
            "requests": long(prompt_len=60_000),
        },
        "requests[0].prompt_len = 60000: ",
    ),
    "truth_bytes": (
        {
            "engine": {"max_model_len": 65_536, "max_num_batched_tokens": 65_536},
            "layer": {**BIG_LAYER, "num_heads": 2},
            "requests": long(prompt_len=12_000),
        },
        "",
    ),
    "watched_bytes": (
        {
            "engine": {"num_blocks": 70, "max_model_len": 1_000},
            "layer": BIG_LAYER,
            "requests": long(max_tokens=400),
        },
        "",
    ),
    "table_entries": (
        {
            "engine": {"num_blocks": 4_096, "max_model_len": 2_000},
            "requests": long(max_tokens=900),
        },
        "",
    ),
}


def test_every_limit_has_words_and_a_case() -> None:
    assert list(asdict(USUAL)) == list(WORDS) == list(TOO_MUCH)
    assert list(asdict(Workload.of(scenario()))) == list(WORDS)


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_work_is_refused_with_what_to_shrink(name: str) -> None:
    fields, start = TOO_MUCH[name]
    asked = scenario(**fields)
    only = {**asdict(LARGE), name: getattr(USUAL, name)}
    with pytest.raises(ScenarioError) as caught:
        within(asked, limits.Bounds(**only))
    sentence = str(caught.value)
    assert sentence.startswith(start)
    assert f"{WORDS[name]}, allowed are {getattr(USUAL, name):,}; " in sentence
    assert sentence.endswith(" at most here")


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_the_sentence_advises_fits_and_one_more_does_not(name: str) -> None:
    fields, _ = TOO_MUCH[name]
    asked = scenario(**fields)
    only = limits.Bounds(**{**asdict(LARGE), name: getattr(USUAL, name)})
    with pytest.raises(ScenarioError) as caught:
        within(asked, only)
    advice = re.search(r"; (\w+)(?:\[(\d+)\])?(?:\.(\w+))? can be (\d+)", str(caught.value))
    assert advice, caught.value
    section, index, field, fit = advice.groups()

    def changed(value: int) -> Scenario:
        data = asked.model_dump(mode="json")
        if field is None:
            data[section] = data[section][:value]
        else:
            (data[section] if index is None else data[section][int(index)])[field] = value
        return build(data)

    assert within(changed(int(fit)), only)
    with pytest.raises(ScenarioError):
        within(changed(int(fit) + 1), only)


def test_where_no_single_field_is_enough_two_are_named() -> None:
    asked = scenario(
        engine={"max_model_len": 65_536, "max_num_seqs": 64},
        requests=long(64, prompt_len=6_000, max_tokens=60_000),
    )
    with pytest.raises(ScenarioError, match=r"; lower .* and .*") as caught:
        within(asked, USUAL)
    assert "engine.max_model_len (65536)" in str(caught.value)


def test_what_comes_with_the_project_is_far_within() -> None:
    for one in (*PRESETS.values(), largest_scenario()):
        found = asdict(Workload.of(within(one, USUAL)))
        assert all(8 * found[name] <= most for name, most in asdict(USUAL).items()), found
    for seed in range(100):
        within(random_scenario(random.Random(seed)), USUAL)
    assert all(most < asdict(LARGE)[name] for name, most in asdict(USUAL).items())


def test_pages_are_reckoned_as_they_are_made() -> None:
    """`page_bytes` knows no torch; what is allocated must not be another thing."""
    from mambaviz.cache.tensors import mamba_spec

    for seed in range(30):
        asked = random_scenario(
            random.Random(seed),
            cache_dtypes=("float32", "float16", "bfloat16"),
            page_paddings=(0, 5, 12),
            states=("both", "conv", "temporal"),
            replayssm=True,
        )
        spec = mamba_spec(asked)
        assert spec.page_size_bytes == page_bytes(asked) >= spec.page_size_natural


def test_the_work_reckoned_is_that_of_a_real_run() -> None:
    from mambaviz.engine import run

    asked = PRESETS["a-long-prompt-in-chunks"]
    trace, found = run(asked, backend="reference"), Workload.of(asked)
    assert found.steps == len(trace.steps)
    rows = sum(len(step.requests) for step in trace.steps) * asked.layer.num_layers
    assert rows <= found.rows <= 2 * rows
    pages = trace.states[0].page_bytes * asked.engine.num_blocks * asked.layer.num_layers
    assert found.state_bytes == pages


def test_a_run_that_goes_on_for_longer_than_reckoned_is_ended() -> None:
    told = []
    report = guarded(USUAL, lambda done, words: told.append(done))
    report(USUAL.steps, "one more is too many")
    with pytest.raises(ScenarioError, match=r"ended after 2,000 steps.*raise engine.num_blocks"):
        report(USUAL.steps + 1, "")
    assert told == [USUAL.steps, USUAL.steps + 1]


# ---- stated ---------------------------------------------------------------------------------

ROW = re.compile(r"^\| .* \| `(\w+)` \| ([\d,]+) \|(?: ([\d,]+) \|)?$", re.MULTILINE)


def test_the_document_says_the_numbers_that_are_held() -> None:
    text = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    stated = {name: [usual, large] for name, usual, large in ROW.findall(text)}
    numbers = {
        name: [f"{value:,}", ""]
        for name, value in vars(limits).items()
        if name.startswith(("MOST_", "LONGEST_"))
    }
    numbers |= {
        name: [f"{most:,}", f"{asdict(LARGE)[name]:,}"] for name, most in asdict(USUAL).items()
    }
    assert stated == numbers
    assert f"{BOUND.combinations:,} combinations and {BOUND.scenarios:,} scenarios" in text
    assert f"up to {MOST_SHAPES:,} combinations" in text


def test_the_server_knows_the_size_of_an_upload() -> None:
    config = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
    assert config["server"]["maxUploadSize"] == limits.MOST_RECORDING_MB
