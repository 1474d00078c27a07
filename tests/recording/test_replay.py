"""A recording as a trace: what was recorded is in it, and what was not says so."""

from __future__ import annotations

import json

import pytest

from mambaviz.recording.reader import RecordingError
from mambaviz.recording.replay import Replay, replay
from mambaviz.recording.scenario import Parting, parting, scenario_of
from mambaviz.recording.steps import Gatherer
from mambaviz.trace import PHASES, PhaseName, Trace
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.views import frame_at
from tests.recording.files import lines_of, preset_trace, reader_of, steps_of

NAMES = ("drafts-meet-the-boundary", "a-shared-prefix", "plain-decode", "draft-filled-blocks")


def replayed(trace: Trace, only: frozenset[str] = frozenset(), **options: bool) -> Replay:
    return replay(reader_of(lines_of(trace, **options)), only=only)


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_copies_are_those_of_the_run(name: str) -> None:
    ours, found = preset_trace(name), replayed(preset_trace(name)).trace
    assert [step.order for step in found.steps] == [step.order for step in ours.steps]
    assert [step.batch_order for step in found.steps] == [step.batch_order for step in ours.steps]
    for mine, step in zip(ours.steps, found.steps, strict=True):
        theirs = found.tables_after(step.index, "allocate")
        tables = ours.tables_after(step.index, "allocate")
        for request in mine.order:
            left, right = tables.rows[request], theirs.rows[request]
            assert right.block_list == left.block_list
            assert right.worker_row == left.worker_row
            assert right.num_accepted == left.num_accepted
            assert right.state_col == left.state_col
            assert right.batch_row == left.batch_row
        assert theirs.registered == tables.registered
        for phase in ("pre-copy", "post-copy"):
            assert _copies(found, step.index, phase) == _copies(ours, mine.index, phase)
        assert step.num_computed_after == mine.num_computed_after
        for request, running in mine.requests.items():
            got = step.requests[request]
            assert (got.row_class == "prefill") == (running.row_class == "prefill")
            assert got.accepted_drafts == (running.accepted_drafts or 0)


def _copies(trace: Trace, step: int, phase: PhaseName) -> set[tuple[object, ...]]:
    """By request, group and state; a recording has one layer a group."""
    groups = {spec.layer: spec.group for spec in trace.states}
    return {
        (c.request, groups[c.layer], c.state, c.src_block, c.dst_block, c.bias, c.kind)
        for c in trace.steps[step].phase(phase).copies
    }


def test_verdicts_are_violations_with_their_lamp() -> None:
    found = replayed(preset_trace("draft-filled-blocks"))
    assert [(v.step, v.invariant, v.phase) for v in found.trace.violations] == [
        (1, "I1", "commit"),
        (3, "I1", "commit"),
    ]
    assert found.opening == (1, "commit")
    assert found.summary.startswith("4 steps, 2 findings (boundary state); the first broken step")


def test_what_was_not_recorded_is_empty_and_named() -> None:
    lines = lines_of(preset_trace("drafts-meet-the-boundary"))
    kept = [line for line in lines if json.loads(line)["event"] not in ("post_copy", "accept")]
    found = replay(reader_of(kept)).trace
    assert found.recorded is not None
    assert not found.recorded.knows(2, "post-copy")
    assert not found.recorded.knows(2, "accept")
    assert found.recorded.knows(2, "pre-copy")
    assert [phase.name for phase in found.steps[2].phases] == list(PHASES)
    assert found.steps[2].phase("post-copy").decisions == []
    assert all(r.accepted_drafts is None for r in found.steps[2].requests.values())
    payload = json.loads(stage_payload(found).text)
    assert any("The phase post-copy was not recorded." in str(text) for text in payload["texts"])


def test_the_stage_shows_no_state_without_bytes() -> None:
    found = replayed(preset_trace("plain-decode")).trace
    frame = frame_at(found, 2, "forward")
    assert frame.state("A", 0).note == "the recording holds indices, no bytes"
    assert all(not cell.state for cell in frame.lane("A", 0, 0).cells)
    payload = json.loads(stage_payload(found).text)
    assert (payload["bytes"], payload["unjudged"]) == (False, ["I3"])


def test_recorded_bytes_are_shown_as_in_a_run_of_ours() -> None:
    """One layer stands for its group, so the first layer's bytes are the ones to compare."""
    ours = preset_trace("plain-decode")
    found = replayed(ours, states=True).trace
    for step in (0, 2, 3):
        mine, theirs = (frame_at(t, step, "forward").state("A", 0) for t in (ours, found))
        assert [bar.absorbed for bar in theirs.bars] == [bar.absorbed for bar in mine.bars]
        assert [strip.rows for strip in theirs.strips] == [strip.rows for strip in mine.strips]


def test_some_requests_alone() -> None:
    found = replayed(preset_trace("drafts-meet-the-boundary"), only=frozenset({"B"})).trace
    assert [plan.id for plan in found.scenario.requests] == ["B"]
    assert all(set(step.requests) <= {"B"} for step in found.steps)


@pytest.mark.parametrize("name", NAMES)
def test_our_engine_reproduces_our_recordings(name: str) -> None:
    trace = preset_trace(name)
    lines = lines_of(trace)
    steps = list(Gatherer().steps(reader_of(lines).lines()))
    scenario = scenario_of(reader_of(lines).head, steps)
    from mambaviz.engine import iter_steps

    ours = list(iter_steps(scenario, backend="reference"))
    other = steps_of(lines_of(preset_trace("accepted-past-the-boundary")))
    assert parting(ours, steps) is None
    assert parting(ours, other) is not None


@pytest.mark.parametrize(
    ("event", "changed", "says"),
    [
        ("schedule", {"scheduled": 7}, "B has 7 tokens scheduled in the recording and 3 in our"),
        ("schedule", {"id": "C"}, "C is scheduled after A in the recording and B in our run"),
        (
            "blocks",
            {"ids": [0, 5, 6, 11]},
            "B’s list has in column 4 block 11 in the recording and block 8",
        ),
    ],
)
def test_the_first_difference_names_request_place_and_both_values(
    event: str, changed: dict[str, object], says: str
) -> None:
    trace = preset_trace("drafts-meet-the-boundary")
    lines = [json.loads(line) for line in lines_of(trace)]
    line = next(one for one in lines if (one["event"], one.get("step")) == (event, 2))
    (line["requests"][1] if event == "schedule" else line["lists"]["B"][0]).update(changed)
    found = parting(trace.steps, steps_of([json.dumps(one) + "\n" for one in lines]))
    assert found is not None
    assert found.step == 2
    assert found.what.startswith(says)


def test_a_recording_goes_on_behind_our_run() -> None:
    trace = preset_trace("plain-decode")
    last = len(trace.steps) - 1
    found = parting(trace.steps[:last], steps_of(lines_of(trace)))
    assert found == Parting(last, "our run is over before it")


def test_a_block_too_large_to_draw_is_refused() -> None:
    head, *rest = lines_of(preset_trace("plain-decode"))
    data = json.loads(head)
    data["groups"][0]["block_size"] = 10**10
    with pytest.raises(RecordingError, match="a block covers 10000000000 tokens, and the pictures"):
        replay(reader_of([json.dumps(data) + "\n", *rest]))
