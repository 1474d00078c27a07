"""The recordings of real engines that come along, to look at without an engine of one's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mambaviz.recording.lines import Head
from mambaviz.recording.reader import open_recording
from mambaviz.recording.steps import Gatherer, request_names

EXAMPLE_DIR = Path(__file__).parent / "examples"
_ENDING = ".jsonl.gz"

# Under this name goes a recording that a reader has opened from a file: no link can hold it.
OWN_FILE = "file"


@cache
def examples() -> dict[str, Path]:
    """Example recordings by name."""
    paths = sorted(EXAMPLE_DIR.glob(f"*{_ENDING}"))
    return {path.name.removesuffix(_ENDING): path for path in paths}


@cache
def example_head(name: str) -> Head:
    """What an example's first line says of it."""
    reader = open_recording(examples()[name])
    with reader.stream:
        return reader.head


@cache
def example_requests(name: str) -> tuple[str, ...]:
    """Every request of an example, in the order in which they came."""
    return tuple(request_names(Gatherer().steps(open_recording(examples()[name]).lines())))
