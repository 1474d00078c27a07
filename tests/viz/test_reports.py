"""The pictures and texts of the Reports page, for every report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mambaviz.pages.reports import replay_of
from mambaviz.reports import REPORTS
from mambaviz.trace import PHASES, PhaseName
from mambaviz.viz.reports import pictures, told
from mambaviz.viz.reports.exhibit import FAULT, FIX, Exhibit
from mambaviz.viz.reports.payload import ReportPayload, report_payload
from mambaviz.viz.scene import Scene

MOST_CHARACTERS = 100_000
NO_RUN = {"S20", "S33"}


@pytest.fixture(scope="module")
def exhibits() -> dict[str, Exhibit]:
    class OnDemand(dict[str, Exhibit]):
        def __missing__(self, name: str) -> Exhibit:
            self[name] = Exhibit(replay_of(name))
            return self[name]

    return OnDemand()


def payload(name: str) -> tuple[ReportPayload, dict[str, Any]]:
    found = report_payload(replay_of(name))
    return found, json.loads(found.text)


def block_scene(exhibit: Exhibit, run: int, moment: int, phase: PhaseName) -> Scene:
    """The block in question, without the page around."""
    shown, right = (exhibit.around(one, moment, phase) for one in (run, FIX))
    assert shown is not None
    assert right is not None
    assert exhibit.subject is not None
    marks = pictures.block_picture(
        shown,
        right.target.values,
        (10.0,) * 4,
        exhibit.subject.state,
        3,
        run == FAULT,
        tuple(told.note(shown, right, exhibit.subject.state, True)),
    )
    return Scene(100, 100, marks)


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_packed(name: str) -> None:
    found, data = payload(name)
    assert len(found.text) < MOST_CHARACTERS
    assert found.run == name
    assert data["title"].startswith(f"{name}: ")
    assert data["links"][0][1] == REPORTS[name].url
    assert len(data["numbers"]) == len(REPORTS[name].numbers)
    assert data["question"][2] == found.answer
    if name in NO_RUN:
        assert (found.steps, data["steps"], data["parting"]) == (0, [], None)
        assert data["why_not"] == REPORTS[name].why_not
        return
    assert len(data["steps"]) == found.steps > found.at
    part = exhibit_parting(data)
    assert part in data["apart"]
    assert min(data["apart"]) == part
    assert data["has_block"] == ("block:0" in data["channels"])
    assert data["fault"][1]


def exhibit_parting(data: dict[str, Any]) -> int:
    moment, phase = data["parting"]
    return moment * len(PHASES) + phase


def test_a_report_without_runs_has_nothing_to_open() -> None:
    with pytest.raises(ValueError, match="S20 has no runs to show"):
        Exhibit(replay_of("S20"))


def test_it_opens_where_the_damage_shows(exhibits: dict[str, Exhibit]) -> None:
    assert exhibits["S03"].opening == (1, "post-copy")
    assert exhibits["S02"].opening == (1, "forward")  # the runs part at the allocation
    assert exhibits["S01"].opening == (3, "pre-copy")  # no cell, but an invariant
    assert exhibits["S09"].opening == (0, "commit")  # no harm: the end of the step of the parting


# ------------------------------------------------------------------------------ rows and numbers


def test_an_unordered_shift_has_its_order_and_its_wrong_arrow(
    exhibits: dict[str, Exhibit],
) -> None:
    scene = block_scene(exhibits["S03"], FAULT, 1, "post-copy")
    arrows = {m.name: m.body for m in scene.marks if m.name.startswith("arrow")}
    assert {name: body.cls for name, body in arrows.items()} == {
        "arrow0": "copy skipped",  # row 0 should get t5 and gets t7
        "arrow1": "copy",
        "arrow2": "copy",
    }
    order = [Scene(0, 0, (scene.named(name),)).texts() for name in arrows]
    assert order == [["3"], ["2"], ["1"]]
    rows = [scene.named(f"{strip}{row}") for strip in ("up", "down") for row in range(5)]
    assert [Scene(0, 0, (mark,)).texts()[0] for mark in rows] == [
        "t3", "t4", "t5", "t6", "t7", "t7", "t6", "t7", "t6", "t7"
    ]  # fmt: skip
    assert "first wrong cell" in scene.texts()
    assert "row 0, channel 0: 8, not 6" in scene.texts()
    wrong = [m.name for m in scene.marks if m.body.cls == "number wrong"]
    assert wrong == [f"cell0-{channel}" for channel in range(4)]


def test_with_the_fix_nothing_is_marked(exhibits: dict[str, Exhibit]) -> None:
    scene = block_scene(exhibits["S03"], FIX, 1, "post-copy")
    assert not [m for m in scene.marks if "wrong" in m.body.cls or m.name == "circle"]
    assert "channel 0 = position + 1" in scene.texts()


def test_a_temporal_state_says_what_it_has_taken_in(exhibits: dict[str, Exhibit]) -> None:
    texts = block_scene(exhibits["S04"], FAULT, 1, "post-copy").texts()
    assert "h(6)" in texts  # after
    assert "h(8)" in texts  # its source
    assert "so it holds h(6)" in texts


def test_bytes_that_went_elsewhere_are_named(exhibits: dict[str, Exhibit]) -> None:
    around = exhibits["S05"].around(FAULT, 1, "post-copy")
    assert around is not None
    assert around.words == "CHECKPOINT, bias 1; the bytes land in block 5"
    fixed = exhibits["S05"].around(FIX, 1, "post-copy")
    assert fixed is not None
    assert fixed.words == "CHECKPOINT, bias 1"


def test_the_forward_reads_where_its_metadata_says(exhibits: dict[str, Exhibit]) -> None:
    reads = [exhibits["S26"].around(run, 2, "forward") for run in (FAULT, FIX)]
    assert [one.reads for one in reads if one is not None] == [0, 2]


def test_a_row_of_noise_has_no_token(exhibits: dict[str, Exhibit]) -> None:
    around = exhibits["S29"].around(FAULT, 2, "pre-copy")
    assert around is not None
    assert set(around.target.labels) == {"?"}


def test_after_its_end_a_run_stands_still(exhibits: dict[str, Exhibit]) -> None:
    short = exhibits["S32"]
    assert [len(trace.steps) for trace in short.traces] == [3, 4]
    _, data = payload("S32")
    assert [row is None for row in data["steps"][3]["events"]] == [True, False]


# ------------------------------------------------------------------------------ words


def test_the_place_is_said(exhibits: dict[str, Exhibit]) -> None:
    found = told.where(exhibits["S03"], 1, "post-copy")
    assert found == "step 1, post-copy: A computed 5, scheduled 3, accepted 3"
    assert told.where(exhibits["S37"], 0, "schedule").endswith("A computes nothing")


def test_the_picture_is_told_in_words(exhibits: dict[str, Exhibit]) -> None:
    around = exhibits["S05"].around(FIX, 1, "post-copy")
    assert around is not None
    assert told.alt(around, [("", "as it should be")]) == (
        "block 1, X, col 1; before of block 2: t4 t5 t6 t7 t8 t9; after: t5 t6 t7 t8 t9 –; "
        "CHECKPOINT, bias 1; as it should be"
    )


def test_facts_explain_a_difference(exhibits: dict[str, Exhibit]) -> None:
    side = exhibits["S26"].side
    rows = told.facts(side.differences(2, "forward"), [], with_states=False)
    assert rows == [["num_accepted_tokens", "[1]", "[3]"]]
    _, data = payload("S01")
    texts = json.dumps(data["texts"], ensure_ascii=False)
    assert "outside the row → 3, bias 0, skipped" in texts
    assert '["I7", "' in texts


def test_a_setting_that_is_the_mistake_is_named() -> None:
    _, data = payload("S09")
    assert data["fault"] == ["", "stop_before_last_token: false"]


def test_a_disagreement_with_the_report_is_explained() -> None:
    notes = {row[0]: row[4] for row in told.numbers(replay_of("S11")) if row[4]}
    assert list(notes) == ["counts of C, B, E"]
    assert notes["counts of C, B, E"].startswith("The report says 1, 1, 1. ")


# ------------------------------------------------------------------------------ errors


def test_errors_are_bars_on_a_round_scale() -> None:
    scene = Scene(0, 0, pictures.errors_picture([0.0, None, 1.3912]))
    assert [m.name for m in scene.marks if m.name.startswith("bar")] == ["bar2"]
    assert Scene(0, 0, (scene.named("value1"), scene.named("value2"))).texts() == ["–", "1.4"]
    assert [m.name for m in scene.marks if m.name.startswith("tick")] == [
        "tick0", "tick0.5", "tick1", "tick1.5"
    ]  # fmt: skip


def test_without_errors_the_scale_ends_at_one() -> None:
    scene = Scene(0, 0, pictures.errors_picture([0.0, 0.0]))
    assert [m.name for m in scene.marks if m.name.startswith("tick")] == ["tick0", "tick1"]
