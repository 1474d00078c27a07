"""The committed measurements: read, missing, damaged."""

from __future__ import annotations

import json
from pathlib import Path

from mambaviz.launches.speeds import RESULTS, Speeds, committed

CASE = {
    "name": "1 request, SD",
    "target": "97%",
    "card_tbs": 4.0,
    "readable_tbs": 1.0,
    "fast_tbs": 3.9,
    "card_us": 50.0,
    "fast_us": 51.3,
    "idle_us": 1.9,
    "met": True,
}


def write(path: Path, **changes: object) -> Path:
    data = {"device": "NVIDIA H200", "versions": {"torch": "2.11"}, "cases": [{**CASE, **changes}]}
    path.write_text(json.dumps(data))
    return path


def test_a_case_is_a_share_of_the_cards_copy(tmp_path: Path) -> None:
    found = committed(write(tmp_path / "speeds.json"))
    assert isinstance(found, Speeds)
    assert found.where == "NVIDIA H200; torch 2.11"
    case = found.cases[0]
    assert case.share(case.fast_tbs) == 3.9 / 4.0
    assert case.share(None) is None


def test_what_was_not_measured_may_be_left_out(tmp_path: Path) -> None:
    found = committed(write(tmp_path / "speeds.json", fast_tbs=None, idle_us=None, met=None))
    assert isinstance(found, Speeds)
    assert found.cases[0].met is None


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
