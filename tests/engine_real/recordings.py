"""Recordings of a real engine beside what the engine itself said, and the judge's word on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mambaviz.recorder.worker import MODULES
from mambaviz.recording.judge import Judge
from mambaviz.recording.reader import open_recording
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Gatherer
from tools.engine import cases


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


def recorded(folder: Path, runs: list[cases.Run]) -> dict[str, Recorded]:
    return {run.name: Recorded(folder / f"{run.name}.jsonl") for run in runs}


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


def aliases(run: Recorded) -> dict[str, str]:
    """The engine's names and the file's: both count requests in order of arrival."""
    first, came = run.own["first"], [line["id"] for line in run.of("request")]
    seen = {name for own in run.own["steps"] for name in (*own["lists"], *own["rows"])}
    serials = {name: int(name.split("-")[1]) - first for name in seen}
    return {name: came[serial] for name, serial in serials.items() if serial >= 0}


def agrees_with_the_engine(run: Recorded) -> None:
    """Lists, rows, columns, registrations, free blocks and counts, as asked of the engine."""
    names, steps = aliases(run), run.own["steps"]
    blocks, rows = run.of("blocks"), run.of("rows")
    assert len(blocks) == len(steps)
    lists, registrations = joined(blocks, "lists"), registered(blocks)
    worker = dict(zip([line["step"] for line in rows], joined(rows, "rows"), strict=True))
    order = {line["step"]: line["order"] for line in rows}
    columns = {line["step"]: line["rows"] for line in run.of("pre_copy")}
    overlap = run.lines[0]["settings"]["async_scheduling"]  # no count that is final, then
    commits = {line["step"]: {} if overlap else line["computed"] for line in run.of("commit")}
    for step, own in enumerate(steps):
        for engine_name, held in own["lists"].items():
            assert lists[step][names[engine_name]] == held, (step, engine_name)
        for engine_name, held in own["rows"].items() if step in worker else ():
            found = worker[step][names[engine_name]]
            assert found[: len(held)] == held, (step, engine_name)
        if own["order"] is not None and step in order:
            assert order[step] == [names[engine_name] for engine_name in own["order"]], step
        taken = {row["id"]: row.get("column") for row in columns.get(step, ())}
        for engine_name, column in own["state_idx"].items():
            assert taken.get(names[engine_name], column) == column, (step, engine_name)
        assert registrations[step] == set(own["registered"]), step
        for engine_name, computed in own["computed"].items():
            found = commits.get(step, {}).get(names[engine_name], computed)
            assert found == computed, (step, engine_name)
        assert blocks[step]["free_queue"] == own["free"], step


def first(run: Recorded, rule: str) -> int:
    """The step of the first verdict, which must be of a rule; nothing before the fault."""
    verdicts = run.verdicts()
    assert verdicts, "nothing was found"
    assert verdicts[0].rule == rule
    assert verdicts[0].step >= run.own["planted"]
    return verdicts[0].step


def unhooked(head: dict[str, Any]) -> dict[str, str]:
    """Why the head says that a runner's seams were not hooked; every other seam must have been."""
    runner_of = {module: runner for runner, modules in MODULES.items() for module in modules}
    found: dict[str, set[str]] = {}
    for hook in head["hooks"]:
        if not hook["hooked"]:
            module = next(module for module in runner_of if hook["where"].startswith(f"{module}."))
            found.setdefault(runner_of[module], set()).add(hook["why"])
    return {runner: " and ".join(sorted(reasons)) for runner, reasons in found.items()}
