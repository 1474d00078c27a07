"""The palette: enough contrast, one place."""

from __future__ import annotations

import pytest

from mambaviz.viz import theme
from mambaviz.viz.theme import THEMES, Ink


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


INKS = ("cached", "running", "speculative", "null", "retired", "free", "move", "wrong")


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("role", INKS)
def test_text_reads_on_its_fill_and_lines_stand_out(name, role):
    palette = THEMES[name]
    ink: Ink = getattr(palette, role)
    fill = palette.background if ink.fill == "none" else ink.fill
    assert contrast(ink.text, fill) >= 4.5
    assert contrast(ink.line, palette.background) >= 3


@pytest.mark.parametrize("name", THEMES)
def test_page_texts_read_on_page_and_panel(name):
    palette = THEMES[name]
    for text in (palette.text, palette.muted, palette.faint):
        assert contrast(text, palette.background) >= 4.5
        assert contrast(text, palette.panel) >= 4.5
    for text in (palette.text, palette.muted):
        assert contrast(text, palette.sunken) >= 4.5
    assert contrast(palette.on_move, palette.move.line) >= 4.5
    assert contrast(palette.text, palette.token_prompt) >= 4.5


def test_both_themes_are_written_as_variables():
    css = theme.css(".stage")
    assert "--cached-fill:#CFEDE1;" in css
    assert ".stage[data-theme=dark]" in css
    assert "--cached-fill:#0C382B;" in css
    assert theme.css_of("svg", "dark").count("--cached-fill") == 1


def test_each_role_has_a_sign_beside_its_colour():
    letters = [theme.LETTER[role] for role in ("null", "cached", "running", "speculative")]
    assert len(set(letters)) == 4
