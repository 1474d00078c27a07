"""The Learn page in a real browser, by keyboard alone: tour, question, score, and back by link."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.tab import Tab

PROJECTOR = (1280, 720)
SLOW = 120_000  # ms: torch has to be loaded for the first question, on a small machine

pytestmark = pytest.mark.timeout(600)


class Learner(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "learn"
    slow = SLOW

    def open(self, query: str = "") -> Learner:
        self.page.goto(f"{self.url}/learn{query}")
        expect(self.headline).not_to_be_empty(timeout=SLOW)
        return self

    def find(self, selector: str) -> Locator:
        return self.page.locator(f".learn {selector}")

    @property
    def headline(self) -> Locator:
        return self.find(".head h1")

    @property
    def moment(self) -> Locator:
        return self.find(".moment")

    @property
    def answer(self) -> Locator:
        return self.find(".answer")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def at(self, pattern: str) -> None:
        expect(self.page).to_have_url(re.compile(pattern), timeout=SLOW)


@pytest.fixture
def tab(browser: Browser, app_url: str) -> Iterator[Learner]:
    """The page on a projector, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": PROJECTOR[0], "height": PROJECTOR[1]})
    found = Learner(context.new_page(), app_url)
    yield found
    context.close()
    assert found.complaints == []


def test_tour_and_question_by_keyboard_and_back_by_link(tab: Learner) -> None:
    tab.open("?backend=reference")
    expect(tab.headline).to_have_text("One block holds the whole past")
    expect(tab.moment).to_have_text("on show: request A, step 1, metadata")
    lanes = tab.find(".lane-picture")
    expect(lanes).to_contain_text("h(3)")
    expect(tab.answer).to_contain_text("First say what you expect")
    tab.press("Space")
    expect(lanes).to_contain_text("h(4)")
    expect(tab.answer).to_contain_text("h(4), in the same bytes")
    tab.press("ArrowLeft")  # the movement taken back, and once more
    expect(lanes).to_contain_text("h(3)")
    tab.press("Space", "ArrowRight")
    expect(tab.headline).to_have_text("Beside it, the conv window")

    tab.press("End", "ArrowLeft")  # another run comes when it is needed
    expect(tab.headline).to_have_text("A mistake turns a lamp red")
    expect(lanes).to_contain_text("[t5 t6 t7] @2", timeout=SLOW)
    expect(tab.find(".lamp.bad")).to_have_count(0)
    tab.press("Space")
    expect(tab.find(".lamp.bad")).to_have_text(["I2", "I3"], timeout=SLOW)
    expect(tab.answer).to_contain_text("t7 t6 t7")
    tab.at(r"stop=fault&moved=yes&seen=block\.window\.fault\.own")
    heights = "[document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
    assert tab.page.evaluate(heights) == [PROJECTOR[1], PROJECTOR[0]]

    tab.press("q")
    choices = tab.find(".choice")
    expect(choices.first).to_be_visible(timeout=SLOW)
    tab.at(r"topic=mixed&seed=\d+")
    before = tab.moment.inner_text()
    expect(tab.answer).to_contain_text("the moment before")
    tab.press("Space")  # nothing to go on to before an answer
    expect(tab.answer).to_contain_text("the moment before")
    tab.press("b")
    expect(tab.find(".verdict")).to_have_text(re.compile(r"^(Right: |Not so: you said )"))
    expect(tab.find(".choice.right")).to_have_count(1)
    expect(tab.moment).not_to_have_text(before)
    expect(tab.find(".score")).to_have_text(re.compile(r"^Score: [01] of 1 right"), timeout=SLOW)
    tab.press("a")  # too late
    tab.at(r"chosen=b&score=\w+\.[01]\.1")
    link = "?" + tab.page.url.partition("?")[2]
    seen = [tab.find(part).inner_text() for part in (".asks", ".answer", ".score", ".moment")]

    tab.press("n")
    expect(tab.answer).to_contain_text("the moment before", timeout=SLOW)
    expect(tab.page).not_to_have_url(re.compile("chosen"))
    tab.press("t")
    expect(tab.headline).to_have_text("A mistake turns a lamp red", timeout=SLOW)

    tab.open(link)
    expect(tab.find(".verdict")).to_be_visible(timeout=SLOW)
    again = [tab.find(part).inner_text() for part in (".asks", ".answer", ".score", ".moment")]
    assert again == seen
    tab.press("w")
    expect(tab.page.locator(".stage .overview")).to_be_visible(timeout=SLOW)
    tab.at(r"/\?.*run=")
