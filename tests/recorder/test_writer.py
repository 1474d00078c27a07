"""Lines in the background: bounds, losses, limits, and files that stop anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mambaviz.recorder import plugin
from mambaviz.recorder.aliases import Aliases
from mambaviz.recorder.cuts import Cuts
from mambaviz.recorder.options import Options
from mambaviz.recorder.values import tensor_value
from mambaviz.recorder.writer import LONGEST_LINE, Writer, free_path
from tests.project.sources import ROOT


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def writer(tmp_path) -> Writer:
    return Writer(tmp_path / "run.jsonl", limit_bytes=10_000_000, buffer_lines=4)


def test_what_does_not_fit_is_lost_and_said(writer):
    held = threading.Event()
    released = threading.Event()

    def slow() -> dict:
        held.set()
        released.wait(10)
        return {"event": "note", "step": 0}

    writer.put(slow)
    assert held.wait(10)
    for step in range(9):  # four wait, five are lost
        writer.put({"event": "commit", "step": step})
    assert writer.dropped == 5
    released.set()
    while not writer._queue.empty():
        pass
    writer.put({"event": "commit", "step": 9})
    writer.close("stopped")
    events = [
        (line["event"], line.get("lines", line.get("step"))) for line in lines_of(writer.path)
    ]
    assert events[:5] == [("note", 0), *(("commit", step) for step in range(4))]
    assert events[5:7] == [("lost", 5), ("commit", 9)]
    assert events[7][0] == "end"


def test_a_line_that_cannot_be_made_is_a_note(writer):
    def broken() -> dict:
        raise ZeroDivisionError("the tokens were 1, 2, 3")

    writer.put(broken)
    writer.put({"event": "commit", "step": 3, "computed": object()})
    writer.put({"event": "metadata", "step": 4, "values": "x" * LONGEST_LINE})
    writer.close("stopped")
    notes = [line["what"] for line in lines_of(writer.path) if line["event"] == "note"]
    assert notes[0] == "a line could not be made: ZeroDivisionError"
    assert notes[1] == "a line could not be made: TypeError"
    assert "longer than 1 MiB" in notes[2]


def test_a_full_file_is_closed_at_its_limit(tmp_path):
    writer = Writer(tmp_path / "run.jsonl", limit_bytes=1000, buffer_lines=1000)
    for step in range(100):
        writer.put({"event": "commit", "step": step})
    writer._thread.join(0.5)
    writer.close("stopped")
    lines = lines_of(writer.path)
    assert lines[-1]["why"] == "limit"
    assert writer.path.stat().st_size < 1300


def test_no_recording_overwrites_another(tmp_path):
    path = tmp_path / "run.jsonl"
    assert free_path(path) == path
    path.touch()
    (tmp_path / "run-2.jsonl").touch()
    assert free_path(path) == tmp_path / "run-3.jsonl"


def test_a_killed_process_leaves_whole_lines(tmp_path):
    """Killed without a chance to close: what was flushed is whole but for the end."""
    path = tmp_path / "run.jsonl"
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from mambaviz.recorder.writer import Writer\n"
        f"writer = Writer(Path({str(path)!r}), 10**9, 10**5)\n"
        "for step in range(500): writer.put({'event': 'commit', 'step': step})\n"
        "while not writer._queue.empty(): time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False)
    assert [line["step"] for line in lines_of(path)] == list(range(500))


def test_importing_costs_the_standard_library_alone():
    """Neither torch nor the app's packages, nor numpy, in an engine that does not record."""
    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.partition('.')[0]\n"
        "        if top not in sys.stdlib_module_names and top != 'mambaviz':\n"
        "            raise ImportError(name)\n"
        "        if name.startswith('mambaviz.') and not name.startswith('mambaviz.recorder'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import mambaviz.recorder\n"
        "mambaviz.recorder.register()\n"
        "from mambaviz.recorder import late, scheduler_seams, v1_seams, v2_seams\n"
        "assert not any(isinstance(f, late.AfterImport) for f in sys.meta_path)\n"
    )
    environment = {key: value for key, value in os.environ.items() if "MAMBAVIZ" not in key}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"MAMBAVIZ_RECORD_STATES": "yes"}, "it takes 0 or 1"),
        ({"MAMBAVIZ_RECORD_LIMIT_MB": "0"}, "a whole number from 1 on"),
        ({"MAMBAVIZ_RECORD_BUFFER_LINES": "many"}, "a whole number from 1 on"),
    ],
)
def test_a_wrong_setting_is_said_and_nothing_recorded(monkeypatch, caplog, variables, said):
    monkeypatch.setenv("MAMBAVIZ_RECORD", "run.jsonl")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plugin.register()
    assert said in caplog.text
    assert plugin._installed is None


def test_options_of_the_environment():
    options = Options.from_environment(
        {"MAMBAVIZ_RECORD": " a.jsonl ", "MAMBAVIZ_RECORD_STATES": "1"}
    )
    assert options == Options(Path("a.jsonl"), states=True)
    assert Options.from_environment({"MAMBAVIZ_RECORD": ""}) is None


def test_aliases_say_nothing_and_stay_the_same():
    aliases, others = Aliases(), Aliases()
    assert [aliases.request(name) for name in ("chat-b", "chat-a", "chat-b")] == ["r0", "r1", "r0"]
    assert aliases.prefix(b"hash") == aliases.prefix(b"hash") != others.prefix(b"hash")
    assert aliases.arrives("chat-b") is None
    aliases.retire("chat-b")
    assert aliases.request("chat-b") == "r0"  # finished, yet still known
    assert aliases.arrives("chat-b") == "r2"  # another request with the same id


def test_kept_names_are_cut_and_told_apart():
    aliases = Aliases(keep_requests=True)
    assert aliases.request("x" * 50) == "x" * 40
    assert aliases.request("x" * 60) == "r1"


def test_cuts_join_again():
    cuts = Cuts()
    rows = [[1], [1, 2], [0, 2, 3], [0, 2], [0, 2]]
    joined: list[int] = []
    for row in rows:
        cut = cuts.changed("r0", [row])
        if cut is not None:
            start = cut[0].get("start", 0)
            joined = [*joined[:start], *cut[0]["ids"]]
        assert joined == row
    assert cut is None


def test_large_tensors_are_cut():
    import numpy as np

    padded = np.full(2048, -1, dtype=np.int32)
    padded[:3] = [0, 0, 1]
    assert tensor_value(padded)() == {
        "dtype": "int32",
        "shape": [2048],
        "values": [0, 0, 1],
        "fill": -1,
    }
    wide = tensor_value(np.arange(8 * 4096, dtype=np.int64).reshape(8, 4096))()
    assert wide["held"] == [8, 16]
    assert wide["values"][1] == list(range(4096, 4112))
    long = tensor_value(np.arange(1000))()
    assert long["held"] == [256]
    assert len(long["values"]) == 256


@pytest.mark.gpu
def test_a_device_tensor_is_taken_as_it_was():
    """The engine writes over a tensor at once; what was handed over waits for nothing."""
    import torch

    tensor = torch.zeros(64, dtype=torch.int32, device="cuda")
    large = torch.randn(2048, 2048, device="cuda")
    taken = []
    with torch.cuda.stream(torch.cuda.Stream()):
        for step in range(20):
            large = large @ large  # work in flight
            tensor.fill_(step)
            taken.append(tensor_value(tensor))
            tensor.fill_(-1)
        assert [value()["values"] for value in taken] == [[step] * 64 for step in range(20)]
