"""Pieces that all tabs are made of: links to a moment, blocks in their role, tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from mambaviz.trace import PhaseName, Role
from mambaviz.viz import theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.svg import PATTERNS
from mambaviz.viz.theme import LETTER

_DIR = Path(__file__).parent


@cache
def tabs_css() -> str:
    """The component's whole style: tokens that follow the page's theme, shapes, layout."""
    pairs = zip(theme.LIGHT.variables(), theme.DARK.variables(), strict=True)
    tokens = "".join(
        f"--{name}:{light};" if light == dark else f"--{name}:light-dark({light},{dark});"
        for (name, light), (_, dark) in pairs
    )
    root = f".tab{{{tokens}{theme.constants()}}}"
    return "\n".join((root, marks_css(), (_DIR / "tabs.css").read_text(encoding="utf-8")))


@cache
def tabs_js() -> str:
    return (_DIR / "tabs.js").read_text(encoding="utf-8")


def patterns() -> str:
    """The hatch and the dots that the drawn blocks are filled with."""
    return f'<svg class="patterns" width="0" height="0" aria-hidden="true">{PATTERNS}</svg>'


def place(step: int, phase: PhaseName) -> str:
    """A moment as ``data-go`` and the names of marks carry it."""
    return f"{step}:{phase}"


def go(step: int, phase: PhaseName, text: str = "", now: bool = False) -> str:
    """A button that leads the stage to a moment."""
    said = text or f"step {step}, {phase}"
    current = ' aria-current="step"' if now else ""
    return (
        f'<button type="button" data-go="{place(step, phase)}"{current}'
        f' title="go to step {step}, {phase}">{escape(said)}</button>'
    )


def block(number: int, role: Role) -> str:
    """A block with its letter, in its role's colour; never colour alone."""
    letter = LETTER[role]
    text = "∅" if role == "null" else f"{number} {letter}".strip()
    return f'<b class="chip {role}">{text}</b>'


def pick(number: int, role: Role) -> str:
    """A block that can be chosen."""
    return (
        f'<button type="button" class="pick" data-block="{number}" '
        f'title="look at block {number}">{block(number, role)}</button>'
    )


def table(caption: str, head: Sequence[str], rows: Sequence[str], cls: str = "") -> str:
    """A table whose columns have headings; ``rows`` are finished ``<tr>``."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in head)
    return (
        f'<table class="{cls}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def nothing(sentence: str) -> str:
    """Why there is nothing to see."""
    return f'<p class="nothing">{escape(sentence)}</p>'


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(first: int, last: int, noun: str = "token") -> str:
    """``token 4``, ``tokens 4–7``."""
    return f"{noun} {first}" if first == last else f"{noun}s {first}–{last}"


def either(numbers: Sequence[int], noun: str = "block") -> str:
    """``block 3``, ``blocks 3 and 7``."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    return f"{noun}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
