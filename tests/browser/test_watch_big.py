"""The Watch page at the largest promised size, and its motion, in a real browser."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mambaviz.engine import run
from mambaviz.largest import (
    NUM_COLUMNS,
    NUM_LAYERS,
    NUM_REQUESTS,
    NUM_STEPS,
    largest_scenario,
)
from mambaviz.pages.packing import pack
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace
from mambaviz.viz import lanes, line_lane
from mambaviz.viz.export import replay_html
from mambaviz.viz.payload import PACK_FROM, StagePayload, stage_payload
from mambaviz.viz.scene import Scene
from mambaviz.viz.theme import EASING, LANES, MOTION
from mambaviz.viz.views import frame_at, frames

from .conftest import ROOT, free_port, wait_until_healthy
from .test_watch import LAPTOP, PROJECTOR, Watch

MOST_CHARACTERS = 20_000_000
MOST_PACKED = 3_500_000
VERY_SLOW = 180_000  # ms: 200 steps computed and drawn on a small machine that others use too

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def big() -> Trace:
    return run(largest_scenario(), backend="reference")


@pytest.fixture(scope="module")
def payload(big: Trace) -> StagePayload:
    return stage_payload(big)


@pytest.fixture(scope="module")
def big_file(big: Trace, payload: StagePayload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "big.html"
    html = replay_html(big, step=88, phase="post-copy", payload=payload)
    path.write_text(html, encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a replay file; the page must not complain."""
    pages: list[tuple[Page, list[str]]] = []

    def opened(path: Path, size: tuple[int, int] = LAPTOP, *, still: bool = False) -> Page:
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            reduced_motion="reduce" if still else "no-preference",
        )
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(path.as_uri())
        expect(page.locator(".say h1")).not_to_be_empty()
        pages.append((page, problems))
        return page

    yield opened
    for page, problems in pages:
        page.close()
        assert problems == []


def place(page: Page) -> str | None:
    return page.get_attribute(".overview", "aria-valuetext")


# --------------------------------------------------------------------------------------
# What it holds, and how it travels
# --------------------------------------------------------------------------------------


def test_it_is_as_large_as_promised(big: Trace) -> None:
    rows = [
        row
        for step in big.steps
        for phase in step.phases
        if phase.tables is not None
        for row in phase.tables.rows.values()
    ]
    assert len(big.scenario.requests) == NUM_REQUESTS
    assert len({spec.layer for spec in big.states}) == NUM_LAYERS
    assert abs(len(big.steps) - NUM_STEPS) <= 2
    assert max(len(row.worker_row[0]) for row in rows) == NUM_COLUMNS
    assert max(max(row.worker_row[0]) for row in rows) > 100
    assert max(step.num_computed_after.get("A", 0) for step in big.steps) > 100
    assert sum(len(step.preempted) for step in big.steps) == 2
    hits = [
        request
        for step in big.steps
        for request, running in step.requests.items()
        if running.event == "new" and running.num_computed
    ]
    assert hits == ["D", "F", "H"]
    assert not big.violations
    assert max(len(step.requests) for step in big.steps) == NUM_REQUESTS


def test_it_travels_packed_and_comes_out_the_same(payload: StagePayload) -> None:
    assert PACK_FROM < len(payload.text) < MOST_CHARACTERS
    assert len(payload.packed) < MOST_PACKED
    assert gzip.decompress(base64.b64decode(payload.packed)).decode() == payload.text
    assert payload.text.startswith("{")
    assert not payload.packed.startswith("{"), "the browser tells them apart by this"


def test_all_eight_lanes_fit_the_panel(payload: StagePayload) -> None:
    sizes = json.loads(payload.text)["sizes"]
    _, heading, full, other, _ = sizes["lanes"]
    assert sizes["others"] == "line"
    assert heading + full + (NUM_REQUESTS - 1) * other <= 370  # the panel less its heading


def test_a_line_holds_the_row_and_the_copies(big: Trace) -> None:
    frame = next(
        frame for frame in frames(big) if any(copy.kind == "migrate" for copy in frame.phase.copies)
    )
    request = frame.phase.copies[0].request
    view, axis = frame.lane(request, 0, 0), lanes.axis_of(big, 0)
    marks = {mark.name: mark for part in line_lane.lane_parts(view, axis) for mark in part}
    assert {"badge", "kind", "running", "arrow-conv"} <= marks.keys()
    whole = {mark.name: mark.x for mark in lanes.lane(view, axis, small=False)}
    assert marks["running"].x == whole["running"], "columns stand below each other"
    assert all(mark.y < LANES.line_height for mark in marks.values())


def test_an_absent_request_says_why_in_its_line(big: Trace) -> None:
    frame = frame_at(big, 0, "schedule")
    view, axis = frame.lane("H", 0, 0), lanes.axis_of(big, 0)
    marks = [mark for part in line_lane.lane_parts(view, axis) for mark in part]
    assert any("arrives at step" in text for text in Scene(0, 0, tuple(marks)).texts())


# --------------------------------------------------------------------------------------
# The overview of a long run
# --------------------------------------------------------------------------------------


def over_step(page: Page, step: int, steps: int) -> None:
    box = page.locator(".overview").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + (step + 0.5) / steps * box["width"], box["y"] + 25)


@pytest.mark.parametrize("size", [LAPTOP, PROJECTOR])
def test_every_step_of_a_long_run_is_one_click_away(
    open_page: Callable[..., Page], big_file: Path, big: Trace, size: tuple[int, int]
) -> None:
    page, count = open_page(big_file, size), len(big.steps)
    for step in (0, 1, 57, 58, 59, count - 1):
        over_step(page, step, count)
        expect(page.locator(".ov-told")).to_contain_text(f"step {step}, ")
        page.mouse.down()
        page.mouse.up()
        assert place(page) == f"step {step}, post-copy"


def test_the_strip_says_what_moves_under_the_pointer_and_enlarges_it(
    open_page: Callable[..., Page], big_file: Path, big: Trace
) -> None:
    page, count = open_page(big_file), len(big.steps)
    expect(page.locator(".lens")).to_contain_text("step 88")
    over_step(page, 40, count)
    told = page.locator(".ov-told")
    expect(told).to_contain_text("request preempted")
    expect(page.locator(".lens")).to_contain_text("step 40")
    assert page.locator(".lens .ov-cell").count() == 8
    page.mouse.move(10, 700)
    expect(told).to_be_hidden()
    expect(page.locator(".lens")).to_contain_text("step 88")
    page.locator(".lens .ov-cell").nth(2).click()
    assert place(page) == "step 88, pre-copy"


def test_marks_differ_by_place_and_form_not_by_colour_alone(
    open_page: Callable[..., Page], big_file: Path
) -> None:
    page = open_page(big_file)
    forms = page.evaluate(
        """() => Object.fromEntries(["migrate", "checkpoint", "boundary", "hit", "preempted"].map(
            (event) => [event, document.querySelector(`.ov-mark.${event}`).getAttribute("d")
                .replace(/^M[\\d.]+/, "M")]))"""
    )
    assert len(set(forms.values())) == 5


def test_the_event_before_and_the_next(open_page: Callable[..., Page], big_file: Path) -> None:
    page = open_page(big_file)

    def seen() -> tuple[str, str | None]:
        return place(page), page.locator(
            ".requests [aria-pressed=true], .requests select"
        ).first.evaluate("(node) => node.value || node.textContent")

    at = [seen()]
    for _ in range(12):  # every request of a phase in which several move is an event of its own
        page.keyboard.press("e")
        at.append(seen())
    assert len(set(at)) == len(at)
    assert len({where for where, _ in at}) < len(at)
    for expected, _ in reversed(at[:-1]):  # where an event names no request, the last one stays
        page.keyboard.press("Shift+E")
        assert place(page) == expected
    page.locator("[data-do=event]").click()
    assert place(page) == at[1][0]
    page.locator("[data-do=event-back]").click()
    assert place(page) == at[0][0]


# --------------------------------------------------------------------------------------
# Lanes
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [LAPTOP, PROJECTOR])
def test_all_requests_are_in_view_and_the_running_column_is_followed(
    open_page: Callable[..., Page], big_file: Path, size: tuple[int, int]
) -> None:
    page = open_page(big_file, size)
    panel = page.locator(".lanes .scroll")
    assert panel.evaluate("node => node.scrollHeight <= node.clientHeight + 1")
    badges = page.locator(".lane-picture .badge")
    expect(badges).to_have_count(NUM_REQUESTS)
    page.locator(".requests select").select_option("B")
    for step in (60, 80, 90):
        page.evaluate(f"document.getElementById('stage').stage.go({step * 8 + 6}, 'jump')")
        inside = page.evaluate(
            """() => {
                const box = (one) => document.querySelector(one).getBoundingClientRect();
                const [scroll, running] = [box(".lanes .scroll"), box(".lane.chosen .running")];
                return running.left >= scroll.left + 40 && running.right <= scroll.right + 1;
            }"""
        )
        assert inside, f"step {step}"
    panel.evaluate("node => node.scrollTo(0, 0)")
    assert panel.evaluate("node => node.scrollWidth > 2 * node.clientWidth")


def test_texts_of_three_digits_stay_inside_their_cells(
    open_page: Callable[..., Page], big_file: Path
) -> None:
    page = open_page(big_file)
    for step in (70, 120, 150):
        page.evaluate(f"document.getElementById('stage').stage.go({step * 8 + 6}, 'jump')")
        overlaps = page.evaluate(
            """() => [...document.querySelectorAll(".lane-picture .bk:not(.pin)")].filter((at) => {
                const [id, ...others] = [...at.querySelectorAll("text")];
                const last = others.filter((text) => text.classList.contains("end")).at(-1);
                if (!last || !last.textContent) return false;
                const [a, b] = [id.getBBox(), last.getBBox()];
                return a.y < b.y + b.height && b.y < a.y + a.height && a.x + a.width > b.x + 1;
            }).map((at) => at.textContent)"""
        )
        assert overlaps == [], f"step {step}"


def test_more_than_eight_requests_are_said_to_be_summed_up(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    plans = [{"id": f"R{number}", "prompt_len": 3, "max_tokens": 3} for number in range(11)]
    trace = run(build({"engine": {"num_blocks": 60}, "requests": plans}), backend="reference")
    path = tmp_path / "crowd.html"
    path.write_text(replay_html(trace, step=1), encoding="utf-8")
    page = open_page(path)
    sums = page.locator(".sums")
    expect(sums).to_contain_text("Of 11 requests, R0 to R7 are drawn")
    expect(page.locator(".lane-picture .badge")).to_have_count(8)
    page.locator(".requests select").select_option("R9")
    expect(sums).to_contain_text("R8 to R10 are drawn")
    expect(page.locator(".lane-picture .badge")).to_have_count(3)
    expect(page.locator(".lane.chosen .badge")).to_contain_text("R9")


def test_two_requests_need_no_summing_up(open_page: Callable[..., Page], tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    trace = run(PRESETS["drafts-meet-the-boundary"], backend="reference")
    path.write_text(replay_html(trace), encoding="utf-8")
    expect(open_page(path).locator(".sums")).to_be_hidden()


# --------------------------------------------------------------------------------------
# Motion
# --------------------------------------------------------------------------------------

# What moves right after a key: what kind of change, how long, after what delay, eased how.
MOVES = """(key) => {
  document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  return document.getAnimations().map((one) => {
    const { duration, delay, easing } = one.effect.getTiming();
    const frames = one.effect.getKeyframes();
    const what = ["transform", "strokeDashoffset", "opacity"].find((name) => name in frames[0]);
    return { what, duration, delay, easing };
  });
}"""


@pytest.fixture
def small_file(tmp_path: Path) -> Callable[..., Path]:
    trace = run(PRESETS["drafts-meet-the-boundary"], backend="reference")

    def written(**at: object) -> Path:
        path = tmp_path / "replay.html"
        path.write_text(replay_html(trace, **at), encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize("speed", [1, 4])
def test_a_copy_draws_slides_and_frames(
    open_page: Callable[..., Page], small_file: Callable[..., Path], speed: int
) -> None:
    page = open_page(small_file(step=2, phase="accept"))
    for _ in range({1: 0, 4: 2}[speed]):
        page.locator("[data-do=speed]").click()
    moves = page.evaluate(MOVES, "ArrowRight")
    found = {(one["what"], one["duration"] * speed, one["delay"] * speed) for one in moves}
    assert ("strokeDashoffset", MOTION["draw"], 0) in found
    assert ("transform", MOTION["slide"], MOTION["draw"]) in found
    assert ("opacity", MOTION["frame"], MOTION["draw"] + MOTION["slide"]) in found
    easings = {re.sub(r"\s|(?<=[(,])0(?=\.)", "", one["easing"]) for one in moves}
    assert easings == {re.sub(r"\s", "", EASING)}


def test_the_running_column_slides(
    open_page: Callable[..., Page], small_file: Callable[..., Path]
) -> None:
    page = open_page(small_file(step=4, phase="allocate"))
    page.evaluate("document.getElementById('stage').stage.choose({ request: 0 })")
    moves = []
    for _ in range(2):  # the column advances in one of the two
        moves += page.evaluate(MOVES, "ArrowRight")
    assert ("transform", MOTION["column"], 0) in {
        (one["what"], one["duration"], one["delay"]) for one in moves
    }


def test_a_phase_without_a_copy_fades_what_changed(
    open_page: Callable[..., Page], small_file: Callable[..., Path]
) -> None:
    moves = open_page(small_file(step=2, phase="forward")).evaluate(MOVES, "ArrowRight")
    found = {(one["what"], one["duration"], one["delay"]) for one in moves}
    assert ("opacity", MOTION["fade"], 0) in found
    assert found <= {("opacity", MOTION["fade"], 0), ("transform", MOTION["column"], 0)}


def test_held_keys_scrubbing_and_reduced_motion_show_the_end(
    open_page: Callable[..., Page], small_file: Callable[..., Path]
) -> None:
    path = small_file(step=2, phase="accept")
    running = "document.getAnimations().length"
    page = open_page(path)
    page.evaluate(
        """document.dispatchEvent(new KeyboardEvent(
            "keydown", { key: "ArrowRight", repeat: true, bubbles: true }))"""
    )
    assert (place(page), page.evaluate(running)) == ("step 2, post-copy", 0)
    cell = page.locator(".ov").nth(4).locator(".ov-cell").nth(2).bounding_box()
    assert cell is not None
    page.mouse.click(cell["x"] + 5, cell["y"] + 5)
    assert (place(page), page.evaluate(running)) == ("step 4, pre-copy", 0)
    still = open_page(path, still=True)
    assert still.evaluate(MOVES, "ArrowRight") == []


# --------------------------------------------------------------------------------------
# The app itself, on the plain back end
# --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as on a machine without Triton."""
    port = free_port()
    url, log = f"http://localhost:{port}", tmp_path_factory.mktemp("app") / "log"
    command = (sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port))
    env = {**os.environ, "MAMBAVIZ_BACKEND": "reference"}
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=env)
    try:
        wait_until_healthy(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def test_the_largest_run_shows_progress_can_be_stopped_and_stays_in_one_node(
    browser: Browser, plain_url: str
) -> None:
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    tab = Watch(context.new_page(), plain_url)
    page = tab.page
    page.goto(f"{plain_url}/?run={pack(largest_scenario())}")
    message = page.get_by_test_id("stAlert")
    expect(message).to_contain_text(re.compile(r"step \d+ of about 20\d"), timeout=VERY_SLOW)
    page.get_by_role("button", name="Stop").click()
    expect(message).to_contain_text("stopped", timeout=VERY_SLOW)
    page.get_by_role("button", name="Run it").click()
    expect(message).to_contain_text(re.compile(r"Drawing step \d+ of \d+"), timeout=VERY_SLOW)
    expect(tab.headline).not_to_be_empty(timeout=VERY_SLOW)
    node = tab.stage.element_handle()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(r"step=19\d&phase=commit"), timeout=VERY_SLOW)
    page.keyboard.press("Home")
    page.keyboard.press("e")
    expect(page).not_to_have_url(re.compile(r"step=19\d"), timeout=VERY_SLOW)
    tab.shoot("watch-largest")
    assert node is not None
    assert node.evaluate("node => node.isConnected"), "the stage was mounted anew"
    context.close()
    assert tab.complaints == []
