"""Full-graph padding as a run option: padded rows go through the kernels and change nothing."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.scenario import Scenario, build
from mambaviz.trace import Trace


def scenario(runner: str, mode: str, full_cuda_graphs: bool) -> Scenario:
    """Three requests, so that a decode batch is padded to four rows."""
    return build(
        {
            "engine": {
                "mode": mode,
                "runner": runner,
                "num_blocks": 40,
                "full_cuda_graphs": full_cuda_graphs,
            },
            "requests": [
                {"id": name, "prompt_len": length, "accept": [1, 0, 2]}
                for name, length in (("A", 5), ("B", 8), ("C", 3))
            ],
        }
    )


@pytest.mark.parametrize(
    ("runner", "mode"), [("v1", "align"), ("v2", "align"), ("v1", "none"), ("v1", "all")]
)
def test_padded_rows_change_no_byte(runner: str, mode: str) -> None:
    plain = engine.run(scenario(runner, mode, False), backend="reference")
    padded = engine.run(scenario(runner, mode, True), backend="reference")
    assert not padded.violations
    assert rows(plain) != rows(padded)
    assert (3, 4) in set(zip(rows(plain), rows(padded), strict=True))
    for one, two in zip(plain.steps, padded.steps, strict=True):
        for left, right in zip(one.phases, two.phases, strict=True):
            assert left.changes == right.changes


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_the_kernels_are_launched_over_the_padded_rows(runner: str) -> None:
    trace = engine.run(scenario(runner, "align", True), backend="reference")
    step = next(s for s in trace.steps if len(s.order) == 3 and number(s, "num_decodes") == 4)
    grids = {launch.kernel: launch.grid for launch in step.phase("forward").launches}
    assert grids["causal_conv1d_decode_kernel"][0] == 4
    assert grids["selective_state_decode_kernel"][0] == 4
    if runner == "v2":  # its copies are padded too: a negative slot in the mapping
        launch = step.phase("pre-copy").launches[-1]
        assert launch.grid[0] == 4
        assert launch.inputs["idx_mapping"].values[3] == -1


def rows(trace: Trace) -> list[int]:
    return [number(step, "num_reqs") for step in trace.steps]


def number(step: object, name: str) -> int:
    field = next(f for f in step.metadata[0].fields if f.name == name)
    return field.value
