"""The glossary: every word the pictures use is explained, once, and points into the spec."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from mambaviz.glossary import TERMS, Term, named
from mambaviz.trace import INVARIANTS, PHASES, Role
from mambaviz.viz import legend, shapes, tables
from mambaviz.viz.assets import STAGE_HTML, stage_js
from mambaviz.viz.views import TokenStatus, frame_at
from tests.project.sources import ROOT


def sections() -> set[str]:
    """Numbers of all sections of the specification."""
    texts = [path.read_text() for path in (ROOT / "docs/spec").glob("0*.md")]
    return {number for text in texts for number in re.findall(r"^#+ (\d(?:\.\d+)?)\b", text, re.M)}


@pytest.mark.parametrize("term", TERMS.values(), ids=lambda term: term.name)
def test_a_term_is_one_sentence_about_an_existing_section(term: Term) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*\.", term.meaning)
    assert ". " not in term.meaning
    assert term.section in sections()


def test_everything_that_is_shown_has_a_term() -> None:
    shown = {*PHASES, *INVARIANTS, *get_args(Role), *get_args(TokenStatus), *shapes.EVENTS}
    assert shown - TERMS.keys() == set()


def test_no_form_names_two_terms() -> None:
    forms = [form.lower() for term in TERMS.values() for form in term.forms]
    assert len(forms) == len(set(forms))


def test_words_lead_to_their_term() -> None:
    found = named("Scratch blocks")
    assert found is not None
    assert found.name == "speculative"
    assert named("MIGRATE") is TERMS["migrate"]
    assert named("lunch") is None


def test_the_page_names_terms_that_exist(watch, crowd) -> None:
    assert set(re.findall(r'data-term="([^"]+)"', STAGE_HTML)) <= TERMS.keys()
    items = legend.items(get_args(Role), get_args(TokenStatus), shapes.EVENTS)
    assert {item.term for item in items if item} <= TERMS.keys()
    for phase in ("accept", "pre-copy", "post-copy"):
        rows = tables.why(frame_at(watch, 2, phase)).rows
        assert [row.name for row in rows if not row.term] in ([], ["copies"])


def test_the_script_brings_the_glossary() -> None:
    assert TERMS["bias"].meaning in stage_js()


def test_a_lamp_says_the_glossarys_sentence(watch) -> None:
    meaning = TERMS["I4"].meaning.removesuffix(".")
    assert tables.lamp_texts(watch.steps[2])[3].startswith(f"I4: t{meaning[1:]}; ")
