"""Runs that the pictures are drawn from, computed once by the reference back end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.engine import run
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace

HOSTILE = "</script><b>&\"'"  # a request's name may come from a file


def run_of(**fields: Any) -> Trace:
    return run(build(fields), backend="reference")


def request(name: str, prompt: int, **fields: Any) -> dict[str, Any]:
    return {"id": name, "prompt_len": prompt, **fields}


@pytest.fixture(scope="session")
def watch() -> Trace:
    """The run of the first picture: A and B decode with two drafts a step."""
    return run(PRESETS["drafts-meet-the-boundary"], backend="reference")


@pytest.fixture(scope="session")
def faulty() -> Trace:
    """The same with a bias that is one too large: guards stop copies, invariants break."""
    scenario = json.loads(PRESETS["drafts-meet-the-boundary"].model_dump_json())
    return run_of(**{**scenario, "faults": ["bias-off-by-one"]})


@pytest.fixture(scope="session")
def crowd() -> Trace:
    """Five requests, one with a hostile name, in a pool that gets full."""
    requests = [
        request(HOSTILE, 6, accept=[1, 2, 0]),
        request("B", 9, accept=[2, 0]),
        request("C", 12, arrive=1, accept=[2, 0]),
        request("D", 3, arrive=2),
        request("E", 17, arrive=2),
    ]
    return run_of(engine={"num_blocks": 20}, requests=requests)


@pytest.fixture(scope="session")
def none_mode() -> Trace:
    return run_of(engine={"mode": "none"}, requests=[request("A", 6, accept=[1, 2, 0])])


@pytest.fixture(scope="session")
def all_mode() -> Trace:
    return run_of(
        engine={"mode": "all", "num_blocks": 32}, requests=[request("A", 6, accept=[1, 2, 0])]
    )


@pytest.fixture(scope="session")
def wide_ds() -> Trace:
    """DS layout, V2 runner, blocks of eight, four drafts."""
    engine = {
        "layout": "DS", "runner": "v2", "block_size": 8, "num_spec": 4, "num_blocks": 32,
    }  # fmt: skip
    requests = [request("A", 6, max_tokens=20, accept=[3, 2, 0]), request("B", 19, accept=[4, 0])]
    return run_of(engine=engine, requests=requests)


@pytest.fixture(scope="session")
def hybrid() -> Trace:
    """Two Mamba groups and an attention group."""
    engine = {"num_blocks": 40, "attention_group": True, "num_mamba_groups": 2}
    return run_of(
        engine=engine, layer={"num_layers": 4}, requests=[request("A", 6, accept=[1, 2, 0])]
    )


@pytest.fixture(scope="session")
def long_run() -> Trace:
    """Ninety tokens: a long axis, folded bars."""
    return run_of(
        engine={"max_model_len": 160, "num_blocks": 48},
        layer={"num_layers": 1},
        requests=[request("A", 10, max_tokens=90, accept=[2, 0, 1])],
    )


RUNS = (
    "watch",
    "faulty",
    "crowd",
    "none_mode",
    "all_mode",
    "wide_ds",
    "hybrid",
    "long_run",
)
