"""The stage in a real browser, without Streamlit: a replay file, as a reader opens it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mambaviz.engine import run
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace
from mambaviz.viz.export import replay_html

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Replay:
    """A replay file open in a tab."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        self.asked: list[str] = []
        page.goto(path.as_uri())
        expect(page.locator(".say h1")).not_to_be_empty()

    @property
    def place(self) -> str | None:
        return self.page.get_attribute(".overview", "aria-valuetext")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def do(self, script: str) -> object:
        return self.page.evaluate(
            f"(() => {{ const {{ stage }} = document.getElementById('stage'); {script} }})()"
        )


@pytest.fixture(scope="module")
def watch() -> Trace:
    return run(PRESETS["drafts-meet-the-boundary"], backend="reference")


@pytest.fixture
def open_replay(browser: Browser, tmp_path: Path) -> Iterator[object]:
    pages: list[Page] = []

    def opened(trace: Trace, *, dark: bool = False, size=(1440, 900), still=False, **at) -> Replay:
        path = tmp_path / "replay.html"
        path.write_text(replay_html(trace, **at), encoding="utf-8")
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if still else "no-preference",
        )
        pages.append(page)
        return Replay(page, path)

    yield opened
    for page in pages:
        page.close()


def test_it_opens_where_it_was_asked_to_and_fetches_nothing(open_replay, watch):
    replay = open_replay(watch, step=2, phase="post-copy", request="B")
    assert replay.place == "step 2, post-copy"
    expect(replay.page.locator(".say h1")).to_contain_text("B’s accepted tokens fill")
    assert replay.asked == [replay.page.url]
    assert replay.problems == []


def test_keys_step_and_jump(open_replay, watch):
    replay = open_replay(watch)
    replay.press("ArrowRight")
    assert replay.place == "step 0, allocate"
    replay.press("Shift+ArrowRight", "ArrowLeft")
    assert replay.place == "step 1, schedule"
    replay.press("e")
    assert replay.place == "step 1, pre-copy"
    replay.press("End")
    assert replay.place == "step 4, commit"
    replay.press("ArrowRight", "Home")
    assert replay.place == "step 0, schedule"
    assert replay.problems == []


def test_space_plays_and_pauses(open_replay, watch):
    replay = open_replay(watch, step=1, phase="allocate")
    play = replay.page.locator("[data-do=play]")
    replay.press(" ")
    expect(play).to_have_attribute("aria-label", "pause")
    expect(replay.page.locator(".overview")).to_have_attribute("aria-valuetext", "step 1, metadata")
    replay.press(" ")
    expect(play).to_have_attribute("aria-label", "play")


def test_keys_are_left_to_fields(open_replay, watch):
    replay = open_replay(watch)
    replay.page.evaluate("document.body.append(document.createElement('input'))")
    replay.page.locator("body > input").focus()
    replay.press("ArrowRight", "e", " ", "End")
    assert replay.place == "step 0, schedule"
    assert replay.page.locator("body > input").input_value() == "e "


def test_the_node_stays_and_so_do_the_axes(open_replay, watch):
    replay = open_replay(watch)
    replay.do("window.lane = stage.root.querySelector('.lane'); window.kept = stage.root;")
    seen = set()
    for _ in range(39):
        replay.press("ArrowRight")
        box = replay.page.locator(".lane-picture").bounding_box()
        assert box is not None
        seen.add((round(box["x"]), round(box["y"]), round(box["width"]), round(box["height"])))
    assert len(seen) == 1
    assert replay.do("return window.kept === stage.root && window.lane.isConnected") is True


def test_every_frame_shows_what_a_jump_there_shows(open_replay, watch):
    """Stepping by differences, forwards and backwards, ends in the very same picture."""
    replay = open_replay(watch, still=True)
    replay.do("""
        const shot = () => {
            const pictures = [...stage.root.querySelectorAll('.lane-picture, .state-picture')];
            const texts = pictures.flatMap((one) => [...one.querySelectorAll('text')]);
            return texts.map((one) => one.textContent).sort().join('|');
        };
        const at = (frame) => { stage.show(frame, 'fade'); return shot(); };
        const frames = [...Array(stage.last + 1).keys()];
        window.forwards = frames.map(at);
        window.backwards = frames.reverse().map(at);
    """)
    forwards, backwards = replay.do("return [window.forwards, window.backwards.reverse()]")
    assert forwards == backwards
    assert len(set(forwards)) > 20


def test_copies_slide_and_then_rest(open_replay, watch):
    replay = open_replay(watch, step=2, phase="accept")
    replay.press("ArrowRight")
    moving = replay.page.evaluate(
        "document.getAnimations().filter(one => one.effect.getKeyframes()"
        ".some(frame => (frame.transform ?? 'none') !== 'none')).length"
    )
    assert moving >= 4  # four conv rows and the window at least
    replay.page.evaluate("Promise.all(document.getAnimations().map(one => one.finished))")
    assert replay.page.evaluate("document.getAnimations().length") == 0


def test_reduced_motion_shows_the_end_at_once(open_replay, watch):
    replay = open_replay(watch, still=True, step=2, phase="accept")
    replay.press("ArrowRight")
    assert replay.page.evaluate("document.getAnimations().length") == 0
    expect(replay.page.locator(".state-picture")).to_contain_text("bias 1")


def test_clicking_the_overview_jumps_there(open_replay, watch):
    replay = open_replay(watch)
    cell = replay.page.locator(".ov").nth(3).locator(".ov-cell").nth(2)
    box = cell.bounding_box()
    assert box is not None
    replay.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert replay.place == "step 3, pre-copy"


def test_choosing_a_request_and_a_layer(open_replay, watch):
    replay = open_replay(watch, step=2, phase="post-copy")
    replay.page.locator(".requests button", has_text="B").click()
    expect(replay.page.locator(".state-of")).to_have_text("State of request B, layer 0")
    replay.page.locator(".layers button", has_text="layer 1").click()
    expect(replay.page.locator(".state-of")).to_have_text("State of request B, layer 1")
    replay.page.locator(".lane .badge").first.press("Enter")
    expect(replay.page.locator(".state-of")).to_have_text("State of request A, layer 1")


def test_fields_and_blocks_point_at_each_other(open_replay, watch):
    replay = open_replay(watch, step=2, phase="post-copy")
    replay.page.locator(".metadata td", has_text="state_indices_tensor_d").hover()
    ringed = replay.page.locator(".lane .pointed").evaluate_all(
        "nodes => [...new Set(nodes.map(node => Number(node.dataset.block)))].sort((a, b) => a - b)"
    )
    assert ringed == [3, 5, 6, 7, 8, 9]
    replay.page.locator(".lane .bk[data-block='7']").last.hover()
    expect(replay.page.locator(".metadata tr.hit td").first).to_have_text("state_indices_tensor_d")


def test_a_red_lamp_leads_to_the_place(open_replay, watch):
    scenario = json.loads(watch.scenario.model_dump_json())
    trace = run(build({**scenario, "faults": ["bias-off-by-one"]}), backend="reference")
    first = trace.violations[0]
    replay = open_replay(trace, step=first.step, phase="commit")
    lamp = replay.page.locator(".lamp.bad", has_text=first.invariant)
    lamp.click()
    replay.page.locator(".findings button").first.click()
    assert replay.place == f"step {first.step}, {first.phase}"


def test_a_live_run_takes_a_recorded_ones_place_quietly(open_replay, watch):
    """The reader has moved on since the page was drawn: they stay where they are."""
    replay = open_replay(watch)
    replay.do("""
        const data = JSON.parse(document.getElementById('data').textContent);
        stage.go(20, 'jump');
        stage.receive({ ...data, payload: data.payload + ' ' });
    """)
    assert replay.place == "step 2, forward"
    replay.do("""
        const data = JSON.parse(document.getElementById('data').textContent);
        const asked = { ...data.asked, step: 1, wish: 1 };
        stage.receive({ ...data, payload: data.payload + ' ', asked });
    """)
    assert replay.place == "step 1, schedule"  # now Python does ask for something


def test_low_windows_have_tabs(open_replay, watch):
    replay = open_replay(watch, size=(1280, 720), step=2, phase="post-copy")
    tabs = replay.page.get_by_role("tab")
    expect(tabs).to_have_count(3)
    expect(replay.page.locator(".why .formulas")).to_contain_text("running = 6 + 3 − 2 = 7")
    tabs.first.press("ArrowRight")
    expect(replay.page.locator(".changes")).to_be_visible()
    expect(replay.page.locator(".why .body")).to_be_hidden()
    assert replay.place == "step 2, post-copy"  # a tab's arrows are the tab's


def test_dark_follows_what_lies_behind(open_replay, watch):
    replay = open_replay(watch, dark=True)
    assert replay.page.get_attribute(".stage", "data-theme") == "dark"
    replay.page.emulate_media(color_scheme="light")
    expect(replay.page.locator(".stage")).to_have_attribute("data-theme", "light")


def test_hostile_names_are_text(open_replay):
    requests = [{"id": HOSTILE, "prompt_len": 6}]
    trace = run(build({"requests": requests}), backend="reference")
    replay = open_replay(trace, step=1, phase="forward")
    replay.press("ArrowRight", "ArrowRight", "e")
    assert replay.page.locator("img").count() == 0
    assert replay.problems == []
    expect(replay.page.locator(".state-of")).to_contain_text(HOSTILE)
