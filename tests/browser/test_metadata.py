"""The Metadata page in a real browser: cells are edited, fields point to blocks and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from mambaviz.batch import BATCHES, DEFAULT_BATCH
from mambaviz.batch_record import recorded
from mambaviz.pages.batch_editor import ROW_HEIGHT
from mambaviz.viz.batch import words
from tests.browser.tab import Tab

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
LAPTOP, PROJECTOR = (1440, 900), (1280, 720)
SLOW = 40_000  # ms: importing torch on a small machine
HEAD_HEIGHT = 35  # of the editor's table

expect.set_options(timeout=SLOW)

pytestmark = pytest.mark.timeout(600)


class Metadata(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "metadata"
    slow = SLOW

    def open(self, query: str = "") -> Metadata:
        self.page.goto(f"{self.url}/metadata{query}")
        expect(self.headline).not_to_be_empty()
        expect(self.page.locator(".fields")).to_be_visible()
        return self

    @property
    def headline(self) -> Locator:
        return self.page.locator(".mv-say h1")

    @property
    def error(self) -> Locator:
        return self.page.locator(".st-key-messages").get_by_test_id("stAlertContentError")

    def value(self, field: str) -> Locator:
        return self.page.locator(f".value [data-field={field}]")

    def name(self, field: str) -> Locator:
        return self.page.locator(f".name[data-field={field}]")

    def ringed(self) -> list[str]:
        marks = self.page.locator('[data-mark^="cell-"].pointed')
        return [mark.get_attribute("data-mark") or "" for mark in marks.all()]

    def edit(self, column_x: float, row: int, text: str) -> None:
        """Type into a cell of the table, which is drawn on a canvas."""
        table = self.page.get_by_test_id("stDataFrame")
        expect(table).to_be_visible()
        y = HEAD_HEIGHT + (row + 0.5) * ROW_HEIGHT
        self.page.wait_for_timeout(1000)  # the canvas takes the focus when it has been laid out
        table.click(position={"x": column_x, "y": y})
        self.page.wait_for_timeout(300)
        self.page.keyboard.type(text)
        self.page.wait_for_timeout(300)
        self.page.keyboard.press("Enter")

    def shoot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


COMPUTED, QUERY = 120.0, 210.0  # x in the table's columns


@pytest.fixture
def tab(browser: Browser, app_url: str) -> Iterator[Metadata]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    found = Metadata(context.new_page(), app_url)
    yield found
    context.close()
    assert found.complaints == []


def test_every_preset_opens(tab: Metadata) -> None:
    tab.open()
    for slug, batch in BATCHES.items():
        tab.sidebar.get_by_label("Batch", exact=False).first.click()
        tab.page.get_by_role("option", name=batch.name, exact=True).click()
        expect(tab.headline).to_have_text(words.headline(recorded(slug)))
        expect(tab.value("num_reqs")).to_have_text(str(len(recorded(slug).rows)))
        if slug != DEFAULT_BATCH:
            expect(tab.page).to_have_url(re.compile(f"batch={slug}"))


def test_an_edited_cell_updates_the_tensors_and_the_link(tab: Metadata) -> None:
    tab.open()
    expect(tab.value("cu_chunk_seqlen_p")).to_have_text("[0, 4, 12, 16, 24, 25]")
    tab.edit(COMPUTED, 3, "9")  # D now stands inside its second chunk
    expect(tab.value("cu_chunk_seqlen_p")).to_have_text("[0, 4, 12, 16, 24, 25]")
    expect(tab.value("seq_lens")).to_have_text("[33, 12, 33, 13, 12, 25]")
    expect(tab.page).to_have_url(re.compile(r"rows=[\w-]+"))
    expect(tab.page.locator('[data-mark="state-0"]')).to_have_text("h(13)")
    link = tab.page.url
    tab.page.goto(link)
    expect(tab.value("seq_lens")).to_have_text("[33, 12, 33, 13, 12, 25]")


def test_a_bad_cell_gets_its_sentence_and_nothing_is_lost(tab: Metadata) -> None:
    tab.open()
    tab.edit(QUERY, 0, "5")
    expect(tab.error).to_contain_text("Row 0 (A), query = 5: with 2 drafts it must be 3")
    expect(tab.error).to_contain_text("What you see is the batch before.")
    expect(tab.value("seq_lens")).to_have_text("[33, 12, 33, 16, 12, 25]")
    tab.edit(QUERY, 0, "3")
    expect(tab.error).to_have_count(0)


def test_a_field_rings_its_blocks_and_a_block_marks_the_numbers_that_name_it(
    tab: Metadata,
) -> None:
    tab.open()
    decodes = [f"cell-0-{c}" for c in (2, 3, 4)] + [f"cell-1-{c}" for c in (0, 1, 2)]
    assert tab.ringed() == decodes + [f"cell-2-{c}" for c in (2, 3, 4)]
    tab.name("state_indices_tensor_p").hover()
    assert tab.ringed() == ["cell-3-0", "cell-4-0", "cell-5-1"]
    expect(tab.page.locator("[data-detail=state_indices_tensor_p]")).to_be_visible()
    tab.value("state_indices_tensor_p").locator("[data-cell=cell-5-1]").hover()
    assert tab.ringed() == ["cell-5-1"]
    expect(tab.page.locator("[data-row-words='5']")).to_contain_text("block 21")
    tab.page.locator('[data-mark="cell-0-3"]').hover()
    pointed = tab.page.locator(".value .pointed")
    expect(pointed).to_have_count(1)
    expect(pointed).to_have_text("7")
    tab.headline.hover()
    assert len(tab.ringed()) == 9, "what was chosen is pointed at again"


def test_fields_are_chosen_with_the_keyboard(tab: Metadata) -> None:
    tab.open("?batch=all-mode-columns")
    name = tab.name("block_idx_first_scheduled_token_p")
    name.focus()
    tab.page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-pressed", "true")
    tab.page.keyboard.press("Tab")
    tab.page.evaluate("document.activeElement?.blur()")
    tab.headline.hover()
    assert tab.ringed() == ["cell-1-1", "cell-2-0"]


def test_the_ring_turns(tab: Metadata) -> None:
    tab.open("?batch=replayssm")
    slider = tab.page.locator(".turn input")
    expect(tab.page.locator(".dial.now")).to_contain_text("10")
    slider.focus()
    for _ in range(2):
        tab.page.keyboard.press("ArrowRight")
    expect(tab.page.locator(".dial.now")).to_contain_text("h(13)")
    expect(tab.page.locator('[data-mark="step-0-2"]')).to_have_class(re.compile("now"))


def test_the_step_of_the_watch_page_goes_along(tab: Metadata) -> None:
    tab.page.goto(f"{tab.url}/?step=1&phase=forward")
    expect(tab.page.locator(".stage .say h1")).not_to_be_empty()
    tab.page.get_by_role("link", name="Metadata").click()
    tab.sidebar.get_by_role("button", name="Take from Watch, step 1").click()
    expect(tab.page.locator(".value [data-field=num_reqs]")).to_have_text("2")
    expect(tab.page).to_have_url(re.compile(r"step=1.*rows="))


def test_a_pasted_batch_that_is_none_is_said(tab: Metadata) -> None:
    tab.open()
    tab.sidebar.get_by_text("Paste").click()
    area = tab.page.get_by_label("A batch as JSON")
    area.fill('{"rows": []}')
    tab.page.get_by_role("button", name="Use it").click()
    said = tab.page.locator(".st-key-messages").get_by_text("What was pasted was not taken")
    expect(said).to_be_visible()
    expect(tab.value("num_reqs")).to_have_text("6")


def test_fits_the_screen(browser: Browser, app_url: str) -> None:
    """The smallest window; the picture is for looking at, the checks for what must hold."""
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Metadata(context.new_page(), app_url).open()
    expect(tab.sidebar).to_have_attribute("data-collapsed", "true")
    for slug in (DEFAULT_BATCH, "graph-padding", "replayssm", "all-mode-with-drafts"):
        tab.open(f"?batch={slug}")
        tab.page.wait_for_timeout(1200)  # folding comes to rest
        tab.shoot(f"metadata-{slug}-{width}x{height}")
        across = tab.page.evaluate("document.documentElement.scrollWidth")
        assert across <= width
    assert tab.complaints == []
    context.close()
