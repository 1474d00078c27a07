"""A stranger's text stays text in widgets that read Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.pages.plain import plain


@pytest.mark.parametrize("sign", list("*$`<>~_#+-\\"))
def test_an_active_sign_is_escaped(sign: str) -> None:
    assert plain(sign) == "\\" + sign


@pytest.mark.parametrize("text", ["engine.block_size = 0: allowed 1 to 4", "requests[0] (A): x"])
def test_a_sentence_of_ours_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_links_images_and_directives_fall_apart() -> None:
    assert plain("![i](http://e/x.png)") == "![i\\](http\\://e/x.png)"
    assert plain(":red[r]") == "\\:red[r]"


def test_a_link_with_hostile_text_shows_it_as_text() -> None:
    """The sentence about a damaged link quotes what the link held."""
    app = AppTest.from_file(str(Path(__file__).parents[2] / "app.py"), default_timeout=60)
    app.query_params["preset"] = "![i](http://e.invalid/x.png)"
    app.run()
    shown = [warning.value for warning in app.warning]
    assert any("![i\\](http\\://e.invalid/x.png)" in text for text in shown), shown
