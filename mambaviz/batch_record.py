"""Everything the metadata builder said about one batch: what the Metadata page is drawn from.

The counterpart of `mambaviz.trace` for a single build: complete, serialisable, free of torch, so
that a picture can be drawn from a saved one. Nothing in here is computed from a picture.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from mambaviz.attention.rules import RowClass
from mambaviz.batch import BATCH_DIR, BATCHES, Batch
from mambaviz.recordings import read_with, write_without
from mambaviz.trace import Metadata, Role, TensorRecord

RECORDED_DIR = BATCH_DIR / "recorded"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RowRecord(_Record):
    """How one row was classed and why; ``request`` is None for a padding row.

    ``roles`` has an entry for each column of the worker row, None where the batch alone does not
    say what the block is for.
    """

    request: str | None
    row_class: RowClass
    rule: str  # name of the `RowRule`
    reason: str
    roles: list[Role | None]


class Pointer(_Record):
    """A cell of the block table: batch row and logical block (column)."""

    row: int
    column: int


class GraphRecord(_Record):
    """Decode rows in memory that keeps its address (section 4.9).

    ``buffers``: the whole persistent memory behind each field after the build, ``limit`` rows of
    it. ``why_not`` says why this batch does not use it; empty if it does.
    """

    limit: int
    why_not: str
    buffers: dict[str, TensorRecord]


class RingStep(_Record):
    """One decode step of one row (section 4.8); bytes are those of one layer's states."""

    computed: int
    anchor: int
    write_pos: int
    is_flush: bool
    written: int  # bytes that ReplaySSM writes
    plain: int  # bytes that a decode without the ring writes


class RingRun(_Record):
    """A decode row over the steps that follow, one token each."""

    request: str
    row: int
    base: int
    steps: list[RingStep]


class BatchRecord(_Record):
    """One build. ``points`` has for a field that points into the block table an entry for each of
    its numbers, in row-major order; ``keeps_address`` names the fields whose memory was the same
    in the build before."""

    batch: Batch
    threshold: int
    rows: list[RowRecord]
    metadata: Metadata
    points: dict[str, list[Pointer | None]]
    keeps_address: list[str]
    graph: GraphRecord | None
    rings: list[RingRun]

    @property
    def num_decodes(self) -> int:
        return sum(row.row_class == "decode" for row in self.rows)

    @property
    def split(self) -> int | None:
        """Row that splits the batch; None without prefills."""
        return self.num_decodes if self.num_decodes < len(self.rows) else None

    def value(self, name: str) -> Any:
        """A field's recorded value. Raises KeyError for a name the builder does not return."""
        return next(field.value for field in self.metadata.fields if field.name == name)

    def numbers(self, name: str) -> list[Any]:
        """The values of a tensor field, padding folded away; [] where the field is None."""
        value = self.value(name) if any(f.name == name for f in self.metadata.fields) else None
        return value.values if isinstance(value, TensorRecord) else []


# --------------------------------------------------------------------------------------
# Recorded builds of the presets, shown before anything is built
# --------------------------------------------------------------------------------------


def recording_path(slug: str) -> Path:
    return RECORDED_DIR / f"{slug}.json.gz"


def write_recording(slug: str, record: BatchRecord) -> None:
    """Write a preset's build so that the same record always gives the same file."""
    write_without(recording_path(slug), record, "batch")


@lru_cache(maxsize=32)
def recorded(slug: str) -> BatchRecord:
    """The committed build of a preset."""
    return read_with(recording_path(slug), BatchRecord, "batch", BATCHES[slug])
