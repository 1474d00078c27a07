"""A scenario that cannot run is refused with one line: field, value, what would be right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.scenario import MOST_BLOCKS, MOST_TOKENS, ScenarioError, load, parse

A = {"id": "A", "prompt_len": 5}


def refusal(**fields: Any) -> str:
    """The sentence for a scenario of request A and these fields."""
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps({"requests": [A], **fields}))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.isprintable()
    assert len(sentence) <= 600
    return sentence


ENGINE = [
    ({"block_size": 0}, f"engine.block_size = 0: allowed 1 to {MOST_TOKENS}"),
    ({"num_blocks": 10**20}, f"engine.num_blocks = {10**20}: allowed 2 to {MOST_BLOCKS}"),
    ({"max_num_seqs": 2**63}, f"engine.max_num_seqs = {2**63}: allowed 1 to 64"),
    ({"mode": "some"}, "engine.mode = 'some': input should be 'none', 'align' or 'all'"),
    ({"num_spec": 4}, "engine.num_spec = 4: in align mode 1 + num_spec must not exceed"),
    ({"mode": "all", "runner": "v2"}, "engine.runner = 'v2': all mode runs on the V1 runner only"),
    ({"mode": "all", "block_size": 6}, "engine.block_size = 6: in all mode it must be a multiple"),
    ({"replayssm_buffer_len": 4}, "engine.replayssm_buffer_len = 4: ReplaySSM does not go with"),
    (
        {"replayssm_buffer_len": 4, "num_spec": 0, "mode": "all"},
        "engine.replayssm_buffer_len = 4: ReplaySSM runs in none and align mode only",
    ),
    (
        {"replayssm_buffer_len": 4, "num_spec": 0, "runner": "v2"},
        "engine.replayssm_buffer_len = 4: ReplaySSM runs on the V1 runner only",
    ),
    ({"num_mamba_groups": 3}, "engine.num_mamba_groups = 3: every group needs a layer"),
    ({"retention": 0}, "engine.retention: must be 'dense', 'boundary', or a number of tokens"),
    ({"num_blocks": 3}, "requests[0] (A): a prompt of 5 tokens needs 3 blocks"),
    ({"max_model_len": 5}, "requests[0] (A): a prompt of 5 tokens leaves no room"),
    ({"blok_size": 8}, "engine.blok_size: there is no such field; did you mean block_size?"),
    ({"block_size": True}, "engine.block_size = True: input should be a valid integer"),
]


@pytest.mark.parametrize(("engine", "start"), ENGINE)
def test_engine_settings(engine: dict[str, Any], start: str) -> None:
    assert refusal(engine=engine).startswith(start)


REQUESTS = [
    ({"accept": [3]}, "requests[0] (A): accept = 3 drafts, but a step proposes at most 2"),
    ({"accept": {"rate": 2}}, "requests[0].accept: must be 'all', 'none', a list of accepted"),
    ({"drafts": "abc"}, "requests[0].drafts: must be a number of drafts"),
    ({"drafts": 3}, "requests[0] (A): drafts = 3, but num_spec is 2; allowed 0 to 2"),
    ({"prompt": [1]}, "requests[0] = "),
    ({"prompt_len": 0}, f"requests[0].prompt_len = 0: allowed 1 to {MOST_TOKENS}"),
    ({"arrive": 10**6}, "requests[0].arrive = 1000000: allowed 0 to 1000"),
]


@pytest.mark.parametrize(("plan", "start"), REQUESTS)
def test_requests(plan: dict[str, Any], start: str) -> None:
    assert refusal(requests=[{**A, **plan}]).startswith(start)


def test_low_precision_counts() -> None:
    sentence = refusal(
        engine={"max_model_len": 400},
        layer={"cache_dtype": "bfloat16"},
        requests=[{"id": "A", "prompt_len": 300}],
    )
    assert "a bfloat16 cache counts exactly only up to 256" in sentence


def test_names() -> None:
    assert "the id is taken" in refusal(requests=[A, A])
    assert "no request 'Z'" in refusal(events=[{"step": 1, "kind": "abort", "request": "Z"}])
    assert "needs the id of a request" in refusal(events=[{"step": 1, "kind": "abort"}])
    assert "'no such'" in refusal(faults=["no such"])


@pytest.mark.parametrize("hostile", ["y" * 150_000, "a\nb", "\x1b[31m", "<b>"])
def test_a_strangers_text_stays_one_short_line(hostile: str) -> None:
    refusal(faults=[hostile])
    refusal(**{hostile: 1})
    refusal(events=[{"step": 1, "kind": "abort", "request": hostile}])


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "this is not JSON"), ("[]", "an object of fields"), ("{}", "requests: this field")],
)
def test_what_is_no_scenario(text: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        parse(text)


def test_files(tmp_path) -> None:
    text = json.dumps({"requests": [A]})
    good = tmp_path / "good.json"
    good.write_text("\ufeff" + text, encoding="utf-8")  # as some editors write it
    assert load(good).requests[0].id == "A"
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"\xff\xfe\x00")
    for path, words in ((bad, "not UTF-8"), (tmp_path, "cannot be read"), ("a\0b", "read")):
        with pytest.raises(ScenarioError, match=words):
            load(path)
