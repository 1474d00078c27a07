"""Recordings made of runs, read back and judged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from mambaviz.pages.runs import recorded
from mambaviz.recording.judge import Judge
from mambaviz.recording.reader import Reader
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Gatherer, RecordedStep
from mambaviz.recording.writer import recording_of
from mambaviz.trace import Trace


@cache
def preset_trace(name: str) -> Trace:
    """The committed run of a preset."""
    run = recorded(name)
    assert run is not None
    return run.trace


def lines_of(trace: Trace, **options: bool) -> list[str]:
    return list(recording_of(trace, **options))


def reader_of(lines: Iterable[str]) -> Reader:
    return Reader(io.BytesIO("".join(lines).encode()), "run.jsonl")


def steps_of(lines: Iterable[str]) -> list[RecordedStep]:
    return list(Gatherer().steps(reader_of(lines).lines()))


def verdicts_of(lines: Iterable[str]) -> list[Verdict]:
    reader = reader_of(lines)
    judge = Judge(reader.head)
    steps = Gatherer().steps(reader.lines())
    return [verdict for step in steps for verdict in judge.step(step)]


def overlapping(name: str, worker_counts: bool) -> tuple[list[dict[str, Any]], int]:
    """A preset's recording as a scheduler makes it that does not wait for verification.

    It counts the drafts of a request's step before as accepted; also how often that was too much.
    """
    lines = [json.loads(line) for line in lines_of(preset_trace(name))]
    lines[0]["settings"]["async_scheduling"] = True
    ahead: dict[str, int] = {}
    counts: dict[str, int] = {}
    raised = 0
    for line in lines:
        if line["event"] == "schedule":
            counts = {entry["id"]: entry["computed"] for entry in line["requests"]}
            for entry in line["requests"]:
                bound = ahead.get(entry["id"], 0) if entry["kind"] == "running" else 0
                raised += bound > entry["computed"]
                end = entry["computed"] + entry["scheduled"]
                entry["computed"], ahead[entry["id"]] = max(bound, entry["computed"]), end
        elif line["event"] == "rows" and worker_counts:
            line["computed"] = counts
        elif line["event"] == "commit":
            del line["computed"]
    return lines, raised
