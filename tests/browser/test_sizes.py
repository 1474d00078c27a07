"""The Sizes page in a real browser: pasted, set, opened, linked, run small. And the About page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from mambaviz.sizes.models import DEFAULT_MODEL, MODELS
from tests.browser.tab import Tab

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
LAPTOP, PROJECTOR = (1440, 900), (1280, 720)
SLOW = 90_000  # ms: a small machine, which imports torch for the small run

expect.set_options(timeout=SLOW)

pytestmark = pytest.mark.timeout(600)


class Sizes(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "sizes"
    slow = SLOW

    def open(self, query: str = "") -> Sizes:
        self.page.goto(f"{self.url}/sizes{query}")
        expect(self.headline).not_to_be_empty()
        expect(self.page.locator(".js-plotly-plot")).to_have_count(3)
        return self

    @property
    def headline(self) -> Locator:
        return self.page.locator(".mv-say h1")

    def row(self, key: str) -> Locator:
        return self.page.locator(f"#size-{key}")

    def set(self, label: str, value: str) -> None:
        self.rest()
        field = self.sidebar.get_by_label(label, exact=True)
        field.fill(value)
        field.press("Enter")

    def rest(self) -> None:
        """Wait until no run of the page is under way: it would put a widget back."""
        app = self.page.get_by_test_id("stApp")
        expect(app).to_have_attribute("data-test-script-state", "notRunning")
        self.page.wait_for_timeout(1000)
        expect(app).to_have_attribute("data-test-script-state", "notRunning")

    def paste(self, text: str) -> None:
        self.rest()
        self.sidebar.get_by_text("Paste a config.json").click()
        self.page.get_by_label("A model’s config.json, as it is").fill(text)
        self.page.get_by_role("button", name="Use it").click()

    def shoot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


@pytest.fixture
def tab(browser: Browser, app_url: str) -> Iterator[Sizes]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    found = Sizes(context.new_page(), app_url)
    yield found
    context.close()
    assert found.complaints == []


def test_a_number_opens_to_its_rule_and_source(tab: Sizes) -> None:
    tab.open()
    row = tab.row("attention_block_size")
    expect(row.locator("b")).to_have_text("784 tokens")
    expect(row.locator("code")).to_have_text("16 × ⌈3,207,168 / (16 × 4,096)⌉")
    expect(row.locator("p")).to_be_hidden()
    row.locator("summary").click()
    expect(row.locator("p")).to_contain_text("Raised until its page covers the state page")
    expect(row.locator("p")).to_contain_text("Source: vLLM 0.33.0")


def test_settings_change_numbers_and_the_link_brings_them_back(tab: Sizes) -> None:
    tab.open()
    tab.set("Drafts", "7")
    expect(tab.headline).to_contain_text("blocks of 832 tokens")
    tab.set("Block size", "816")
    expect(tab.headline).to_contain_text("blocks of 1,632 tokens")
    expect(tab.page).to_have_url(re.compile(r"sizes=num_spec.*block_size"))
    tab.page.goto(tab.page.url)
    expect(tab.headline).to_contain_text("blocks of 1,632 tokens")
    expect(tab.row("padding_percent").locator("b")).to_have_text("99.51 %")
    expect(tab.sidebar.get_by_label("Drafts", exact=True)).to_have_value("7")


def test_a_pasted_config_and_a_bad_one(tab: Sizes) -> None:
    tab.open()
    tab.paste(json.dumps({**MODELS["granite-4-0-h-small"].config, "name": "mine", "other": [1]}))
    expect(tab.headline).to_contain_text("mine: blocks of 528 tokens")
    expect(tab.page).to_have_url(re.compile(r"config=[\w-]+"))
    tab.page.keyboard.press("Escape")
    tab.page.reload()
    expect(tab.headline).to_contain_text("mine: blocks of 528 tokens")
    tab.paste('{"architectures": ["NewNet"]}')
    said = tab.page.locator(".st-key-messages")
    expect(said).to_contain_text("NewNet is no architecture whose rule is known")
    expect(tab.headline).to_contain_text("mine: blocks of 528 tokens")


def test_run_this_shape_small_opens_watch(tab: Sizes) -> None:
    tab.open()
    tab.rest()
    tab.sidebar.get_by_role("button", name="Run this shape small").click()
    expect(tab.page.locator(".stage .say h1")).not_to_be_empty()
    expect(tab.page).to_have_url(re.compile(r"run=[\w-]+"))
    story = tab.sidebar.locator(".mv-story")
    expect(story).to_contain_text("One token here stands for 196 of Qwen3.8-27B")


def test_table_and_json_are_saved(tab: Sizes) -> None:
    tab.open()
    with tab.page.expect_download() as table:
        tab.sidebar.get_by_role("button", name="Save table").click()
    assert table.value.suggested_filename == "sizes.csv"
    with tab.page.expect_download() as data:
        tab.sidebar.get_by_role("button", name="Save JSON").click()
    saved = json.loads(Path(data.value.path()).read_text())
    assert saved["sizes"]["attention_block_size"] == 784


def test_fits_the_screen(browser: Browser, app_url: str) -> None:
    """The smallest window; the picture is for looking at, the checks for what must hold."""
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Sizes(context.new_page(), app_url)
    for model in (DEFAULT_MODEL, "mamba2-2-7b", "lfm2-1-2b"):
        tab.open(f"?model={model}&sizes=num_spec:3,prompt:300")
        tab.page.wait_for_timeout(1500)  # folding comes to rest
        tab.shoot(f"sizes-{model}-{width}x{height}")
        across = tab.page.evaluate("document.documentElement.scrollWidth")
        assert across <= width
        paper = tab.page.locator(".js-plotly-plot .main-svg").first
        dark = "14, 17, 23" in (paper.get_attribute("style") or "")
        assert not dark, "charts follow the theme"
    assert tab.complaints == []
    context.close()


class About(Tab):
    path = "about"
    slow = SLOW


def test_about_a_word_is_linked_found_and_seen_on_its_page(browser: Browser, app_url: str) -> None:
    context = browser.new_context(viewport={"width": PROJECTOR[0], "height": PROJECTOR[1]})
    tab = About(context.new_page(), app_url)
    page = tab.page
    page.goto(f"{app_url}/about?term=speculative")
    current = page.locator(".glossary article[aria-current]")
    expect(current).to_have_attribute("data-term", "speculative")
    expect(current).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PROJECTOR[0]
    page.keyboard.press("/")
    page.keyboard.type("WINDOW rows")
    shown = page.locator(".glossary article:visible")
    expect(shown).to_have_count(2)  # window, bias
    page.keyboard.press("Escape")
    expect(page.locator(".glossary .count")).to_contain_text("words")
    page.get_by_role("link", name="migrate", exact=True).click()
    expect(page).to_have_url(re.compile(r"/about\?term=migrate$"))
    expect(current).to_have_attribute("data-term", "migrate")
    current.get_by_role("link", name="section 3.7").click()
    expect(page).to_have_url(re.compile(r"/about\?read=3\.7$"))
    expect(page.locator(".st-key-about-text")).to_contain_text("cleanup_mamba_state_idx")
    page.goto(f"{app_url}/about?term=migrate")
    current.get_by_role("link", name="Watch, step 3, pre-copy").click()
    expect(page.locator(".stage .say h1")).to_contain_text("its state moves on into")
    expect(page).to_have_url(re.compile(r"/\?step=3&phase=pre-copy"))
    assert tab.complaints == []
    context.close()
