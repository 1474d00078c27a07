"""The Compare page in a real browser: runs side by side, stepped together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.tab import Tab

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
LAPTOP, PROJECTOR = (1440, 900), (1280, 720)
SLOW = 30_000  # ms: importing torch and interpreting kernels on a small machine

expect.set_options(timeout=SLOW)

pytestmark = pytest.mark.timeout(600)


class Compare(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "compare"
    slow = SLOW

    def open(self, query: str = "") -> Compare:
        self.page.goto(f"{self.url}/compare{query}")
        expect(self.headline).not_to_be_empty()
        return self

    @property
    def stage(self) -> Locator:
        return self.page.locator(".compare")

    @property
    def headline(self) -> Locator:
        return self.stage.locator(".say h1")

    @property
    def where(self) -> Locator:
        return self.stage.locator(".where b")

    def run(self, name: str) -> Locator:
        return self.stage.get_by_label(f"run {name}", exact=True)

    def at(self, pattern: str) -> None:
        expect(self.page).to_have_url(re.compile(pattern))


@pytest.fixture
def compare(browser: Browser, app_url: str) -> Iterator[Compare]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    tab = Compare(context.new_page(), app_url)
    yield tab
    context.close()
    assert tab.complaints == []


def test_opens_where_the_modes_differ_most(compare: Compare) -> None:
    compare.open()
    expect(compare.headline).to_have_text(
        "A2 asks with A’s first 10 tokens: align resumes after 8, all after 4, none starts over."
    )
    expect(compare.where).to_have_text("step 5")
    for name, numbers in {
        "none": ["9", "0", "10 of 10"],
        "align": ["12", "2\u202f944", "2 of 10"],
        "all": ["13", "0", "6 of 10"],
    }.items():
        expect(compare.run(name).locator("dd")).to_have_text(numbers)
        expect(compare.run(name).locator(".lamp")).to_have_text(["I1–I7"])
    expect(compare.stage.locator(".left")).to_contain_text("What A2 could find at step 5")
    expect(compare.stage.locator(".taken")).to_have_count(2)
    compare.at(r"/compare$")


def test_all_runs_step_together_in_one_node(compare: Compare) -> None:
    compare.open()
    node = compare.stage.element_handle()
    compare.page.keyboard.press("ArrowLeft")
    expect(compare.where).to_have_text("step 4")
    compare.at(r"at=4")
    compare.page.keyboard.press("Shift+ArrowRight")
    compare.at(r"at=4&after=accept")
    compare.page.keyboard.press("Home")
    expect(compare.where).to_have_text("step 0")
    compare.page.keyboard.press("End")
    expect(compare.where).to_have_text("step 7")
    compare.stage.get_by_role("button", name="step 3", exact=True).click()
    compare.at(r"at=3&after=accept")
    expect(compare.run("align").locator("dd").nth(1)).to_have_text("1\u202f632")
    compare.stage.locator('[data-do="play"]').click()
    expect(compare.where).to_have_text("step 7")
    assert node is not None
    assert node.evaluate("node => node.isConnected"), "it was mounted anew"


def test_locked_to_a_token_the_steps_drift_apart(compare: Compare) -> None:
    compare.open()
    compare.sidebar.get_by_label("Locked to").click()
    compare.page.get_by_role("option", name="the same token of A", exact=True).click()
    compare.at(r"\?lock=A$")
    expect(compare.stage.locator(".moment").first).to_have_attribute(
        "aria-label", "tokens 0–3 of A"
    )
    compare.headline.click()  # keys belong to the list as long as it has the focus
    compare.page.keyboard.press("Home")
    compare.page.keyboard.press("ArrowRight")
    expect(compare.where).to_have_text("tokens 4–5 of A")
    compare.at(r"lock=A&at=4")
    # none has computed the whole prompt in step 0, align needs step 1 for it.
    rows = compare.stage.locator(".left table td")
    expect(rows.nth(1)).to_have_text("0 → 6")
    expect(rows.nth(2)).to_have_text("4 → 6")


def test_the_first_difference_is_marked_and_one_click_away(compare: Compare) -> None:
    compare.open("?compare=accepted-count-not-reset&at=0")
    expect(compare.headline).to_have_text("Up to here the runs are the same.")
    expect(compare.stage.locator(".moment:has(.parts)")).to_have_attribute("aria-label", "step 3")
    compare.stage.locator('[data-do="parting"]').click()
    expect(compare.headline).to_have_text("Here the runs part, in pre-copy.")
    compare.at(r"at=3&after=pre-copy")
    faulty = compare.run("accepted-count-not-reset")
    expect(faulty.locator(".differs")).to_have_count(1)
    expect(faulty.locator(".differs")).not_to_have_css("display", "none")
    compare.page.keyboard.press("m")
    expect(faulty.locator(".differs")).to_have_css("display", "none")
    compare.at(r"marks=off")
    compare.page.keyboard.press("Shift+ArrowRight")
    compare.page.keyboard.press("Shift+ArrowRight")
    expect(compare.headline).to_have_text("I2 and I3 break in “accepted-count-not-reset”.")
    expect(faulty.locator(".lamp.bad")).to_have_text(["I2", "I3"])
    faulty.locator(".lamp.bad").first.click()
    expect(faulty.locator(".findings .bad")).to_have_count(2)
    expect(compare.run("no fault").locator(".lamp")).to_have_text(["I1–I7"])


def test_another_choice_is_computed(compare: Compare) -> None:
    compare.open("?compare=layout&backend=reference")
    expect(compare.sidebar).to_contain_text("live, reference")
    compare.sidebar.get_by_role("button", name="Change what differs").click()
    compare.page.get_by_test_id("stPopoverBody").get_by_role("button", name="Compare").click()
    expect(compare.run("all")).to_be_visible()
    expect(compare.sidebar).to_contain_text("live, reference")
    compare.at(r"backend=reference&runs=[\w,%-]+")


def test_the_rest_of_a_run_with_another_accepted_count(compare: Compare) -> None:
    page = compare.page
    page.goto(f"{compare.url}/?step=3&phase=accept&backend=reference")
    expect(page.locator(".mv-foot")).to_contain_text("live")
    page.get_by_role("button", name="Change the accepted count").click()
    drawer = page.get_by_test_id("stDialog")
    expect(drawer.get_by_label("Verification")).to_have_value("step 3, A: keeps 2 of 2")
    expect(drawer.get_by_role("button", name="Compare with the original")).to_be_disabled()
    drawer.get_by_role("slider").press("ArrowLeft")
    expect(drawer.get_by_text("1 + 1 = 2")).to_be_visible()
    drawer.get_by_role("button", name="Compare with the original").click()
    expect(compare.headline).to_have_text("Here the runs part, in accept.")
    expect(compare.run("A keeps 1 at step 3")).to_be_visible()
    expect(compare.run("original")).to_be_visible()


def test_an_edited_block_id_and_what_notices_it(compare: Compare) -> None:
    page = compare.page
    page.goto(f"{compare.url}/?step=3&phase=accept&backend=reference")
    expect(page.locator(".mv-foot")).to_contain_text("live")
    page.get_by_role("button", name="Edit a block id").click()
    drawer = page.get_by_test_id("stDialog")
    value = drawer.get_by_label("New value")
    expect(value).to_have_value("3")
    value.fill("12")
    value.press("Enter")
    drawer.get_by_role("button", name="Compare with the original").click()
    expect(compare.headline).to_contain_text(
        "in “block 12 in column 2 of A, step 3”", timeout=2 * SLOW
    )
    expect(compare.headline).to_contain_text("I2")


@pytest.mark.parametrize("which", ["cache-mode", "accepted-count-not-reset"])
def test_fits_the_screen(browser: Browser, app_url: str, which: str) -> None:
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Compare(context.new_page(), app_url).open(f"?compare={which}")
    expect(tab.page.locator(".stApp")).to_have_css("color-scheme", "light")
    expect(tab.stage).to_have_attribute("data-theme", "light")
    tab.page.wait_for_timeout(1500)
    ARTIFACTS.mkdir(exist_ok=True)
    tab.page.screenshot(path=ARTIFACTS / f"compare-{which}-{width}x{height}.png")
    box = tab.stage.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []
    context.close()
