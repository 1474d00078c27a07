"""Pictures in words: they say what is drawn, and follow the step."""

from __future__ import annotations

import json

import pytest

from mambaviz.trace import PHASES, Trace
from mambaviz.viz import alt, lanes
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.scene import Links
from mambaviz.viz.tables import TokenRange, findings, metadata
from mambaviz.viz.views import frame_at, frames

from .conftest import RUNS


def test_a_lane_in_words(watch: Trace) -> None:
    told = alt.lane(frame_at(watch, 2, "post-copy").lane("A", 0, 0))
    assert told == (
        "Request A.",
        "Tokens: 0 to 5 prompt, 6 generated, 7 accepted draft, 8 rejected draft.",
        "Query 3, accepted 2: computed 6 → 8.",
        "Column 0: block 1, retired from the row, still cached, state after 4 tokens, "
        "window t1 t2 t3 from row 0; the scheduler’s list has dropped it.",
        "Column 1: block 2, cached, state after 8 tokens, window t5 t6 t7 from row 0.",
        "Column 2: block 3, running, state after 7 tokens, window t5 t6 t7 from row 1.",
        "Column 3: block 7, speculative, state after 8 tokens.",
        "Column 4: block 9, speculative, state after 9 tokens.",
        "Checkpoint, bias 1: 4 conv rows from block 3 to 2; temporal state from block 7 to 2.",
    )


def test_a_state_in_words(watch: Trace) -> None:
    told = alt.state(frame_at(watch, 2, "post-copy").state("A", 0))
    assert told[:2] == (
        "Conv state of block 3, source: rows t4 t5 t6 t7 t8, the window is rows 1 to 3.",
        "Conv state of block 2, target: rows t5 t6 t7 t8 empty, the window is rows 0 to 2.",
    )
    assert told[4] == (
        "Column 1: block 2, cached, state after 8 tokens, before this phase after 6 tokens."
    )
    assert told[7] == "Column 4: block 9, speculative, state after 9 tokens, 1 of them rejected."


def test_changes_in_words(watch: Trace) -> None:
    first, second = alt.changes(frame_at(watch, 2, "post-copy").changes(0))
    assert first.startswith("Block 2, cached, of A, column 1: conv before rows t3 t4 t5 empty")
    assert "temporal before h(10), after h(12)" in second
    assert alt.changes(()) == ("No block changes in this phase.",)


def test_what_is_wrong_and_what_was_stopped_is_said(faulty: Trace) -> None:
    frame = frame_at(faulty, 2, "post-copy")
    told = " ".join(alt.lane(frame.lane("B", 0, 0)))
    assert "an invariant is broken here" in told
    assert "temporal stopped, source column 5 holds the null block" in told


def test_the_overview_in_words(watch: Trace) -> None:
    steps = json.loads(stage_payload(watch).text)["steps"]
    assert steps[1]["alt"] == "Step 1: prefill tail; 2 × copy into a new running block."
    assert steps[0]["alt"] == "Step 0: prefill; 1 × block boundary reached."


@pytest.mark.parametrize("run", RUNS)
def test_the_payloads_words_follow_the_frames(run: str, request: pytest.FixtureRequest) -> None:
    trace: Trace = request.getfixturevalue(run)
    data = json.loads(stage_payload(trace).text)
    name = trace.scenario.requests[0].id

    def told(panel: str, frame: int) -> tuple[str, ...]:
        timeline = data["timelines"][data["panels"][panel]]
        latest = max(int(at) for at in timeline if int(at) <= frame)
        return tuple(data["lines"][line] for line in data["texts"][timeline[str(latest)]])

    for frame in frames(trace):
        if frame.index % 7:
            continue
        assert told("alt-lane:0:0:0", frame.index) == alt.lane(frame.lane(name, 0, 0))
        assert told("alt-state:0:0", frame.index) == alt.state(frame.state(name, 0))
        assert told("alt-changes:0", frame.index) == alt.changes(frame.changes(0))


# --------------------------------------------------------------------------------------
# What points at what
# --------------------------------------------------------------------------------------


def test_a_block_knows_its_tokens_and_an_arrow_its_ends(watch: Trace) -> None:
    view = frame_at(watch, 2, "post-copy").lane("A", 0, 0)
    marks = {mark.name: mark for mark in lanes.lane(view, lanes.axis_of(watch, 0), False)}
    assert marks["b3"].body.links == Links(absorbed=7, window=(5, 6, 7))
    assert marks["b9"].body.links == Links(absorbed=9)
    assert marks["arrow-conv"].body.links == Links(ends=(3, 2))
    assert marks["arrow-temporal"].body.links == Links(ends=(7, 2))


def test_bytes_of_another_owner_point_at_no_token(crowd: Trace) -> None:
    views = [
        cell
        for frame in frames(crowd)
        for name in frame.tables.rows
        for cell in frame.lane(name, 0, 0).cells
        if cell.stale or cell.holder
    ]
    assert views
    assert all(lanes.block_body(cell, 88, 43).links is None for cell in views)


def test_a_field_points_at_the_tokens_it_counts(watch: Trace) -> None:
    rows = {row.name: row.tokens for row in metadata(frame_at(watch, 2, "metadata"), 0).rows}
    query = (TokenRange("A", 6, 9), TokenRange("B", 9, 12))
    assert rows["query_start_loc_d"] == rows["num_decode_tokens"] == query
    assert rows["seq_lens"] == (TokenRange("A", 0, 9), TokenRange("B", 0, 12))
    assert rows["num_prefill_tokens"] == ()
    prefill = {row.name: row.tokens for row in metadata(frame_at(watch, 1, "metadata"), 0).rows}
    assert prefill["has_initial_states_p"] == tuple(
        TokenRange(name, 0, watch.steps[1].requests[name].num_computed)
        for name in watch.steps[1].batch_order
        if watch.steps[1].requests[name].row_class == "prefill"
    )


def test_a_finding_names_its_exact_place(faulty: Trace) -> None:
    for step in faulty.steps:
        for found, violation in zip(findings(step), step.violations, strict=True):
            assert PHASES[found.phase] == violation.phase
            assert (found.request, found.layer, found.block, found.column) == (
                violation.request, violation.layer, violation.block, violation.column,
            )  # fmt: skip
