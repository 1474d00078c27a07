"""The app as others can reach it: nothing leaves the machine, a server that ends is survived."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from mambaviz.pages.packing import pack
from mambaviz.scenario import PRESETS, build

from .conftest import ROOT, free_port, wait_until_healthy
from .test_watch import LAPTOP, Watch

GUARD = Path(__file__).parent / "guard"
PAGES = ("metadata", "kernels", "compare", "reports", "explorer", "sizes", "about")
SLOW = 120_000  # ms

pytestmark = pytest.mark.timeout(600)


class Server:
    """The app behind the guard, on one port; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.log, self.notes, self.clock = folder / "log", folder / "notes", folder / "clock"
        self.notes.touch()
        self.set_clock(0)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = os.pathsep.join([str(GUARD), os.environ.get("PYTHONPATH", "")])
        files = {"MAMBAVIZ_GUARD": str(self.notes), "MAMBAVIZ_CLOCK": str(self.clock)}
        environment = {**os.environ, "PYTHONPATH": path, **files}
        command = (sys.executable, "-m", "streamlit", "run", "app.py")
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                (*command, "--server.port", str(self.port)),
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until_healthy(self.url, self.process, self.log)

    def set_clock(self, seconds_off: int) -> None:
        self.clock.write_text(str(seconds_off))

    def end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("exposed"))
    one.start()
    yield one
    one.end(signal.SIGTERM)


@pytest.fixture
def visitor(browser: Browser, server: Server) -> Iterator[Watch]:
    """A tab that notes every address it asks for."""
    context = browser.new_context(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    tab = Watch(context.new_page(), server.url)
    tab.slow = SLOW
    yield tab
    context.close()


def test_the_guard_notices(tmp_path: Path) -> None:
    """What the next test trusts in."""
    notes = tmp_path / "notes"
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    environment = {**os.environ, "PYTHONPATH": str(GUARD), "MAMBAVIZ_GUARD": str(notes)}
    tried = subprocess.run(
        (sys.executable, "-c", code), env=environment, capture_output=True, text=True, check=False
    )
    assert "nothing may leave this machine" in tried.stderr
    assert "192.0.2.1" in notes.read_text()


def drawn(visitor: Watch) -> None:
    """The first page of a fresh server: everything is loaded for the first time."""
    visitor.page.goto(visitor.url)
    expect(visitor.headline).not_to_be_empty(timeout=SLOW)


def test_nothing_leaves_the_machine(visitor: Watch, server: Server) -> None:
    """All pages, a run computed here, one in a child, and neither the server nor the browser
    asks anybody else for anything."""
    asked: list[str] = []
    visitor.page.context.on("request", lambda request: asked.append(request.url))
    visitor.page.on("websocket", lambda socket: asked.append(socket.url))
    drawn(visitor)
    expect(visitor.foot).to_contain_text("live", timeout=SLOW)
    visitor.page.get_by_role("tab", name="Truth strip").click()
    visitor.page.get_by_role("button", name="Run it on every back end").click()
    expect(visitor.page.get_by_role("button", name="Stop")).to_be_visible()
    expect(visitor.page.get_by_role("button", name="Stop")).to_be_hidden(timeout=SLOW)
    for name in PAGES:
        visitor.page.goto(f"{server.url}/{name}")
        still = visitor.page.locator(".stApp[data-test-script-state=notRunning]")
        expect(still).to_be_visible(timeout=SLOW)
        shown = visitor.page.get_by_test_id("stMain").get_by_test_id("stElementContainer")
        expect(shown.first).to_be_attached(timeout=SLOW)
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(server.url).netloc}
    assert server.notes.read_text() == ""


def test_another_site_may_not_open_a_session(visitor: Watch, server: Server) -> None:
    """A page of another site could otherwise act in the name of whoever visits it. To refuse it,
    the server asks nobody what its own address is."""
    drawn(visitor)
    address = f"ws://localhost:{server.port}/_stcore/stream"
    with pytest.raises(InvalidStatus):
        connect(address, origin="http://elsewhere.example", subprotocols=["streamlit"])
    with connect(address, origin=server.url, subprotocols=["streamlit"]):
        pass
    assert server.notes.read_text() == ""


def test_a_server_killed_during_a_run_comes_back_to_the_same_view(
    visitor: Watch, server: Server
) -> None:
    """The page says that the server is gone, finds the new one by itself, and shows the reader's
    own scenario at the same step; so does a reload."""
    scenario = PRESETS["drafts-meet-the-boundary"].model_dump()
    scenario["requests"][0]["max_tokens"] = 30
    own = build({**scenario, "name": "my own"})
    drawn(visitor)  # the browser now has what the page is drawn with
    visitor.page.goto(f"{server.url}/?run={pack(own)}&step=5&phase=accept&backend=reference")
    expect(visitor.page.get_by_text("Computing")).to_be_visible(timeout=SLOW)
    expect(visitor.page.get_by_role("button", name="Stop")).to_be_visible()
    server.end(signal.SIGKILL)
    expect(visitor.page.locator(".stApp[data-test-connection-state=CONNECTED]")).to_have_count(0)
    server.start()
    for _ in range(2):
        expect(visitor.headline).not_to_be_empty(timeout=SLOW)
        expect(visitor.foot).to_contain_text(f"run {own.content_hash[:7]}", timeout=SLOW)
        expect(visitor.stage).to_contain_text("step 5", ignore_case=True)
        expect(visitor.page).to_have_url(
            re.compile(r"run=.+&step=5&phase=accept&backend=reference")
        )
        visitor.page.reload()


def test_a_clock_that_is_set_during_a_run_changes_nothing(visitor: Watch, server: Server) -> None:
    """A day ahead, and then a day back: the run goes on to its end, the page answers as before."""
    scenario = PRESETS["drafts-meet-the-boundary"].model_dump()
    scenario["requests"][0]["max_tokens"] = 29
    own = build({**scenario, "name": "under another clock"})
    drawn(visitor)
    visitor.page.goto(f"{server.url}/?run={pack(own)}&step=5&phase=accept&backend=reference")
    stop = visitor.page.get_by_role("button", name="Stop")
    for seconds_off in (86_400, -86_400):
        expect(stop).to_be_visible(timeout=SLOW)
        server.set_clock(seconds_off)
        visitor.page.wait_for_timeout(300)
    expect(visitor.headline).not_to_be_empty(timeout=SLOW)
    expect(visitor.foot).to_contain_text("live", timeout=SLOW)
    visitor.page.keyboard.press("ArrowRight")
    visitor.at("step=5&phase=post-copy")
    assert visitor.complaints == []
    assert "Traceback" not in server.log.read_text()
