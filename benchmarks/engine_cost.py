"""Milliseconds per engine step without pictures, and how they grow (plain back end).

Decode steps of `mambaviz.engine.run` in align mode with two drafts: scheduler, worker, metadata,
forward, oracle and every invariant included. One number of the scenario grows at a time.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from mambaviz import engine
from mambaviz.scenario import Scenario, build

REPEATS = 3
BASE: dict[str, int] = {"requests": 2, "layers": 2, "new tokens": 30}
GROWTH: dict[str, tuple[int, ...]] = {
    "requests": (1, 2, 4, 8),
    "layers": (1, 2, 4, 8),
    "new tokens": (30, 60, 120, 240),
}


def scenario(sizes: dict[str, int]) -> Scenario:
    """Requests of 6 prompt tokens that accept 0, 1, 2 drafts in turn."""
    requests: list[dict[str, Any]] = [
        {"id": f"r{n}", "prompt_len": 6, "max_tokens": sizes["new tokens"], "accept": [0, 1, 2]}
        for n in range(sizes["requests"])
    ]
    length = 6 + sizes["new tokens"] + 4
    return build(
        {
            "engine": {"num_blocks": 12 * len(requests) + 80, "max_model_len": length},
            "layer": {"num_layers": sizes["layers"]},
            "requests": requests,
        }
    )


def measure(sizes: dict[str, int]) -> tuple[int, float]:
    """Steps of the run, and the median seconds of one run."""
    asked = scenario(sizes)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()  # processor time: other programs do not count
        trace = engine.run(asked, backend="reference")
        times.append(time.process_time() - start)
    return len(trace.steps), median(times)


def table() -> str:
    lines = [
        "| what grows | value | steps | ms a step | steps a second |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, values in GROWTH.items():
        for value in values:
            steps, seconds = measure({**BASE, name: value})
            lines.append(
                f"| {name} | {value} | {steps} | {seconds / steps * 1e3:.1f} "
                f"| {steps / seconds:.0f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
