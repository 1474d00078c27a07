"""Nothing is said by colour alone: simulated for four ways of seeing, in both themes."""

from __future__ import annotations

import itertools
import re
from typing import get_args

import pytest

from mambaviz.trace import Role
from mambaviz.viz import shapes, theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.scene import Body, Path
from mambaviz.viz.theme import LETTER, THEMES, Ink, Palette, ThemeName
from mambaviz.viz.views import RowStatus, TokenStatus
from tests.viz.colour_vision import MATRICES, Vision, contrast, distance

INKS = ("cached", "running", "speculative", "null", "retired", "free", "move", "wrong")
APART = 9.0  # CIE76; about four times what can just be told apart
ROLES: tuple[Role, ...] = get_args(Role)
TOKENS: tuple[RowStatus, ...] = (*get_args(TokenStatus), "old", "empty")

each_vision = pytest.mark.parametrize("vision", MATRICES)
each_theme = pytest.mark.parametrize("name", THEMES)


def fill(palette: Palette, ink: Ink) -> str:
    return palette.background if ink.fill == "none" else ink.fill


def test_the_simulation_confuses_what_people_confuse():
    """The classical pairs: red and green for deutan and protan, blue and green for tritan."""
    assert distance("#D04040", "#7A7A20", "deutan") < 0.5 * distance("#D04040", "#7A7A20")
    assert distance("#B05050", "#606040", "protan") < 0.5 * distance("#B05050", "#606040")
    assert distance("#0072B2", "#008A64", "tritan") < 0.5 * distance("#0072B2", "#008A64")
    assert distance("#C00000", "#00659A", "grey") < 15
    for vision in MATRICES:
        assert distance("#FFFFFF", "#000000", vision) == pytest.approx(100, abs=0.5)
        assert distance("#808080", "#808080", vision) == 0


@each_theme
@each_vision
def test_texts_and_outlines_keep_their_contrast(name: ThemeName, vision: Vision):
    palette = THEMES[name]
    for role in INKS:
        ink: Ink = getattr(palette, role)
        assert contrast(ink.text, fill(palette, ink), vision) >= 4.5, role
        assert contrast(ink.text, palette.background, vision) >= 4.5, role
        assert contrast(ink.line, palette.background, vision) >= 3, role
    for text in (palette.text, palette.muted, palette.faint):
        assert contrast(text, palette.background, vision) >= 4.5
    assert contrast(palette.on_move, palette.move.line, vision) >= 4.5
    assert contrast(palette.ok, palette.background, vision) >= 3
    assert contrast(palette.strong, palette.background, vision) >= 3


# ---- marks beside the colour -----------------------------------------------------------------


def style_rules(css: str) -> list[tuple[str, str]]:
    """Selectors and declarations of a style sheet."""
    return re.findall(r"([^{}]+)\{([^}]*)\}", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))


def dash_of(selector: str) -> str:
    """The dashes that the style sheet gives a selector; empty for a plain line."""
    rules = style_rules(marks_css())
    found = [body for names, body in rules if selector in [one.strip() for one in names.split(",")]]
    assert found, f"no rule for {selector}"
    dash = re.search(r"stroke-dasharray:\s*([^;]+);", " ".join(found))
    return dash[1] if dash else ""


def mark_of(role: Role) -> tuple[str, tuple[str, ...], str]:
    """What a role shows without any colour: letter, shapes, dashes."""
    names = tuple(part.cls for part in shapes.block_frame(role, 88, 43))  # type: ignore[union-attr]
    return LETTER[role], names, dash_of(f".bk.{role} .b")


def test_every_role_has_a_mark_of_its_own():
    marks = {role: mark_of(role) for role in ROLES}
    for one, other in itertools.combinations(ROLES, 2):
        assert marks[one] != marks[other], (one, other)


def test_what_is_wrong_and_what_moves_have_shapes_of_their_own():
    """Orange-red and amber are one colour to a deutan eye: the frame has a diamond with a cross."""
    chip = shapes.block_chip(3, "running", 46, 32, wrong=True)
    assert {part.cls for part in chip.parts} >= {"wrong-disc", "wrong-cross"}  # type: ignore[union-attr]
    assert shapes.under_arrow(0, 50, 0, 10, 0)[1] == shapes.arrow_head(50, 0, 0, -1)
    signs = [shapes.event_sign(event) for event in shapes.EVENTS]
    assert len(set(signs)) == len(signs)
    assert dash_of(".copy.skipped .line") != dash_of(".copy .line")


@each_theme
@each_vision
def test_roles_are_told_apart_by_colour_or_mark(name: ThemeName, vision: Vision):
    palette = THEMES[name]
    close = [
        (one, other)
        for one, other in itertools.combinations(INKS, 2)
        if max(
            distance(getattr(palette, one).line, getattr(palette, other).line, vision),
            distance(
                fill(palette, getattr(palette, one)), fill(palette, getattr(palette, other)), vision
            ),
        )
        < APART
    ]
    roles = set(ROLES)
    for one, other in close:
        if one in roles and other in roles:
            assert mark_of(one) != mark_of(other), (one, other)
        else:  # an arrow, a frame with a diamond: shapes that no role has
            assert {one, other} & {"move", "wrong"}


@each_theme
@pytest.mark.parametrize("vision", [vision for vision in MATRICES if vision != "grey"])
def test_the_roles_at_work_are_told_apart_by_colour_too(name: ThemeName, vision: Vision):
    palette = THEMES[name]
    for one, other in itertools.combinations(("cached", "running", "speculative", "move"), 2):
        inks: tuple[Ink, Ink] = (getattr(palette, one), getattr(palette, other))
        assert distance(inks[0].line, inks[1].line, vision) >= APART, (one, other)


# ---- tokens ----------------------------------------------------------------------------------


def look_of(status: RowStatus, style: ThemeName) -> dict[str, str]:
    """Fill, line and text colour of a token, and its dashes, as the style sheet gives them."""
    look: dict[str, str] = {}
    for selectors, body in style_rules(theme.written_out(marks_css(), style)):
        for selector in (one.strip() for one in selectors.split(",")):
            part = re.fullmatch(rf"\.tk(?:\.{status})? (rect|text)", selector)
            if part:
                for key, value in re.findall(r"([\w-]+):\s*([^;]+);", body):
                    look[f"{part[1]} {key}"] = value
    return look


def token_mark(status: RowStatus, style: ThemeName) -> tuple[object, ...]:
    look = look_of(status, style)
    body: Body = shapes.token("7", status, 23, 22)
    strike = any(isinstance(part, Path) for part in body.parts)
    edge = any(part.cls == "edge" for part in body.parts)  # type: ignore[union-attr]
    return look.get("rect stroke-dasharray"), strike, edge


def colours(status: RowStatus, style: ThemeName) -> list[str]:
    look = look_of(status, style)
    ground = THEMES[style].background
    values = [look.get(key, "none") for key in ("rect fill", "rect stroke", "text fill")]
    return [ground if value == "none" else value for value in values]


@each_theme
@each_vision
def test_tokens_are_told_apart(name: ThemeName, vision: Vision):
    for one, other in itertools.combinations(TOKENS, 2):
        if token_mark(one, name) != token_mark(other, name):
            continue
        pairs = zip(colours(one, name), colours(other, name), strict=True)
        assert max(distance(a, b, vision) for a, b in pairs) >= APART, (one, other)


@each_theme
@each_vision
def test_a_tokens_number_reads_on_it(name: ThemeName, vision: Vision):
    for status in TOKENS:
        ground, _, text = colours(status, name)
        assert contrast(text, ground, vision) >= 4.5, status


@each_theme
@each_vision
def test_heat_values_say_their_sign(name: ThemeName, vision: Vision):
    """By hue for most; the number is said to whoever points at a cell."""
    palette = THEMES[name]
    for colour in (palette.positive, palette.negative):
        assert distance(colour, palette.middle, vision) >= 20
    if vision != "grey":
        assert distance(palette.positive, palette.negative, vision) >= 20
