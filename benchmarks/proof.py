"""The long runs: too long for every change, worth their hours before a release.

    python -m benchmarks.proof            every run that has not yet passed on these sources
    python -m benchmarks.proof --list     what there is, and what has passed
    python -m benchmarks.proof --again    all of them, passed or not

Broken off, the next call goes on where this one stopped: a run that passed leaves a record in
.artifacts/proof, which counts as long as the sources are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / ".artifacts" / "proof"
SOURCES = ("kernels", "mambaviz", "tests", "benchmarks")


@dataclass(frozen=True)
class Run:
    """One long run: a name for its record, and a command that fails when something is wrong."""

    name: str
    command: tuple[str, ...]

    def record(self, sources: str) -> Path:
        """The file that says that this run passed on these sources."""
        return RECORDS / f"{self.name}.{sources}"


def all_runs() -> list[Run]:
    """Every long run there is. A new kind of run is added here."""
    return [
        *property_runs(),
        *campaign_runs(),
        *mutation_runs(),
        many_batches(),
        explorer(),
        *clicking(),
        load(),
    ]


def campaign_runs() -> list[Run]:
    """Random runs of the whole engine; each campaign resumes by itself."""
    from benchmarks.campaigns import CAMPAIGNS

    return [
        Run(f"campaign.{name}", (sys.executable, "-m", "benchmarks.campaigns", name))
        for name in CAMPAIGNS
    ]


def clicking() -> list[Run]:
    """Twenty minutes each of random clicking, in a browser."""
    from benchmarks.clicking import SEGMENTS

    command = (sys.executable, "-m", "benchmarks.clicking")
    return [Run(f"clicking.{number}", (*command, str(number))) for number in SEGMENTS]


def load() -> Run:
    """Forty sessions at once for ten minutes; the machine should be quiet."""
    return Run("load", (sys.executable, "-m", "benchmarks.load"))


def mutation_runs() -> list[Run]:
    """Broken input; each kind resumes by itself."""
    from benchmarks.mutations import KINDS

    return [
        Run(f"mutations.{name}", (sys.executable, "-m", "benchmarks.mutations", name))
        for name in KINDS
    ]


def explorer() -> Run:
    """Every scenario of the explorer's large scopes; it resumes by itself."""
    return Run("explorer", (sys.executable, "-m", "benchmarks.explorer"))


def many_batches() -> Run:
    """20,000 random batches through the metadata builder and its slow re-derivation."""
    tests = "tests/attention/test_random_batches.py"
    pytest = (sys.executable, "-m", "pytest", "-q", "--timeout=0", tests)
    return Run("batches", ("env", "MAMBAVIZ_BATCHES=20000", *pytest))


def property_runs() -> list[Run]:
    """Each file of property tests with thousands of new random examples instead of a hundred."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "--timeout=0")
    return [
        Run(
            ".".join(path.relative_to(ROOT / "tests").with_suffix("").parts),
            (*pytest, "--hypothesis-profile=proof", str(path.relative_to(ROOT))),
        )
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "@given" in path.read_text(encoding="utf-8")
    ]


def fingerprint() -> str:
    """A short hash over the sources: one changed byte, and every run counts as not yet passed."""
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def source_files() -> Iterable[Path]:
    """Files that can change what a run finds."""
    for folder in SOURCES:
        files = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        yield from sorted(path for path in files if "__pycache__" not in path.parts)


def prove(runs: list[Run], sources: str) -> list[Run]:
    """Run what is to be run; the runs that failed."""
    failed = []
    for number, run in enumerate(runs, start=1):
        print(f"[{number}/{len(runs)}] {run.name}", flush=True)
        start = time.monotonic()
        passed = subprocess.run(run.command, cwd=ROOT, check=False).returncode == 0
        print(f"    {'passed' if passed else 'FAILED'} after {time.monotonic() - start:.0f} s")
        if passed:
            RECORDS.mkdir(parents=True, exist_ok=True)
            run.record(sources).touch()
        else:
            failed.append(run)
    return failed


def main() -> int:
    """Exit code 0 if there are runs and every one passed, now or before on these sources."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description="Long runs.")
    parser.add_argument("--list", action="store_true", help="show the runs and start none")
    parser.add_argument("--again", action="store_true", help="repeat what has passed, too")
    options = parser.parse_args()

    sources, runs = fingerprint(), all_runs()
    if options.list:
        for run in runs:
            print("passed " if run.record(sources).exists() else "       ", run.name)
        return 0
    pending = [run for run in runs if options.again or not run.record(sources).exists()]
    failed = prove(pending, sources)
    print(
        f"{len(runs) - len(failed)} of {len(runs)} runs passed, {len(runs) - len(pending)} before"
    )
    return 0 if runs and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
