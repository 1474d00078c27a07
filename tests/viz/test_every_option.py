"""Runs over all options of the engine are drawn: every phase, as payload and as SVG."""

from __future__ import annotations

import json
import random
from xml.etree import ElementTree

import pytest

from mambaviz import engine
from mambaviz.random_scenarios import random_scenario
from mambaviz.trace import PHASES, Trace
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.svg import stage_scene, to_svg
from mambaviz.viz.views import frames
from mambaviz.viz.words import words

SEEDS = range(30)


def run_of(seed: int) -> Trace:
    scenario = random_scenario(
        random.Random(f"drawn {seed}"),
        modes=("align", "none", "all"),
        runners=("v1", "v2"),
        layouts=("SD", "DS"),
        conv_kernels=(2, 3, 4),
        cache_dtypes=("float32", "float16", "bfloat16"),
        chunk_sizes=(2, 4),
        page_paddings=(0, 64),
        mamba_groups=(1, 2),
        attention=(False, True),
        events=True,
        replayssm=True,
        full_cuda_graphs=(False, True),
        drop_last_matched_block=(False, True),
        states=("both", "conv", "temporal"),
        max_requests=3,
        sufficient=False,
    )
    return engine.run(scenario, backend="reference")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_phase_is_drawn(seed: int) -> None:
    trace = run_of(seed)
    data = json.loads(stage_payload(trace).text)
    assert len(data["steps"]) == len(trace.steps)
    request = trace.scenario.requests[0].id
    layer = trace.states[-1].layer
    for frame in frames(trace):
        scene = stage_scene(frame, request, layer)
        told = words(frame, request, layer)
        picture = to_svg(scene, told.headline)
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        assert "None" not in " ".join([*scene.texts(), told.headline, told.plain])
    assert frame.index + 1 == len(trace.steps) * len(PHASES)
