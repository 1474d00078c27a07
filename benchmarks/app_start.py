"""How long the app takes to the first picture, for a step, and for computing a run anew.

    python -m benchmarks.app_start      rewrites benchmarks/results/app.md

A real Chromium opens the app as a person does. "First picture" is the recorded default run on the
stage with its sentence; "a step" is from the key press to the second frame painted after it.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tools.get_browser import find_browser

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "app.md"
SESSIONS, REPEATS = 5, 5
PATIENCE = 120_000  # ms

# Press the key, wait until what it changed has been painted, return milliseconds.
STEP = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const start = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  await frame();
  await frame();
  return performance.now() - start;
}"""

# One run of the default preset in a process of its own; prints seconds for the first and the rest.
RECOMPUTE = """
import sys, time
import torch
torch.set_num_threads(1)
start = time.perf_counter()
from mambaviz.engine import run
from mambaviz.scenario import DEFAULT_PRESET, PRESETS
print(time.perf_counter() - start)
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    run(PRESETS[DEFAULT_PRESET], sys.argv[1])
    print(time.perf_counter() - start)
"""


@contextmanager
def server() -> Iterator[tuple[str, float]]:
    """The app in a process of its own: its address, and seconds until it answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://localhost:{port}"
    try:
        while not answers(url):
            if process.poll() is not None:
                raise RuntimeError("the app ended before it answered; try `make app`")
            time.sleep(0.05)
        yield url, time.perf_counter() - start
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


def first_picture(browser: Browser, url: str) -> tuple[Page, float]:
    """A new session's page, and seconds until the stage says its first sentence."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    start = time.perf_counter()
    page.goto(url)
    expect(page.locator(".stage .say h1")).not_to_be_empty(timeout=PATIENCE)
    return page, time.perf_counter() - start


def steps(page: Page) -> list[float]:
    """Milliseconds of every forward step through the run, from a settled page."""
    expect(page.locator(".mv-foot")).to_contain_text("live", timeout=PATIENCE)
    times = []
    for _ in range(39):
        times.append(page.evaluate(STEP))
        page.wait_for_timeout(250)
    return times


def follow(page: Page) -> list[float]:
    """Milliseconds from a key press until the address says where the stage stands."""
    times = []
    for key, phase in (
        ("Home", "schedule"),
        ("ArrowRight", "allocate"),
        ("ArrowRight", "pre-copy"),
    ):
        start = time.perf_counter()
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"phase={phase}$"))
        times.append(1000 * (time.perf_counter() - start))
    return times


def recompute(backend: str) -> tuple[float, float, float] | None:
    """Seconds to import, for the first run, and for a later one; None where it cannot run."""
    done = subprocess.run(
        [sys.executable, "-c", RECOMPUTE, backend, str(1 + REPEATS)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return None
    imported, first, *later = (float(line) for line in done.stdout.split())
    return imported, first, statistics.median(later)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


def measure() -> str:
    with sync_playwright() as playwright, server() as (url, answered):
        browser = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page, cold = first_picture(browser, url)
        latencies = steps(page)
        following = follow(page)
        warm = [first_picture(browser, url)[1] for _ in range(SESSIONS)]
        browser.close()
    rows = [
        ("process started, until the server answers", f"{answered:.1f} s"),
        ("first session, until the first picture", f"{cold:.1f} s"),
        (
            f"later sessions ({SESSIONS}), until the first picture",
            f"median {statistics.median(warm):.1f} s, longest {max(warm):.1f} s",
        ),
        (
            f"a step in the browser ({len(latencies)})",
            f"median {statistics.median(latencies):.0f} ms, "
            f"95 % within {percentile(latencies, 0.95):.0f} ms",
        ),
        (
            "a step, until the address and the tabs follow",
            f"median {statistics.median(following):.0f} ms",
        ),
    ]
    for backend in ("cuda", "interpreter", "reference"):
        times = recompute(backend)
        text = "not on this machine"
        if times is not None:
            imported, first, later = times
            text = f"{later:.2f} s (first run {first:.2f} s; imports {imported:.1f} s before it)"
        rows.append((f"the default preset anew, {backend}", text))
    lines = "\n".join(f"| {what} | {text} |" for what, text in rows)
    return f"| what | time |\n| --- | --- |\n{lines}"


def conditions() -> str:
    cores = os.cpu_count()
    return (
        f"{cores} CPU cores ({platform.machine()}), Python {platform.python_version()}, "
        f"streamlit {version('streamlit')}, torch {version('torch')}, headless Chromium. "
        f"Load average {os.getloadavg()[0]:.1f} at the start; absolute times differ by machine."
    )


def main() -> None:
    title = (__doc__ or "").partition("\n")[0]
    text = f"# {title}\n\n{conditions()}\n\n{measure()}\n"
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
