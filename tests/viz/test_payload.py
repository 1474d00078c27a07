"""The payload: played forwards it gives back every picture; and it stays small."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.pages.runs import recorded_run
from mambaviz.reports import REPORTS
from mambaviz.trace import PHASES, Trace
from mambaviz.viz import changes, lanes, state_stage
from mambaviz.viz.payload import phase_events, stage_payload, step_title
from mambaviz.viz.scene import Mark, body_json, short
from mambaviz.viz.views import frames, group_of
from mambaviz.viz.words import words

from .conftest import HOSTILE, RUNS


def unpacked(trace: Trace) -> dict[str, Any]:
    return json.loads(stage_payload(trace).text)


class Player:
    """What the browser does with a channel: apply the changes of each frame in turn."""

    def __init__(self, data: dict[str, Any], channel: str) -> None:
        self.data = data
        self.changes = data["timelines"][data["channels"][channel]]
        self.now: dict[str, list[Any]] = {}

    def step(self, frame: int) -> dict[str, list[Any]]:
        gone, put = self.changes.get(str(frame), [[], []])
        for name in gone:
            del self.now[self.data["names"][name]]
        for name, *entry in put:
            self.now[self.data["names"][name]] = entry
        return self.now


def same(data: dict[str, Any], shown: dict[str, list[Any]], marks: tuple[Mark, ...]) -> None:
    assert sorted(shown) == sorted(mark.name for mark in marks)
    for mark in marks:
        number, x, y, *origin = shown[mark.name]
        assert json.loads(json.dumps(body_json(mark.body))) == data["bodies"][number], mark.name
        assert [x, y] == [short(mark.x), short(mark.y)]
        assert origin == ([] if mark.origin is None else [short(at) for at in mark.origin])


@pytest.mark.parametrize("run", RUNS)
def test_a_played_payload_shows_what_is_drawn_directly(run, request):
    trace = request.getfixturevalue(run)
    data = unpacked(trace)
    scales = changes.scales_of(trace)
    first = trace.scenario.requests[0].id
    for layer, group, twin in data["layers"]:
        axis = lanes.axis_of(trace, group)
        lane = Player(data, f"lane:{group}:{twin}:0:full")
        state = Player(data, f"state:0:{twin}")
        changed = Player(data, f"changes:{layer}")
        for frame in frames(trace):
            view = frame.lane(first, group, layer)
            same(data, lane.step(frame.index), lanes.lane(view, axis, False))
            same(data, state.step(frame.index), state_stage.state(frame.state(first, layer)))
            direct, _ = changes.changes(frame.changes(layer), trace, scales)
            same(data, changed.step(frame.index), direct)


def panel(data: dict[str, Any], name: str, frame: int) -> Any:
    timeline = data["timelines"][data["panels"][name]]
    latest = max(int(key) for key in timeline if int(key) <= frame)
    return data["texts"][timeline[str(latest)]]


def test_panels_follow_the_frames(watch):
    data = unpacked(watch)
    for frame in frames(watch):
        told = words(frame, "B", 0)
        headline, spans = panel(data, "words:1:0", frame.index)
        assert headline == told.headline
        assert "".join(text for text, _ in spans) == "".join(span.text for span in told.sentence)
    assert panel(data, "pool", 2 * len(PHASES) + PHASES.index("post-copy")) == (
        "pool: 6 free + 7 owned + 2 cached, unowned = 15"
    )


def test_overview_marks(watch):
    marks = {
        (step.index, phase): phase_events(watch, step, index)
        for step in watch.steps
        for index, phase in enumerate(PHASES)
    }
    shown = {place: events for place, events in marks.items() if events}
    assert shown == {
        (0, "accept"): ["boundary"],
        (1, "pre-copy"): ["migrate", "migrate"],
        (2, "pre-copy"): ["migrate"],
        (2, "accept"): ["boundary"],
        (2, "post-copy"): ["checkpoint", "checkpoint"],
        (3, "pre-copy"): ["migrate"],
        (4, "pre-copy"): ["migrate"],
        (4, "accept"): ["boundary"],
        (4, "post-copy"): ["checkpoint", "checkpoint"],
    }
    assert [step_title(step) for step in watch.steps] == [
        "prefill",
        "prefill tail",
        "decode",
        "decode",
        "decode, finish",
    ]


def test_broken_invariants_reach_the_overview_and_the_lamps(faulty):
    data = unpacked(faulty)
    step = faulty.violations[0].step
    assert any("wrong" in events for events in data["steps"][step]["events"])
    found = data["steps"][step]["findings"][0]
    assert found[0] == faulty.violations[0].invariant
    assert faulty.violations[0].message in found[2]


def test_legend_shows_what_the_run_has(watch, none_mode):
    def named(trace: Trace) -> list[str]:
        return [item[2] for item in unpacked(trace)["legend"] if item]

    assert "cached" in named(watch)
    assert "cached" not in named(none_mode)
    assert "found in the cache" not in named(watch)


def test_the_default_run_is_small(watch):
    assert len(stage_payload(watch).text) < 300_000


def test_a_long_run_grows_with_its_steps_not_with_their_square(long_run):
    """Every step adds about as much; a column long past is drawn as one shape."""
    whole = len(stage_payload(long_run).text)
    half = long_run.model_copy(update={"steps": long_run.steps[: len(long_run.steps) // 2]})
    assert whole < 2.6 * len(stage_payload(half).text)
    assert whole / len(long_run.steps) < 40_000


def test_equal_layers_share_their_pictures(watch, faulty):
    assert [twin for _, _, twin in unpacked(watch)["layers"]] == [0, 0]
    assert [twin for _, _, twin in unpacked(faulty)["layers"]] == [0, 1]


def test_names_travel_as_they_are(crowd):
    """Nothing is escaped twice: the browser sets text, it never reads markup."""
    data = unpacked(crowd)
    assert data["requests"][0] == HOSTILE
    assert group_of(crowd, 0) == 0


def test_payloads_tell_runs_apart(watch, none_mode):
    assert stage_payload(watch).run != stage_payload(none_mode).run
    assert stage_payload(watch) == stage_payload(watch)


def test_a_list_longer_than_every_row_has_its_columns() -> None:
    """Report S02: with the fault the scheduler gives a block that the worker never hears of."""
    scenario = REPORTS["S02"].faulty_scenario
    run = recorded_run(scenario) if scenario is not None else None
    assert run is not None
    tables = [phase.tables for step in run.trace.steps for phase in step.phases if phase.tables]
    rows = [row for table in tables for row in table.rows.values()]
    longest = max(len(row.block_list[0]) for row in rows)
    assert longest > max(len(row.worker_row[0]) for row in rows)
    assert lanes.axis_of(run.trace, 0).columns >= longest
    assert unpacked(run.trace)["steps"]
