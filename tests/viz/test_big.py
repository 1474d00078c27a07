"""The largest promised size: what it holds, how it travels, how a crowd is drawn."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from mambaviz.engine import run
from mambaviz.largest import (
    NUM_COLUMNS,
    NUM_LAYERS,
    NUM_REQUESTS,
    NUM_STEPS,
    largest_scenario,
)
from mambaviz.trace import Trace
from mambaviz.viz import lanes, line_lane
from mambaviz.viz.payload import PACK_FROM, StagePayload, stage_payload
from mambaviz.viz.scene import Scene, Text
from mambaviz.viz.theme import LANES
from mambaviz.viz.views import BlockView, frame_at, frames

MOST_CHARACTERS = 20_000_000
MOST_PACKED = 3_500_000


@pytest.fixture(scope="module")
def big() -> Trace:
    return run(largest_scenario(), backend="reference")


@pytest.fixture(scope="module")
def payload(big: Trace) -> StagePayload:
    return stage_payload(big)


def test_it_is_as_large_as_promised(big: Trace) -> None:
    rows = [
        row
        for step in big.steps
        for phase in step.phases
        if phase.tables is not None
        for row in phase.tables.rows.values()
    ]
    assert len(big.scenario.requests) == NUM_REQUESTS
    assert len({spec.layer for spec in big.states}) == NUM_LAYERS
    assert abs(len(big.steps) - NUM_STEPS) <= 2
    assert max(len(row.worker_row[0]) for row in rows) == NUM_COLUMNS
    assert max(max(row.worker_row[0]) for row in rows) > 100
    assert max(step.num_computed_after.get("A", 0) for step in big.steps) > 100
    assert sum(len(step.preempted) for step in big.steps) == 2
    hits = [
        request
        for step in big.steps
        for request, running in step.requests.items()
        if running.event == "new" and running.num_computed
    ]
    assert hits == ["D", "F", "H"]
    assert not big.violations
    assert max(len(step.requests) for step in big.steps) == NUM_REQUESTS


def test_it_travels_packed_and_comes_out_the_same(payload: StagePayload) -> None:
    assert PACK_FROM < len(payload.text) < MOST_CHARACTERS
    assert len(payload.packed) < MOST_PACKED
    assert gzip.decompress(base64.b64decode(payload.packed)).decode() == payload.text
    assert payload.text.startswith("{")
    assert not payload.packed.startswith("{"), "the browser tells them apart by this"


def test_a_short_run_travels_as_it_is(watch: Trace) -> None:
    payload = stage_payload(watch)
    assert payload.packed == payload.text


def test_progress_counts_the_steps_and_may_end_the_drawing(watch: Trace) -> None:
    seen: list[int] = []
    stage_payload(watch, seen.append)
    assert seen == list(range(1, len(watch.steps) + 1))

    def enough(done: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        stage_payload(watch, enough)


def test_all_eight_lanes_fit_the_panel(payload: StagePayload) -> None:
    sizes = json.loads(payload.text)["sizes"]
    _, heading, full, other, _ = sizes["lanes"]
    assert sizes["others"] == "line"
    assert heading + full + (NUM_REQUESTS - 1) * other <= 370  # the panel less its heading


def test_a_line_holds_the_row_and_the_copies(big: Trace) -> None:
    frame = next(
        frame for frame in frames(big) if any(copy.kind == "migrate" for copy in frame.phase.copies)
    )
    request = frame.phase.copies[0].request
    view, axis = frame.lane(request, 0, 0), lanes.axis_of(big, 0)
    marks = {mark.name: mark for part in line_lane.lane_parts(view, axis) for mark in part}
    assert {"badge", "kind", "running", "arrow-conv"} <= marks.keys()
    whole = {mark.name: mark.x for mark in lanes.lane(view, axis, small=False)}
    assert marks["running"].x == whole["running"], "columns stand below each other"
    assert all(mark.y < LANES.line_height for mark in marks.values())


def test_an_absent_request_says_why_in_its_line(big: Trace) -> None:
    frame = frame_at(big, 0, "schedule")
    view, axis = frame.lane("H", 0, 0), lanes.axis_of(big, 0)
    marks = [mark for part in line_lane.lane_parts(view, axis) for mark in part]
    assert any("arrives at step" in text for text in Scene(0, 0, tuple(marks)).texts())


@pytest.mark.parametrize(
    ("block", "absorbed", "role", "size"),
    [(8, 6, "running", "id"), (143, 168, "running", "id close"), (143, 168, "cached", "id close")],
)
def test_three_digits_each_are_set_closer(block, absorbed, role, size) -> None:
    cell = BlockView(3, block, role, absorbed, (165, 166, 167), 0)
    width = LANES.wide_column - 4
    number, letter, state = (
        p
        for p in lanes.block_body(cell, width, 43).parts
        if isinstance(p, Text) and p.cls != "win s12"
    )
    assert number.cls == size
    # As wide as a wide font sets them: neither may meet its neighbour.
    digit, per_letter = (9.05, 7.45) if size == "id close" else (10.8, 7.9)
    assert number.x + digit * len(str(block)) <= letter.x
    assert letter.x + 9.3 <= state.x - per_letter * len(state.text)
