"""The app in a process of its own, with its log in a file, for what is tried on it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
MARKS_OF_TROUBLE = ("Traceback", "ERROR", "Exception", "CRITICAL")


@dataclass(frozen=True)
class Served:
    """A running app: where it answers, its process, and what it has logged."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def answers(self, timeout: float = 30) -> bool:
        """Whether it says that it is well."""
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=timeout):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def trouble(self) -> list[str]:
        """Lines of the log that speak of an error, with those after them."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        found = [at for at, line in enumerate(lines) if any(m in line for m in MARKS_OF_TROUBLE)]
        return [line for at in found[:3] for line in lines[at : at + 40]]


@contextmanager
def serve(
    log: Path, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Start the app as a person starts it, and end it afterwards. RuntimeError if it will not."""
    port = port or free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    served = Served(f"http://localhost:{port}", process, log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not served.answers(timeout=1):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the app does not answer:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)
        yield served
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
