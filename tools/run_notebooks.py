"""Run the notebooks and keep what they show: `make notebooks`.

A notebook is run from top to bottom in its own folder, by the kernels that this machine has. What
is written back holds nothing of the machine or the hour, so that a second run changes no byte.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
TIME_LIMIT = 120  # seconds a cell may take on a slow machine


def notebooks() -> list[Path]:
    return sorted(FOLDER.glob("[0-9][0-9]-*.ipynb"))


def executed(path: Path) -> nbformat.NotebookNode:
    """A fresh run of a notebook, cleaned. Raises nbclient's CellExecutionError if a cell does."""
    # Tensors of a few hundred numbers: more threads only get in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(
        book,
        timeout=TIME_LIMIT,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    return cleaned(book)


def cleaned(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without counts, times, versions, and with cells named by their place."""
    book.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for index, cell in enumerate(book.cells):
        cell.id = f"cell-{index:02d}"
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined(cell.outputs)
    return book


def _joined(outputs: list[Any]) -> list[Any]:
    """What a cell prints may arrive in any number of pieces: as one output."""
    found: list[Any] = []
    for output in outputs:
        if "execution_count" in output:
            output.execution_count = None
        before: Any = found[-1] if found else {}
        if "text" in output and "text" in before and output.name == before.name:
            before.text += output.text
        else:
            found.append(output)
    return found


def text_of(book: nbformat.NotebookNode) -> str:
    """As it is written to a file."""
    return nbformat.writes(book) + "\n"


def main() -> int:
    """Run all of them, or those whose names begin with an argument (`06 07`)."""
    wanted = tuple(sys.argv[1:])
    for path in notebooks():
        if wanted and not path.name.startswith(wanted):
            continue
        began = time.perf_counter()
        text = text_of(executed(path))
        before = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        changed = "changed" if text != before else "as it was"
        seconds = time.perf_counter() - began
        print(f"{path.name}: {seconds:.1f} s, {len(text) / 1e3:.0f} kB, {changed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
