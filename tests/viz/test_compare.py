"""Runs side by side: pictures by coordinate, sentences by number, the payload played back."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from mambaviz import engine
from mambaviz.comparisons import MODES, READY_MADE, varied
from mambaviz.random_scenarios import random_scenario
from mambaviz.scenario import ScenarioError
from mambaviz.trace import PHASES, Trace
from mambaviz.viz.compare import charts, pictures, told
from mambaviz.viz.compare.beside import SideBySide
from mambaviz.viz.compare.payload import compare_payload
from mambaviz.viz.compare.pictures import cell_body, panel_for
from mambaviz.viz.compare.rows import ListCell, RunRows
from mambaviz.viz.compare.sizes import SIZES
from mambaviz.viz.scene import Scene
from mambaviz.viz.svg import to_svg


@cache
def traces_of(slug: str) -> tuple[Trace, ...]:
    scenarios = READY_MADE[slug].scenarios
    return tuple(engine.run(scenario, backend="reference") for scenario in scenarios)


@cache
def side_of(slug: str, lock: str | None = None) -> SideBySide:
    return SideBySide(traces_of(slug), lock=lock)


def plain(line: tuple[told.Span, ...]) -> str:
    return "".join(span.text for span in line)


class Played:
    """A payload as the browser reads it."""

    def __init__(self, traces: tuple[Trace, ...], **where: Any) -> None:
        self.data = json.loads(compare_payload(traces, **where).text)

    def frame(self, moment: int, phase: str) -> int:
        return moment * len(PHASES) + PHASES.index(phase)

    def marks(self, channel: str, frame: int) -> dict[str, Any]:
        timeline = self.data["timelines"][self.data["channels"][channel]]
        names, now = self.data["names"], {}
        for at in sorted(timeline, key=int):
            if int(at) <= frame:
                gone, put = timeline[at]
                for name in gone:
                    now.pop(names[name])
                now.update({names[entry[0]]: entry for entry in put})
        return now

    def texts(self, channel: str, frame: int) -> list[str]:
        bodies = [self.data["bodies"][entry[1]] for entry in self.marks(channel, frame).values()]
        return [part[4] for body in bodies for part in body[2] if part[0] == "t"]

    def panel(self, name: str, frame: int) -> Any:
        timeline = self.data["timelines"][self.data["panels"][name]]
        return self.data["texts"][timeline[max((a for a in timeline if int(a) <= frame), key=int)]]

    def said(self) -> str:
        """Everything that is said in sentences and numbers; a metadata field may be None."""
        names = [name for name in self.data["panels"] if name != "differs"]
        timelines = [self.data["timelines"][self.data["panels"][name]] for name in names]
        numbers = {number for timeline in timelines for number in timeline.values()}
        return json.dumps([self.data["texts"][number] for number in numbers])


# --------------------------------------------------------------------------------------
# The picture that the design shows
# --------------------------------------------------------------------------------------

# Step 5 after its forward, as the design has it: none, align, all.
LISTS = (
    {"A": "1R h(16), 2S h(17), 3S h(18)", "B": "4R h(19), 5S h(20), 6S h(21)",
     "A2": "7R h(10), 8S –, 9S –"},
    {"A": "∅, ∅, 3C h(12), 7R h(13), 9S h(14), 11S h(15)",
     "B": "∅, ∅, ∅, 6C h(16), 8R h(17), 10S h(18), 12S h(19)",
     "A2": "∅, 2C h(8), 13R h(10), 14S –, 15S –"},
    {"A": "∅, ∅, ∅, 4r h(13), 10R h(16), 2S h(17), 3S h(18)",
     "B": "∅, ∅, ∅, ∅, 9r h(17), 11R h(19), 7S h(20), 8S h(21)",
     "A2": "1C h(4), 12C h(8), 13R h(10), 14S –, 15S –"},
)  # fmt: skip
LETTERS = {"cached": "C", "running": "R", "previous": "r", "speculative": "S"}


def as_text(cell: ListCell) -> str:
    return f"{cell.block}{LETTERS[cell.role]} {cell.state}" if cell.block else "∅"


@pytest.mark.parametrize("run", range(3))
def test_lists_at_the_moment_of_the_hit(run: int) -> None:
    rows = RunRows(traces_of("cache-mode")[run], 0).at(5, "forward")
    assert {name: ", ".join(map(as_text, row.cells)) for name, row in rows.items()} == LISTS[run]


def test_it_opens_at_the_hit_and_says_what_is_to_be_seen() -> None:
    side = side_of("cache-mode")
    assert side.opening == 5
    said = told.headline(side, 5, "forward")
    assert said.headline == (
        "A2 asks with A’s first 10 tokens: align resumes after 8, all after 4, none starts over."
    )
    assert said.plain.startswith("With drafts, a block that fills inside a decode query never")
    assert [plain(line) for line in told.notes(side, 5, "forward")] == [
        "h(12) is there in align, but a hit covers at most (10 − 1) // 4 = 2 blocks: one token is "
        "always computed.",
        "Only the hit block is needed. In align it is the source of A2’s MIGRATE, bias 0: "
        "column 1, block 2, into column 2, block 13.",
        "In all A2 reads column 0 where it lies and writes h(8) to column 1, h(10) to column 2; "
        "nothing is copied.",
        "align, whose prefill chunk stops at a boundary, needs 2 steps for A’s 6 prompt tokens "
        "where 1 would do.",
    ]


def test_numbers_under_each_run() -> None:
    side = side_of("cache-mode")
    values = [[value for _, value in told.numbers(side, run, 5)] for run in range(3)]
    assert values == [
        ["9", "0", "10 of 10"], ["12", "2\u202f944", "2 of 10"], ["13", "0", "6 of 10"],
    ]  # fmt: skip
    assert told.numbers(side, 0, 5)[2][0] == "of A2 recomputed"
    assert told.strip_words(side, 1, 5) == ("reuses 8", "computes 2")
    assert told.strip_words(side, 1, 6) == ("reused 8", "computes 3")


# --------------------------------------------------------------------------------------
# Sentences
# --------------------------------------------------------------------------------------


def test_before_at_and_after_the_parting() -> None:
    side = side_of("rewound")
    assert side.opening == 3
    assert told.headline(side, 2, "commit").headline == "Up to here the runs are the same."
    assert told.headline(side, 3, "forward").headline == "Up to here the runs are the same."
    parted = told.headline(side, 3, "accept")
    assert parted.headline == "Here the runs part, in accept."
    assert parted.plain == "A, accepted: original 3; “A keeps 0 at step 3” 1, and 1 more."
    assert told.headline(side, 4, "commit").headline == (
        "At step 4 original copies 736 bytes, “A keeps 0 at step 3” copies 224 bytes."
    )
    assert told.headline(side, 6, "commit").headline == "original has ended."
    assert side.focus(3) == "A", "the request that they part over"


def test_what_agrees_says_so() -> None:
    told_ = told.headline(side_of("runner"), 2, "commit")
    assert told_.headline.startswith("The runs agree in everything that is compared")
    assert told_.plain == "Blocks held: 7 each. Bytes copied so far: 1\u202f344 each."


def test_layouts_copy_other_pieces() -> None:
    lines = [plain(line) for line in told.notes(side_of("layout"), 4, "commit")]
    assert lines == [
        "A’s conv rows are copied, MIGRATE, bias 2: SD as one piece of 48 bytes, DS as 4 pieces "
        "of 12 bytes."
    ]


def test_runners_launch_other_kernels() -> None:
    lines = [plain(line) for line in told.notes(side_of("runner"), 3, "commit")]
    assert lines[0] == (
        "V1 launches before the forward batch_memcpy_kernel; "
        "after it postprocess_mamba_fused_kernel."
    )
    assert "preprocess_mamba_align_fused_kernel" in lines[1]


def test_a_broken_invariant_is_the_headline_from_its_phase_on() -> None:
    side = side_of("accepted-count-not-reset")
    assert told.headline(side, 3, "pre-copy").headline == "Here the runs part, in pre-copy."
    broken = told.headline(side, 3, "forward")
    assert broken.headline == "I2 and I3 break in “accepted-count-not-reset”."
    assert broken.sentence[0].role == "wrong"
    assert "B is about to read" in broken.plain
    assert broken.plain.endswith("In “no fault” every invariant holds.")


def test_differences_in_rows_of_text() -> None:
    side = side_of("accepted-count-not-reset")
    rows = {row.fact: row.values for row in told.difference_rows(side.differences(3, "forward"))}
    assert rows["invariant I2"] == ("–", "broken")
    assert rows["B, state in column 3"] == (
        "h(13) [t10 t11 t12 t13 t14]",
        "h(1) [– – t12 t13 t14]",
    )
    modes = told.difference_rows(side_of("cache-mode").differences(1, "forward"))
    blocks = {row.fact: row.values for row in modes}
    assert blocks["A, columns 0 3 4"] == ("1 – –", "1 7 –", "∅ 4 10")


def test_locked_to_a_token() -> None:
    side = side_of("cache-mode", "A")
    assert told.moment_name(side, 0) == "tokens 0–3 of A"
    assert {side.focus(moment) for moment in range(len(side.moments))} == {"A"}
    with pytest.raises(ValueError, match="no run computes a token"):
        SideBySide(traces_of("cache-mode"), lock="nobody")
    with pytest.raises(KeyError, match="layer 9"):
        SideBySide(traces_of("cache-mode"), layer=9)


# --------------------------------------------------------------------------------------
# Pictures and charts
# --------------------------------------------------------------------------------------


def test_columns_stand_under_each_other_and_never_get_unreadable() -> None:
    assert panel_for(3, 8).pitch == SIZES.pitch
    assert panel_for(2, 4).pitch == SIZES.wide_pitch
    crowded = panel_for(3, 20)
    assert crowded.pitch == SIZES.least_pitch
    assert crowded.lists_width > crowded.width, "more columns scroll"


def test_a_block_says_its_role_beside_its_colour() -> None:
    body = cell_body(ListCell(2, 3, "cached", "h(12)"), 39)
    assert body.cls == "bk cached"
    assert body.title == "block 3, cached, column 2: h(12)"
    assert "wrong" in cell_body(ListCell(2, 3, "running", "h(1)", wrong=True), 39).cls


@pytest.mark.parametrize(
    ("highest", "wanted"),
    [(0, (0, 1)), (1, (0, 1)), (3, (0, 1, 2, 3)), (13, (0, 5, 10, 15)),
     (4736, (0, 2000, 4000, 6000)), (10, (0, 4, 8, 12))],
)  # fmt: skip
def test_round_ticks(highest: int, wanted: tuple[int, ...]) -> None:
    assert charts.ticks(highest) == wanted


def test_lines_lie_where_their_values_are() -> None:
    chart = charts.chart_for(364, ["0", "1", "2"], [[0, 2, None], [3, 1, 0]])
    assert chart.ticks == (0, 1, 2, 3)
    assert chart.y(0) == chart.bottom
    assert chart.y(3) == SIZES.chart_top
    marks = {m.name: m for m in charts.chart_picture(chart, ["a", "b"], [[0, 2, None], [3, 1, 0]])}
    line = marks["line0"].body.parts[0]
    assert line.d.count("L") == 1, "a run that has ended has no point there"
    assert marks["line0"].body.cls == "series solid"
    assert marks["line1"].body.cls == "series dashed"
    assert charts.now_marks(chart, 2)[0].x == chart.right


def test_runs_that_end_alike_share_a_name() -> None:
    lines = [[0, 5], [1, 5]]
    chart = charts.chart_for(364, ["0", "1"], lines)
    texts = Scene(1, 1, tuple(charts.chart_picture(chart, ["none", "all"], lines))).texts()
    assert "none, all" in texts
    long = Scene(1, 1, tuple(charts.chart_picture(chart, ["one long name", "two"], lines))).texts()
    assert "both" in long


# --------------------------------------------------------------------------------------
# The payload
# --------------------------------------------------------------------------------------


def test_the_payload_plays_back_what_was_drawn() -> None:
    played = Played(traces_of("cache-mode"))
    frame = played.frame(5, "forward")
    assert played.panel("say", frame)[0].startswith("A2 asks with A’s first 10 tokens")
    texts = played.texts("lists:1", frame)
    assert {text for text in texts if text.startswith("h(")} == {
        "h(8)", "h(10)", *(f"h({tokens})" for tokens in range(12, 20)),
    }  # fmt: skip
    assert played.texts("found", frame).count("C") == 4
    assert played.panel("left", frame)[0] == "What A2 could find at step 5"
    assert played.panel("numbers:1", frame)[1] == ["bytes copied", "2\u202f944"]
    assert played.data["moments"][5]["events"] == [[], ["migrate", "hit"], ["hit"]]
    assert all(not bad for _, bad in played.panel("lamps:0", frame))
    assert played.data["parting"] == [0, 0]


def test_differences_are_underlined_where_they_are() -> None:
    played = Played(traces_of("accepted-count-not-reset"))
    assert played.marks("differ:1", played.frame(2, "commit")) == {}
    assert set(played.marks("differ:1", played.frame(3, "forward"))) == {
        "state1:3", "state1:4", "state1:5",
    }  # fmt: skip
    lamps = played.panel("lamps:1", played.frame(3, "forward"))
    assert [bad for _, bad in lamps] == [False, True, True, False, False, False, False]
    early = played.panel("lamps:1", played.frame(3, "metadata"))
    assert not any(bad for _, bad in early)


def test_a_run_that_has_ended_keeps_its_last_lists_away() -> None:
    """Its requests are gone, and so is its step."""
    played = Played(traces_of("rewound"))
    moment = played.data["moments"][6]
    assert moment["steps"] == [None, 6]
    assert moment["events"][0] == []
    assert played.panel("numbers:0", played.frame(6, "forward"))[0] == ["blocks held", "–"]


@pytest.mark.parametrize("lock", [None, "A"])
def test_every_comparison_is_drawn(lock: str | None) -> None:
    for slug in READY_MADE:
        for layer in (0, 1):
            played = Played(traces_of(slug), lock=lock, layer=layer)
            assert len(played.data["runs"]) == len(READY_MADE[slug].scenarios)
            assert "None" not in played.said()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_any_scenario_is_drawn_in_every_mode_it_can_run_in(seed: int) -> None:
    rng = random.Random(f"compared {seed}")
    scenario = random_scenario(
        rng,
        modes=("align", "none", "all"),
        layouts=("SD", "DS"),
        mamba_groups=(1, 2),
        attention=(False, True),
        events=True,
        replayssm=True,
        states=("both", "conv", "temporal"),
        max_requests=3,
        sufficient=False,
    )
    traces = []
    for mode in MODES.ways:
        try:
            traces.append(engine.run(varied(scenario, MODES, mode), backend="reference"))
        except ScenarioError:
            continue
    pairs = (traces * 2)[:2] if len(traces) == 1 else traces
    names = [plan.id for plan in scenario.requests]
    for lock in (None, names[0]):
        played = Played(tuple(pairs), lock=lock)
        assert len(played.data["moments"]) > 0
        assert "None" not in played.said()


def test_pictures_are_svg() -> None:
    side = side_of("cache-mode")
    panel = panel_for(3, 8)
    rows = side.rows[1].at(5, "forward")
    marks = [
        mark
        for index, name in enumerate(side.requests)
        for mark in pictures.list_row(rows[name], index, panel)
    ]
    text = to_svg(Scene(panel.lists_width, 160, tuple(marks)), "lists")
    assert ElementTree.fromstring(text).tag.endswith("svg")
