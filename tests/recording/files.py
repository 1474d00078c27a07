"""Recordings made of runs, read back and judged."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache

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
