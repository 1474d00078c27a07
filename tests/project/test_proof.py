"""The long runs go on where they were broken off, and a changed source makes them start anew."""

from __future__ import annotations

import sys

import pytest

from benchmarks import proof


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A run that passes and one that fails, with records of their own."""
    marks = tmp_path / "marks"
    note = f"open({str(marks)!r}, 'a').write('x')"
    runs = [
        proof.Run("good", (sys.executable, "-c", note)),
        proof.Run("bad", (sys.executable, "-c", f"{note}; raise SystemExit(1)")),
    ]
    monkeypatch.setattr(proof, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(proof, "all_runs", lambda: runs)
    monkeypatch.setattr(proof, "fingerprint", lambda: "first")

    def call(*arguments: str) -> tuple[int, int]:
        """Exit code, and how many runs were started."""
        marks.write_text("")
        monkeypatch.setattr(sys, "argv", ["proof", *arguments])
        return proof.main(), len(marks.read_text())

    return call


def test_what_passed_is_not_repeated_what_failed_is(bench):
    assert bench() == (1, 2)
    assert bench() == (1, 1)


def test_again_repeats_everything(bench):
    bench()
    assert bench("--again") == (1, 2)


def test_list_starts_nothing(bench):
    assert bench("--list") == (0, 0)


def test_changed_sources_have_passed_nothing(bench, monkeypatch):
    bench()
    monkeypatch.setattr(proof, "fingerprint", lambda: "second")
    assert bench() == (1, 2)


def test_no_run_at_all_is_no_proof(bench, monkeypatch):
    monkeypatch.setattr(proof, "all_runs", list)
    assert bench() == (1, 0)


def test_one_changed_byte_changes_the_fingerprint(tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "ROOT", tmp_path)
    source = tmp_path / "kernels" / "one.py"
    source.parent.mkdir()
    source.write_text("a = 1\n")
    before = proof.fingerprint()
    assert proof.fingerprint() == before
    source.write_text("a = 2\n")
    assert proof.fingerprint() != before
