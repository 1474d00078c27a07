"""What leaves the Watch page: pictures as files, the run, a replay."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, expect

from mambaviz.scenario import PRESETS
from mambaviz.trace import Trace
from tests.browser.test_watch import LAPTOP, Watch

pytestmark = pytest.mark.timeout(600)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def dark(browser: Browser, app_url: str) -> Iterator[Watch]:
    context = browser.new_context(
        viewport={"width": LAPTOP[0], "height": LAPTOP[1]}, color_scheme="dark"
    )
    tab = Watch(context.new_page(), app_url)
    yield tab
    context.close()
    assert tab.complaints == []


def test_pictures_and_files_of_what_is_on_screen(dark: Watch, tmp_path: Path) -> None:
    dark.open("?preset=crossing-a-boundary")
    dark.page.keyboard.press("ArrowRight")
    dark.at("phase=metadata")
    dark.page.keyboard.press("ArrowLeft")
    dark.at(r"preset=crossing-a-boundary$")
    headline = dark.headline.inner_text()
    dark.sidebar.get_by_text("Export").click()
    button = dark.page.get_by_role("button", name="Picture as SVG")
    expect(button).to_be_visible()
    dark.shoot("export-menu")
    picture = dark.download(button, tmp_path)
    name = r"mambaviz-Crossing-a-boundary-[0-9a-f]{7}-step-3-pre-copy-\w+-layer-0"
    assert re.fullmatch(name + r"\.svg", picture.name)
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    texts = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert headline in texts
    assert any("back end" in text and "torch" in text for text in texts)
    assert "fill: #0E1117" in picture.read_text(encoding="utf-8"), "the dark page's own ground"

    drawn = dark.download(dark.page.get_by_role("button", name="Picture as PNG"), tmp_path)
    assert re.fullmatch(name + r"\.png", drawn.name)
    head = drawn.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    size = struct.unpack(">II", head[16:24])
    assert size == tuple(2 * round(float(root.get(side, "0"))) for side in ("width", "height"))

    run = dark.download(dark.page.get_by_role("button", name="Run as JSON"), tmp_path)
    assert Trace.from_json(run.read_text()).scenario == PRESETS["crossing-a-boundary"]
    expect(dark.page.get_by_text(re.compile(r"or network; [\d.]+ [kM]B"))).to_be_visible()
    replay = dark.download(dark.page.get_by_role("button", name="Replay as one"), tmp_path)
    assert replay.name.endswith("-replay.html")
    dark.page.goto(replay.as_uri())
    expect(dark.headline).to_have_text(headline)
    expect(dark.page.locator("footer")).to_contain_text("back end")


def test_a_picture_is_of_the_place_where_the_stage_stands_while_it_plays(
    dark: Watch, tmp_path: Path
) -> None:
    dark.open("?step=0&phase=schedule")
    dark.sidebar.get_by_text("Export").click()
    button = dark.page.get_by_role("button", name="Picture as SVG")
    expect(button).to_be_visible()
    before = dark.download(button, tmp_path)
    assert "-step-0-schedule-" in before.name
    dark.page.evaluate(
        "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }))"
    )
    after = dark.download(button, tmp_path)  # at once: Python has not heard of the step yet
    assert "-step-4-commit-" in after.name
