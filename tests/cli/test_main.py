"""The command line: a readable log, exit codes, one sentence for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mambaviz.command_line import main
from mambaviz.scenario import PRESETS
from mambaviz.trace import Trace


def scenario_file(folder: Path, **changes) -> str:
    path = folder / "scenario.json"
    path.write_text(json.dumps({"requests": [{"id": "A", "prompt_len": 6}], **changes}))
    return str(path)


def test_a_preset_is_run_and_told_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "accepted-to-the-boundary"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Accepted to the boundary (run ")
    assert "step 2: decode A" in lines
    assert "  schedule   A tokens 6 to 8, the last 2 of them drafts" in lines
    assert "  allocate   A list [∅ 2 3 4 5], worker's row [1 2 3 4 5]" in lines
    assert "  accept     A kept 1 of 2 drafts, sampled 1007 1008" in lines
    assert any(
        line.startswith("  post-copy  A: running 7, new 8, aligned 8, bias 1, column 2 → 1: ")
        for line in lines
    )
    assert "  post-copy  A CHECKPOINT layer 0 conv: block 3 → 2, bias 1, 64 bytes" in lines
    assert lines[-1] == "4 steps, all invariants hold."


def test_the_trace_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trace.json"
    assert main(["run", scenario_file(tmp_path), "--backend", "reference", "--json", str(out)]) == 0
    trace = Trace.from_json(out.read_text())
    assert trace.backend == "reference"
    assert f"{len(trace.steps)} steps, all invariants hold." in capsys.readouterr().out


def test_a_broken_invariant_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = PRESETS["accepted-to-the-boundary"].model_dump(mode="json")
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps({**preset, "faults": ["pre-copy-skipped"]}))
    assert main(["run", str(path), "--backend", "reference"]) == 1
    out = capsys.readouterr().out
    assert "  BROKEN     I" in out
    assert "broken (" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "no-such-preset"], "neither a file nor a preset; the presets are drafts-meet"),
        (["run", "gone.json"], "gone.json: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_wrong_scenario_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario_file(tmp_path, engine={"block_size": 0})
    assert main(["run", path]) == 2
    assert capsys.readouterr().err == f"{path}: engine.block_size = 0: allowed 1 to 65536\n"


def test_a_back_end_that_is_not_there_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    from kernels import BACKEND

    other = "interpreter" if BACKEND == "cuda" else "cuda"
    assert main(["run", "plain-decode", "--backend", other]) == 2
    assert "MAMBAVIZ_BACKEND" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "no" / "folder.json"
    assert main(["run", "plain-decode", "--backend", "reference", "--json", str(out)]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_exit_code_2_and_leaves_no_half_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "plain-decode", "--backend", "reference", "--json"]
    assert main([*run, "/dev/full"]) == 2
    assert capsys.readouterr().err == "/dev/full: cannot be written: No space left on device\n"
    out = tmp_path / "trace.json"
    out.write_text("{half")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("mambaviz.command_line._opened", lambda _: full)
        assert main([*run, str(out)]) == 2
    assert not out.exists()


def test_the_first_picture_needs_no_torch() -> None:
    """Everything up to the recorded run on the stage, in a process of its own."""
    program = (
        "import sys; from mambaviz.pages import watch; from mambaviz.pages.runs import recorded; "
        "print(len(recorded('drafts-meet-the-boundary').payload.text), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    size, torch_is_there = done.stdout.split()
    assert int(size) > 10_000
    assert torch_is_there == "False"


# ---- limits ---------------------------------------------------------------------------------


def test_too_much_work_is_refused_before_it_starts_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scenario_file(
        tmp_path,
        engine={"num_blocks": 4096, "max_model_len": 65_536},
        requests=[{"id": "A", "prompt_len": 6, "max_tokens": 2_400, "accept": "none"}],
    )

    def started(*_: object, **__: object) -> Trace:
        raise AssertionError("it was started")

    monkeypatch.setattr("mambaviz.engine.run", started)
    assert main(["run", path]) == 2
    says = capsys.readouterr().err
    assert (
        "requests[0].max_tokens = 2400: the run would come to 2,400 steps, allowed are 2,000; "
        in says
    )
    assert "can be 2000 at most here" in says
    with pytest.raises(AssertionError, match="it was started"):
        main(["run", path, "--large"])


@pytest.mark.parametrize("command", ["run", "sizes", "explore"])
def test_a_file_that_never_ends_is_not_read_for_ever(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ["--scope", "/dev/zero"] if command == "explore" else ["/dev/zero"]
    assert main([command, *name]) == 2
    assert "/dev/zero: has more characters than are read, 1,000,000" in capsys.readouterr().err


def test_a_package_that_cannot_be_imported_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("raise ImportError('pydantic is half installed')")
    done = subprocess.run(
        (sys.executable, "-m", "mambaviz", "check"),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("mambaviz cannot start: pydantic is half installed. Install")
