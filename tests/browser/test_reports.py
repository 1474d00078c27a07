"""The Reports page in a real browser: predict, reveal, step, flip, go to the Watch page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.tab import Tab

LAPTOP = (1440, 900)
SLOW = 40_000  # ms: a small machine

pytestmark = pytest.mark.timeout(600)


class Museum(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "reports"
    slow = SLOW

    def open(self, query: str = "") -> Museum:
        self.page.goto(f"{self.url}/reports{query}")
        expect(self.headline).to_have_text(re.compile("^S"), timeout=SLOW)
        return self

    def find(self, selector: str) -> Locator:
        return self.page.locator(f".museum {selector}")

    @property
    def headline(self) -> Locator:
        return self.find(".about h1")

    @property
    def where(self) -> Locator:
        return self.find(".where")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@pytest.fixture
def tab(browser: Browser, app_url: str) -> Iterator[Museum]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    found = Museum(context.new_page(), app_url)
    yield found
    context.close()
    assert found.complaints == []


def test_a_guess_uncovers_the_fault_and_the_keys_walk_through_it(tab: Museum) -> None:
    tab.open()
    expect(tab.headline).to_have_text("S03: A shift inside one block is a race, not a memmove.")
    expect(tab.find(".pair")).to_be_hidden()
    expect(tab.find(".rest")).to_be_hidden()
    expect(tab.find(".context")).to_be_visible()
    tab.press("f")  # nothing to flip yet
    tab.find(".choice").nth(0).click()  # what the fix gives
    expect(tab.find(".pair")).to_be_visible()
    expect(tab.find(".choice.missed")).to_have_text("t5 t6 t7 t6 t7")
    expect(tab.find(".choice.right")).to_have_text("t7 t6 t7 t6 t7")
    expect(tab.find(".because")).to_have_text(re.compile("^Not so. tokens in them: t7 t6"))
    expect(tab.find(".score")).to_have_text("0 of 1 predicted right", timeout=SLOW)
    expect(tab.page).to_have_url(re.compile("revealed=yes"), timeout=SLOW)

    fault = tab.find(".fault .picture")
    expect(fault.locator(".circled")).to_have_count(1)
    expect(fault).to_contain_text("row 0, channel 0: 8, not 6")
    expect(tab.find(".fix .picture .circled")).to_have_count(0)
    expect(tab.find(".fault .lamp.bad")).to_have_text(["I1", "I2", "I3"])
    tab.press("f")
    expect(fault).not_to_contain_text("first wrong cell")
    expect(tab.find(".fault h3")).to_contain_text("With the fix, in its place")
    tab.press("f")
    expect(fault).to_contain_text("first wrong cell")

    tab.press("ArrowLeft")
    expect(tab.where).to_have_text("step 1, accept: A computed 5, scheduled 3, accepted 3")
    expect(fault.locator(".circled")).to_have_count(0)
    tab.press("Shift+ArrowRight", "ArrowRight")
    expect(tab.where).to_have_text(re.compile("^step 2, post-copy"))
    tab.press("Home")
    expect(tab.where).to_have_text(re.compile("^step 0, schedule"))
    tab.press("d")
    expect(tab.where).to_have_text(re.compile("^step 1, post-copy"))
    tab.press("Shift+ArrowRight")
    expect(tab.page).to_have_url(re.compile("report-step=2&report-phase=post-copy"), timeout=SLOW)

    tab.page.get_by_role("button", name="Open on Watch").click()
    expect(tab.page.locator(".stage .say h1")).to_be_visible(timeout=SLOW)
    expect(tab.page).to_have_url(re.compile("step=2&phase=post-copy"), timeout=SLOW)


def test_a_link_opens_what_was_shown_and_the_list_another(tab: Museum) -> None:
    tab.open("?report=S11&report-step=2&report-phase=pre-copy&revealed=yes&theme=dark")
    expect(tab.where).to_have_text("step 2, pre-copy: C computed 7, scheduled 3, accepted 2")
    expect(tab.page.locator(".stage.museum")).to_have_attribute("data-theme", "dark")
    expect(tab.find(".pair")).to_be_visible()
    expect(tab.find(".score")).to_have_text("")
    link = tab.find(".from a").first
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer")

    tab.page.get_by_test_id("stSidebar").get_by_text("table too narrow").click()
    expect(tab.headline).to_have_text(re.compile("^S33: "), timeout=SLOW)
    expect(tab.find(".both")).to_be_hidden()
    expect(tab.find(".pair")).to_be_hidden()  # a report of its own is to be predicted
    tab.press("4")
    expect(tab.find(".choice.right")).to_have_text("17")
    expect(tab.find(".fault")).to_contain_text("17 ✗")
    expect(tab.find(".along")).to_contain_text("Why there is no run: ")
    expect(tab.find(".score")).to_have_text("1 of 1 predicted right", timeout=SLOW)

    tab.page.get_by_test_id("stSidebar").get_by_text("prompt an exact multiple").click()
    expect(tab.headline).to_have_text(re.compile("^S09: "), timeout=SLOW)
    tab.press("s")
    expect(tab.find(".pair .lists")).to_have_count(2)
    expect(tab.find(".fault .caption")).to_have_text("stop_before_last_token: false")
    expect(tab.find(".output p")).to_contain_text("none comes out wrong")
