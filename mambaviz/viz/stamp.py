"""What an exported file says of where it comes from, and what it is called.

The stamp is enough to compute the picture again: the scenario's hash, the place in the run, the
back end and the versions it ran with.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from mambaviz.trace import PhaseName, Trace

MOST_OF_A_NAME = 40  # characters of a scenario's or request's name in a file name


@dataclass(frozen=True)
class Place:
    """A picture of a run: after this phase, with the state of one request in one layer."""

    step: int
    phase: PhaseName
    request: str
    layer: int

    @property
    def words(self) -> str:
        return f"step {self.step}, {self.phase}, request {self.request}, layer {self.layer}"


def stamp(trace: Trace) -> str:
    """``mambaviz, scenario 91115bb…, back end reference, torch 2.13.0, …``"""
    versions = ", ".join(f"{name} {version}" for name, version in trace.versions.items())
    parts = [f"scenario {trace.scenario_hash}", f"back end {trace.backend}", versions]
    return "mambaviz, " + ", ".join(part for part in parts if part)


def run_name(trace: Trace) -> str:
    """The beginning of every file name of a run: ``mambaviz-plain-decode-91115bb``."""
    return f"mambaviz-{_plain(trace.scenario.name) or 'run'}-{trace.scenario_hash[:7]}"


def picture_name(trace: Trace, place: Place) -> str:
    """The name of a picture without its suffix: the run's, and the place."""
    request = _plain(place.request)
    at = f"step-{place.step}-{place.phase}" + (f"-{request}" if request else "")
    return f"{run_name(trace)}-{at}-layer-{place.layer}"


def _plain(name: str) -> str:
    """A name as part of a file name: letters, digits and dashes of any system."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_name)[:MOST_OF_A_NAME].strip("-")
