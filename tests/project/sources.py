"""What the house checks look at: the files of the repository and the imports they make."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and where the statement stands."""

    module: str
    file: str
    line: int

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    def inside(self, room: str) -> bool:
        """Whether the module is the dotted ``room`` or lies in it."""
        return self.module == room or self.module.startswith(room + ".")

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that is in the repository or about to be: ignored ones are not the project's."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = sorted({name for name in listed.stdout.decode().split("\0") if name})
    return tuple(ROOT / name for name in names if (ROOT / name).is_file())


def python_files(room: str) -> list[Path]:
    """The Python files of a room: a folder, or a single file. AssertionError if it is missing."""
    path = ROOT / room
    assert path.exists(), f"{room} is listed as a room of the house and does not exist"
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, f"{room} holds no Python file"
    return files


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Everything a file imports, in functions and under TYPE_CHECKING too.

    ``from package import name`` counts as ``package.name`` where that is a module of ours, so
    that an import cannot hide behind its package.
    """
    file = path.relative_to(ROOT).as_posix()
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=file)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, file, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = absolute(path, node)
            for alias in node.names:
                module = f"{package}.{alias.name}"
                found.append(Import(module if is_ours(module) else package, file, node.lineno))
    return tuple(found)


def absolute(path: Path, node: ast.ImportFrom) -> str:
    """The package that an import names, with the leading dots resolved."""
    if node.level == 0:
        return node.module or ""
    parts = path.relative_to(ROOT).parts[: -node.level]
    return ".".join((*parts, node.module) if node.module else parts)


def is_ours(module: str) -> bool:
    """Whether a dotted name is a module or package of this repository."""
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def room_imports(room: str) -> list[Import]:
    """Everything imported in a room."""
    return [found for path in python_files(room) for found in imports(path)]


def from_elsewhere(found: Import) -> bool:
    """Whether an import is neither the standard library's nor of this repository."""
    return found.top not in sys.stdlib_module_names and not is_ours(found.top)
