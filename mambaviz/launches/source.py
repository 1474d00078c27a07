"""The kernels' source as text, read from their files: no kernel is imported, so no torch either.

A listing holds a kernel and, in the order in which they are first called, the device functions
that it is made of. Long argument lists and docstrings are marked, so that a page can fold them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

KERNEL_DIR = Path(__file__).resolve().parents[2] / "kernels"

LONG_CALL = 4  # lines; a call that takes more is folded to its first

LineKind = Literal["head", "code", "comment", "blank", "folded"]


@dataclass(frozen=True)
class SourceLine:
    """One line: ``number`` in its file. ``folded`` lines are arguments and docstrings."""

    function: str
    number: int
    text: str
    kind: LineKind


@dataclass(frozen=True)
class Listing:
    """A kernel and its device functions; ``files`` says in which file each stands."""

    function: str
    lines: tuple[SourceLine, ...]
    files: dict[str, str]

    def of(self, function: str) -> list[SourceLine]:
        return [line for line in self.lines if line.function == function]


@cache
def listing(function: str) -> Listing:
    """The listing of a kernel. Raises KeyError for a name that no file in ``kernels/`` defines as
    a Triton kernel."""
    path = next((path for path in _files() if function in _jitted(path)), None)
    if path is None:
        raise KeyError(f"no Triton kernel {function!r} in {KERNEL_DIR.name}/")
    found = list(_called(path, function, {}))
    lines = [line for one, name in found for line in _lines(one, name)]
    files = {name: f"{KERNEL_DIR.name}/{one.name}" for one, name in found}
    return Listing(function, tuple(lines), files)


def _files() -> list[Path]:
    return sorted(KERNEL_DIR.glob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _jitted(path: Path) -> dict[str, ast.FunctionDef]:
    return {
        node.name: node
        for node in _tree(path).body
        if isinstance(node, ast.FunctionDef)
        and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def _imported(path: Path) -> dict[str, Path]:
    """Functions that a file takes from another one of the kernels."""
    return {
        alias.name: KERNEL_DIR / f"{node.module.removeprefix('kernels.')}.py"
        for node in _tree(path).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels.")
        for alias in node.names
        if node.module
    }


def _called(
    path: Path, function: str, seen: dict[tuple[Path, str], None]
) -> Iterator[tuple[Path, str]]:
    """The function and the device functions it calls, each once, callers first."""
    if (path, function) in seen:
        return
    seen[path, function] = None
    yield path, function
    node = _jitted(path)[function]
    names = [
        call.func.id
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]
    for name in dict.fromkeys(names):
        home = path if name in _jitted(path) else _imported(path).get(name)
        if home is not None and home.exists() and name in _jitted(home):
            yield from _called(home, name, seen)


def _lines(path: Path, function: str) -> Iterator[SourceLine]:
    node = _jitted(path)[function]
    text = path.read_text(encoding="utf-8").splitlines()
    folded = set(_folded(node))
    for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        line = text[number - 1]
        yield SourceLine(function, number, line, _kind(line, number, node, folded))


def _kind(line: str, number: int, node: ast.FunctionDef, folded: set[int]) -> LineKind:
    if number in folded:
        return "folded"
    if number == node.lineno:
        return "head"
    if not line.strip():
        return "blank"
    return "comment" if line.lstrip().startswith("#") else "code"


def _folded(node: ast.FunctionDef) -> Iterator[int]:
    """Lines of the signature after its first, of the docstring, and of long calls."""
    first = node.body[0]
    start = first.lineno
    if ast.get_docstring(node) is not None:
        start = (first.end_lineno or first.lineno) + 1
    yield from range(node.lineno + 1, start)
    for statement in ast.walk(node):
        if isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call):
            end = statement.end_lineno or statement.lineno
            if end - statement.lineno >= LONG_CALL:
                yield from range(statement.lineno + 1, end + 1)
