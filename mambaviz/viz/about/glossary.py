"""The glossary as HTML; ``glossary.js`` searches it in the browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from mambaviz.attention.fields import FIELDS
from mambaviz.glossary import GROUPS, Term
from mambaviz.viz import theme

_DIR = Path(__file__).parent
FIELD_GROUP = "metadata fields"


@dataclass(frozen=True)
class Where:
    """Where a word can be seen, and a link there."""

    words: str
    href: str


@cache
def glossary_css() -> str:
    own = (_DIR / "glossary.css").read_text(encoding="utf-8")
    return "\n".join((theme.css_following(".glossary"), own))


@cache
def glossary_js() -> str:
    return (_DIR / "glossary.js").read_text(encoding="utf-8")


def glossary_html(where: Callable[[str], Where]) -> str:
    """Every word of the glossary and every metadata field, in groups."""
    groups = [
        _group(name, [_term(term, where(term.name)) for term in terms])
        for name, terms in GROUPS.items()
    ]
    fields = [_field(name, where(name)) for name in FIELDS]
    return "".join((*groups, _group(FIELD_GROUP, fields)))


def group_names() -> list[str]:
    return [*GROUPS, FIELD_GROUP]


def _group(name: str, entries: list[str]) -> str:
    title = name[0].upper() + name[1:]
    return (
        f'<section data-group="{escape(name)}"><h3>{escape(title)} '
        f"<small>{len(entries)}</small></h3>{''.join(entries)}</section>"
    )


def _term(term: Term, where: Where) -> str:
    forms = [form for form in term.forms if form.lower() != term.name.lower()]
    also = f"also: {', '.join(forms)}" if forms else ""
    return _entry(term.name, term.meaning, also, term.section, where)


def _field(name: str, where: Where) -> str:
    info = FIELDS[name]
    return _entry(name, info.meaning, f"{info.shape}; {info.rule}", info.section, where)


def _entry(name: str, meaning: str, note: str, section: str, where: Where) -> str:
    small = f"<small>{escape(note)}</small>" if note else ""
    return (
        f'<article id="term-{escape(name)}" data-term="{escape(name)}">'
        f'<h4><a href="?term={escape(name)}" data-do="term" title="a link to this word">'
        f"{escape(name)}</a></h4><p>{escape(meaning)} {small}</p>"
        f'<p class="go"><a href="{escape(where.href)}" data-do="see">{escape(where.words)}</a>'
        f'<a href="?read={escape(section)}" data-do="read" data-section="{escape(section)}">'
        f"section {escape(section)}</a></p></article>"
    )
