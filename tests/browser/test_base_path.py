"""The app below a path of its own, as behind a proxy: every address keeps the path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from .conftest import ROOT, free_port, wait_until_healthy
from .test_watch import LAPTOP, Watch

PATH = "/some/mamba"

# A slow connection: what the server sends in one go arrives in pieces, 60 ms apart. Else the
# address of another page and the view in it are always written together.
SLOW_CONNECTION = """
window.WebSocket = class extends WebSocket {
  addEventListener(kind, hear, options) {
    let last = 0;
    super.addEventListener(kind, (event) => {
      last = Math.max(performance.now(), last) + (kind === "message" ? 60 : 0);
      setTimeout(hear, last - performance.now(), event);
    }, options);
  }
  set onmessage(hear) { this.addEventListener("message", hear); }
};
"""


@pytest.fixture
def below(browser: Browser, tmp_path: Path) -> Iterator[Watch]:
    port, log = free_port(), tmp_path / "log"
    command = (sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port))
    with log.open("w") as output:
        server = subprocess.Popen(
            (*command, "--server.baseUrlPath", PATH), cwd=ROOT, stdout=output, stderr=output
        )
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    url = f"http://localhost:{port}{PATH}"
    try:
        wait_until_healthy(url, server, log)
        page = context.new_page()
        page.add_init_script(SLOW_CONNECTION)
        yield Watch(page, url)
    finally:
        context.close()
        server.terminate()
        server.wait(timeout=20)


def settled(below: Watch) -> None:
    """A reader looks before the next press: the page is drawn, and has written its address."""
    below.page.wait_for_function(
        "() => document.querySelector('.stApp')?.dataset.testScriptState === 'notRunning'"
    )
    below.page.wait_for_timeout(1000)


def test_every_address_keeps_the_path(below: Watch) -> None:
    """A step, the link to it, other pages by menu, link and history."""
    asked: list[str] = []
    below.page.on("request", lambda request: asked.append(request.url))
    below.open("?step=2&phase=forward")
    below.page.keyboard.press("ArrowRight")
    below.at(r"/some/mamba/\?step=2&phase=accept$")
    below.page.get_by_role("button", name="Copy link").click()
    expect(below.page.get_by_role("button", name="Copied")).to_be_visible()
    assert below.page.evaluate("navigator.clipboard.readText()") == below.page.url
    menu = below.page.get_by_test_id("stTopNavLink")
    menu.filter(has_text="About").click()
    below.at(r"/some/mamba/about\?step=2&phase=accept$")
    seen = below.page.locator(".glossary a[data-do=see]").first
    assert urlsplit(seen.evaluate("link => link.href")).path == f"{PATH}/"
    menu.filter(has_text="Sizes").click()
    below.at(r"/some/mamba/sizes\?step=2&phase=accept$")
    settled(below)
    assert below.page.evaluate("history.length") == 5  # of the empty tab, two steps, two pages
    below.page.go_back()  # from page to page, and then to the step before
    below.at(r"/some/mamba/about\?")
    expect(seen).to_be_visible()
    settled(below)
    below.page.go_back()
    below.at(r"/some/mamba/\?step=2&phase=accept$")
    expect(below.headline).not_to_be_empty()
    settled(below)
    below.page.go_back()
    below.at(r"/some/mamba/\?step=2&phase=forward$")
    settled(below)
    below.page.go_forward()
    below.at(r"/some/mamba/\?step=2&phase=accept$")
    settled(below)
    below.page.go_forward()
    below.at(r"/some/mamba/about\?")
    paths = {urlsplit(url).path for url in asked if not url.startswith(("data:", "blob:"))}
    assert [path for path in paths if not path.startswith(PATH)] == []
    assert below.complaints == []
