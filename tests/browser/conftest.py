"""A real Chromium, and the app running beside it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tools.get_browser import find_browser

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process; a test opens its own page in it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the app, started as a person starts it, on a free port."""
    port = free_port()
    url = f"http://localhost:{port}"
    log = tmp_path_factory.mktemp("app") / "log"
    command = (sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port))
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_healthy(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(url: str, server: subprocess.Popen, log: Path) -> None:
    """Return once the server answers; fail with its log if it ends or stays silent."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the app did not start within {START_SECONDS} s:\n{log.read_text()}")
