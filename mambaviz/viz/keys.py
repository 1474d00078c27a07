"""The keys of every page: the stage's own list (`?`) and the About page read this.

C and R are Streamlit's.
"""

from __future__ import annotations

import json
from typing import NamedTuple


class Key(NamedTuple):
    """``keys`` that do ``what``; three spaces stand between keys of their own."""

    keys: str
    what: str


STAGE = (
    Key("Space", "play or pause"),
    Key("← →", "one phase back or forward"),
    Key("Shift ← →", "one step back or forward"),
    Key("Home End", "first or last phase"),
    Key("E   Shift E", "next or previous event"),
    Key("[   ]", "previous or next request"),
    Key("1 … 9", "that request"),
    Key("L   Shift L", "next or previous layer"),
    Key("D", "show or fold the details"),
    Key("H", "changed blocks as hex digits"),
    Key("Tab", "next group; arrows move inside it"),
    Key("Enter", "pin a token, a block or a field"),
    Key("Esc", "close, or release what is pinned"),
    Key("?", "this list"),
)

# By title of the page, the Watch page's first.
KEYS: dict[str, tuple[Key, ...]] = {
    "Watch": STAGE,
    "A lesson": (
        Key("Space   →", "go on"),
        Key("←", "go back"),
        Key("Home End", "first or last stop"),
    ),
    "Compare": (
        Key("Space", "play or pause"),
        Key("← →", "one step or token back or forward"),
        Key("Shift ← →", "one phase back or forward"),
        Key("Home End", "first or last"),
        Key("D", "where the runs part"),
        Key("M", "underline differences, or not"),
    ),
    "Reports": (
        Key("← →", "one phase back or forward"),
        Key("Shift ← →", "one step back or forward"),
        Key("Home End", "first or last phase"),
        Key("1 … 9", "that answer, while the page asks"),
        Key("S", "show the fault without a guess"),
        Key("D", "where the runs part"),
        Key("F", "flip the fix"),
    ),
    "Kernels": (Key("← → ↑ ↓", "another program of the grid"),),
    "Learn": (
        Key("Space   →", "show the movement, then go on"),
        Key("←", "go back"),
        Key("Home End", "first or last stop"),
        Key("Q   T", "questions, or the tour"),
        Key("A … D   1 … 4", "that answer, while the page asks"),
        Key("N", "next question"),
        Key("W", "the run on show, on the Watch page"),
        Key("?", "this list"),
    ),
    "About": (
        Key("/", "to the search field"),
        Key("Esc", "all terms again"),
    ),
}


def stage_keys_js(page: str = "Watch") -> str:
    """The list that the stage opens on this page, as a constant of its script."""
    return f"const KEYS = {json.dumps(KEYS[page], ensure_ascii=False)};"
