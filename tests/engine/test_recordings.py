"""A real engine's recordings, reproduced by the whole engine (section 2, golden recordings)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.campaigns import bytes_unexplained, unexplained
from mambaviz import engine
from mambaviz.scenario import from_recording
from mambaviz.trace import Step, Trace
from tests.engine.runs import GOLDEN

RECORDINGS: dict[str, dict[str, Any]] = {
    trace["id"]: trace for trace in json.loads(GOLDEN.read_text(encoding="utf-8"))
}
# Recorded, but no fact about what the scheduler, the manager or the worker decided.
NOT_OURS = {
    "returned",  # what the worker was handed: compared by tests/scheduler
    "num_in_flight_tokens",
    "padded_tail_or_async_placeholder",
}
ALWAYS = ("order", "reqs", "registered", "free_queue_after_alloc", "free_count")
# Recordings whose rules are unsound, and which invariants say so.
UNSOUND = {
    "0.30.0-sp-10-unsound-S3-B2": {"I1", "I2", "I3"},  # 1 + S > B
    "0.30.0-aa-03-S2-mixed": {"I1"},  # draft-filled blocks registered
    "0.30.0-aa-07-B4-S2-boundary": {"I1"},
    "0.30.0-ea-02-all-B8-S2": {"I1"},
}


@pytest.fixture(scope="module", params=sorted(RECORDINGS))
def replayed(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Trace]:
    recording = RECORDINGS[request.param]
    return recording, engine.run(from_recording(recording), backend="reference")


def test_every_recorded_field(replayed: tuple[dict[str, Any], Trace]) -> None:
    recording, trace = replayed
    ours = {step["step"]: step for step in trace.recording()}
    for step in recording["steps"]:
        found = ours[step["step"]]
        for key in (*ALWAYS, "num_computed_after"):
            if key != "reqs" and key in step:
                assert found[key] == step[key], (step["step"], key)
        assert found["free_queue_end"] == step.get("free_queue_end", step["free_queue_after_alloc"])
        for key in ("arrivals", "finished_after", "preempted"):
            assert found.get(key, []) == step.get(key, []), (step["step"], key)
        for req_id, request in step["reqs"].items():
            row = found["reqs"][req_id]
            for key, value in request.items():
                if key not in NOT_OURS:
                    assert row[key] == value, (step["step"], req_id, key)
    recorded = {step["step"] for step in recording["steps"]}
    assert not [s for s, step in ours.items() if s not in recorded and step["order"]]


def test_worker_decisions(replayed: tuple[dict[str, Any], Trace]) -> None:
    """Running columns, pre-copies and fused launches, where the recording has a worker."""
    recording, trace = replayed
    steps = {step.index: step for step in trace.steps}
    aligned = recording["config"]["mode"] == "align"
    for recorded in recording["steps"]:
        step = steps[recorded["step"]]
        if aligned and "mamba_state_idx" in recorded:
            found = trace.tables_after(step.index, "post-copy").rows
            for req_id, column in recorded["mamba_state_idx"].items():
                if req_id in found:
                    assert found[req_id].state_col == column
        if "precopy" in recorded:
            assert _precopies(step) == {
                (p["req"], p["src_col"], p["dst_col"], p["bias"]) for p in recorded["precopy"]
            }
            blocks = {
                (p["req"], c["state"], c["src_block"], c["dst_block"])
                for p in recorded["precopy"]
                for c in p["copies"]
            }
            kinds = {"conv": 0, "temporal": 1}
            assert blocks == {
                (c.request, kinds[c.state], c.src_block, c.dst_block)
                for c in step.phase("pre-copy").copies
            }
        for req_id, launch in recorded.get("fused_postprocess", {}).items():
            decision = next(d for d in step.phase("post-copy").decisions if d.request == req_id)
            assert decision.accepted == launch["accepted_in"]
            assert decision.accepted_out == launch["accepted_out"]
            assert decision.src_col == launch["state_idx"]
            assert (decision.scheduled, decision.computed, decision.drafts) == (
                launch["scheduled"],
                launch["computed"],
                launch["drafts"],
            )


def _precopies(step: Step) -> set[tuple[str, int | None, int | None, int | None]]:
    return {
        (d.request, d.src_col, d.dst_col, d.bias)
        for d in step.phase("pre-copy").decisions
        if d.copies
    }


def test_invariants(replayed: tuple[dict[str, Any], Trace]) -> None:
    recording, trace = replayed
    expected = UNSOUND.get(recording["id"], set())
    assert {violation.invariant for violation in unexplained(trace)} == expected
    assert bytes_unexplained(trace) == 0
