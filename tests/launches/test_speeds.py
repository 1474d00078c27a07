"""The committed measurements: read, missing, damaged."""

from __future__ import annotations

import json
from pathlib import Path

from mambaviz.speeds import RESULTS, Speeds, committed

CASE = {
    "name": "1 request, SD",
    "crossing": 1,
    "layers": 24,
    "layout": "SD",
    "bytes": 103_000_000,
    "target": "97%",
    "card_us": 50.0,
    "card_tbs": 4.0,
    "precopy": {"us": 51.3, "tbs": 3.9, "share": 0.975, "idle_us": 1.9},
    "met": True,
}


def write(path: Path, **changes: object) -> Path:
    case = {**CASE, **changes}
    data = {"device": "H200", "conditions": "H200, torch 2.11", "empty_us": 0.5, "cases": [case]}
    path.write_text(json.dumps(data))
    return path


def test_a_case_is_read_and_what_was_not_measured_is_none(tmp_path: Path) -> None:
    found = committed(write(tmp_path / "speeds.json"))
    assert isinstance(found, Speeds)
    assert found.conditions == "H200, torch 2.11"
    case = found.cases[0]
    assert case.precopy is not None
    assert (case.precopy.share, case.precopy.idle_us, case.met) == (0.975, 1.9, True)
    assert case.postprocess is None
    assert found.idle_limit_us is None


def test_missing_and_damaged_files_are_said(tmp_path: Path) -> None:
    missing = committed(tmp_path / "speeds.json")
    assert isinstance(missing, str)
    assert "No measurement is committed" in missing
    (tmp_path / "speeds.json").write_text("{")
    damaged = committed(tmp_path / "speeds.json")
    assert isinstance(damaged, str)
    assert "cannot be read" in damaged


def test_what_is_committed_can_be_read() -> None:
    assert isinstance(committed(), Speeds) == RESULTS.exists()
