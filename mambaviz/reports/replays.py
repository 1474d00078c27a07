"""The scenario that replays each report: as it should run, and as it ran with the mistake.

Block sizes, drafts, prompts and accepted counts are the reports' own. Where a report's prompt
would be cut at a block boundary first, the draft model drops the last matched block, as EAGLE and
MTP do: a prompt of less than two blocks is then computed in one chunk, and the steps are the
report's. Block ids are ours. Pure data, no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mambaviz.scenario import Scenario, build

_ONE_CHUNK: Mapping[str, Any] = {"drop_last_matched_block": True}


def _scenario(
    report: str,
    *requests: Mapping[str, Any],
    layer: Mapping[str, Any] | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    **engine: Any,
) -> Scenario:
    return build(
        {
            "name": report,
            "engine": {"num_blocks": 24, **engine},
            "layer": dict(layer or {}),
            "requests": [dict(request) for request in requests],
            "events": [dict(event) for event in events],
        }
    )


def _changed(scenario: Scenario, faults: Sequence[str] = (), **engine: Any) -> Scenario:
    data = scenario.model_dump(mode="json")
    data["engine"] |= engine
    data["faults"] = list(faults)
    data["name"] += ", with the fault"
    return build(data)


def prompt_twice(length: int) -> Scenario:
    """S09: a prompt of so many tokens, and once it is done the same again."""
    prompt = [1000 + position for position in range(length)]
    return _scenario(
        "S09",
        {"id": "A", "prompt": prompt, "max_tokens": 1},
        {"id": "B", "prompt": prompt, "max_tokens": 1, "arrive": 3},
        block_size=16,
        num_spec=0,
    )


def without_the_stop(scenario: Scenario) -> Scenario:
    """S09's mistake is an older rule, a setting here."""
    return _changed(scenario, stop_before_last_token=False)


def no_draft_model(scenario: Scenario) -> Scenario:
    """S32: without a draft model that drops the last matched block, and without faults."""
    return _changed(scenario, drop_last_matched_block=False)


def ring(mode: str) -> Scenario:
    """S24: a prompt of 6, then decodes with a ring of 4, in either cache mode."""
    return _scenario(
        "S24",
        {"id": "A", "prompt_len": 6, "max_tokens": 7},
        mode=mode,
        block_size=8,
        num_spec=0,
        replayssm_buffer_len=4,
    )


def _a_turn_and_its_follow_up() -> Scenario:
    """S08. F takes 20 of a budget of 25, so 5 are left for A; B is A's 33 tokens and 7 more.

    A keeps no draft in its last step: its second block is registered when a step begins that
    knows all of its tokens, and not when it ends.
    """
    conversation = [2000 + position for position in range(20 + 13)]
    question = [7000 + position for position in range(7)]
    return _scenario(
        "S08",
        {"id": "F", "prompt_len": 20, "max_tokens": 1},
        {"id": "A", "prompt": conversation[:20], "max_tokens": 13, "accept": [2, 2, 2, 1, 0]},
        {"id": "B", "prompt": conversation + question, "max_tokens": 1, "arrive": 7},
        block_size=16,
        num_spec=2,
        max_num_batched_tokens=25,
        attention_group=True,
        **_ONE_CHUNK,
    )


_FIVE_TO_EIGHT = {"id": "A", "prompt_len": 5, "max_tokens": 8, "accept": [2]}
_SHARED = [1000 + position for position in range(11)]

# With the mistake as a fault of the same name.
_WITH_FAULT: Mapping[str, tuple[str, Scenario]] = {
    "S01": (
        "stale-column",
        _scenario(
            "S01",
            {"id": "A", "prompt_len": 14, "max_tokens": 4},
            events=[{"step": 3, "kind": "reset_running"}],
            num_spec=0,
            prefill_chunk_limit=8,
        ),
    ),
    "S02": (
        "worker-row-not-grown",
        _scenario(
            "S02",
            {"id": "A", "prompt_len": 6, "max_tokens": 12, "accept": [3]},
            num_spec=3,
            **_ONE_CHUNK,
        ),
    ),
    "S03": ("unordered-in-place-shift", _scenario("S03", _FIVE_TO_EIGHT, **_ONE_CHUNK)),
    "S04": ("reset-seen-by-siblings", _scenario("S04", _FIVE_TO_EIGHT, runner="v2", **_ONE_CHUNK)),
    "S05": (
        "block-table-row-by-slot",
        _scenario(
            "S05",
            {"id": "X", "prompt_len": 6, "max_tokens": 8, "accept": [2]},
            {"id": "Z", "prompt_len": 6, "max_tokens": 8, "accept": "none"},
            runner="v2",
            num_spec=3,
            max_num_seqs=2,
            **_ONE_CHUNK,
        ),
    ),
    "S08": ("chunk-ends-inside-block", _a_turn_and_its_follow_up()),
    "S11": (
        "counts-permuted-twice",
        _scenario(
            "S11",
            {"id": "A", "prompt_len": 3, "max_tokens": 4, "accept": [2]},
            {"id": "B", "prompt_len": 3, "max_tokens": 8, "accept": [0]},
            {"id": "C", "prompt_len": 5, "max_tokens": 8, "accept": [1]},
            {"id": "E", "prompt_len": 9, "max_tokens": 4, "arrive": 2},
            num_spec=2,
            num_blocks=32,
            **_ONE_CHUNK,
        ),
    ),
    "S13": (
        "stale-graph-buffers",
        _scenario(
            "S13",
            {"id": "A", "prompt_len": 6, "max_tokens": 5},
            {"id": "B", "prompt_len": 2, "max_tokens": 5},
            mode="all",
            num_spec=0,
            num_mamba_groups=2,
            full_cuda_graphs=True,
        ),
    ),
    "S14": (
        "padding-not-null",
        _scenario(
            "S14",
            {"id": "A", "prompt_len": 18, "max_tokens": 6},
            {"id": "B", "prompt_len": 3, "max_tokens": 4},
            {"id": "C", "prompt_len": 3, "max_tokens": 4},
            {"id": "D", "prompt_len": 3, "max_tokens": 2},
            block_size=16,
            num_spec=0,
            full_cuda_graphs=True,
        ),
    ),
    "S16": (
        "first-chunk-as-decode",
        _scenario(
            "S16",
            # Whoever had the two blocks before: their bytes stay there.
            {"id": "O", "prompt_len": 1, "max_tokens": 1},
            {"id": "P", "prompt_len": 1, "max_tokens": 1},
            {"id": "A", "prompt_len": 9, "max_tokens": 4, "arrive": 1},
            {"id": "B", "prompt_len": 9, "max_tokens": 1, "arrive": 8},
            mode="none",
            block_size=16,
            num_spec=0,
            num_blocks=3,
            max_num_batched_tokens=2,
        ),
    ),
    "S17": (
        "short-extend-as-prefill",
        _scenario(
            "S17",
            {"id": "A", "prompt_len": 9, "max_tokens": 5},
            {"id": "B", "prompt_len": 10, "max_tokens": 2, "arrive": 2},
            mode="none",
            block_size=16,
            num_spec=0,
            prefill_chunk_limit=9,
            full_cuda_graphs=True,
        ),
    ),
    "S21": (
        "chunks-on-a-fixed-grid",
        _scenario(
            "S21",
            {"id": "A", "prompt_len": 13, "max_tokens": 2},
            mode="all",
            block_size=8,
            num_spec=0,
            prefill_chunk_limit=7,
        ),
    ),
    "S22": (
        "short-chunk-writes-its-source",
        _scenario(
            "S22",
            {"id": "P", "prompt": _SHARED[:9], "max_tokens": 1},
            {"id": "A", "prompt": _SHARED[:10], "max_tokens": 2, "arrive": 2},
            mode="all",
            block_size=8,
            num_spec=0,
        ),
    ),
    "S24": ("replay-anchor-not-moved", ring("align")),
    "S26": (
        "offset-lost-without-drafts",
        _scenario(
            "S26",
            {"id": "A", "prompt_len": 20, "max_tokens": 6, "drafts": [3, 0], "accept": [2]},
            mode="none",
            block_size=16,
            num_spec=3,
        ),
    ),
    "S29": (
        "ds-copied-flat",
        _scenario(
            "S29",
            {"id": "A", "prompt_len": 5, "max_tokens": 6, "accept": [1]},
            # Two channels of four tokens, of two bytes each; this seed leaves no number 0.
            layer={
                "num_heads": 1,
                "head_dim": 2,
                "conv_kernel": 3,
                "cache_dtype": "float16",
                "seed": 2,
            },
            layout="DS",
            **_ONE_CHUNK,
        ),
    ),
    "S32": (
        "scratch-registered",
        _scenario(
            "S32",
            {"id": "A", "prompt": _SHARED, "max_tokens": 1},
            {"id": "B", "prompt": [*_SHARED, 7000, 7001], "max_tokens": 1, "arrive": 2},
            num_spec=1,
            **_ONE_CHUNK,
        ),
    ),
    "S36": (
        "chunks-on-a-fixed-grid",
        _scenario(
            "S36",
            {"id": "F", "prompt_len": 8, "max_tokens": 1},
            {"id": "B", "prompt_len": 15, "max_tokens": 2},
            {"id": "A", "prompt_len": 5, "max_tokens": 2, "arrive": 1},
            mode="all",
            block_size=8,
            num_spec=0,
            max_num_batched_tokens=14,
        ),
    ),
    "S37": (
        "chunk-ends-inside-block",
        _scenario(
            "S37",
            {"id": "A", "prompt_len": 20, "max_tokens": 1},
            block_size=16,
            num_spec=0,
            max_num_batched_tokens=8,
        ),
    ),
}

FAULT_OF: Mapping[str, str] = {report: fault for report, (fault, _) in _WITH_FAULT.items()}

# S20 and S33 do not run: the engine refuses the one, and has no such ranks for the other.
AS_IT_SHOULD: Mapping[str, Scenario] = {
    **{report: scenario for report, (_, scenario) in _WITH_FAULT.items()},
    "S09": prompt_twice(32),
}
WITH_THE_FAULT: Mapping[str, Scenario] = {
    **{report: _changed(scenario, [fault]) for report, (fault, scenario) in _WITH_FAULT.items()},
    "S09": without_the_stop(prompt_twice(32)),
}
