"""Records the three examples that the Watch page offers: `python -m tools.engine.examples`.

Needs the environment of `make test-engine`. The engine samples some requests hot, so a new
recording differs from the one before it.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.engine import cases, drive
from tools.engine.environment import ROOT, python_of

FOLDER = ROOT / "mambaviz" / "recording" / "examples"
VERSION = "0.30.0"


@dataclass(frozen=True)
class Example:
    """What is recorded, and what the page says of it."""

    plan: cases.Plan
    title: str
    story: str


def examples() -> list[Example]:
    """The examples; the name of a plan's only run is the file's."""
    actions: list[tuple[int, str, int | None]] = [(120, "reset_running", None), (150, "abort", 30)]
    return [
        Example(
            cases.Plan(
                cases.MAMBA2,
                cases.mamba2_settings(6, 24),
                [cases.Run("mamba2-crowded", cases.mixed(5, 60, 70, 4), actions=actions)],
            ),
            "Mamba-2 in a crowded pool",
            "vLLM 0.30.0 with a small Mamba-2 model, blocks of 8 tokens, five of them: chunks, "
            "prefix hits, preemptions, a dropped cache and an aborted request. Nothing is wrong.",
        ),
        Example(
            cases.Plan(
                cases.SMALL_HYBRID,
                cases.hybrid_settings(20, 48),
                [cases.Run("hybrid-drafts", cases.repeating(3, 24, 90, 4))],
            ),
            "A hybrid model with n-gram drafts",
            "vLLM 0.30.0 with a small hybrid model: a Mamba group and one of attention, blocks "
            "of 32 tokens, two drafts a step. Accepted drafts cross boundaries. Nothing is wrong.",
        ),
        Example(
            cases.Plan(
                cases.MAMBA2,
                cases.mamba2_settings(14, 24),
                [
                    cases.Run(
                        "chunks-inside-blocks",
                        cases.mixed(7, 48, 70, 5),
                        fault="chunk_ends_inside",
                        fault_step=60,
                    )
                ],
            ),
            "Chunks that end inside a block",
            "The same Mamba-2 model, and from step 60 on prefills are cut every 6 tokens while "
            "full columns go on being registered: what is found under a prefix is not its state.",
        ),
    ]


def run_plan(plan: cases.Plan, version: str, folder: Path, **environment: str) -> None:
    """Carry a plan out in an engine's environment. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(plan.as_json()))
    command = [str(python_of(version)), drive.__file__, str(plan_file), str(folder)]
    with (folder / "engine.log").open("w") as log:
        subprocess.run(
            command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log, check=True
        )


def keep(example: Example, recording: Path) -> Path:
    """The recording, with title and story in its head, compressed; the same file every time."""
    head, _, rest = recording.read_text().partition("\n")
    told = json.loads(head) | {"title": example.title, "story": example.story}
    text = json.dumps(told, separators=(",", ":")) + "\n" + rest
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / f"{recording.name}.gz"
    kept.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return kept


def main(wanted: list[str]) -> None:
    for example in examples():
        (run,) = example.plan.runs
        if wanted and run.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            recording = Path(folder) / f"{run.name}.jsonl"
            run_plan(example.plan, VERSION, Path(folder), MAMBAVIZ_RECORD=str(recording))
            kept = keep(example, recording)
        print(kept.relative_to(ROOT), kept.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
