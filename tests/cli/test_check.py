"""The health command: well here, and every failure is found when it is really there."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import kernels
from mambaviz import check
from mambaviz.check import Finding
from mambaviz.command_line import main
from mambaviz.pages import runs
from mambaviz.trace import Trace
from tests.project.sources import ROOT


def failures(findings: Iterator[Finding]) -> list[Finding]:
    """What is bad; each says what to do."""
    bad = [finding for finding in findings if finding.ok is False]
    assert all(finding.advice for finding in bad)
    return bad


def test_check_is_well_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "FAIL" not in out
    subjects = "python torch streamlit assets recordings settings place kernels launches"
    for subject in (*subjects.split(), "back end"):
        assert f"ok   {subject} " in out


def test_a_failed_check_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_engine(*_: object) -> Trace:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr("mambaviz.engine.run", broken_engine)
    monkeypatch.setattr(check, "recordings", lambda: iter(()))  # a second, looked at below
    assert main(["check"]) == 1
    out = capsys.readouterr().out
    assert "FAIL kernels      the self-test broke off: RuntimeError: no kernel image" in out
    assert "MAMBAVIZ_BACKEND=reference" in out


# ---- versions -------------------------------------------------------------------------------


def test_a_version_out_of_range_fails_and_another_in_range_is_told(tmp_path: Path) -> None:
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(project.replace("numpy>=2.0,<3", "numpy>=99,<100"))
    (bad,) = failures(check.versions(tmp_path))
    assert bad.subject == "numpy"
    assert "where the project needs >=99, <100" in bad.text
    assert bad.advice.startswith("Install the tested version: pip install numpy==")


def test_a_package_that_is_not_there_or_another_one_than_tested(tmp_path: Path) -> None:
    def installed(package: str) -> str:
        if package == "plotly":
            raise importlib.metadata.PackageNotFoundError
        return {"torch": "2.11.0+cu129", "triton": "3.6.0"}.get(
            package, importlib.metadata.version(package)
        )

    found = {finding.subject: finding for finding in check.versions(installed=installed)}
    assert failures(iter(found.values())) == [found["plotly"]]
    assert "pip install plotly==" in found["plotly"].advice
    assert found["torch"].text == "2.11.0+cu129 (in the project's range; tested with 2.13.0)"
    assert len(list(check.versions(tmp_path))) == len(found)  # without the files: what is there


@pytest.mark.parametrize(
    ("version", "allowed", "well"),
    [("2.0", ">=2.0,<3", True), ("3.0.0", ">=2.0,<3", False), ("1.99", ">=2.0,<3", False),
     ("2.10.1", ">=2.9", True), ("7", "", True)],
)  # fmt: skip
def test_ranges(version: str, allowed: str, well: bool) -> None:
    assert check.in_range(version, allowed) is well


def test_a_package_that_is_installed_and_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is named, and what cannot be tried without it points there instead of elsewhere."""
    assert list(check.imports()) == []

    def load(package: str) -> None:
        if package == "triton":
            raise ImportError("libtriton.so: undefined symbol\nmore of it")

    (bad,) = failures(check.imports(load))
    assert bad.subject == "triton"
    assert (
        bad.text == "cannot be imported: ImportError: libtriton.so: undefined symbol\\nmore of it"
    )
    assert bad.advice.startswith("Install it anew: pip install --force-reinstall triton==")
    for module in ("kernels.backend", "mambaviz.pages.record"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails from now on
    monkeypatch.delattr("mambaviz.pages.record", raising=False)
    found = failures(iter([*check.backends(), *check.recordings()]))
    assert [finding.subject for finding in found] == ["back end", "recordings"]
    assert {finding.advice for finding in found} == {check.FIRST_ABOVE}


# ---- back ends ------------------------------------------------------------------------------


def test_a_back_end_that_cannot_be_is_said_and_the_rest_still_looked_at() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mambaviz", "check"],
        env={**os.environ, "MAMBAVIZ_BACKEND": "abacus"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "FAIL back end     MAMBAVIZ_BACKEND='abacus' is no back end" in done.stdout
    assert "Correct or unset MAMBAVIZ_BACKEND" in done.stdout
    assert "ok   assets " in done.stdout
    assert "FAIL kernels " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


# ---- files ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures and pages, to be damaged."""
    root = tmp_path_factory.mktemp("tree")
    for room in ("viz", "pages"):
        shutil.copytree(check.SOURCES / room, root / room)
    return root


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("viz/stage/marks.css", None, "marks.css is missing below"),
        ("pages/assets/frame.js", b" \n", "frame.js is empty"),
        ("viz/compare/compare.html", b"\xff\xfe", "'utf-8' codec can't decode"),
    ],
)
def test_a_file_that_the_browser_needs(
    tree: Path, file: str, content: bytes | None, says: str
) -> None:
    assert failures(check.assets(tree)) == []
    path = tree / file
    kept = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    found = failures(check.assets(tree))
    path.write_bytes(kept)
    assert found
    assert all(says in finding.text for finding in found)
    assert "restore it from git" in found[0].advice


def test_every_script_and_sheet_is_named_somewhere() -> None:
    """What is there and named nowhere would not be missed."""
    named = {name for _, name in check.named_assets(check.SOURCES)}
    there = [
        path.name
        for room in ("viz", "pages")
        for path in (check.SOURCES / room).rglob("*")
        if check.ASSET.fullmatch(path.name)
    ]
    assert len(there) > 40
    assert set(there) == named


def test_recordings_that_are_gone_damaged_or_of_another_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(runs.RECORDED_DIR, tmp_path / "recorded")
    monkeypatch.setattr(runs, "RECORDED_DIR", tmp_path / "recorded")
    runs.read_recording.cache_clear()
    (tmp_path / "recorded/plain-decode.json.gz").unlink()
    damaged = tmp_path / "recorded/shift-in-place.json.gz"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    shutil.copy(
        tmp_path / "recorded/a-shared-prefix.json.gz",
        tmp_path / "recorded/back-one-column.json.gz",
    )
    found = failures(check.recordings())
    runs.read_recording.cache_clear()
    said = {finding.text.partition(":")[0]: finding for finding in found}
    assert said.keys() == {"plain-decode", "shift-in-place", "back-one-column"}
    assert "cannot be read" in said["shift-in-place"].text
    assert "of another scenario" in said["back-one-column"].text
    assert said["plain-decode"].advice.endswith("mambaviz.pages.record plain-decode")


# ---- settings and places --------------------------------------------------------------------


def test_settings_that_are_not_safe(tmp_path: Path) -> None:
    (bad,) = failures(check.settings(tmp_path, {}))
    assert "config.toml" in bad.text
    folder = tmp_path / ".streamlit"
    folder.mkdir()
    text = (ROOT / ".streamlit/config.toml").read_text(encoding="utf-8")
    (folder / "config.toml").write_text(text.replace("gatherUsageStats = false", ""))
    (bad,) = failures(check.settings(tmp_path, {}))
    assert bad.text.startswith("browser.gatherUsageStats = None")
    assert bad.advice.startswith("Correct ")
    (folder / "config.toml").write_text(text)
    assert failures(check.settings(tmp_path, {})) == []
    loose = {"STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION": "false"}
    (bad,) = failures(check.settings(tmp_path, loose))
    assert bad.advice == "Unset STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION: it must be true."


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.touch()
    found = list(check.places({"this": file / "below", "that": tmp_path}))
    assert [finding.ok for finding in found] == [False, True]
    assert "Not a directory" in found[0].text
    assert failures(iter(found))


# ---- kernels --------------------------------------------------------------------------------


class OneByteOff:
    """A kernel that does its work, and then has one byte of what it wrote wrong."""

    def __init__(self, right: Any) -> None:
        self.right = right

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    def __call__(self, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
        self.right(src, dst, sizes)
        if len(dst):
            byte = ctypes.c_ubyte.from_address(int(dst[0]))
            byte.value ^= 1


@pytest.mark.skipif(kernels.BACKEND == "cuda", reason="reaches into the host's memory")
def test_a_kernel_that_leaves_wrong_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.kernel_set()
    wrong = replace(right, batch_memcpy=OneByteOff(right.batch_memcpy))
    monkeypatch.setattr(kernels, "kernel_set", lambda backend=None: wrong)
    monkeypatch.setattr("mambaviz.launches.run.kernel_set", lambda backend=None: wrong)
    for finding in (check.launches_test(), check.self_test()):
        assert finding.ok is False, finding
        assert "compare the versions above" in finding.advice
    assert "1 bytes are not its twin's" in check.launches_test().text


def test_an_engine_that_does_other_things_than_the_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = runs.recorded("plain-decode")
    monkeypatch.setattr(runs, "recorded", lambda slug: other)
    finding = check.self_test()
    assert finding.ok is False
    assert "not the recorded run" in finding.text
    assert "mambaviz.pages.record" in finding.advice
