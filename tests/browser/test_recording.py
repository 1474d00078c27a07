"""A recording in a real browser: a file is opened, judged, walked through and exported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tab import Tab
from tests.recording.files import lines_of, preset_trace

SLOW = 90_000  # ms

pytestmark = pytest.mark.timeout(600)


def test_a_file_from_opening_to_export(browser: Browser, app_url: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = lines_of(preset_trace("draft-filled-blocks"))
    note = '{"event":"note","seam":"rows","what":"' + "x" * 900_000 + '"}\n'
    path.write_text("".join([lines[0], note, note, *lines[1:]]))  # more than a scenario may have
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    tab = Tab(page, app_url)
    page.set_default_timeout(SLOW)
    page.goto(app_url)
    expect(page.locator(".stage .lamp").first).to_be_visible(timeout=SLOW)
    tab.sidebar.get_by_text("Open JSON").click()
    page.locator("input[type=file]").set_input_files(path)

    verdict = page.get_by_text("Step 1 breaks “boundary state” for A: block 1")
    expect(verdict).to_be_visible(timeout=SLOW)
    expect(page).to_have_url(re.compile("recording=file"), timeout=SLOW)
    stage = page.locator(".stage")
    expect(stage.locator(".lamp.bad")).to_have_text(["I1"], timeout=SLOW)
    expect(stage.locator(".lamp.unjudged")).to_have_text(["I3"])
    expect(stage.get_by_text("No state on show: the recording holds indices").first).to_be_visible()
    expect(page.locator(".mv-verdicts tr.now")).to_have_count(1)
    width = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
    assert width <= 0

    with page.expect_download() as download:
        page.get_by_role("button", name="Export HTML").click()
    assert download.value.suggested_filename.startswith("mambaviz-")
    page.get_by_role("button", name="Back to our own runs").click()
    expect(page).not_to_have_url(re.compile("recording"))
    expect(tab.sidebar.get_by_text("Edit scenario")).to_be_visible(timeout=SLOW)
    assert tab.complaints == []
    page.close()
