"""A browser tab with a page of the app open in it, and what its console complained about."""

from __future__ import annotations

from typing import ClassVar

from playwright.sync_api import ConsoleMessage, Locator, Page


class Tab:
    """The base of each page's own tab. ``path``: of the page, "" for the first one."""

    path: ClassVar[str] = ""
    slow: ClassVar[float] = 40_000  # ms: importing torch on a small machine

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        page.set_default_timeout(self.slow)
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _listen(self, message: ConsoleMessage) -> None:
        # Streamlit asks for its own address below the page's path first, and finds it above.
        own = self.path and f"/{self.path}/_stcore/" in message.location.get("url", "")
        if message.type == "error" and not own:
            self.complaints.append(message.text)

    @property
    def sidebar(self) -> Locator:
        return self.page.get_by_test_id("stSidebar")
