"""Text that comes in, pasted or from a file, in a popover that every editor's sidebar has.

What is wrong with it is a sentence for the page, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import streamlit as st

from mambaviz.limits import MOST_UPLOAD_MB

T = TypeVar("T")


@dataclass(frozen=True)
class Pasting(Generic[T]):
    """``name`` begins the widgets' keys, ``kind`` is what the text should be (``a batch``).

    ``parse`` raises one of ``errors`` with a sentence; ``take`` is told what it gave.
    """

    name: str
    kind: str
    parse: Callable[[str], T]
    errors: type[Exception]
    take: Callable[[T], None]

    @property
    def problem(self) -> str:
        """The sentence about what came last; empty if it was taken."""
        return str(st.session_state.get(self._problem, ""))

    def complain(self, sentence: str) -> None:
        st.session_state[self._problem] = sentence

    def settle(self) -> None:
        """Something else is on screen: what was wrong with the text is no matter any more."""
        self.complain("")

    @property
    def _problem(self) -> str:
        return f"{self.name}-problem"

    def place(self, button: str, label: str, height: int = 180) -> None:
        """The popover: a field to paste into, and a file."""
        with st.popover(button, width="stretch"):
            st.text_area(label, key=f"{self.name}-paste", height=height)
            st.button("Use it", key=f"{self.name}-use", on_click=self._pasted)
            opened = st.session_state.get(f"{self.name}-opened", 0)
            st.file_uploader(
                "or a file",
                type="json",
                max_upload_size=MOST_UPLOAD_MB,
                key=f"{self.name}-open {opened}",
                on_change=partial(self._opened, opened),
            )

    def _pasted(self) -> None:
        self.take_text(st.session_state[f"{self.name}-paste"], "What was pasted")

    def _opened(self, number: int) -> None:
        file = st.session_state.get(f"{self.name}-open {number}")
        if file is None:
            return
        st.session_state[f"{self.name}-opened"] = number + 1  # an empty one for the next file
        try:
            text = file.getvalue().decode("utf-8")
        except UnicodeDecodeError:
            self.complain(f"{file.name} is not UTF-8 text, so it cannot be {self.kind}.")
            return
        self.take_text(text, file.name)

    def take_text(self, text: str, what: str) -> None:
        """Take it, or say what is wrong with it."""
        try:
            found = self.parse(text)
        except self.errors as error:
            self.complain(f"{what} was not taken: {error}.")
            return
        self.take(found)
