"""A small scenario for every named mistake, in which it does damage; without it, none.

Made by hand, each as short as its author could think of. The faults that act in the default
preset are shown there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mambaviz.faults import FAULTS
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario, build

# A draft model that drops the last matched block has a prompt of less than two blocks computed
# in one chunk; without it every prompt stops at its last boundary.
_ONE_CHUNK: Mapping[str, Any] = {"drop_last_matched_block": True}

# Five tokens, then both drafts accepted: 8 tokens, in the very column that the boundary completes.
_TO_THE_BOUNDARY = {"id": "A", "prompt_len": 5, "max_tokens": 6, "accept": [2]}
# Two drafts accepted, then one, before the next boundary: the state lies a token further on.
_ONE_PAST = {"id": "A", "prompt_len": 5, "max_tokens": 6, "accept": [1]}


def _scenario(
    fault: str,
    *requests: Mapping[str, Any],
    layer: Mapping[str, Any] | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    **engine: Any,
) -> Scenario:
    what = FAULTS[fault].what
    return build(
        {
            "name": fault,
            "story": f"For the fault {fault}: {what}.",
            "engine": engine,
            "layer": dict(layer or {}),
            "requests": list(requests),
            "events": list(events),
        }
    )


def _shared(length: int, **more: Any) -> dict[str, Any]:
    """A request over the prompt 1000, 1001, ..., which others can share."""
    return {"prompt": [1000 + position for position in range(length)], "max_tokens": 2, **more}


def _scenarios() -> dict[str, Scenario]:
    default = PRESETS[DEFAULT_PRESET]
    return {
        "accepted-count-not-reset": default,
        "bias-off-by-one": default,
        "wrong-block-table-row": default,
        "pre-copy-skipped": default,
        "reset-seen-by-siblings": _scenario(
            "reset-seen-by-siblings", _TO_THE_BOUNDARY, runner="v2", **_ONE_CHUNK
        ),
        "stale-column": _scenario(
            "stale-column",
            {"id": "A", "prompt_len": 9, "max_tokens": 2},
            events=[{"step": 2, "kind": "reset_running"}],
            num_spec=0,
            prefill_chunk_limit=4,
        ),
        "column-in-wrong-block-size": _scenario(
            "column-in-wrong-block-size",
            _shared(5, id="A"),
            _shared(6, id="B", arrive=3),
            num_spec=0,
        ),
        "block-table-row-by-slot": _scenario(
            "block-table-row-by-slot",
            _ONE_PAST,
            {"id": "B", "prompt_len": 5, "max_tokens": 6, "accept": "none"},
            runner="v2",
            max_num_seqs=2,
            **_ONE_CHUNK,
        ),
        "request-arrays-by-batch-row": _scenario(
            "request-arrays-by-batch-row",
            _ONE_PAST,
            {"id": "B", "prompt_len": 5, "max_tokens": 6, "accept": "none"},
            runner="v2",
            max_num_seqs=2,
            **_ONE_CHUNK,
        ),
        "unordered-in-place-shift": _scenario(
            "unordered-in-place-shift", _TO_THE_BOUNDARY, **_ONE_CHUNK
        ),
        "ds-copied-flat": _scenario("ds-copied-flat", _ONE_PAST, layout="DS", **_ONE_CHUNK),
        "temporal-source-without-bias": _scenario(
            "temporal-source-without-bias", _TO_THE_BOUNDARY, **_ONE_CHUNK
        ),
        "counts-permuted-twice": _scenario(
            "counts-permuted-twice",
            {"id": "A", "prompt_len": 3, "max_tokens": 2},
            {"id": "B", "prompt_len": 5, "max_tokens": 8, "accept": [1]},
            {"id": "C", "prompt_len": 3, "max_tokens": 8, "accept": "none", "arrive": 1},
            **_ONE_CHUNK,
        ),
        "worker-row-not-grown": _scenario(
            "worker-row-not-grown",
            {"id": "A", "prompt_len": 6, "max_tokens": 10, "accept": [3]},
            num_spec=3,
            **_ONE_CHUNK,
        ),
        "chunk-ends-inside-block": _scenario(
            "chunk-ends-inside-block",
            {"id": "F", "prompt_len": 4, "max_tokens": 1},
            {"id": "A", "prompt_len": 5, "max_tokens": 1},
            max_num_batched_tokens=6,
            **_ONE_CHUNK,
        ),
        "scratch-registered": _scenario(
            "scratch-registered",
            {"id": "A", "prompt_len": 11, "max_tokens": 1},
            num_spec=1,
            **_ONE_CHUNK,
        ),
        "padding-not-null": _scenario(
            "padding-not-null",
            {"id": "A", "prompt_len": 3, "max_tokens": 6},
            {"id": "B", "prompt_len": 3, "max_tokens": 6},
            {"id": "C", "prompt_len": 3, "max_tokens": 6},
            {"id": "D", "prompt_len": 3, "max_tokens": 2},
            num_spec=0,
            full_cuda_graphs=True,
        ),
        "first-chunk-as-decode": _scenario(
            "first-chunk-as-decode",
            {"id": "A", "prompt_len": 3, "max_tokens": 2},
            {"id": "B", "prompt_len": 4, "max_tokens": 2, "arrive": 2},
            mode="none",
            num_spec=0,
            num_blocks=2,
            max_num_batched_tokens=3,
            prefill_chunk_limit=1,
        ),
        "short-extend-as-prefill": _scenario(
            "short-extend-as-prefill",
            {"id": "A", "prompt_len": 4, "max_tokens": 2},
            mode="none",
            num_spec=0,
            prefill_chunk_limit=3,
        ),
        "metadata-of-another-group": _scenario(
            "metadata-of-another-group",
            {"id": "A", "prompt_len": 3, "max_tokens": 4},
            num_spec=0,
            num_mamba_groups=2,
        ),
        "stale-graph-buffers": _scenario(
            "stale-graph-buffers",
            {"id": "A", "prompt_len": 7, "max_tokens": 4},
            mode="all",
            num_spec=0,
            num_mamba_groups=2,
            full_cuda_graphs=True,
        ),
        "offset-lost-without-drafts": _scenario(
            "offset-lost-without-drafts",
            {"id": "A", "prompt_len": 3, "max_tokens": 5, "drafts": [2, 0], "accept": [2]},
            mode="none",
        ),
        "chunks-on-a-fixed-grid": _scenario(
            "chunks-on-a-fixed-grid",
            {"id": "A", "prompt_len": 6, "max_tokens": 1},
            mode="all",
            num_spec=0,
            prefill_chunk_limit=3,
        ),
        "replay-anchor-not-moved": _scenario(
            "replay-anchor-not-moved",
            {"id": "A", "prompt_len": 3, "max_tokens": 4},
            num_spec=0,
            replayssm_buffer_len=4,
        ),
        "window-from-computed-column": _scenario(
            "window-from-computed-column",
            {"id": "A", "prompt_len": 3, "max_tokens": 4, "accept": "none"},
            mode="all",
        ),
        "short-chunk-writes-its-source": _scenario(
            "short-chunk-writes-its-source",
            {"id": "A", "prompt_len": 6, "max_tokens": 1},
            mode="all",
            num_spec=0,
            prefill_chunk_limit=4,
        ),
    }


FAULT_SCENARIOS: Mapping[str, Scenario] = _scenarios()
