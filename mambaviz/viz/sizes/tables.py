"""The numbers as HTML: a row each with its formula; opened, it says its rule and its source."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from mambaviz.sizes.explained import sections
from mambaviz.sizes.export import headline, sentence
from mambaviz.sizes.facts import Fact, Section
from mambaviz.sizes.models import PublicModel
from mambaviz.sizes.report import Report


def say_html(report: Report) -> str:
    return (
        f'<div class="mv-say"><h1>{escape(headline(report))}</h1><p>{escape(sentence(report))}</p>'
        "</div>"
    )


def tables_html(report: Report) -> str:
    """All sections. The key numbers are set off."""
    return "".join(_section(section) for section in sections(report))


KEY_NUMBERS = frozenset(
    {"mamba_page_bytes", "attention_block_size", "mamba_block_size", "requests_that_fit"}
    | {"crossings_per_thousand", "crossing_bytes", "crossing_us"}
)


def _section(section: Section) -> str:
    rows = "".join(_row(fact) for fact in section.facts)
    return f'<section class="mv-sizes"><h4>{escape(section.title)}</h4>{rows}</section>'


def _row(fact: Fact) -> str:
    key = " mv-key" if fact.key in KEY_NUMBERS else ""
    return (
        f'<details class="mv-size{key}" id="size-{escape(fact.key)}"><summary>'
        f"<span>{escape(fact.label)}</span><b>{escape(fact.shown)}</b>"
        f"<code>{escape(fact.formula)}</code></summary>"
        f"<p>{escape(fact.rule)} <small>Source: {escape(fact.source)}.</small></p></details>"
    )


def notes_html(sentences: Iterable[str], kind: str) -> str:
    """Sentences as a list: what to mind (``warning``), or what was assumed (``note``)."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="mv-notes mv-{kind}">{items}</ul>' if items else ""


def about_html(public: PublicModel) -> str:
    """Where a model's numbers come from, and which public statements they reproduce."""
    lines = [("source", one) for one in public.sources]
    lines += [("as in a public log", one) for one in public.seen]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    notes = "".join(f"<p>{escape(note)}</p>" for note in public.notes)
    return (
        f'<div class="mv-about"><p><b>{escape(public.hf_id)}</b>, confidence '
        f"{escape(public.confidence)}</p>{notes}<dl>{rows}</dl></div>"
    )
