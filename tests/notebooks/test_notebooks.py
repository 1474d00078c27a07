"""The notebooks: run afresh, complete without scripts, every figure the project's own."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from tools.run_notebooks import cleaned, executed, notebooks

MOST_BYTES = 1_000_000
# What a code host shows as it stands; the figure that moves comes with a picture that doesn't.
STATIC = {"image/svg+xml", "text/html", "text/plain"}
MOVING = "application/vnd.plotly.v1+json"

every = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code(path: Path) -> str:
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")


def bundles(path: Path) -> list[dict]:
    outputs = [o for cell in read(path).cells if cell.cell_type == "code" for o in cell.outputs]
    return [output.data for output in outputs if "data" in output]


def test_they_are_numbered_without_a_gap():
    numbers = [int(path.name[:2]) for path in notebooks()]
    assert numbers == list(range(1, 15))


def said(book: nbformat.NotebookNode) -> list:
    """Sources and what cells print; of a figure or a table only which it is. Their lines and words
    are the app's: a clearer word there does not ask for fourteen notebooks to be run again. What
    must be true of them is asserted in the notebooks themselves."""
    found: list = [cell.source for cell in book.cells]
    for cell in book.cells:
        for output in cell.get("outputs", []):
            data = output.get("data")
            found.append(sorted(data) if data else output.get("text"))
    return found


@every
def test_a_fresh_run_says_what_is_committed(path: Path):
    fresh, committed = said(executed(path)), said(cleaned(read(path)))
    assert fresh == committed, f"run: make notebooks ONLY={path.name[:2]}"


@every
def test_it_is_small(path: Path):
    assert path.stat().st_size < MOST_BYTES


@every
def test_it_is_complete_without_scripts(path: Path):
    for bundle in bundles(path):
        assert bundle.keys() <= STATIC | {MOVING}
        if MOVING in bundle:
            assert "image/svg+xml" in bundle
        if "image/svg+xml" in bundle:
            svg = bundle["image/svg+xml"]
            assert ElementTree.fromstring(svg).get("aria-label")
            assert "<script" not in svg
            assert len(bundle["text/plain"]) > 20, "a picture says in words what it shows"
        assert not re.search(r"<(script|style|iframe)", bundle.get("text/html", ""))


@every
def test_every_figure_is_the_projects(path: Path):
    """Pictures and tables come from one module, and it draws with the app's own scenes."""
    names = {
        node.module.partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(code(path)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names <= {"sys", "numpy", "mambaviz"}
    assert "from mambaviz.viz import notebook as nb" in code(path)
    pictures = [
        bundle for bundle in bundles(path) if bundle.keys() & {"image/svg+xml", "text/html"}
    ]
    assert pictures or path.name.startswith("10")


@every
def test_it_claims_proves_and_asks(path: Path):
    cells = read(path).cells
    head = cells[0].source
    assert re.match(rf"# {path.name[:2]} · ", head)
    assert "**Claim.**" in head
    assert len(re.findall(r"^\s*assert ", code(path), re.MULTILINE)) >= 2
    asked = re.findall(r'^check\("(\d\d)\.\d"', code(path), re.MULTILINE)
    assert 2 <= len(asked) <= 4
    assert set(asked) == {path.name[:2]}
