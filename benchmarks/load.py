"""Forty people at once: how long a step takes, what it costs, and whether memory grows.

    python -m benchmarks.load                      ten minutes; rewrites benchmarks/results/load.md
    python -m benchmarks.load --minutes 2          a short try, which writes nothing
    python -m benchmarks.load --sessions 80 --pages 2

One server, on two cores where the system can hold it to them. Six sessions are real pages of one
Chromium, the others clients of the same websocket (`benchmarks.socket_client`). Everybody steps
every few seconds, and now and then changes the scenario: to another preset, or to one of forty
edited ones that has to be computed. It fails on any error, and on memory that grows after a
warm-up of a third of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright
from playwright.async_api import Error as BrowserError

from benchmarks.app_start import PATIENCE, STEP, conditions, percentile
from benchmarks.served import ROOT, Served, serve
from benchmarks.socket_client import Client
from mambaviz.pages.state import PageState, to_link
from mambaviz.scenario import PRESETS, Scenario
from tools.get_browser import find_browser

TABLE = ROOT / "benchmarks" / "results" / "load.md"
LOG = ROOT / ".artifacts" / "load.log"
SESSIONS, PAGES, MINUTES = 40, 6, 10.0
PAUSE = 4.0  # seconds between two steps of a reader, on average
EDIT_EVERY = 15  # steps between two changes of the scenario, on average
EDITED = 40  # scenarios that somebody has to compute
SAMPLE_SECONDS = 5.0
MOST_GROWTH = 0.05  # of the memory after the warm-up


@dataclass
class Seen:
    """What all readers met together; times in seconds."""

    painted: list[float] = field(default_factory=list)  # a step in a page, until it is painted
    followed: list[float] = field(default_factory=list)  # a step, until the server has answered
    opened: list[float] = field(default_factory=list)  # another scenario, until it is on the stage
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """The server at one moment: seconds since the start, bytes of memory, seconds of CPU."""

    at: float
    memory: int
    cpu: float


# ----------------------------------------------------------------------------------- readers


def scenarios() -> list[Scenario]:
    """What readers look at: every preset, and as many edited ones again as they are."""
    edited = []
    for number in range(EDITED):
        base = list(PRESETS.values())[number % len(PRESETS)]
        first = base.requests[0].model_copy(update={"max_tokens": 3 + number % 7})
        changed = base.model_copy(
            update={"requests": [first, *base.requests[1:]], "seed": 1_000 + number}
        )
        edited.append(Scenario.model_validate(changed.model_dump()))
    return [*PRESETS.values(), *edited]


def link(scenario: Scenario) -> str:
    return urlencode(to_link(PageState().showing(scenario)))


async def read_by_socket(url: str, draw: random.Random, end: float, seen: Seen) -> None:
    """One client: open something, step, now and then something else, until the time is over.

    A link opens a connection of its own, as it does in a browser.
    """
    choices = scenarios()
    await asyncio.sleep(draw.random() * PAUSE)
    try:
        while time.monotonic() < end:
            scenario = draw.choice(choices)
            async with Client(url, seen.problems, seen.followed, seen.opened) as client:
                await client.open(link(scenario), scenario.content_hash)
                for _ in range(max(1, round(draw.expovariate(1 / EDIT_EVERY)))):
                    await asyncio.sleep(2 * PAUSE * draw.random())
                    if time.monotonic() >= end:
                        break
                    await client.step()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is one of the errors counted
        seen.problems.append(f"a client broke off: {type(error).__name__}: {error}")


async def read_in_a_page(
    browser: Browser, url: str, draw: random.Random, end: float, seen: Seen
) -> None:
    """One real page: the same, by keys and links."""
    context = await browser.new_context(viewport={"width": 1280, "height": 720})
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda message: _note_console(message, seen))
    page.on("pageerror", lambda error: seen.problems.append(f"page error: {error}"))
    choices = scenarios()
    try:
        while time.monotonic() < end:
            scenario = draw.choice(choices)
            await _open(page, f"{url}/?{link(scenario)}", seen)
            for _ in range(max(1, round(draw.expovariate(1 / EDIT_EVERY)))):
                await asyncio.sleep(2 * PAUSE * draw.random())
                if time.monotonic() >= end:
                    break
                await _step(page, seen)
            if await page.locator("[data-testid=stException]").count():
                seen.problems.append("an exception on screen")
    except BrowserError as error:
        seen.problems.append(f"a page broke off: {error}")
    await context.close()


def _note_console(message: ConsoleMessage, seen: Seen) -> None:
    if message.type == "error":
        seen.problems.append(f"console: {message.text[:300]}")


async def _open(page: Page, address: str, seen: Seen) -> None:
    start = time.monotonic()
    await page.goto(address)
    await page.locator(".stage .say").first.wait_for()
    await page.wait_for_function(
        "() => document.querySelector('.stApp')?.dataset.testScriptState === 'notRunning'"
    )
    seen.opened.append(time.monotonic() - start)


async def _is_at_end(page: Page) -> bool:
    """Whether the stage stands at the last frame of its run, from which no step leads on."""
    strip = page.locator(".overview").first
    frame = await strip.get_attribute("aria-valuenow")
    return frame == await strip.get_attribute("aria-valuemax")


async def _step(page: Page, seen: Seen) -> None:
    if await _is_at_end(page):
        before = page.url
        await page.keyboard.press("Home")
        await page.wait_for_function(
            "before => location.href !== before", arg=before, timeout=PATIENCE
        )
    before, start = page.url, time.monotonic()
    seen.painted.append(await page.evaluate(STEP) / 1000)
    try:
        await page.wait_for_function(
            "before => location.href !== before", arg=before, timeout=PATIENCE
        )
        seen.followed.append(time.monotonic() - start)
    except BrowserError:
        place = await page.locator(".stage .say").first.inner_text()
        seen.problems.append(f"the address did not follow a step: {before[:200]} {place[:80]}")


# ----------------------------------------------------------------------------------- running


async def load(served: Served, options: argparse.Namespace) -> tuple[Seen, list[Sample]]:
    """Everybody reads until the time is over."""
    seen, start = Seen(), time.monotonic()
    end = start + 60 * options.minutes
    samples: list[Sample] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        watching = asyncio.create_task(_sample(served.process.pid, start, samples))
        readers = [
            read_in_a_page(browser, served.url, random.Random(f"page/{number}"), end, seen)
            for number in range(options.pages)
        ] + [
            read_by_socket(served.url, random.Random(f"socket/{number}"), end, seen)
            for number in range(options.sessions - options.pages)
        ]
        await asyncio.gather(*readers)
        watching.cancel()
        samples.append(sample(served.process.pid, start))
        await browser.close()
    seen.problems += served.trouble()
    return seen, samples


async def _sample(pid: int, start: float, samples: list[Sample]) -> None:
    while True:
        samples.append(sample(pid, start))
        await asyncio.sleep(SAMPLE_SECONDS)


def sample(pid: int, start: float) -> Sample:
    """Memory and CPU time of a process, as ``ps`` tells them on every system."""
    line = subprocess.run(
        ("ps", "-o", "rss=,time=", "-p", str(pid)), capture_output=True, text=True, check=True
    ).stdout.split()
    days, _, clock = line[1].rpartition("-")
    parts = [float(part) for part in clock.split(":")]
    seconds = sum(part * 60**place for place, part in enumerate(reversed(parts)))
    return Sample(time.monotonic() - start, int(line[0]) * 1024, seconds + 86_400 * int(days or 0))


@dataclass(frozen=True)
class Memory:
    """Bytes after the warm-up and at the end, each the median of a sixth of the time."""

    start: float
    end: float

    @property
    def growth(self) -> float:
        return self.end / self.start - 1


def memory_of(samples: list[Sample]) -> Memory:
    last = samples[-1].at

    def between(left: float, right: float) -> float:
        return statistics.median(s.memory for s in samples if left * last <= s.at <= right * last)

    return Memory(between(1 / 3, 1 / 2), between(5 / 6, 1))


def rows(seen: Seen, samples: list[Sample]) -> list[tuple[str, str]]:
    """The table: what, and how much."""

    def times(values: list[float]) -> str:
        if not values:
            return "none"
        return (
            f"p50 {1000 * statistics.median(values):.0f} ms, "
            f"p95 {1000 * percentile(values, 0.95):.0f} ms ({len(values)})"
        )

    memory, spent = memory_of(samples), samples[-1].cpu - samples[0].cpu
    return [
        ("errors", str(len(seen.problems))),
        ("a step in a page, until it is painted", times(seen.painted)),
        ("a step, until the server has answered it", times(seen.followed)),
        ("another scenario, until it is on the stage", times(seen.opened)),
        ("memory before the first session", f"{samples[0].memory / 1e6:.0f} MB"),
        ("memory after the warm-up (a third of the time)", f"{memory.start / 1e6:.0f} MB"),
        ("memory at the end", f"{memory.end / 1e6:.0f} MB ({memory.growth:+.1%})"),
        ("CPU of the server", f"{spent / samples[-1].at:.2f} cores"),
    ]


def hold_to_two_cores(pid: int) -> str:
    """Where the system allows it, the server runs on two cores; says what was done."""
    if not hasattr(os, "sched_setaffinity"):
        return f"{os.cpu_count()} cores"
    cores = sorted(os.sched_getaffinity(0))[:2]
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
    return f"{len(cores)} cores"


def main() -> int:
    """Exit code 1 on an error, or on memory that grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="all together")
    parser.add_argument("--pages", type=int, default=PAGES, help="real browser pages among them")
    options = parser.parse_args()
    about = conditions()
    with serve(LOG) as served:
        cores = hold_to_two_cores(served.process.pid)
        seen, samples = asyncio.run(load(served, options))
    table = rows(seen, samples)
    lines = [
        f"# {options.sessions} sessions for {options.minutes:g} minutes",
        "",
        f"`python -m benchmarks.load`: {options.pages} real pages and "
        f"{options.sessions - options.pages} clients of the websocket against one server on "
        f"{cores}, a step every {PAUSE:g} s and another scenario every {EDIT_EVERY} steps on "
        f"average. {about}",
        "",
        "| what | |",
        "| --- | --- |",
        *(f"| {what} | {how_much} |" for what, how_much in table),
        "",
    ]
    print("\n".join(lines))
    for problem in seen.problems[:20]:
        print(problem)
    if options.minutes >= MINUTES:
        TABLE.write_text("\n".join(lines), encoding="utf-8")
    return 1 if seen.problems or memory_of(samples).growth > MOST_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
