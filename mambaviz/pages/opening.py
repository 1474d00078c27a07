"""Recordings for the Watch page: read, judged and drawn, once for everybody.

A page asks for a recording, tells what its first line says at once, and shows the rest when it is
there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from dataclasses import dataclass
from functools import cached_property

from mambaviz.limits import MIB, MOST_REQUESTS
from mambaviz.pages.runs import Run
from mambaviz.pages.work import Pace, Work
from mambaviz.recording.reader import Reader
from mambaviz.recording.replay import Replay, replay
from mambaviz.recording.shelf import examples

MOST_KEPT = 16
MOST_BYTES = 128 * MIB  # of recordings that are kept
HELD_PER_BYTE = 16  # bytes that the steps take in memory for each byte of text, measured

RecordingKey = tuple[str, frozenset[str]]
_STEP = re.compile(rb'"event": ?"schedule"')  # in a line that a step has once


@dataclass(frozen=True)
class Shown:
    """A recording, judged as a whole and drawn with the chosen requests."""

    key: RecordingKey
    name: str
    whole: Replay
    run: Run
    size: int  # of its text

    @cached_property
    def held_bytes(self) -> int:
        return self.run.held_bytes + HELD_PER_BYTE * self.size


@dataclass(eq=False)
class RecordingJob(Work[Shown]):
    """One recording on its way, or there. ``only``: the requests to draw, none for the first ones.

    ``data`` None: it is the example of this name.
    """

    title: str
    data: bytes | None
    only: frozenset[str] = frozenset()

    @cached_property
    def key(self) -> RecordingKey:
        known = self.title if self.data is None else hashlib.sha256(self.data).hexdigest()
        return known, self.only

    @property
    def name(self) -> str:
        return f"recording {self.title}"

    @property
    def broke_off(self) -> str:
        return "This recording broke off"

    @property
    def text(self) -> bytes:
        if self.data is not None:
            return self.data
        return gzip.decompress(examples()[self.title].read_bytes())

    def compute(self, pace: Pace) -> Shown:
        text = self.text
        pace.begin("Judging", len(_STEP.findall(text)), exact=False)
        whole = replay(
            Reader(io.BytesIO(text), self.title),
            only=self.only,
            first=MOST_REQUESTS,
            progress=pace.step,
        )
        run = Run(whole.trace, recorded=True)
        run.draw(pace)
        return Shown(self.key, self.title, whole, run, len(text))
