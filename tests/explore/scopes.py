"""Scopes small enough to go through in a test."""

from __future__ import annotations

from typing import Any

from mambaviz.explore.scope import Scope

ENGINE = {"max_num_seqs": 3, "max_model_len": 24}


def scope(**fields: Any) -> Scope:
    return Scope.model_validate({"name": "test", "engine": ENGINE, **fields})


# One request, 14 runs of up to 4 steps.
ONE = scope(block_sizes=[4], num_specs=[1], prompt_lens=[3, 4], max_tokens=[5], steps=4)
# Two requests, four engine configurations.
TWO = scope(
    block_sizes=[2, 4],
    num_specs=[0, 1],
    num_requests=[1, 2],
    prompt_lens=[2, 3],
    max_tokens=[4],
    arrivals=[0, 1],
    shared_prefix=[False, True],
    steps=3,
)
