"""The states nobody draws: each is made to occur in the app, looked for, and kept as a picture.

The pictures are written to .artifacts/states-*.png.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from mambaviz.pages.state import PageState, to_link
from mambaviz.scenario import PRESETS, build
from tests.browser.test_lesson import query
from tests.browser.test_watch import LAPTOP, Watch

pytestmark = pytest.mark.timeout(600)
A = {"id": "A", "prompt_len": 6, "accept": [1, 2, 0], "max_tokens": 8}
WATCH = PRESETS["drafts-meet-the-boundary"].model_dump()

FIRST_RUN = 120_000  # ms: a run that is not recorded waits for torch
Open = Callable[..., Watch]


@pytest.fixture
def open_app(browser: Browser, app_url: str) -> Iterator[Open]:
    tabs: list[Watch] = []

    def opened(scenario: dict | None = None, **place: object) -> Watch:
        context = browser.new_context(
            viewport={"width": LAPTOP[0], "height": LAPTOP[1]},
            reduced_motion="reduce",
        )
        tab = Watch(context.new_page(), app_url)
        tabs.append(tab)
        view = PageState(custom=build(scenario) if scenario else None, backend="reference", **place)
        tab.page.goto(f"{app_url}/{query(**to_link(view))}")
        expect(tab.headline).not_to_be_empty(timeout=FIRST_RUN)
        return tab

    yield opened
    for tab in tabs:
        tab.page.context.close()
        assert tab.complaints == []


def shoot(tab: Watch, name: str) -> None:
    theme = tab.page.locator(".stage").first.get_attribute("data-theme")
    tab.shoot(f"states-{name}-{theme}")


def test_a_phase_in_which_nothing_changes(open_app: Open) -> None:
    tab = open_app({"name": "Idle", "requests": [{**A, "arrive": 1}]}, step=0, phase="metadata")
    expect(tab.headline).to_have_text("Nothing is scheduled in this step.")
    expect(tab.stage.locator(".changes .nothing")).to_have_text("No block changes in this phase.")
    expect(tab.stage.locator(".state-picture")).to_contain_text("No state on show")
    shoot(tab, "idle")


def test_a_red_lamp_a_red_block_and_a_stopped_copy(open_app: Open) -> None:
    faulty = {**WATCH, "name": "Off by one", "faults": ["bias-off-by-one"]}
    tab = open_app(faulty, step=2, phase="post-copy")
    expect(tab.stage.locator(".lamp.bad").first).to_be_visible()
    expect(tab.stage.locator(".main .wrong-disc").first).to_be_visible()
    tab.stage.locator(".lamp.bad").first.click()
    expect(tab.stage.locator(".findings button").first).to_be_visible()
    shoot(tab, "broken")
    while not tab.stage.locator(".copy.skipped").count():
        before = tab.page.locator(".overview").get_attribute("aria-valuetext")
        tab.page.keyboard.press("e")
        assert tab.page.locator(".overview").get_attribute("aria-valuetext") != before
    expect(tab.stage.locator(".copy.skipped").first).to_be_visible()
    expect(tab.stage.locator(".main")).to_contain_text("✗")
    shoot(tab, "copy-stopped")


def test_focus_and_pointer_are_seen(open_app: Open) -> None:
    tab = open_app()
    tab.stage.locator("[data-do=first]").focus()
    tab.page.keyboard.press("Tab")
    focused = tab.stage.locator("[data-do=back]")
    expect(focused).to_be_focused()
    assert focused.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    tab.stage.locator(".lane .bk").nth(2).hover()
    shoot(tab, "focus-and-hover")
