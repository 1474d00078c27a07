"""A report as JSON, as a table, as lines for a terminal, as one sentence."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from mambaviz.sizes.explained import sections
from mambaviz.sizes.facts import shown
from mambaviz.sizes.report import Report
from mambaviz.sizes.warnings import warnings


def to_json(report: Report) -> str:
    """Input and numbers, each with its formula, rule and source."""
    told = list(sections(report))
    data = {
        "model": report.model.model_dump(mode="json"),
        "settings": report.settings.model_dump(mode="json"),
        "sizes": {fact.key: fact.value for section in told for fact in section.facts},
        "warnings": list(warnings(report)),
        "assumed": list(report.model.assumed),
        "explained": [
            {
                "key": fact.key,
                "section": section.title,
                "label": fact.label,
                "value": fact.shown,
                "formula": fact.formula,
                "rule": fact.rule,
                "source": fact.source,
            }
            for section in told
            for fact in section.facts
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=False)


def to_lines(report: Report) -> Iterator[str]:
    """For a terminal: a number a line, with its formula."""
    model = report.model
    yield headline(report)
    for sentence in (*model.assumed, *warnings(report)):
        yield f"  note: {sentence}"
    for section in sections(report):
        yield f"{section.title}:"
        for fact in section.facts:
            yield f"  {fact.label:<34} {fact.shown:<28} {fact.formula}"


def to_csv(report: Report) -> str:
    """The table as comma-separated values, a row a number."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["section", "number", "value", "unit", "formula", "rule", "source"])
    for section in sections(report):
        for fact in section.facts:
            value = shown(fact.value) if isinstance(fact.value, tuple) else fact.value
            cells = (fact.label, value, fact.unit, fact.formula, fact.rule, fact.source)
            rows.writerow([section.title, *cells])
    return text.getvalue()


def headline(report: Report) -> str:
    """The model in a sentence: its block and its page."""
    pages = f"pages of {report.page_bytes:,} bytes"
    if report.alignment is None:
        return f"{report.model.name}: {pages}"
    return f"{report.model.name}: blocks of {report.block:,} tokens, {pages}"


def sentence(report: Report) -> str:
    """What stands behind the headline: the layers, and why the block is what it is."""
    model, alignment = report.model, report.alignment
    layers = f"{model.mamba_layers} recurrent layers, {model.attention_layers} with attention"
    if alignment is None or report.token is None:
        return (
            f"{model.mamba_layers} recurrent layers and no attention: a state page of "
            f"{report.page.bytes:,} bytes has nothing to be aligned with."
        )
    if not alignment.raised:
        return (
            f"{layers}. A block of {alignment.block:,} tokens of attention covers the state of "
            f"{report.page.bytes:,} bytes already; {alignment.padding:,} bytes of every state page "
            "are padding."
        )
    return (
        f"{layers}. It takes {alignment.tokens_to_cover:,} tokens of attention to fill as much as "
        f"one state, so the block is raised from {alignment.configured:,} to {alignment.block:,} "
        f"tokens, and {alignment.padding_percent:.2f} % of padding makes both pages equal."
    )
