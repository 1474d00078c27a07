"""The measured numbers of every report, kept in a file: a page opens without torch.

``measured.json`` is written by ``python -m mambaviz.pages.record`` together with the runs; a test
holds it against what is measured anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from mambaviz.reports.model import REPORTS, Measured

MEASURED_FILE = Path(__file__).parent / "measured.json"
_FORMAT = TypeAdapter(dict[str, tuple[Measured, Measured]])


@cache
def recorded_numbers() -> Mapping[str, tuple[Measured, Measured]]:
    """By report: what was measured without and with the mistake."""
    return _FORMAT.validate_json(MEASURED_FILE.read_bytes())


def measured_anew() -> dict[str, tuple[Measured, Measured]]:
    """The same, from runs made now."""
    found = {}
    for name, report in REPORTS.items():
        replay = report.replay()
        found[name] = (replay.measured(with_fault=False), replay.measured(with_fault=True))
    return found


def write_numbers() -> None:
    text = _FORMAT.dump_json(measured_anew(), indent=1, ensure_ascii=False)
    MEASURED_FILE.write_bytes(text + b"\n")
