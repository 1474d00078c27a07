"""Find a Chromium for the browser tests, or install one; print the path of its executable.

    python tools/get_browser.py

Tried in this order: what MAMBAVIZ_BROWSER names, a Chromium or Chrome of the system, Debian's
package `chromium` (as root), Playwright's own download into .browser/. The tests call
`find_browser()`, which only looks and installs nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOWNLOADS = ROOT / ".browser"

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

HELP = (
    "No Chromium or Chrome found, and none could be installed. Install one (on Debian: "
    "apt install chromium; on macOS: Google Chrome), or name its executable in MAMBAVIZ_BROWSER."
)


class BrowserMissingError(RuntimeError):
    """No usable browser; the message says what to do."""


def find_browser() -> Path:
    """Executable of a Chromium that starts.

    Raises BrowserMissingError if there is none, or if MAMBAVIZ_BROWSER names one that does not
    start (a wish that cannot be met is said, not replaced by another browser).
    """
    wished = os.environ.get("MAMBAVIZ_BROWSER")
    if wished:
        if starts(Path(wished)):
            return Path(wished)
        raise BrowserMissingError(f"MAMBAVIZ_BROWSER names {wished}, which does not start.")
    for path in candidates():
        if starts(path):
            return path
    raise BrowserMissingError(HELP)


def candidates() -> Iterator[Path]:
    """Where a browser may lie, best first."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            yield Path(found)
    yield from (Path(app) for app in MAC_APPS if Path(app).exists())
    downloaded = playwright_executable()
    if downloaded is not None and downloaded.exists():
        yield downloaded


def starts(path: Path) -> bool:
    """Whether the executable runs at all: some systems ship a stand-in that only prints advice."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def playwright_executable() -> Path | None:
    """Where Playwright keeps the Chromium that it downloads; None without Playwright.

    Asked in a process of its own: the answer depends on the environment at start, and
    Playwright's synchronous interface cannot be entered twice in one process.
    """
    ask = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p: print(p.chromium.executable_path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env=download_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def download_environment() -> dict[str, str]:
    """The environment in which Playwright keeps its browsers inside the project."""
    return {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(DOWNLOADS)}


def install_browser() -> None:
    """Debian's package where we may, else Playwright's own download. The caller looks again."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
        if run(["apt-get", "update"], environment) and run(install, environment):
            return
    run([sys.executable, "-m", "playwright", "install", "chromium"], download_environment())


def run(command: list[str], environment: dict[str, str]) -> bool:
    """Run with the output on stderr: stdout is for the path alone."""
    print("+", *command, file=sys.stderr)
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode == 0


def main() -> int:
    """Print the path; exit code 1 and a sentence if there is no browser to be had."""
    try:
        path = find_browser()
    except BrowserMissingError as error:
        if os.environ.get("MAMBAVIZ_BROWSER"):
            print(error, file=sys.stderr)
            return 1
        install_browser()
        try:
            path = find_browser()
        except BrowserMissingError as still:
            print(still, file=sys.stderr)
            return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
