"""The reports as replays: their numbers come out, right and with the mistake, one test each.

What is written out here is where the runs part and what turns red; the numbers themselves stand in
``reports.json``, as the reports have them.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from mambaviz.faults import FAULTS
from mambaviz.reports import REPORTS, Number, Replay
from mambaviz.trace import PhaseName
from tests.project.sources import ROOT

NO_RUN = {"S20", "S33"}
NO_DAMAGE = {"S09", "S37"}  # lost time, not lost state


@pytest.fixture(scope="module")
def replays() -> dict[str, Replay]:
    """Each report once, when it is first asked for."""

    class OnDemand(dict[str, Replay]):
        def __missing__(self, report: str) -> Replay:
            self[report] = REPORTS[report].replay()
            return self[report]

    return OnDemand()


def test_all_reports_are_there() -> None:
    assert len(REPORTS) == 22
    assert list(REPORTS) == sorted(REPORTS)
    for report in REPORTS.values():
        words = (report.name, report.title, report.symptom, report.cause, report.lesson)
        assert all(words)
        assert report.look_at
        assert report.url.startswith("https://github.com/")


def test_reports_are_listed_without_torch() -> None:
    listing = "import sys; from mambaviz.reports import REPORTS; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_faults_and_reports_name_each_other() -> None:
    named = {(report, name) for name, fault in FAULTS.items() for report in fault.reports}
    replayed = {(report.id, report.fault_name) for report in REPORTS.values() if report.fault_name}
    assert replayed <= named
    # S09 is replayed by a setting; the old rule of S08 has the same effect.
    assert named - replayed == {("S09", "chunk-ends-inside-block")}


def test_what_no_run_replays_says_so() -> None:
    assert {report.id for report in REPORTS.values() if report.scenario is None} == NO_RUN
    for name in NO_RUN:
        assert REPORTS[name].why_not
        with pytest.raises(ValueError, match=f"{name} has no run: "):
            REPORTS[name].run(with_fault=False)


# ------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("report", REPORTS)
def test_the_numbers_of_a_report_come_out(report: str, replays: dict[str, Replay]) -> None:
    """As it should be, and with the mistake."""
    explained = {one.what: one for one in REPORTS[report].differs}
    numbers = replays[report].numbers()
    assert [number.what for number in numbers] == [one.what for one in REPORTS[report].numbers]
    for number in numbers:
        assert number.right == number.expected, number.what
        if number.what in explained:
            assert not number.agrees
            assert number.wrong == explained[number.what].shown
            assert number.why
        else:
            assert number.agrees, number
            assert number.why == ""
    assert explained.keys() <= {number.what for number in numbers}


def test_two_numbers_disagree() -> None:
    """Both with a reason: the order of rows, and a length that no step before can have."""
    differing = [(report.id, one.what) for report in REPORTS.values() for one in report.differs]
    assert differing == [
        ("S11", "counts of C, B, E"),
        ("S13", "last scheduled column, group 1"),
    ]


@pytest.mark.parametrize("report", REPORTS)
def test_the_mistake_shows_in_some_number(report: str, replays: dict[str, Replay]) -> None:
    assert any(number.is_damaged for number in replays[report].numbers())


def test_a_number_knows_whether_it_agrees() -> None:
    assert Number("n", "1", "1", "2", "2", "").agrees
    assert Number("n", "1", "1", None, "2", "").agrees
    assert not Number("n", "1", "1", "3", "2", "why").agrees
    assert not Number("n", "0", "1", "2", "2", "why").agrees
    assert not Number("n", "1", "1", None, "1", "").is_damaged


# ------------------------------------------------------------------------------ where runs part


@dataclass(frozen=True)
class Part:
    """First step and phase in which the runs differ, and what turns red with the mistake."""

    step: int
    phase: PhaseName
    red: str


PARTS = {
    "S01": Part(3, "pre-copy", "I7"),
    "S02": Part(1, "allocate", "I2 I3 I4 I7"),
    "S03": Part(1, "post-copy", "I1 I2 I3"),
    "S04": Part(1, "post-copy", "I1 I2 I3"),
    "S05": Part(1, "post-copy", "I1 I2 I3"),
    "S08": Part(0, "schedule", "I1 I2 I3"),
    "S09": Part(0, "schedule", ""),
    "S11": Part(2, "pre-copy", "I1 I2 I3"),
    "S13": Part(3, "metadata", "I1 metadata"),
    "S14": Part(2, "metadata", "metadata"),
    "S16": Part(0, "metadata", "I2 I3 metadata"),
    "S17": Part(3, "metadata", "metadata"),
    "S21": Part(1, "metadata", "I1 metadata"),
    "S22": Part(2, "forward", "I1 I2 I3"),
    "S24": Part(2, "metadata", "I1 I2 I3 metadata"),
    "S26": Part(2, "metadata", "I2 I3 metadata"),
    "S29": Part(2, "pre-copy", "I1 I2 I3"),
    "S32": Part(1, "commit", "I1 I2 I3"),
    "S36": Part(1, "metadata", "I1 I2 I3 metadata"),
    "S37": Part(0, "schedule", ""),
}


@pytest.mark.parametrize("report", PARTS)
def test_where_the_runs_part(report: str, replays: dict[str, Replay]) -> None:
    replay = replays[report]
    assert replay.right is not None
    assert replay.right.violations == []
    assert replay.first_difference is not None
    assert (
        Part(
            replay.first_difference.moment,
            replay.first_difference.phase,
            " ".join(sorted(replay.red)),
        )
        == PARTS[report]
    )
    if REPORTS[report].fault is not None and report not in NO_DAMAGE:
        assert set(REPORTS[report].fault.noticed_by) & replay.red


CELLS = {
    "S02": "1 forward: block 5 temporal, head 0, channel 0, state 0 should be 10, is 0",
    "S03": "1 post-copy: block 1 conv, row 0, channel 0 should be 6, is 8",
    "S04": "1 post-copy: block 1 temporal, head 0, channel 0, state 0 should be 8, is 6",
    "S05": "1 post-copy: block 1 conv, row 0, channel 0 should be 6, is 4",
    "S11": "2 pre-copy: block 8 conv, row 0, channel 0 should be 5, is 4",
    "S13": "3 forward: block 4 conv, row 0, channel 0 should be 6, is 7",
    "S16": "8 forward: block 1 conv, row 1, channel 0 should be 0, is 1",
    "S21": "1 forward: block 1 temporal, head 0, channel 0, state 0 should be 8, is 7",
    "S22": "2 forward: block 1 conv, row 0, channel 0 should be 6, is 8",
    "S24": "2 forward: block 1 temporal, head 0, channel 0, state 0 should be 8, is 6",
    "S26": "2 forward: block 1 conv, row 0, channel 0 should be 22, is 20",
    "S29": "2 pre-copy: block 2 conv, row 0, channel 0 should be 6, is 0.0625",
    "S36": "1 forward: block 2 temporal, head 0, channel 0, state 0 should be 8, is 6",
}


@pytest.mark.parametrize("report", REPORTS)
def test_the_first_wrong_cell(report: str, replays: dict[str, Replay]) -> None:
    """None where only lists, metadata or the schedule differ, at least before the schedule does."""
    cell = replays[report].first_wrong_cell
    if report not in CELLS:
        assert cell is None
        return
    assert cell is not None
    found = f"{cell.step} {cell.phase}: block {cell.block} {cell.state}, {cell.words}"
    assert found == CELLS[report]
    if cell.request is not None:
        assert cell.column is not None


def test_without_runs_there_is_nothing_to_part(replays: dict[str, Replay]) -> None:
    for report in NO_RUN:
        assert replays[report].first_difference is None
        assert replays[report].first_violation is None
        assert replays[report].red == set()


# ------------------------------------------------------------------------------ predict first

ANSWERS = {
    "S01": "3, 1",
    "S02": "source column 5 is outside the row of 5 columns",
    "S03": "t7 t6 t7 t6 t7",
    "S04": "1",
    "S05": "Z",
    "S08": "block 6 (A, column 0)",
    "S09": "0",
    "S11": "h(6)",
    "S13": "1, 0",
    "S14": "4, 7, 9, 0",
    "S16": "h(2)",
    "S17": "1, 1",
    "S20": "h(4), h(8)",
    "S21": "block 1 (A, column 0)",
    "S22": "block 1 (A, column 0)",
    "S24": "2, 0",
    "S26": "0",
    "S29": "b0 b1 b2 b3",
    "S32": "block 2 (A, column 1)",
    "S33": "17",
    "S36": "0, 4, 8, 12, 14",
    "S37": "0",
}


@pytest.mark.parametrize("report", REPORTS)
def test_the_answer_is_what_the_run_says(report: str, replays: dict[str, Replay]) -> None:
    question = replays[report].question
    assert len(set(question.choices)) == len(question.choices) >= 2
    assert question.choices[question.answer] == ANSWERS[report]
    assert question.text
    assert question.because
