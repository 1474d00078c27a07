"""The other parts of the About page as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mambaviz.likeness import KIND_MEANING, KINDS, LIKENESSES, SOURCES, Kind, Likeness
from mambaviz.viz.keys import KEYS, Key

_SIGN: dict[Kind, str] = {"exact": "=", "simplified": "≈", "left out": "–", "added": "+"}
_TITLE: dict[Kind, str] = {
    "exact": "Exactly as in a real engine",
    "simplified": "Simplified",
    "left out": "Left out",
    "added": "Added",
}


def say_html(headline: str, sentence: str) -> str:
    return f'<div class="mv-say"><h1>{escape(headline)}</h1><p>{escape(sentence)}</p></div>'


def likeness_html() -> str:
    """A table for each kind: the real engine, ours, and why."""
    return "".join(_kind(kind) for kind in KINDS)


def _kind(kind: Kind) -> str:
    rows = "".join(_likeness(one) for one in LIKENESSES if one.kind == kind)
    heads = "".join(
        f"<th scope=col>{name}</th>" for name in ("Part", "A real engine", "Here", "Why", "Section")
    )
    return (
        f'<section class="mv-like mv-{kind.replace(" ", "-")}">'
        f"<h4><b>{_SIGN[kind]}</b> {_TITLE[kind]} <small>{escape(KIND_MEANING[kind])}</small></h4>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _likeness(one: Likeness) -> str:
    checked = ""
    if one.checked:
        checked = f" <small>Checked by {escape(', '.join(one.checked))}.</small>"
    return (
        f"<tr><th scope=row>{escape(one.part)}</th><td>{escape(one.real)}</td>"
        f"<td>{escape(one.here)}{checked}</td><td>{escape(one.why)}</td>"
        f"<td>{escape(one.section)}</td></tr>"
    )


def findings_html(title: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Subject, text, and advice where something is not well (else empty)."""
    cells = "".join(
        f"<dt>{escape(subject)}</dt><dd>{escape(text)}"
        + (f' <b class="mv-bad">{escape(advice)}</b>' if advice else "")
        + "</dd>"
        for subject, text, advice in rows
    )
    return f'<section class="mv-facts-about"><h4>{escape(title)}</h4><dl>{cells}</dl></section>'


def sources_html() -> str:
    """What the figures are held against."""
    heads = "".join(f"<th scope=col>{name}</th>" for name in ("What", "From", "What for"))
    rows = "".join(
        f"<tr><th scope=row>{escape(one.what)}</th><td>{escape(one.origin)}</td>"
        f"<td>{escape(one.use)}</td></tr>"
        for one in SOURCES
    )
    return (
        f'<section class="mv-like"><h4>What it is checked against</h4><table class="mv-sources">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def keys_html() -> str:
    return "".join(_keys(page, keys) for page, keys in KEYS.items())


def _keys(page: str, keys: Sequence[Key]) -> str:
    rows = "".join(
        "<tr><th scope=row>"
        + "".join(f"<kbd>{escape(one)}</kbd>" for one in key.keys.split("   "))
        + f"</th><td>{escape(key.what)}</td></tr>"
        for key in keys
    )
    return f'<section class="mv-keys"><h4>{escape(page)}</h4><table>{rows}</table></section>'
