"""Blocks that a request holds, beside what the engine really hands out."""

from __future__ import annotations

import pytest

from mambaviz.costs import blocks_held
from mambaviz.engine import run
from mambaviz.scenario import build
from mambaviz.sizes import memory
from mambaviz.sizes.memory import Layout
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.report import size
from mambaviz.sizes.settings import MODES, Mode, Settings, settings_of

QWEN = MODELS["qwen3-8-27b"].model


def layout(scratch: int, block: int = 4) -> Layout:
    return Layout(mamba_layers=1, attention_layers=0, block=block, page=1, scratch=scratch)


@pytest.mark.parametrize("drafts", [0, 1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_no_request_of_the_engine_holds_more(mode: Mode, drafts: int) -> None:
    """One request from its first to its last token; most at once is what the formula says."""
    tokens = 13
    scenario = build(
        {
            "engine": {"mode": mode, "num_spec": drafts, "num_blocks": 40, "max_model_len": 64},
            "layer": {"num_layers": 1, "num_heads": 1, "head_dim": 1, "d_state": 1},
            "requests": [{"id": "A", "prompt_len": tokens, "max_tokens": 14}],
        }
    )
    trace = run(scenario, backend="reference")
    held = [blocks_held(trace.tables_after(step.index, "allocate")) for step in trace.steps]
    ends = [
        max(request.num_computed + request.num_scheduled for request in step.requests.values())
        for step in trace.steps
    ]
    limits = [memory.state_blocks(layout(drafts), mode, end) for end in ends]
    assert all(have <= limit for have, limit in zip(held, limits, strict=True))
    assert max(held) == (limits[0] if mode == "all" else max(limits))


def test_by_hand() -> None:
    """48 layers with 2 states and 16 with ⌈32768 / 784⌉ = 42 blocks, pages of 3,211,264 bytes."""
    report = size(QWEN, Settings())
    assert memory.request_bytes(report.layout, "align", 32_768) == (48 * 2 + 16 * 42) * 3_211_264
    assert memory.request_bytes(report.layout, "none", 32_768) == (48 * 1 + 16 * 42) * 3_211_264
    pages = 40 * 2**30 // 3_211_264
    assert memory.requests_that_fit(report.layout, "align", 32_768, 40.0) == pages // 768


def test_checkpoints_inside_a_prefill_take_one_more() -> None:
    report = size(QWEN, settings_of({"prefill_checkpoints": True, "num_spec": 2}))
    assert memory.state_blocks(report.layout, "align", 100) == 5


def test_all_mode_has_a_block_of_its_own() -> None:
    """2048, the chunk where the config has none, also when another mode is the chosen one."""
    report = size(QWEN, Settings())
    assert report.layout_in("all").block == 2048
    assert report.layout_in("none") == report.layout


def test_the_curve_steps_where_a_block_begins() -> None:
    report = size(QWEN, Settings())
    curve = dict(report.memory_curve("align"))
    assert curve[1] < curve[785]
    assert max(curve) == 2 * 32_768
    for tokens, held in curve.items():
        assert held == memory.request_bytes(report.layout, "align", tokens)
    assert len(size(MODELS["lfm2-1-2b"].model, Settings()).memory_curve("none")) < 500
