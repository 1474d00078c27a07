"""``python -m mambaviz replay``: a log with verdicts, JSON, and a smaller recording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mambaviz.command_line import BAD_INPUT, BROKEN, OK, main
from mambaviz.recording.lines import Line
from mambaviz.recording.steps import OPEN_STEPS, Gatherer
from tests.recording.files import lines_of, overlapping, preset_trace, reader_of


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "broken.jsonl"
    path.write_text("".join(lines_of(preset_trace("draft-filled-blocks"))))
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "sound.jsonl"
    path.write_text("".join(lines_of(preset_trace("a-shared-prefix"))))
    return path


def test_a_sound_recording(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(sound)]) == OK
    text = capsys.readouterr().out
    assert text.count("\nstep ") == len(preset_trace("a-shared-prefix").steps)
    assert text.endswith("steps, nothing contradicts the rules.\n")


def test_a_broken_one_marks_its_first_step(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(broken)]) == BROKEN
    text = capsys.readouterr().out
    assert text.count("this is the first step that contradicts the rules") == 1
    assert (
        "  WRONG      I1 in commit, boundary state: block 1 is registered for A@2, but its conv "
        "state is the state of A after 1 tokens (a registered block holds the state after exactly "
        "its prefix; section 1)"
    ) in text
    assert "4 steps, 2 findings (boundary state); the first broken step is 1" in text


def test_overlapping_steps_are_told_from_where_they_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the run was, not as its scheduler ran ahead."""
    lines, _ = overlapping("drafts-meet-the-boundary", worker_counts=False)
    logs = []
    for name, told in (
        ("ahead", [json.dumps(line) + "\n" for line in lines]),
        ("as-run", lines_of(preset_trace("drafts-meet-the-boundary"))),
    ):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(told))
        assert main(["replay", str(path)]) == OK
        text = capsys.readouterr().out.splitlines()
        logs.append([line for line in text if line.startswith("  schedule")])
    assert logs[0] == logs[1] != []


def test_steps_and_request(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", str(sound), "--steps", "1:3"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line.startswith("step ")] == [
        line for line in text.splitlines() if line.startswith(("step 1:", "step 2:"))
    ]
    for asked in (["--steps=-1:"], ["--steps", "-1:"]):
        main(["replay", str(sound), *asked])
        text = capsys.readouterr().out
        assert re.findall(r"^step \d+", text, re.MULTILINE) == ["step 5"]
    main(["replay", str(sound), "--request", "B"])
    text = capsys.readouterr().out
    assert "schedule   B" in text
    assert "schedule   A" not in text


def test_verdicts_as_json(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(broken), "--json"]) == BROKEN
    found = json.loads(capsys.readouterr().out)
    assert (found["engine"], found["steps"], found["findings"]) == ("mambaviz", 4, 2)
    first = found["verdicts"][0]
    assert (first["step"], first["phase"], first["rule"]) == (1, "commit", "boundary state")
    assert (first["lamp"], first["section"], first["request"], first["block"]) == (
        "I1",
        "1",
        "A",
        1,
    )


def test_a_part_of_a_recording_is_judged_like_the_whole(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.jsonl"
    assert main(["replay", str(broken), "--steps", "2:", "--cut", str(part)]) == OK
    capsys.readouterr()
    assert main(["replay", str(part), "--json"]) == BROKEN
    found = json.loads(capsys.readouterr().out)
    assert (found["steps"], found["remarks"]) == (2, [])
    assert [verdict["step"] for verdict in found["verdicts"]] == [3]


def test_the_steps_of_one_request(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.jsonl"
    assert main(["replay", str(sound), "--request", "B", "--cut", str(part)]) == OK
    assert main(["replay", str(part)]) == OK
    assert "schedule   B" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.jsonl"], "nothing.jsonl: cannot be read: No such file or directory"),
        (["{sound}", "--steps", "a:b"], "steps 'a:b': give a step such as 7, a range such as"),
        (["{sound}", "--steps", "-3x"], "steps '-3x': give a step such as 7, a range such as"),
        (["{sound}", "--request", "Z", "--cut", "{tmp}/z"], "there is no request 'Z' in this"),
        (["{sound}", "--request", "Z"], "has no request 'Z'"),
        (["{sound}", "--steps", "900:950"], "none of those asked for"),
        (["{sound}", "--json", "--steps", "900:"], "none of those asked for"),
        (["{sound}", "--cut", "{tmp}/no/z"], "{tmp}/no/z: cannot be written: No such file"),
    ],
)
def test_bad_input(
    arguments: list[str],
    sentence: str,
    sound: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"sound": str(sound), "tmp": str(tmp_path)}
    assert main(["replay", *(one.format(**names) for one in arguments)]) == BAD_INPUT
    assert sentence.format(**names) in capsys.readouterr().err


def test_a_recording_is_read_step_by_step() -> None:
    """Its lines are never all there at once: a step is given out two steps later."""
    read: list[int] = []

    def lines() -> Iterator[Line]:
        for line in reader.lines():
            read.append(getattr(line, "step", None) or 0)
            yield line

    reader = reader_of(lines_of(preset_trace("a-shared-prefix")))
    for step in Gatherer().steps(lines()):
        assert read[-1] <= step.index + OPEN_STEPS
