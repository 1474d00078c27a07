"""``python -m mambaviz explore``: what it says, exit codes, one sentence for bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mambaviz.command_line import main
from mambaviz.explore.command import Telling, duration, progress_line
from mambaviz.explore.explorer import Progress
from mambaviz.explore.scope import find_scope, scope_names
from mambaviz.scenario import Scenario
from tests.explore.scopes import ONE, scope


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_of(folder: Path, fields: dict) -> str:
    path = folder / "scope.json"
    path.write_text(json.dumps(fields))
    return str(path)


SMALL = json.loads(ONE.model_dump_json(exclude_defaults=True)) | {"steps": 2}


def test_a_scope_that_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--scope", file_of(tmp_path, SMALL), "--workers", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == (
        "Scope test: it holds. 4 scenarios of up to 2 steps, every invariant kept in all of them."
    )
    assert "4 scenarios replayed with real bytes (none found, 4 others): all agree." in out
    assert not list((tmp_path / ".artifacts" / "explore").iterdir())  # nothing to go on with


def test_a_fault_is_found_as_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "--scope", file_of(tmp_path, SMALL), "--workers", "1", "--json"]
    assert main([*arguments, "--fault", "bias-off-by-one"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["faults"] == ["bias-off-by-one"]
    assert report["hits"] == report["replayed_hits"] > 0
    assert report["disagreements"] == []
    Scenario.model_validate(report["scenario"])


def test_an_answer_to_what_happens_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, SMALL)
    assert main(["explore", "--scope", path, "--workers", "1", "--find", "migrate"]) == 0
    out = capsys.readouterr().out
    assert "have a step with a state that moves into a new running block." in out
    assert Scenario.model_validate_json(out.splitlines()[-1]).requests[0].id == "A"


def test_a_record_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.txt"
    record.write_text("[" * 100_000 + "\n")
    arguments = ["explore", "--scope", file_of(tmp_path, SMALL), "--workers", "1"]
    assert main([*arguments, "--resume", str(record)]) == 2
    assert "this is no record of an exploration; name another file" in capsys.readouterr().err


def test_stopped_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tellings = file_of(tmp_path, SMALL), []

    def stop(self: Telling, progress: Progress) -> None:
        tellings.append(progress)
        if progress.done:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Telling, "__call__", stop)
        assert main(["explore", "--scope", path, "--workers", "1"]) == 130
    told = capsys.readouterr().err
    assert "stopped; to go on: the same command with --resume .artifacts" in told
    record = told.split("--resume ")[1].strip()
    assert len(Path(record).read_text().splitlines()) == 2
    assert main(["explore", "--scope", path, "--workers", "1", "--resume", record]) == 0
    assert Path(record).exists()


BAD = [
    (["--scope", "nowhere"], "nowhere: neither a file nor a scope; the scopes are "),
    (["--fault", "no-such"], "fault 'no-such': there is no such fault; choose from accepted-"),
    (["--fault", "ds-copied-flat", "--scope", "tiny"], "it needs engine.mode 'align', engine.la"),
    (["--find", "luck"], "find 'luck': there is no such query; choose from in-place-shift, bias=n"),
    (["--find", "bias=x"], "find 'bias=x': the query bias wants a whole number"),
    (["--find", "migrate=2"], "find 'migrate=2': the query migrate takes no number"),
    (["--workers", "0"], "--workers 0: allowed 1 to 512"),
    (["--workers", "2", "--scheduler", "x"], "--workers is for this machine"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD)
def test_bad_input_is_one_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


BAD_SCOPES = [
    ({"steps": 0}, "steps = 0: allowed 1 to 64"),
    ({"block_sise": [4]}, "block_sise: there is no such field; did you mean block_sizes?"),
    ({"engine": {"num_spek": 1}}, "engine.num_spek: there is no such field; did you mean num_spec"),
    ({"prompt_lens": []}, "prompt_lens = []: "),
    ({"events": ["preempt"]}, "event_steps: name the steps at which events are tried"),
    ({"num_requests": [4], "prompt_lens": list(range(1, 33))}, "has 1,048,576 combinations"),
]


@pytest.mark.parametrize(("fields", "says"), BAD_SCOPES)
def test_a_bad_scope_is_one_sentence(
    fields: dict, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "--scope", file_of(tmp_path, fields)]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_no_json_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scope.json"
    path.write_text("{")
    assert main(["explore", "--scope", str(path)]) == 2
    assert "this is not JSON" in capsys.readouterr().err


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--list"]) == 0
    out = capsys.readouterr().out
    for name in (*scope_names(), "pre-copy-skipped", "in-place-shift", "bias=n"):
        assert f"  {name}: " in out


@pytest.mark.parametrize("name", scope_names())
def test_every_scope_has_shapes_that_can_run(name: str) -> None:
    found = find_scope(name)
    assert any(found.scenario(shape) is not None for shape in found.shapes())
    assert found.name == name
    assert found.story


def test_progress_in_words() -> None:
    progress = Progress(2, 4, 3, 10, 1234, 5, 678.9, 75.0)
    assert progress_line(progress) == (
        "runs of 2 steps (of up to 4): 1,234 scenarios, 3 of 10 parts, 679 a second, 5 found, "
        "1 min 15 s left at this depth"
    )
    assert duration(7260) == "2 h 01 min"
    log = io.StringIO()
    telling = Telling(log)
    telling(progress)
    telling(progress)  # too soon for a second line
    assert log.getvalue().count("\n") == 1
    assert scope().name == "test"
