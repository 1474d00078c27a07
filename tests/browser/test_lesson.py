"""The Watch page as a lesson: stops of a link in big type; links open elsewhere as they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_watch import PROJECTOR, Watch

pytestmark = pytest.mark.timeout(600)

TITLE = "Lesson 4 of 9: a new <b>running</b> block"
STOPS = "3.post-copy.A,4.pre-copy.A,4.post-copy.A,2.post-copy.B"


@pytest.fixture(params=["light", "dark"])
def lesson(browser: Browser, app_url: str, request: pytest.FixtureRequest) -> Iterator[Watch]:
    """A tab of a projector; its console must not complain."""
    context = browser.new_context(
        viewport={"width": PROJECTOR[0], "height": PROJECTOR[1]},
        color_scheme=request.param,
        reduced_motion="reduce",
    )
    tab = Watch(context.new_page(), app_url)
    yield tab
    context.close()
    assert tab.complaints == []


def query(**params: str) -> str:
    return "?" + urlencode(params)


def test_a_lesson_from_stop_to_stop(lesson: Watch) -> None:
    lesson.open(query(lesson=TITLE, stops=STOPS, step="4", phase="pre-copy", request="A"))
    page = lesson.page
    expect(lesson.headline).to_have_text("A outgrows block 3, so its state moves on into block 7.")
    expect(page.locator(".title span")).to_have_text(TITLE)
    assert page.locator(".title b").count() == 0
    expect(page.locator(".where span")).to_have_text("step 4, pre-copy")
    expect(page.locator(".progress")).to_have_attribute("aria-valuetext", "stop 2 of 4")
    expect(lesson.sidebar).to_be_hidden()
    expect(page.get_by_test_id("stHeader")).to_be_hidden()
    for text in ("conv, rows slide by 2", "temporal, from column 2 + 2", "bias 2", "was h(10)"):
        expect(page.locator(".lesson").get_by_text(text, exact=True)).to_be_visible()
    assert lesson.headline.evaluate("node => getComputedStyle(node).fontSize") == "31px"
    assert page.locator(".say p").evaluate("node => getComputedStyle(node).fontSize") == "20px"
    room = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert room == list(PROJECTOR), "a projector shows it without scrolling"
    legend = page.locator(".lesson .legend").bounding_box()
    assert legend is not None
    assert legend["y"] + legend["height"] <= PROJECTOR[1]
    lesson.shoot(f"lesson-migrate-{page.get_attribute('.stage', 'data-theme')}")

    page.keyboard.press("Space")
    expect(page.locator(".where span")).to_have_text("step 4, post-copy")
    lesson.at(r"step=4&phase=post-copy")
    page.get_by_role("button", name="Continue").click()
    expect(lesson.headline).to_contain_text("B’s accepted tokens fill")
    expect(page.get_by_role("button", name="Continue")).to_be_disabled()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".where span")).to_have_text("step 4, post-copy")
    page.get_by_role("button", name="Back").click()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("button", name="Back")).to_be_disabled()
    page.keyboard.press("End")
    expect(page.locator(".where span")).to_have_text("step 2, post-copy")
    lesson.at(r"step=2&phase=post-copy&request=B")
    page.get_by_role("button", name="open the whole page").click()
    expect(page.locator(".stage .overview")).to_be_visible()
    expect(page.locator(".lesson")).to_have_count(0)
    expect(lesson.headline).to_contain_text("B’s accepted tokens fill")
    expect(page).not_to_have_url(re.compile("stops="))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"layer": "99"}, "There is no layer 99"),
        ({"request": "nope"}, "There is no request “nope”"),
        ({"foo": "1"}, "a parameter “foo”"),
        ({"stops": "4.lunch"}, "stop “4.lunch”"),
        ({"stops": "99.accept"}, "none of the stops"),
        ({"stops": "4.pre-copy,99.accept"}, "no stop at step 99"),
        ({"lesson": "x" * 200}, "200 characters"),
    ],
)
def test_what_is_wrong_with_a_link_is_said(
    browser: Browser, app_url: str, asked: dict[str, str], says: str
) -> None:
    context = browser.new_context(viewport={"width": PROJECTOR[0], "height": PROJECTOR[1]})
    tab = Watch(context.new_page(), app_url)
    tab.open(query(**asked))
    expect(tab.page.get_by_text(says)).to_be_visible()
    expect(tab.headline).not_to_be_empty()
    expect(tab.page).not_to_have_url(re.compile("foo="))
    context.close()
    assert tab.complaints == []


def texts(tab: Watch) -> list[str]:
    found = tab.page.locator(".stage svg text").all_text_contents()
    return [
        tab.headline.inner_text(),
        *sorted(found),
    ]  # marks that stay keep their place in the DOM


@pytest.mark.parametrize(
    "asked",
    [
        {"step": "4", "phase": "pre-copy", "request": "B", "layer": "1"},
        {"stops": STOPS, "lesson": TITLE, "step": "2", "phase": "post-copy", "request": "B"},
    ],
)
def test_a_link_opened_elsewhere_shows_the_same_picture(
    browser: Browser, app_url: str, asked: dict[str, str]
) -> None:
    """Stepped to in one browser, opened by its address in another."""
    seen = []
    link = query(**asked)
    for step_first in (True, False):
        context = browser.new_context(
            viewport={"width": PROJECTOR[0], "height": PROJECTOR[1]}, reduced_motion="reduce"
        )
        tab = Watch(context.new_page(), app_url)
        tab.open(link)
        if step_first:
            tab.page.keyboard.press("ArrowLeft")
            expect(tab.page).not_to_have_url(re.compile(re.escape(link) + "$"))
            link = "?" + tab.page.url.partition("?")[2]
        seen.append(texts(tab))
        context.close()
        assert tab.complaints == []
    assert seen[0] == seen[1]
    assert len(seen[0]) > 20
