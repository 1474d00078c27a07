"""The tabs below the stage in a real browser: life-lines, provenance, truth, copies, bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.test_watch import ARTIFACTS, LAPTOP, PROJECTOR, Watch

pytestmark = pytest.mark.timeout(600)

LONG = 90_000  # ms: three runs in processes of their own, one after the other


@pytest.fixture
def watch(browser: Browser, app_url: str) -> Iterator[Watch]:
    """The page at laptop size, in a fresh session; it must not complain."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    tab = Watch(context.new_page(), app_url)
    yield tab
    context.close()
    assert tab.complaints == []


def opened(watch: Watch, name: str) -> Locator:
    """The tab's panel, open."""
    watch.page.get_by_role("tab", name=name).click()
    panel = watch.page.get_by_role("tabpanel").and_(watch.page.locator(":visible"))
    expect(panel.locator(".tab")).not_to_be_empty()
    return panel


def choose(watch: Watch, panel: Locator, block: str) -> None:
    """Take a block from the list. A run of the page, such as the live run's coming, closes it."""
    expect(watch.foot).to_contain_text("live")
    option = watch.page.get_by_role("option", name=block).first
    for _ in range(5):
        panel.get_by_role("combobox").click()
        watch.page.wait_for_timeout(1500)
        if option.is_visible():
            break
    option.click()


def test_a_life_is_chosen_and_an_event_leads_the_stage_there(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    panel = opened(watch, "Block life-line")
    expect(panel.get_by_text("Block 3 R after post-copy of step 2")).to_be_visible()
    panel.locator('[data-mark="block:2"]').click()
    expect(panel.get_by_text("The life of block 2, event by event")).to_be_visible()
    panel.get_by_role("button", name="step 1, pre-copy").click()
    watch.at(r"step=1&phase=pre-copy")
    expect(panel.get_by_text("Block 2 R after pre-copy of step 1")).to_be_visible()
    expect(panel.locator("tr.now")).to_contain_text("MIGRATE")


def test_a_sign_in_the_picture_leads_there_too_and_the_stage_keeps_its_node(watch: Watch) -> None:
    watch.open("?step=0&phase=schedule")
    node = watch.stage.element_handle()
    panel = opened(watch, "Block life-line")
    panel.locator('[data-mark="go:4:post-copy:3"]').click()
    watch.at(r"step=4&phase=post-copy")
    expect(watch.headline).to_contain_text("is saved")
    assert node is not None
    assert node.evaluate("node => node.isConnected")


def test_a_block_is_chosen_by_the_keyboard_which_stays_there(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    panel = opened(watch, "Block life-line")
    block = panel.locator('[data-mark="block:7"]')
    block.focus()
    watch.page.keyboard.press("Enter")
    expect(panel.get_by_text("The life of block 7, event by event")).to_be_visible()
    expect(block).to_be_focused()
    watch.at(r"localhost:\d+/\?(step=2&phase=post-copy&)?tab=life-line$")


def test_provenance_follows_the_stage_and_the_chosen_block(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    panel = opened(watch, "Provenance")
    expect(panel.get_by_text("Temporal state h(7): tokens 0–6 of A")).to_be_visible()
    choose(watch, panel, "2 C: cached, A column 1")
    expect(panel.get_by_text("Temporal state h(8): tokens 0–7 of A")).to_be_visible()
    expect(panel.get_by_text("every cell is accounted for")).to_be_visible()
    way = panel.locator(".way")
    expect(way.locator("li").last).to_contain_text("CHECKPOINT block 7 → 2")
    way.get_by_role("button", name="step 0").click()
    watch.at(r"step=0&phase=forward")


def test_the_truth_strip_runs_on_demand(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy&backend=reference")
    panel = opened(watch, "Truth strip")
    table = panel.get_by_role("table")
    expect(table).to_contain_text("not run yet")
    panel.get_by_role("button", name="Run it on every back end").click()
    expect(panel.get_by_role("button", name="Stop")).to_be_visible()
    interpreter = table.get_by_role("row", name="interpreter, CPU")
    expect(interpreter).to_contain_text("within the tolerance", timeout=LONG)
    expect(interpreter).to_contain_text("12 of 12 byte for byte")
    expect(table.get_by_role("row", name="plain twin")).to_contain_text("within the tolerance")
    expect(table.get_by_role("row", name="between any two")).to_contain_text("0, equal")


def test_a_fault_is_red_in_the_strip(watch: Watch) -> None:
    watch.open("?preset=padded-first-token&step=2&phase=forward")
    panel = opened(watch, "Truth strip")
    expect(panel.locator("td.wrong").last).to_contain_text("beyond the tolerance")
    panel = opened(watch, "Provenance")
    choose(watch, panel, "5 ")
    expect(panel.locator("p.wrong").first).to_contain_text("no request’s history gives these")


def test_the_matrix_leads_to_its_phases(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    panel = opened(watch, "Layers × states")
    expect(panel.locator("td.here").first).to_contain_text("A block boundary was reached")
    panel.get_by_role("button", name="pre-copy: MIGRATE").click()
    watch.at(r"step=2&phase=pre-copy")


def test_bytes_are_drawn_and_hex_is_there_on_demand(watch: Watch) -> None:
    watch.open("?step=2&phase=post-copy")
    panel = opened(watch, "Bytes")
    expect(panel.get_by_role("img", name="CHECKPOINT of A, conv, layout SD")).to_be_visible()
    expect(panel.locator(".hex")).to_be_hidden()
    panel.get_by_text("Bytes in hex, before and after").click()
    expect(panel.locator(".hex mark").first).to_be_visible()


def test_no_tab_is_wider_than_the_page(browser: Browser, app_url: str) -> None:
    """The smallest window; the pictures are for looking at."""
    width, height = PROJECTOR
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light",
    )
    tab = Watch(context.new_page(), app_url).open("?step=4&phase=post-copy")
    ARTIFACTS.mkdir(exist_ok=True)
    for name in ("Layers × states", "Block life-line", "Provenance", "Truth strip", "Bytes"):
        panel = opened(tab, name)
        panel.scroll_into_view_if_needed()
        tab.shoot(f"tab-{name.split()[0].lower()}-{width}x{height}")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert panel.locator(".tab").evaluate("tab => tab.scrollWidth <= tab.clientWidth")
    context.close()
    assert tab.complaints == []
