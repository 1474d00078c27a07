"""A recording is read a line at a time, and what is wrong with it is one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mambaviz.recording.lines import LONGEST_LINE, Schedule
from mambaviz.recording.reader import RecordingError, open_recording
from tests.recording.files import lines_of, preset_trace, reader_of, steps_of, verdicts_of

LINES = lines_of(preset_trace("plain-decode"))


def changed(number: int, **values: object) -> list[str]:
    """The recording with other values in one line."""
    line = {**json.loads(LINES[number]), **values}
    return [*LINES[:number], json.dumps(line) + "\n", *LINES[number + 1 :]]


def refusal(lines: list[str]) -> str:
    with pytest.raises(RecordingError) as error:
        list(reader_of(lines).lines())
    return str(error.value)


def test_a_whole_recording_leaves_no_remark() -> None:
    reader = reader_of(LINES)
    assert len(list(reader.lines())) == len(LINES) - 1
    assert reader.remarks == []


def test_a_last_line_that_is_cut_off_is_left_out_with_a_sentence() -> None:
    text = "".join(LINES)
    cut = text[: text.rindex('"schedule"') + 30]
    reader = reader_of([cut])
    found = list(reader.lines())
    number = cut.count("\n") + 1
    assert len(found) == number - 2
    assert reader.remarks == [
        f"Line {number}, the last one, is cut off and left out: the recording ends before it."
    ]
    assert verdicts_of([cut]) == []


def test_every_cut_can_be_read_on() -> None:
    text = "".join(LINES)
    head = len(LINES[0])
    for end in range(head, len(text), 97):
        assert verdicts_of([text[:end]]) == []


def test_a_missing_end_is_said() -> None:
    reader = reader_of(LINES[:-1])
    list(reader.lines())
    assert reader.remarks == [
        f"The recording has no end: it was cut off after line {len(LINES) - 1}."
    ]


def test_a_compressed_file_that_stops_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress("".join(LINES).encode())[:-40])
    reader = open_recording(path)
    assert list(reader.lines())
    assert len(reader.remarks) == 1


def test_a_compressed_file_that_is_damaged_gets_a_sentence(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress("".join(LINES).encode()))
    packed[10] = 0x07  # a block of a type that there is not
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(packed)
    with pytest.raises(RecordingError, match=r"run\.jsonl\.gz cannot be read on behind line"):
        list(open_recording(path).lines())


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "run.jsonl is empty: a recording begins with its head"),
        (
            changed(0, version=2),
            "run.jsonl is a recording of version 2; this program reads version 1: record it anew "
            "with the recorder that belongs to it",
        ),
        (
            ['{"requests": []}\n'],
            'run.jsonl is no recording: its first line does not say "format": '
            '"mambaviz-recording"; python -m mambaviz run takes scenarios',
        ),
        (
            ["step 0: prefill\n"],
            "run.jsonl, line 1: this is not JSON; a recording begins with its head, see "
            "docs/recording.md",
        ),
        (
            ["[" * 100_000 + "\n"],
            "run.jsonl, line 1: this is not JSON; a recording begins with its head, see "
            "docs/recording.md",
        ),
        (
            [LINES[0], "{broken\n", *LINES[1:]],
            "run.jsonl, line 2, this is not JSON: key must be a string",
        ),
        (
            changed(2, requests=[{"id": "A", "kind": "new", "computed": -1, "scheduled": 3}]),
            "run.jsonl, line 3, schedule.requests[0].computed = -1: input should be greater than "
            "or equal to 0",
        ),
        (
            [LINES[0], "[1]\n"],
            'run.jsonl, line 2, a line must be an object with the key "event"',
        ),
        (
            [LINES[0], '{"event": "accept"}\n'],
            "run.jsonl, line 2, accept.step: this key is required",
        ),
        (
            [LINES[0], '{"event": "note", "what": "' + "x" * LONGEST_LINE + '"}\n'],
            f"run.jsonl, line 2: it is longer than {LONGEST_LINE} bytes, which no line of a "
            "recording is",
        ),
    ],
)
def test_what_is_no_recording_gets_one_sentence(lines: list[str], sentence: str) -> None:
    assert refusal(lines) == sentence


def test_unknown_events_and_keys_are_skipped() -> None:
    more = ['{"event": "weather", "sun": true}\n']
    found = list(reader_of([*changed(2, colour="blue")[:-1], *more, LINES[-1]]).lines())
    assert len(found) == len(LINES) - 1
    assert isinstance(found[1], Schedule)


def test_lines_of_neighbouring_steps_may_alternate() -> None:
    """Asynchronous scheduling: a step is scheduled before the one before it is committed."""
    swapped = LINES[1:-1]
    for index, line in enumerate(swapped):
        if '"event":"commit"' in line and '"step":1,' in line:
            later = index + 1
            while '"event":"rows"' not in swapped[later]:
                later += 1
            swapped.insert(later, swapped.pop(index))
            break
    lines = [LINES[0], *swapped, LINES[-1]]
    assert lines != LINES
    for ours, theirs in zip(steps_of(LINES), steps_of(lines), strict=True):
        assert (ours.schedule, ours.blocks, ours.commit) == (
            theirs.schedule,
            theirs.blocks,
            theirs.commit,
        )


def test_lines_that_were_lost_leave_nothing_known() -> None:
    """What a request holds is unknown from there on, until a line states it in full."""
    steps = steps_of(LINES)
    at = next(i for i, line in enumerate(LINES) if '"step":2,' in line)
    lost = [*LINES[:at], '{"event":"lost","lines":3,"step":2}\n', *LINES[at:]]
    after = steps_of(lost)
    assert steps[2].row("A", 0) is not None
    assert after[2].row("A", 0) is None
    assert after[2].lost == 3
    assert verdicts_of(lost) == []
