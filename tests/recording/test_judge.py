"""The judge finds what indices show, at the right step, and nothing where all is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.campaigns import everything, explained_by_padded_first_token
from mambaviz import engine
from mambaviz.comparisons import FAULT, varied
from mambaviz.fault_scenarios import FAULT_SCENARIOS
from mambaviz.faults import FAULTS
from mambaviz.recording.replay import replay
from mambaviz.recording.rules import RULES
from mambaviz.recording.steps import RecordedStep
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS
from tests.recording.files import (
    lines_of,
    overlapping,
    preset_trace,
    reader_of,
    steps_of,
    verdicts_of,
)

# The first verdict on each fault's scenario: step and rule.
FOUND: dict[str, tuple[int, str]] = {
    "accepted-count-not-reset": (3, "accepted count"),
    "bias-off-by-one": (0, "staged values"),
    "wrong-block-table-row": (0, "metadata"),
    "stale-column": (2, "copy"),
    "column-in-wrong-block-size": (3, "copy"),
    "counts-permuted-twice": (2, "accepted count"),
    "worker-row-not-grown": (1, "worker row"),
    "chunk-ends-inside-block": (1, "boundary state"),
    "scratch-registered": (1, "boundary state"),
    "padding-not-null": (2, "metadata"),
    "first-chunk-as-decode": (0, "metadata"),
    "short-extend-as-prefill": (1, "metadata"),
    "metadata-of-another-group": (0, "metadata"),
    "stale-graph-buffers": (2, "metadata"),
    "offset-lost-without-drafts": (2, "metadata"),
    "chunks-on-a-fixed-grid": (1, "metadata"),
    "replay-anchor-not-moved": (1, "metadata"),
}
# Mistakes inside a kernel or a copy: every index is as it should be, only bytes are not.
IN_THE_BYTES = {
    "pre-copy-skipped",
    "reset-seen-by-siblings",
    "block-table-row-by-slot",
    "request-arrays-by-batch-row",
    "unordered-in-place-shift",
    "ds-copied-flat",
    "temporal-source-without-bias",
    "window-from-computed-column",
    "short-chunk-writes-its-source",
}


def test_every_fault_is_told_apart() -> None:
    assert set(FAULTS) == set(FOUND) | IN_THE_BYTES
    assert not set(FOUND) & IN_THE_BYTES


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_step_if_indices_show_it(fault: str) -> None:
    trace = engine.run(varied(FAULT_SCENARIOS[fault], FAULT, fault), backend="reference")
    found = [(verdict.step, verdict.rule) for verdict in verdicts_of(lines_of(trace))]
    assert found[:1] == ([FOUND[fault]] if fault in FOUND else [])
    if fault in FOUND and trace.violations:
        assert FOUND[fault][0] <= trace.violations[0].step


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_found_without_the_fault(fault: str) -> None:
    trace = engine.run(FAULT_SCENARIOS[fault], backend="reference")
    assert verdicts_of(lines_of(trace)) == []


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - UNSOUND_PRESETS))
def test_nothing_is_found_in_a_preset(name: str) -> None:
    assert verdicts_of(lines_of(preset_trace(name))) == []


def test_unsound_rules_are_found() -> None:
    """Each is a preset in which a rule of the specification breaks an invariant."""
    found = {
        name: {verdict.lamp for verdict in verdicts_of(lines_of(preset_trace(name)))}
        for name in UNSOUND_PRESETS
    }
    assert found == {
        "padded-first-token": {"I2"},
        "drafts-wider-than-the-block": {"I1"},
        "draft-filled-blocks": {"I1"},
    }


def test_nothing_is_found_in_random_runs() -> None:
    for seed in range(10):
        trace = engine.run(everything(seed), backend="reference")
        if not explained_by_padded_first_token(trace):
            assert verdicts_of(lines_of(trace)) == [], seed


# ------------------------------------------------------------------ mistakes planted in a recording

Line = dict[str, Any]


def planted(name: str, step: int, event: str, change: Callable[[Line], None]) -> list[str]:
    """A preset's recording with one line changed."""
    lines = [json.loads(line) for line in lines_of(preset_trace(name))]
    hit = [line for line in lines if line["event"] == event and line.get("step") == step]
    assert hit
    change(hit[0])
    return [json.dumps(line) + "\n" for line in lines]


def _swap_counts(line: Line) -> None:
    first, second = list(line["counts"])[:2]
    counts = line["counts"]
    counts[first], counts[second] = counts[second], counts[first]


def _first_field(line: Line, *names: str) -> list[int]:
    """The values of the first of these fields that is there."""
    found = next(line["fields"][name] for name in names if line["fields"].get(name))
    return found["values"]


PLANTED: dict[str, tuple[str, int, str, Callable[[Line], None], str, str]] = {
    "an accepted count above the drafts": (
        "drafts-meet-the-boundary",
        2,
        "accept",
        lambda line: line["counts"].update(A=4),
        "accepted range",
        "accept",
    ),
    "an accepted count swapped between rows": (
        "drafts-meet-the-boundary",
        2,
        "accept",
        _swap_counts,
        "accepted count",
        "accept",
    ),
    "a running column off by one": (
        "crossing-a-boundary",
        3,
        "pre_copy",
        lambda line: line["rows"][0].update(column=0),
        "column",
        "pre-copy",
    ),
    "a cleanup that was skipped": (
        "plain-decode",
        1,
        "schedule",
        lambda line: line["requests"][0].update(computed=2),
        "computed tokens",
        "schedule",
    ),
    "a block of the list that is none of the pool": (
        "plain-decode",
        0,
        "blocks",
        lambda line: line["lists"]["A"][0].update(ids=[99]),
        "ids",
        "allocate",
    ),
    "a registration past what is computed": (
        "plain-decode",
        0,
        "blocks",
        lambda line: line["registered"].update({"1": "A@400"}),
        "registered prefix",
        "allocate",
    ),
    "a query that begins elsewhere": (
        "drafts-meet-the-boundary",
        2,
        "metadata",
        lambda line: _first_field(line, "query_start_loc_d", "query_start_loc_p").__setitem__(1, 7),
        "metadata",
        "metadata",
    ),
    "a sequence that is one token longer": (
        "plain-decode",
        1,
        "metadata",
        lambda line: _first_field(line, "seq_lens").__setitem__(0, 99),
        "metadata",
        "metadata",
    ),
    "a free queue that holds a held block": (
        "plain-decode",
        0,
        "blocks",
        lambda line: line["free_queue"].append(1),
        "conservation",
        "allocate",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_mistake_is_found_at_its_step(what: str) -> None:
    name, step, event, change, rule, phase = PLANTED[what]
    found = verdicts_of(planted(name, step, event, change))
    assert found
    assert (found[0].step, found[0].rule, found[0].phase) == (step, rule, phase)
    assert RULES[found[0].rule].says in found[0].sentence


def test_a_stale_entry_is_found() -> None:
    """A preempted request whose running column survives the cleanup."""

    def remember(line: Line) -> None:
        line["columns_before"] = {"B": 1}
        line["forgotten"] = []

    lines = [json.loads(line) for line in lines_of(preset_trace("crossing-a-boundary"))]
    for line in lines:
        if line.get("step") == 2 and line["event"] == "schedule":
            line["preempted"] = ["B"]
        if line.get("step") == 2 and line["event"] == "pre_copy":
            remember(line)
    found = verdicts_of(json.dumps(line) + "\n" for line in lines)
    assert [(verdict.step, verdict.rule, verdict.request) for verdict in found] == [
        (2, "stale entry", "B")
    ]


def test_what_was_not_recorded_is_never_held_against_a_run() -> None:
    """Each seam left out alone, and the beginning left out: nothing is found."""
    for name in ("drafts-meet-the-boundary", "a-shared-prefix", "a-long-prompt-in-chunks"):
        lines = lines_of(preset_trace(name))
        seams = {json.loads(line)["event"] for line in lines[1:-1]}
        for seam in seams:
            kept = [line for line in lines if json.loads(line)["event"] != seam]
            assert verdicts_of(kept) == [], (name, seam)
        for first in (1, 2):
            later = [line for line in lines[1:] if json.loads(line).get("step", 9) >= first]
            assert verdicts_of([lines[0], *later]) == [], (name, first)


# ------------------------------------------------------------------ a scheduler that runs ahead


def counts(step: RecordedStep) -> dict[str, int]:
    return {request.id: request.computed for request in step.requests}


@pytest.mark.parametrize("worker_counts", [True, False])
def test_a_scheduler_that_runs_ahead_is_not_wrong(worker_counts: bool) -> None:
    lines, raised = overlapping("drafts-meet-the-boundary", worker_counts)
    assert raised
    told = [json.dumps(line) + "\n" for line in lines]
    assert verdicts_of(told) == []
    shown = replay(reader_of(told)).steps
    as_run = steps_of(lines_of(preset_trace("drafts-meet-the-boundary")))
    assert [counts(step) for step in shown] == [counts(step) for step in as_run]


def test_a_worker_that_runs_ahead_is_wrong() -> None:
    """It must count from the drafts that were accepted."""
    lines, _ = overlapping("drafts-meet-the-boundary", worker_counts=True)
    bounds: dict[str, int] = {}
    for line in lines:
        if line["event"] == "schedule":
            bounds = {entry["id"]: entry["computed"] for entry in line["requests"]}
        elif line["event"] == "rows" and line["computed"] != bounds:
            line["computed"] = dict(bounds)
            break
    found = verdicts_of(json.dumps(line) + "\n" for line in lines)
    assert (found[0].rule, found[0].step) == ("computed tokens", line["step"])
