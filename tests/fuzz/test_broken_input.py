"""Broken input: a draw of the seeds of benchmarks/mutations.py, and all that ever broke."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mutations
from benchmarks.mutations import Bases, called, checked, judged, link_problem

KEPT = Path(__file__).parent / "kept"

# How many of each kind; the campaign goes through thousands.
DRAWN = {
    "run": 40, "sizes": 60, "explore": 15, "link": 60, "page": 20, "pasted": 100, "process": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def bases() -> Bases:
    return Bases.make()


def test_every_kind_is_drawn() -> None:
    assert DRAWN.keys() == mutations.KINDS.keys()
    in_process = [kind.seeds for name, kind in mutations.KINDS.items() if name != "process"]
    assert sum(in_process) >= 20_000
    assert mutations.KINDS["page"].seeds >= 2_000
    assert mutations.KINDS["process"].seeds >= 200


@pytest.mark.parametrize("name", DRAWN)
def test_a_draw(name: str, bases: Bases) -> None:
    findings = [checked(name, seed, bases) for seed in range(DRAWN[name])]
    assert [finding for finding in findings if finding.problem] == []
    if name != "process":
        outcomes = {finding.outcome for finding in findings}
        assert "refused" in outcomes
        assert name == "explore" or "accepted" in outcomes  # else the inputs are too broken


def test_the_same_seed_gives_the_same_input(bases: Bases) -> None:
    assert mutations.link_of(7, bases) == mutations.link_of(7, bases)
    assert mutations.file_of(7, bases.run) == mutations.file_of(7, bases.run)
    assert mutations.file_of(7, bases.run) != mutations.file_of(8, bases.run)


def test_what_is_wrong_would_be_found(bases: Bases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is one: a traceback, a bare exception, two lines, an insider's words."""

    def breaks(*_: Any) -> None:
        raise KeyError("insides")

    monkeypatch.setattr("mambaviz.command_line.find_scenario", breaks)
    finding = checked("run", 0, bases)
    assert finding.problem.startswith("KeyError at test_broken_input.py")
    for said in ("", "two\nlines", "x" * 1_001, "1 validation error for Scenario"):
        assert judged(mutations.Ended(2, "", said + "\n"))[1]
    assert judged(mutations.Ended(3, "", "a sentence\n"))[1]
    assert judged(mutations.Ended(0, "log", "Traceback (most recent call last):\n"))[1]
    assert judged(mutations.Ended(2, "", "block_size = 0: allowed 1 to 4\n")) == ("refused", "")


# ---- what once broke something --------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_a_link_that_once_broke_something(path: Path) -> None:
    assert link_problem(json.loads(path.read_text(encoding="utf-8"))) == ""


# ---- by hand: what no mutation of ours makes ------------------------------------------------

SPAN = '{"requests": [{"id": "A", "prompt_len": %s}]}'


@pytest.mark.parametrize(
    "text",
    [
        SPAN % ("9" * 100_000),
        SPAN % "NaN",
        SPAN % "Infinity",
        SPAN % "1e400",
        SPAN % '"\\ud800"',
        "[" * 100_000 + "]" * 100_000,
        '{"requests":' + "[" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '{"requests": [], "requests": [{"id": "A", "prompt_len": 0}]}',
        '{"requests": [{"id": "\\ud800", "prompt_len": 5}]}',
        '{"\\ud800": 1}',
        "\0",
        "",
        '"' + "x" * 999_990 + '"',
        '"' + "x" * 1_000_001 + '"',
    ],
    ids=lambda text: text[:24].encode("ascii", "replace").decode().replace("\0", "nul") or "empty",
)
@pytest.mark.parametrize("command", ["run", "sizes", "explore"])
def test_texts_that_are_no_json_or_hardly(command: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(text, encoding="utf-8")
    arguments = ["--scope", str(path), "--workers", "1"] if command == "explore" else [str(path)]
    outcome, problem = judged(called([command, *arguments]))
    assert (outcome, problem) == ("refused", "")


def test_of_two_fields_with_one_name_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"requests": [{"id": "A", "prompt_len": 0, "prompt_len": 5}]}')
    assert judged(called(["run", str(path), "--backend", "reference"])) == ("accepted", "")


@pytest.mark.parametrize(
    "name", ["", "a" * 5_000, "a\nb", "\x1b[31m", "/", ".", "~", "-", "\u202e"]
)
def test_names_of_files(name: str) -> None:
    for command in ("run", "sizes"):
        assert judged(called([command, "--", name]))[1] == ""


def test_mutations_change_and_sometimes_only_a_little(bases: Bases) -> None:
    rng = random.Random(0)
    base = bases.run[0]
    texts = {mutations.mutated_text(rng, base) for _ in range(50)}
    assert len(texts) > 45
    assert base == bases.run[0]
