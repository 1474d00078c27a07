"""The Kernels page in a real browser: cells are edited, programs are picked, kernels are broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from mambaviz.launches.inputs import DEFAULT_LAUNCH, LAUNCHES
from mambaviz.launches.record import recorded
from mambaviz.pages.launch_editor import ROW_HEIGHT
from mambaviz.viz.kernels import words
from tests.browser.tab import Tab

ARTIFACTS = Path(__file__).resolve().parents[2] / ".artifacts"
LAPTOP, PROJECTOR = (1440, 900), (1280, 720)
SLOW = 40_000  # ms: importing torch on a small machine
HEAD_HEIGHT = 35  # of the editor's table

pytestmark = pytest.mark.timeout(600)


class Kernels(Tab):
    """One tab with the page open in it, and what its console complained about."""

    path = "kernels"
    slow = SLOW

    def open(self, query: str = "") -> Kernels:
        self.page.goto(f"{self.url}/kernels{query}")
        expect(self.page.locator(".grid")).to_be_visible(timeout=SLOW)
        expect(self.page.locator("table.code")).to_be_visible(timeout=SLOW)
        return self

    @property
    def headline(self) -> Locator:
        return self.page.locator(".mv-say h1")

    @property
    def title(self) -> Locator:
        return self.page.locator(".decision h3 > [data-for]:not([hidden])")

    def program(self, key: str) -> Locator:
        return self.page.locator(f'[data-program="{key}"]')

    def value(self, code: str) -> Locator:
        """The value beside the line of the source that begins so."""
        begins = re.compile(rf"^\d+{re.escape(code)}")
        line = self.page.locator("table.code tr").filter(has_text=begins)
        return line.first.locator("td").last

    def edit(self, column_x: float, row: int, text: str) -> None:
        """Type into a cell of the table, which is drawn on a canvas; the note above it hears.

        A canvas that is laid out anew meanwhile loses the typing: then once more.
        """
        table = self.page.get_by_test_id("stDataFrame")
        expect(table).to_be_visible(timeout=SLOW)
        y = HEAD_HEIGHT + (row + 0.5) * ROW_HEIGHT
        note = self.page.locator(".mv-title small")
        before = note.inner_text()
        for _ in range(5):
            self.page.wait_for_timeout(1500)  # the canvas takes the focus when it has been laid out
            table.click(position={"x": column_x, "y": y})
            self.page.wait_for_timeout(400)
            self.page.keyboard.type(text)
            self.page.wait_for_timeout(400)
            self.page.keyboard.press("Enter")
            self.page.wait_for_timeout(2500)
            if note.inner_text() != before:
                return

    def shoot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


ACCEPTED = 350.0  # x in the table's columns


@pytest.fixture
def tab(browser: Browser, app_url: str) -> Iterator[Kernels]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    found = Kernels(context.new_page(), app_url)
    yield found
    context.close()
    assert found.complaints == []


def test_a_program_is_picked_by_click_and_by_key(tab: Kernels) -> None:
    tab.open()
    expect(tab.headline).to_have_text(words.headline(recorded(DEFAULT_LAUNCH)), timeout=SLOW)
    expect(tab.title).to_have_text("Request B, layer 0, conv")
    expect(tab.value("bias = aligned - running")).to_have_text("12 − 10 = 2")
    tab.program("0-1").click()
    expect(tab.title).to_have_text("Request A, layer 0, temporal")
    expect(tab.value("bias = aligned - running")).to_have_text("8 − 7 = 1")
    expect(tab.page.locator(".bytes [data-for='0-1']").last).to_be_visible()
    expect(tab.page).to_have_url(re.compile("program=0-1"), timeout=SLOW)
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.page.keyboard.press(key)
    expect(tab.title).to_have_text("Request C, layer 1, conv")
    expect(tab.program("2-2")).to_be_focused()
    expect(tab.value("if (new >= 0) & (aligned >= running):")).to_have_text("12 < 14: ends")
    expect(tab.page.locator("table.code tr.stop")).to_have_count(1)
    expect(tab.page).to_have_url(re.compile("program=2-2"), timeout=SLOW)
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    expect(tab.title).to_have_text("Request C, layer 1, temporal")  # at the edge it stays
    tab.page.goto(tab.page.url)
    expect(tab.title).to_have_text(re.compile("Request C, layer 1"), timeout=SLOW)


def test_folded_lines_come_out(tab: Kernels) -> None:
    tab.open()
    folded = tab.page.locator("table.code tr.folded").first
    expect(folded).to_be_hidden()
    tab.page.locator(".whole input").check()
    expect(folded).to_be_visible()


def test_an_edited_cell_is_launched(tab: Kernels) -> None:
    tab.open()
    tab.edit(ACCEPTED, 0, "1")  # A keeps one token only, and reaches no boundary
    note = tab.page.locator(".mv-title small")
    expect(note).to_have_text("accepted of A was 2, now 1: not launched yet", timeout=SLOW)
    expect(tab.program("0-0")).to_have_text("3 → 2")
    tab.sidebar.get_by_role("button", name="Launch", exact=True).click()
    expect(tab.program("0-0")).to_have_text("nothing to do", timeout=SLOW)
    expect(tab.headline).to_have_text(re.compile("^24 programs: 8 moved bytes"))
    expect(tab.page).to_have_url(re.compile(r"inputs=[\w-]+"))
    tab.page.goto(tab.page.url)
    expect(tab.program("0-0")).to_have_text("nothing to do", timeout=SLOW)


def test_a_mistake_shows_its_damage_and_goes_again(tab: Kernels) -> None:
    tab.open("?program=1-0")
    switch = tab.sidebar.get_by_text("unordered shift")
    switch.click()
    expect(tab.headline).to_have_text(re.compile("^Built wrong"), timeout=SLOW)
    expect(tab.page.locator(".damage .lamp").first).to_have_text("I1")
    expect(tab.program("1-0")).to_have_class(re.compile("hurt"))
    expect(tab.title).to_have_text("Request B, layer 0, conv")
    hurt = tab.page.locator(".bytes [data-for='1-0'] .byte-cell.hurt")
    expect(hurt).to_have_count(1)
    expect(hurt).to_contain_text("t11")
    switch.click()
    expect(tab.page.locator(".damage")).to_have_count(0, timeout=SLOW)


def test_the_fast_kernel_moves_the_same_bytes(tab: Kernels) -> None:
    tab.open()
    tab.page.get_by_role("button", name="fast").click()
    shown = tab.page.locator("table.code").get_by_text("def postprocess_mamba_pieces_kernel(")
    expect(shown).to_be_visible(timeout=SLOW)
    expect(tab.headline).to_have_text(words.headline(recorded(DEFAULT_LAUNCH)))
    expect(tab.page).to_have_url(re.compile("path=fast"))
    tab.page.get_by_role("button", name="readable").click()
    shown = tab.page.locator("table.code").get_by_text("def postprocess_mamba_fused_kernel(")
    expect(shown).to_be_visible(timeout=SLOW)


def test_the_step_of_the_watch_page_goes_along(tab: Kernels) -> None:
    tab.page.goto(f"{tab.url}/?step=2&phase=post-copy")
    expect(tab.page.locator(".stage .say h1")).not_to_be_empty(timeout=SLOW)
    tab.page.get_by_role("link", name="Kernels").click()
    tab.sidebar.get_by_role("button", name="Take from Watch, step 2").click()
    expect(tab.headline).to_have_text("8 programs: 8 moved bytes.", timeout=SLOW)
    tab.page.get_by_role("link", name="Watch").click()
    expect(tab.page.locator(".stage .say h1")).not_to_be_empty(timeout=SLOW)
    tab.page.keyboard.press("ArrowRight")  # the grid that is gone listens no more


def test_fits_the_screen(browser: Browser, app_url: str) -> None:
    """The smallest window; the picture is for looking at, the checks for what must hold."""
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Kernels(context.new_page(), app_url).open()
    expect(tab.sidebar).to_have_attribute("data-collapsed", "true", timeout=SLOW)
    for slug in (DEFAULT_LAUNCH, "shift-in-place-ds", "which-column-next"):
        tab.open(f"?launch={slug}" if slug != DEFAULT_LAUNCH else "")
        expect(tab.headline).to_have_text(words.headline(recorded(slug)), timeout=SLOW)
        tab.page.wait_for_timeout(1500)  # folding comes to rest
        tab.shoot(f"kernels-{slug}-{width}x{height}")
        across = tab.page.evaluate("document.documentElement.scrollWidth")
        assert across <= width
        for picture in tab.page.locator(".picture:visible, .wide:visible").all():
            fits = picture.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
            assert fits, picture.inner_text()[:60]
    assert tab.complaints == []
    context.close()


def test_every_preset_is_in_the_list(tab: Kernels) -> None:
    tab.open()
    tab.page.locator(".st-key-launch-preset input").click()
    for preset in LAUNCHES.values():
        if preset.kernel == "postprocess":
            expect(tab.page.get_by_role("option", name=preset.name, exact=True)).to_be_visible()
