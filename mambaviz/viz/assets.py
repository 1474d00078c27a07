"""The stage's files as text: markup, style, script."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path

from mambaviz.glossary import TERMS
from mambaviz.viz import theme
from mambaviz.viz.keys import stage_keys_js

_DIR = Path(__file__).parent / "stage"


def _read(name: str) -> str:
    return (_DIR / name).read_text(encoding="utf-8")


# One module in the end: Streamlit takes a component's script as one text.
SHARED_SCRIPTS = ("browser.js", "timeline.js", "picture.js", "panels.js")
STAGE_SCRIPTS = (
    *SHARED_SCRIPTS, "unpack.js", "overview.js", "tips.js", "links.js", "roving.js", "keys.js",
    "stage.js",
)  # fmt: skip
SCRIPTS = (*STAGE_SCRIPTS, "mount.js")

SKELETON_CSS = _read("skeleton.css")


def skeleton(text: str) -> str:
    """The stage's shape with a sentence where its pictures will be, as markup."""
    return _read("skeleton.html").strip().format(text=escape(text))


STAGE_HTML = _read("stage.html").replace("<!-- skeleton -->", skeleton("The run is on its way."))


@cache
def marks_css() -> str:
    """Style of the drawn shapes: what the browser and a standalone SVG have in common."""
    return _read("marks.css")


@cache
def stage_css() -> str:
    """The component's whole style: tokens of both themes, shapes, layout."""
    return "\n".join((theme.css(".stage"), marks_css(), _read("stage.css"), SKELETON_CSS))


@cache
def stage_js() -> str:
    """The component's script, an ES module with the component as its default export."""
    return "\n".join((glossary_js(), stage_keys_js(), *(_read(name) for name in SCRIPTS)))


def glossary_js() -> str:
    """The glossary as a constant of the script: name to meaning, section, forms in a sentence."""
    terms = {term.name: [term.meaning, term.section, term.forms] for term in TERMS.values()}
    return f"const GLOSSARY = {json.dumps(terms, ensure_ascii=False)};"


# --------------------------------------------------------------------------------------
# Runs side by side
# --------------------------------------------------------------------------------------

_COMPARE_DIR = Path(__file__).parent / "compare"


def _read_compare(name: str) -> str:
    return (_COMPARE_DIR / name).read_text(encoding="utf-8")


COMPARE_HTML = _read_compare("compare.html")


@cache
def compare_css() -> str:
    """Style of the runs side by side: the stage's tokens and shapes, and what is its own."""
    return "\n".join(
        (theme.css(".stage"), marks_css(), _read("stage.css"), _read_compare("compare.css"))
    )


@cache
def compare_js() -> str:
    """Its script, an ES module with the component as its default export."""
    shared = [_read(name) for name in SHARED_SCRIPTS]
    return "\n".join((*shared, _read_compare("compare.js")))


# --------------------------------------------------------------------------------------
# A report
# --------------------------------------------------------------------------------------

_REPORTS_DIR = Path(__file__).parent / "reports"


def _read_reports(name: str) -> str:
    return (_REPORTS_DIR / name).read_text(encoding="utf-8")


REPORTS_HTML = _read_reports("reports.html")


@cache
def reports_css() -> str:
    """Style of a report: the stage's tokens and shapes, and what is its own."""
    own = _read_reports("reports.css")
    return "\n".join((theme.css(".stage"), marks_css(), _read("stage.css"), own))


@cache
def reports_js() -> str:
    """Its script, an ES module with the component as its default export."""
    shared = [_read(name) for name in SHARED_SCRIPTS]
    return "\n".join((*shared, _read_reports("reports.js")))


# --------------------------------------------------------------------------------------
# A lesson
# --------------------------------------------------------------------------------------

_LESSON_DIR = Path(__file__).parent / "lesson"


def _read_lesson(name: str) -> str:
    return (_LESSON_DIR / name).read_text(encoding="utf-8")


LESSON_HTML = _read_lesson("lesson.html")


@cache
def lesson_css() -> str:
    """Style of a lesson: the stage's tokens and shapes, and what is its own."""
    sizes = f".lesson{{{theme.lesson_constants()}}}"
    own = _read_lesson("lesson.css")
    return "\n".join((theme.css(".stage"), sizes, marks_css(), _read("stage.css"), own))


@cache
def lesson_js() -> str:
    """Its script, an ES module with the component as its default export."""
    shared = [_read(name) for name in SHARED_SCRIPTS]
    return "\n".join((*shared, _read_lesson("lesson.js")))


# --------------------------------------------------------------------------------------
# The Learn page: texts above the very stage of the Watch page
# --------------------------------------------------------------------------------------

_LEARN_DIR = Path(__file__).parent / "learn"


def _read_learn(name: str) -> str:
    return (_LEARN_DIR / name).read_text(encoding="utf-8")


LEARN_HTML = _read_learn("learn.html").replace("<!-- stage -->", STAGE_HTML)


@cache
def learn_css() -> str:
    """Style of the Learn page: the stage's, and what is its own."""
    return "\n".join((stage_css(), _read_learn("learn.css")))


@cache
def learn_js() -> str:
    """Its script, an ES module with the component as its default export."""
    shared = [_read(name) for name in STAGE_SCRIPTS]
    return "\n".join((glossary_js(), stage_keys_js("Learn"), *shared, _read_learn("learn.js")))
