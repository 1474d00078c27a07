"""Every preset does what its story says, and its recording is what the engine still does."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from mambaviz.engine import run
from mambaviz.pages.runs import recorded
from mambaviz.pages.state import OPENINGS
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, UNSOUND_PRESETS
from mambaviz.trace import BlockChange, Decision, Step, Trace


@cache
def trace_of(slug: str) -> Trace:
    return run(PRESETS[slug])


def copies(slug: str) -> list[tuple[int, str, str, int, tuple[int, int, int]]]:
    """Of layer 0, both states of a copy as one: step, request, kind, bias, source blocks (conv,
    temporal) and target block."""
    result = []
    for step in trace_of(slug).steps:
        for phase in step.phases:
            of_layer = [copy for copy in phase.copies if copy.layer == 0]
            for conv, temporal in zip(of_layer[::2], of_layer[1::2], strict=True):
                assert (conv.state, temporal.state) == ("conv", "temporal")
                assert conv.skipped is None
                assert temporal.skipped is None
                blocks = (conv.src_block, temporal.src_block, conv.dst_block)
                result.append((step.index, conv.request, conv.kind, conv.bias, blocks))
    return result


def decisions(step: Step) -> dict[str, Decision]:
    return {decision.request: decision for decision in step.phase("post-copy").decisions}


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_a_preset_is_small_told_in_a_line_and_breaks_what_it_says(slug: str) -> None:
    preset, trace = PRESETS[slug], trace_of(slug)
    assert 1 <= preset.story.count(".") <= 2
    assert len(preset.story) <= 170
    assert bool(trace.violations) == (slug in UNSOUND_PRESETS)
    assert 3 <= len(trace.steps) <= 7
    assert len(preset.requests) <= 2
    columns = [
        len(row)
        for step in trace.steps
        for phase in step.phases
        for tables in [phase.tables]
        if tables is not None
        for request in tables.rows.values()
        for row in request.worker_row
    ]
    assert max(columns) <= 6


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_a_preset_opens_inside_its_run(slug: str) -> None:
    step, phase = OPENINGS[slug]
    record = trace_of(slug).steps[step].phase(phase)
    assert phase not in ("pre-copy", "post-copy") or record.copies, "nothing is copied there"


def test_the_order_of_the_files_is_the_order_in_the_list() -> None:
    assert next(iter(PRESETS)) == DEFAULT_PRESET
    assert len(PRESETS) >= 8


def test_drafts_meet_the_boundary() -> None:
    """The run of the visual target, copy by copy."""
    assert copies(DEFAULT_PRESET) == [
        (1, "B", "migrate", 0, (4, 4, 5)),
        (1, "A", "migrate", 0, (1, 1, 2)),
        (2, "A", "migrate", 0, (2, 2, 3)),
        (2, "A", "checkpoint", 1, (3, 7, 2)),
        (2, "B", "checkpoint", 2, (5, 8, 5)),
        (3, "B", "migrate", 0, (5, 5, 6)),
        (4, "A", "migrate", 2, (3, 9, 7)),
        (4, "A", "checkpoint", 0, (7, 7, 3)),
        (4, "B", "checkpoint", 2, (6, 10, 6)),
    ]
    rows = trace_of(DEFAULT_PRESET).tables_after(4, "allocate").rows
    assert rows["A"].worker_row == [[1, 2, 3, 7, 9, 11]]
    assert rows["B"].worker_row == [[0, 4, 5, 6, 8, 10]]


def test_plain_decode_copies_nothing() -> None:
    assert copies("plain-decode") == []
    scheduled = [step.requests["A"].num_scheduled for step in trace_of("plain-decode").steps]
    assert scheduled == [3, 1, 1, 1, 1]


def test_crossing_a_boundary_copies_once_and_leaves_the_full_block_for_reuse() -> None:
    assert copies("crossing-a-boundary") == [(3, "A", "migrate", 0, (1, 1, 2))]
    assert trace_of("crossing-a-boundary").tables_after(4, "commit").registered == {1: "A@4"}


def test_accepted_to_the_boundary_saves_the_state_before_the_running_column() -> None:
    step = trace_of("accepted-to-the-boundary").steps[2]
    decision = decisions(step)["A"]
    assert step.requests["A"].accepted_drafts == 1
    assert decision.new == decision.aligned == 8
    assert (decision.src_col, decision.dst_col) == (2, 1)
    assert (2, "A", "checkpoint", 1, (3, 4, 2)) in copies("accepted-to-the-boundary")


def test_accepted_past_the_boundary_saves_a_state_in_between() -> None:
    step = trace_of("accepted-past-the-boundary").steps[2]
    decision = decisions(step)["A"]
    assert step.requests["A"].accepted_drafts == 2
    assert (decision.running, decision.aligned, decision.new) == (7, 8, 9)
    assert (2, "A", "checkpoint", 1, (3, 4, 2)) in copies("accepted-past-the-boundary")


def test_all_drafts_rejected_advances_by_the_bonus_token() -> None:
    decodes = [
        step.requests["A"]
        for step in trace_of("all-drafts-rejected").steps
        if step.requests["A"].drafts
    ]
    assert len(decodes) == 4
    assert [request.accepted_drafts for request in decodes] == [0] * 4
    assert [request.num_computed for request in decodes] == [6, 7, 8, 9]
    assert all(bias == 0 for _, _, _, bias, _ in copies("all-drafts-rejected"))


def test_shift_in_place_has_one_block_as_source_and_target() -> None:
    step = trace_of("shift-in-place").steps[2]
    assert (2, "A", "checkpoint", 2, (2, 4, 2)) in copies("shift-in-place")
    assert decisions(step)["A"].accepted_out == 1


def test_a_long_prompt_is_cut_on_block_boundaries_beside_a_decode() -> None:
    steps = trace_of("a-long-prompt-in-chunks").steps
    chunks = [
        (step.requests["long"].num_computed, step.requests["long"].num_scheduled)
        for step in steps
        if "long" in step.requests and step.requests["long"].row_class != "decode"
    ]
    assert chunks == [(0, 8), (8, 4), (12, 1)]
    assert all(step.requests["short"].row_class == "decode" for step in steps[1:4])


def test_a_shared_prefix_starts_from_the_state_of_the_other_request() -> None:
    trace = trace_of("a-shared-prefix")
    first = next(step for step in trace.steps if "B" in step.requests)
    assert first.requests["B"].event == "new"
    assert first.requests["B"].num_computed == 8
    of_a = trace.tables_after(0, "allocate").rows["A"].block_list[0][1]
    assert trace.tables_after(first.index, "allocate").rows["B"].block_list[0][:2] == [0, of_a]
    assert (first.index, "B", "migrate", 0, (of_a, of_a, 6)) in copies("a-shared-prefix")


def test_back_one_column_copies_to_the_left() -> None:
    trace = trace_of("back-one-column")
    columns = [trace.tables_after(step, "allocate").rows["A"].state_col for step in range(3)]
    assert columns == [0, 1, 0]
    assert (2, "A", "migrate", 0, (2, 2, 1)) in copies("back-one-column")


def test_unsound_rules_break_the_invariant_they_are_kept_for() -> None:
    broken = {
        slug: {violation.invariant for violation in trace_of(slug).violations}
        for slug in UNSOUND_PRESETS
    }
    assert broken == {
        "padded-first-token": {"I2", "I3"},
        "drafts-wider-than-the-block": {"I1"},
        "draft-filled-blocks": {"I1"},
    }
    padded = trace_of("padded-first-token").steps[1].requests["B"]
    assert padded.padded_tail
    assert (padded.num_computed, padded.num_scheduled, padded.row_class) == (0, 3, "prefill")


# --------------------------------------------------------------------------------------
# Recordings
# --------------------------------------------------------------------------------------


def without_numbers(trace: Trace) -> list[dict[str, Any]]:
    """The steps without what depends on the last bit of a sum: contents, outputs, differences."""
    steps = trace.model_dump(mode="json")["steps"]
    for step in steps:
        for request in step["requests"].values():
            del request["outputs"]
        for phase in step["phases"]:
            for change in phase["changes"]:
                del change["data"]
            del phase["launches"]  # kernels and grids differ between back ends
        for check in step["checks"]:
            del check["worst"]
    return steps


def numbers(trace: Trace, change: BlockChange) -> np.ndarray:
    return trace.spec_of[change.layer, change.state].decode(change.raw)


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_the_recording_is_what_the_engine_does(slug: str) -> None:
    """If this fails after a change of the engine: ``python -m mambaviz.pages.record``."""
    recording = recorded(slug)
    assert recording is not None, f"record {slug}: python -m mambaviz.pages.record {slug}"
    old, new = recording.trace, trace_of(slug)
    assert old.format_version == new.format_version
    assert old.states == new.states
    assert without_numbers(old) == without_numbers(new)
    for old_step, new_step in zip(old.steps, new.steps, strict=True):
        for old_phase, new_phase in zip(old_step.phases, new_step.phases, strict=True):
            for was, is_ in zip(old_phase.changes, new_phase.changes, strict=True):
                np.testing.assert_allclose(
                    numbers(old, was), numbers(new, is_), rtol=1e-4, atol=1e-5
                )
