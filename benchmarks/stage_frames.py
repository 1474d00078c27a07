"""Frame times of the stage's animation and latency of a step, at the default and largest size.

    python -m benchmarks.stage_frames      rewrites benchmarks/results/stage_frames.md

A real Chromium draws runs of the plain back end from replay files, so that no server takes part:
the same script as on the Watch page. A frame time is what lies between two animation frames while
the run plays at four times its speed; a step is a key press until the second frame after it, and
its script time is how long the page could do nothing else. The machine should be quiet.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks.app_start import PATIENCE, RESULT, conditions, percentile
from mambaviz.engine import run
from mambaviz.largest import largest_scenario
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario
from mambaviz.viz.export import replay_html
from mambaviz.viz.payload import stage_payload
from tools.get_browser import find_browser

PLAYED = 6000  # ms
STEPS = 60
FROM = {"default": 0, "largest": 80}  # the step where it starts: where all requests run

# Play for a while; the times between animation frames in ms.
FRAMES = """async ([from, milliseconds]) => {
  const { stage } = document.getElementById("stage");
  stage.go(from * stage.run.phases.length, "jump");
  stage.speed = 4;
  stage.toggle();
  const times = [];
  const end = performance.now() + milliseconds;
  let before = await new Promise(requestAnimationFrame);
  while (performance.now() < end) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
    if (!stage.playing) { stage.go(from * stage.run.phases.length, "jump"); stage.toggle(); }
  }
  stage.pause();
  return times;
}"""

# Press the key; ms of script, and until what it changed has been painted.
STEP = """async (repeat) => {
  const frame = () => new Promise(requestAnimationFrame);
  const start = performance.now();
  const key = new KeyboardEvent("keydown", { key: "ArrowRight", repeat, bubbles: true });
  document.dispatchEvent(key);
  const script = performance.now() - start;
  await frame();
  await frame();
  return [script, performance.now() - start];
}"""


@dataclass(frozen=True)
class Measured:
    """One size, in the unit that each name says."""

    run_s: float
    draw_s: float
    megabytes: float
    packed_megabytes: float
    opened_s: float
    frames_ms: list[float]
    scripts_ms: list[float]
    steps_ms: list[float]
    held_ms: list[float]
    kept: bool
    complaints: int


def measure(browser: Browser, scenario: Scenario, first: int, folder: Path) -> Measured:
    start = time.process_time()
    trace = run(scenario, backend="reference")
    computed = time.process_time()
    payload = stage_payload(trace)
    drawn = time.process_time()
    path = folder / "replay.html"
    path.write_text(replay_html(trace), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opening = time.perf_counter()
    page.goto(path.as_uri())
    expect(page.locator(".stage .say h1")).not_to_be_empty(timeout=PATIENCE)
    opened = time.perf_counter() - opening
    node = page.query_selector(".stage")
    frames = page.evaluate(FRAMES, [first, PLAYED])
    steps, held = [], []
    for _ in range(STEPS):
        steps.append(page.evaluate(STEP, False))
        page.wait_for_timeout(60)
    for _ in range(STEPS):
        held.append(page.evaluate(STEP, True)[1])
    page.keyboard.press("End")
    kept = node is not None and node.evaluate("node => node.isConnected")
    page.close()
    return Measured(
        run_s=computed - start,
        draw_s=drawn - computed,
        megabytes=len(payload.text) / 1e6,
        packed_megabytes=len(payload.packed) / 1e6,
        opened_s=opened,
        frames_ms=frames,
        scripts_ms=[script for script, _ in steps],
        steps_ms=[painted for _, painted in steps],
        held_ms=held,
        kept=kept,
        complaints=len(complaints),
    )


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} / {percentile(values, 0.95):.1f}"


def rows(found: Measured) -> list[tuple[str, str]]:
    return [
        ("computing the run, CPU s", f"{found.run_s:.1f}"),
        ("drawing it (the payload), CPU s", f"{found.draw_s:.1f}"),
        ("payload, MB as JSON", f"{found.megabytes:.2f}"),
        ("payload, MB as it travels", f"{found.packed_megabytes:.2f}"),
        ("file opened until the first picture, s", f"{found.opened_s:.1f}"),
        ("animation frame, ms median / p95", spread(found.frames_ms)),
        ("script of a step, ms median / p95", spread(found.scripts_ms)),
        ("a step until painted, ms median / p95", spread(found.steps_ms)),
        ("a step with the key held, ms median / p95", spread(found.held_ms)),
        ("the same node at the end of the run", "yes" if found.kept else "no"),
        ("complaints in the console", str(found.complaints)),
    ]


def main() -> None:
    sizes = {"default": PRESETS[DEFAULT_PRESET], "largest": largest_scenario()}
    told = conditions()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        found = [
            rows(measure(browser, scenario, FROM[name], Path(folder)))
            for name, scenario in sizes.items()
        ]
        browser.close()
    lines = [
        f"| {what} | {small} | {large} |" for (what, small), (_, large) in zip(*found, strict=True)
    ]
    table = "\n".join(["| what | default | largest |", "| --- | --- | --- |", *lines])
    title = (__doc__ or "").partition("\n")[0]
    text = f"# {title}\n\n{told}\n\n{table}\n"
    RESULT.with_name("stage_frames.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
