"""The Watch page in a real browser, as a person uses it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from mambaviz.scenario import DEFAULT_PRESET, PRESETS, load
from mambaviz.trace import Trace
from tests.browser.tab import Tab

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
LAPTOP, PROJECTOR = (1440, 900), (1280, 720)
SLOW = 30_000  # ms: importing torch and interpreting kernels on a small machine

expect.set_options(timeout=SLOW)

pytestmark = pytest.mark.timeout(600)


class Watch(Tab):
    """One tab with the page open in it, and what its console complained about."""

    slow = SLOW

    def open(self, query: str = "") -> Watch:
        self.page.goto(f"{self.url}/{query}")
        expect(self.headline).not_to_be_empty()
        return self

    @property
    def stage(self) -> Locator:
        return self.page.locator(".stage")

    @property
    def headline(self) -> Locator:
        return self.stage.locator(".say h1")

    @property
    def foot(self) -> Locator:
        return self.sidebar.locator(".mv-foot")

    def do(self, what: str) -> None:
        self.stage.locator(f'[data-do="{what}"]').click()

    def at(self, pattern: str) -> None:
        """Wait until the address says where the stage stands."""
        expect(self.page).to_have_url(re.compile(pattern))

    def download(self, button: Locator, folder: Path) -> Path:
        """Click and keep the file that comes."""
        with self.page.expect_download() as coming:
            button.click()
        path = folder / coming.value.suggested_filename
        coming.value.save_as(path)
        return path

    def shoot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


@pytest.fixture
def watch(browser: Browser, app_url: str) -> Iterator[Watch]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    tab = Watch(context.new_page(), app_url)
    yield tab
    context.close()
    assert tab.complaints == []


def test_plays_to_the_end_and_steps_back_in_one_node(watch: Watch) -> None:
    watch.open()
    expect(watch.headline).to_contain_text("its state after 8 tokens is saved")
    expect(watch.foot).to_contain_text(f"run {PRESETS[DEFAULT_PRESET].content_hash[:7]}")
    node = watch.stage.element_handle()
    for _ in range(2):  # 1, 2, 4 times as fast
        watch.do("speed")
    watch.do("play")
    watch.at(r"step=4&phase=commit")
    watch.page.keyboard.press("ArrowLeft")
    watch.at(r"step=4&phase=post-copy")
    watch.do("first")
    watch.at(r"step=0&phase=schedule")
    expect(watch.foot).to_contain_text("live")
    assert node is not None
    assert node.evaluate("node => node.isConnected"), "the stage was mounted anew"


def test_the_live_run_takes_the_place_of_the_recorded_one_without_a_jump(watch: Watch) -> None:
    watch.open("?preset=shift-in-place&step=3&phase=pre-copy")
    before = watch.headline.inner_text()
    expect(watch.foot).to_contain_text("live")
    expect(watch.headline).to_have_text(before)
    watch.at(r"preset=shift-in-place&step=3&phase=pre-copy")


def test_another_block_size_is_another_run(watch: Watch) -> None:
    watch.open()
    run = watch.foot.locator("span").first
    old = run.inner_text()
    watch.sidebar.get_by_role("button", name="Edit scenario").click()
    drawer = watch.page.get_by_test_id("stDialog")
    size = drawer.get_by_label("block size", exact=True)
    size.fill("1")
    size.press("Enter")
    expect(drawer.get_by_text("engine.num_spec = 2: in align mode")).to_be_visible()
    expect(drawer.get_by_role("button", name="Apply")).to_be_disabled()
    expect(run).to_have_text(old)
    size.fill("8")
    size.press("Enter")
    expect(drawer.get_by_text("This scenario can run.")).to_be_visible()
    drawer.get_by_role("button", name="Apply").click()
    expect(drawer).to_be_hidden()
    expect(watch.sidebar.get_by_text("8 tokens")).to_be_visible()
    expect(watch.foot).to_contain_text("live")
    expect(run).not_to_have_text(old)
    expect(watch.stage.locator(".lane-picture")).to_contain_text("column 1")
    watch.at(r"\?run=[\w-]+$")


def test_a_broken_file_gets_a_sentence_and_changes_nothing(watch: Watch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"requests": [{"id": "A", "prompt_len": 0}]}')
    watch.open("?step=1&phase=forward")
    headline = watch.headline.inner_text()
    watch.sidebar.get_by_text("Open JSON").click()
    watch.page.locator('input[type="file"]').set_input_files(broken)
    said = watch.page.locator(".st-key-messages").get_by_text("broken.json was not opened")
    expect(said).to_have_text(
        "broken.json was not opened: requests[0].prompt_len = 0: allowed 1 to 65536"
    )
    expect(watch.headline).to_have_text(headline)
    watch.at(r"\?step=1&phase=forward$")


def test_what_goes_out_comes_in_again(watch: Watch, tmp_path: Path) -> None:
    watch.open("?preset=crossing-a-boundary")
    expect(watch.foot).to_contain_text("live")  # else its arrival can cross a click
    headline = watch.headline.inner_text()
    scenario = watch.download(watch.sidebar.get_by_role("button", name="Save JSON"), tmp_path)
    assert load(scenario) == PRESETS["crossing-a-boundary"]
    watch.sidebar.get_by_text("Export").click()
    run = watch.download(watch.page.get_by_role("button", name="Run as JSON"), tmp_path)
    assert Trace.from_json(run.read_text()).scenario == PRESETS["crossing-a-boundary"]
    replay = watch.download(watch.page.get_by_role("button", name="Replay as one"), tmp_path)
    watch.page.keyboard.press("Escape")
    watch.open()
    watch.sidebar.get_by_text("Open JSON").click()
    watch.page.locator('input[type="file"]').set_input_files(scenario)
    watch.at(r"\?preset=crossing-a-boundary$")
    expect(watch.headline).to_have_text(headline)
    watch.page.goto(replay.as_uri())
    expect(watch.headline).to_have_text(headline)


def test_a_damaged_link_is_said_and_the_default_is_shown(watch: Watch) -> None:
    watch.open("?run=eJxnonsense&step=3")
    expect(watch.headline).to_contain_text("its state after 8 tokens is saved")
    expect(watch.page.get_by_text("The scenario in this link is damaged")).to_be_visible()
    watch.at(r"/$")


def test_the_way_back_through_the_history(watch: Watch) -> None:
    watch.open("?step=2&phase=forward")
    expect(watch.foot).to_contain_text("live")
    watch.page.keyboard.press("ArrowRight")
    watch.at(r"phase=accept")
    watch.page.wait_for_timeout(2500)  # later than any echo
    watch.page.go_back()
    watch.at(r"phase=forward")
    expect(watch.stage.locator(".chips [aria-current=step]")).to_have_text(re.compile("forward"))


# Delays what the tab and the server say to each other by this long, each way.
SLOW_SERVER = """
const late = 1300;
const { send, addEventListener } = WebSocket.prototype;
WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), late); };
WebSocket.prototype.addEventListener = function (type, act, ...rest) {
  const slowed = type === "message" ? (event) => setTimeout(() => act(event), late) : act;
  addEventListener.call(this, type, slowed, ...rest);
};
"""
# Keeps every place that the stage shows.
PLACES = """(strip) => {
  window.places = [Number(strip.getAttribute("aria-valuenow"))];
  new MutationObserver(() => window.places.push(Number(strip.getAttribute("aria-valuenow"))))
    .observe(strip, { attributes: true, attributeFilter: ["aria-valuenow"] });
}"""
PHASES_OF_THE_RUN = 5 * 8


class Stepping:
    """Keys on the stage, and where it should stand after them."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.wanted = watch, []
        watch.stage.locator(".overview").evaluate(PLACES)

    def press(self, *keys: str, every: float) -> None:
        for key in keys:
            before = self.wanted[-1] if self.wanted else self.now()
            self.watch.page.keyboard.press(key)
            self.wanted.append(self.after(key, before))
            self.watch.page.wait_for_timeout(every * 1000)

    def after(self, key: str, before: int) -> int:
        last = PHASES_OF_THE_RUN - 1
        return {"Home": 0, "End": last}.get(key, min(before + 1, last))

    def now(self) -> int:
        return self.watch.page.evaluate("window.places.at(-1)")

    def seen(self) -> list[int]:
        return [
            place
            for before, place in itertools.pairwise([-1, *self.watch.page.evaluate("places")])
            if place != before
        ]


@pytest.mark.parametrize("every", [0.1, 0.3])
def test_stepping_faster_than_the_server_answers(watch: Watch, every: float) -> None:
    watch.page.add_init_script(SLOW_SERVER)
    watch.open("?step=0&phase=schedule")
    stepping = Stepping(watch)
    stepping.press(*["ArrowRight"] * 30, every=every)
    watch.page.wait_for_timeout(5000)
    assert stepping.seen() == list(range(31))
    watch.at("step=3&phase=accept|step=3&phase=post-copy")
    assert stepping.now() == 30


def test_home_and_end_are_not_undone_by_a_slow_server(watch: Watch) -> None:
    watch.page.add_init_script(SLOW_SERVER)
    watch.open("?step=0&phase=schedule")
    stepping = Stepping(watch)
    keys = ["ArrowRight"] * 4 + ["End", "Home"] + ["ArrowRight"] * 5 + ["Home", "ArrowRight"]
    stepping.press(*keys, every=0.35)
    watch.page.wait_for_timeout(5000)
    steps = [0, *stepping.wanted]
    assert stepping.seen() == [b for a, b in itertools.pairwise([-1, *steps]) if a != b]
    watch.at("step=0&phase=allocate")


def test_a_choice_of_request_and_layer_is_not_undone(watch: Watch) -> None:
    watch.page.add_init_script(SLOW_SERVER)
    watch.open()
    names = ["B", "A", "B", "A", "B"]
    for name in names:
        watch.stage.locator(".requests button", has_text=name).click()
        watch.page.wait_for_timeout(400)
        watch.stage.locator(".layers button", has_text="layer 1" if name == "B" else "0").click()
        watch.page.wait_for_timeout(400)
    title = watch.stage.locator(".state-of")
    for _ in range(10):
        expect(title).to_have_text("State of request B, layer 1")
        watch.page.wait_for_timeout(500)
    watch.at("request=B&layer=1")


def test_copy_link_copies_the_address(browser: Browser, app_url: str) -> None:
    context = browser.new_context(
        viewport={"width": LAPTOP[0], "height": LAPTOP[1]},
        permissions=["clipboard-read", "clipboard-write"],
    )
    tab = Watch(context.new_page(), app_url).open("?step=3&phase=accept&layer=1")
    tab.sidebar.get_by_role("button", name="Copy link").click()
    expect(tab.sidebar.get_by_text("Copied")).to_be_visible()
    assert tab.page.evaluate("navigator.clipboard.readText()") == tab.page.url
    assert tab.page.url.endswith("?step=3&phase=accept&layer=1")
    context.close()


def test_a_link_can_hide_what_a_lesson_does_not_need(watch: Watch) -> None:
    watch.open("?step=4&phase=pre-copy&hide=sidebar,transport,panels,tabs")
    expect(watch.sidebar).to_have_count(0)
    expect(watch.stage.locator('[data-do="play"]')).to_be_hidden()
    expect(watch.page.get_by_role("tab", name="Bytes")).to_have_count(0)


def test_a_link_can_ask_for_a_theme(watch: Watch) -> None:
    watch.open("?theme=dark")
    expect(watch.page.locator(".stApp")).to_have_css("color-scheme", "dark")
    expect(watch.stage).to_have_attribute("data-theme", "dark")


def test_the_tabs_below_follow_the_stage(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    matrix = watch.page.locator(".matrix")
    expect(matrix.get_by_text("block 7 → 2, 64 B").first).to_be_visible()
    watch.page.get_by_role("tab", name="Bytes").click()
    watch.page.get_by_text("Bytes in hex, before and after").click()
    expect(watch.page.locator(".hex mark").first).to_be_visible()
    watch.page.get_by_role("tab", name="Log").click()
    expect(watch.page.get_by_text("A CHECKPOINT layer 0 conv: block 3 → 2")).to_be_visible()


def test_fits_the_screen(browser: Browser, app_url: str) -> None:
    """The smallest window; the picture is for looking at, the checks for what must hold."""
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Watch(context.new_page(), app_url).open("?step=2&phase=post-copy")
    expect(tab.stage).to_be_visible()
    expect(tab.sidebar).to_have_attribute("data-collapsed", "true")
    expect(tab.page.locator(".stApp")).to_have_css("color-scheme", "light")
    tab.page.wait_for_timeout(1500)  # slides and folding come to rest
    tab.shoot(f"watch-{width}x{height}")
    across = tab.page.evaluate("document.documentElement.scrollWidth")
    legend = tab.stage.locator(".legend").bounding_box()
    assert across <= width
    assert legend is not None
    assert legend["y"] + legend["height"] <= height
    assert tab.complaints == []
    context.close()
