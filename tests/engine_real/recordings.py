"""Recordings of a real engine beside what the engine itself said, and the judge's word on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mambaviz.recording.judge import Judge
from mambaviz.recording.reader import open_recording
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Gatherer


@dataclass(frozen=True)
class Recorded:
    """One run: its file, its lines, and what `drive` asked of the engine's objects."""

    path: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    @property
    def own(self) -> dict[str, Any]:
        return json.loads(self.path.with_suffix(".own.json").read_text())

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    def verdicts(self) -> list[Verdict]:
        reader = open_recording(self.path)
        judge = Judge(reader.head)
        return [found for step in Gatherer().steps(reader.lines()) for found in judge.step(step)]


Held = dict[str, list[list[int]]]


def joined(lines: list[dict[str, Any]], key: str) -> list[Held]:
    """The whole lists after every line, put together from what changed."""
    held: Held = {}
    found = []
    for line in lines:
        for request in line.get("gone", ()):
            held.pop(request, None)
        for request, groups in line[key].items():
            before = held.get(request, [[]] * len(groups))
            held[request] = [
                [*old[: cut.get("start", 0)], *cut["ids"]]
                for old, cut in zip(before, groups, strict=True)
            ]
        found.append(dict(held))
    return found


def registered(lines: list[dict[str, Any]]) -> list[set[int]]:
    """Ids of the blocks registered after every `blocks` line."""
    now: set[int] = set()
    found = []
    for line in lines:
        for block, prefix in line.get("registered", {}).items():
            (now.discard if prefix is None else now.add)(int(block))
        found.append(set(now))
    return found
