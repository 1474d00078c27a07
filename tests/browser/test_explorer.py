"""The Explorer page in a real browser: asked by keyboard, started, told, opened on Watch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, expect

from mambaviz.explore.scope import Scope
from mambaviz.pages.explorer_state import ExplorerView, to_link
from mambaviz.scenario import parse

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
SLOW = 90_000  # ms: a small machine, and a process that imports torch

expect.set_options(timeout=SLOW)

pytestmark = pytest.mark.timeout(600)

SMALL = Scope(block_sizes=[4], num_specs=[1], prompt_lens=[3], max_tokens=[4], steps=3)


def test_from_the_question_to_the_watch_page(
    browser: Browser, app_url: str, tmp_path: Path
) -> None:
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        # Streamlit asks for its own address below the page's path first, and finds it above.
        own = "/explorer/_stcore/" in message.location.get("url", "")
        if message.type == "error" and not own:
            complaints.append(message.text)

    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(SLOW)
    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    link = to_link(ExplorerView(own=SMALL, fault="bias-off-by-one"))
    page.goto(f"{app_url}/explorer?" + "&".join(f"{name}={text}" for name, text in link.items()))
    headline = page.locator(".mv-say h1")
    expect(headline).to_have_text(
        "Which is the shortest scenario in which bias-off-by-one does damage?"
    )
    start = page.get_by_role("button", name="Start", exact=True)
    start.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".mv-counts")).to_contain_text("all agree")
    expect(headline).to_contain_text("After ")
    expect(page.locator(".mv-breach")).to_be_visible()
    expect(page.locator(".mv-steps dt.mv-broken").first).to_be_visible()
    width = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
    assert width <= 0
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "explorer-hit.png")

    with page.expect_download() as download:
        page.get_by_role("button", name="Save JSON").click()
    saved = tmp_path / "shortest.json"
    download.value.save_as(saved)
    scenario = parse(saved.read_text())
    assert scenario.faults == ["bias-off-by-one"]
    assert json.loads(saved.read_text())["name"] == scenario.name

    page.get_by_role("button", name="Open on Watch").click()
    expect(page.locator(".stage .say h1")).not_to_be_empty()
    expect(page).to_have_url(re.compile("run=.*step="))
    assert complaints == []
    page.close()
