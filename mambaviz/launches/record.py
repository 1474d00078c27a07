"""What one launch did: everything the Kernels page draws, free of torch.

A `LaunchRecord` holds what every program of a launch decided, which bytes it read and wrote, and
the blocks before and after. The decisions come from the plain twins (`kernels.reference`), the
bytes from the launch; ``unexplained`` counts where the two disagree, and must be 0. A `Damage` is
the same launch done wrong on purpose.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from mambaviz.launches.inputs import LAUNCH_DIR, LAUNCHES, LaunchInputs
from mambaviz.recordings import read_with, write_without
from mambaviz.trace import ByteRange, Invariant, StateKind, decode_floats

RECORDED_DIR = LAUNCH_DIR / "recorded"

# What became of a program: moved bytes, nothing to move, stopped by a guard, wrote a number.
Outcome = Literal["copied", "shifted", "idle", "in place", "guarded", "written", "kept"]
MOVED: tuple[Outcome, ...] = ("copied", "shifted")
OUTCOME_NAMES: dict[Outcome, str] = {
    "copied": "copied",
    "shifted": "shifted in place",
    "idle": "nothing to do",
    "in place": "already in place",
    "guarded": "guarded",
    "written": "written",
    "kept": "not written",
}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StateLayout(_Record):
    """One state tensor: ``shape`` of a block (conv SD ``[tokens, channels]``, DS the other way
    round, temporal ``[channels, d_state]``), ``stride`` bytes from block to block."""

    layer: int
    kind: StateKind
    shape: list[int]
    dtype: Literal["float32", "float16", "bfloat16"]
    stride: int

    @property
    def name(self) -> str:
        return f"L{self.layer} {self.kind}"

    @property
    def elem_size(self) -> int:
        return 4 if self.dtype == "float32" else 2

    @property
    def num_bytes(self) -> int:
        """Natural bytes of a block: without the padding of its page."""
        return self.shape[0] * self.shape[1] * self.elem_size

    def decode(self, raw: bytes) -> np.ndarray:
        """A block's bytes as float32 numbers of `shape`."""
        return decode_floats(raw, self.dtype).reshape(self.shape)

    def labels(self, raw: bytes, layout: str) -> list[int | None]:
        """What the bytes say: the token of each conv row (None: never written), or the one
        number of tokens that a temporal state has absorbed. `NO_LABEL`: bytes that say neither.
        """
        values = self.decode(raw)
        if self.kind == "temporal":
            return [_counted(values[0, 0])]
        first = values[:, 0] if layout == "SD" else values[0]
        return [None if value == 0 else _counted(value, less=1) for value in first]


NO_LABEL = -1


def _counted(value: float, less: int = 0) -> int:
    """A label's number; `NO_LABEL` for what cannot be one."""
    whole = bool(np.isfinite(value)) and value >= less and value == int(value)
    return int(value) - less if whole else NO_LABEL


def label_texts(state: StateLayout, labels: Sequence[int | None]) -> list[str]:
    """``t9`` for a conv row, ``h(9)`` for a temporal state, ``–`` never written, ``?`` no label."""
    shape = "h({})" if state.kind == "temporal" else "t{}"
    return [
        "–" if label is None else "?" if label == NO_LABEL else shape.format(label)
        for label in labels
    ]


class LineValue(_Record):
    """A line of the kernel's source, by how it begins, and what it came to in one program.

    ``mark``: the line decided what happens (``key``) or ended the program (``stop``).
    """

    function: str
    code: str
    value: str
    mark: Literal["", "key", "stop"] = ""


class OrderStrip(_Record):
    """A shift in place done in one order: which token each row then holds."""

    name: str
    note: str
    rows: list[int | None]
    right: bool


class ProgramRecord(_Record):
    """One program: batch row × state (of the kernel of 3.3: batch row × array it writes).

    ``label`` fits into the grid's cell, ``why`` is a sentence. Ranges are bytes within the block.
    """

    row: int
    state: int
    outcome: Outcome
    label: str
    why: str
    lines: list[LineValue]
    bias: int = 0
    src_block: int | None = None
    dst_block: int | None = None
    source: ByteRange | None = None  # None: nothing is read
    target: ByteRange | None = None
    num_bytes: int = 0
    orders: list[OrderStrip] = []

    @property
    def key(self) -> str:
        return f"{self.row}-{self.state}"


class BlockImage(_Record):
    """One block's natural bytes in one state, before and after (base64)."""

    state: int
    block: int
    before: str
    after: str

    @property
    def raw_before(self) -> bytes:
        return base64.b64decode(self.before)

    @property
    def raw_after(self) -> bytes:
        return base64.b64decode(self.after)


class Counts(_Record):
    """An int32 array by slot, before and after the launch."""

    name: str
    before: list[int]
    after: list[int]


class LaunchRecord(_Record):
    """One launch. ``notes`` has a short text for every row of the grid; ``columns`` names the
    grid's columns; ``unexplained`` counts bytes and numbers in which launch and twin differ."""

    inputs: LaunchInputs
    backend: str
    function: str
    grid: list[int]
    states: list[StateLayout]
    columns: list[str]
    notes: list[str]
    programs: list[ProgramRecord]
    blocks: list[BlockImage]
    counts: list[Counts]
    unexplained: int

    def program(self, key: str) -> ProgramRecord:
        """Raises KeyError for a program that the launch does not have."""
        for program in self.programs:
            if program.key == key:
                return program
        raise KeyError(f"no program {key!r} in this launch")

    @property
    def first(self) -> ProgramRecord:
        """The one to look at first: a shift in place, else one that moves, else the first."""
        for outcome in ("shifted", "copied", "guarded"):
            for program in self.programs:
                if program.outcome == outcome:
                    return program
        return self.programs[0]

    def image(self, state: int, block: int) -> BlockImage:
        return next(one for one in self.blocks if (one.state, one.block) == (state, block))

    @property
    def num_bytes(self) -> int:
        """Bytes read; as many are written."""
        return sum(program.num_bytes for program in self.programs)


class Broken(_Record):
    """An invariant that catches the damage: where, and why it is its business."""

    invariant: Invariant
    place: str
    why: str


class Damage(_Record):
    """The launch of a record done with ``mistakes``: the blocks that differ from what is right.

    In ``blocks`` ``before`` is the right content, ``after`` the wrong one. ``programs`` are the
    keys of programs whose target block came out wrong, ``orders`` says how each mistake was
    simulated.
    """

    mistakes: list[str]
    blocks: list[BlockImage]
    programs: list[str]
    broken: list[Broken]
    counts: list[str]
    notes: list[str]

    @property
    def harmless(self) -> bool:
        return not (self.blocks or self.counts or self.broken)


# --------------------------------------------------------------------------------------
# Recorded launches of the presets, shown before anything is launched
# --------------------------------------------------------------------------------------


def recording_path(slug: str) -> Path:
    return RECORDED_DIR / f"{slug}.json.gz"


def write_recording(slug: str, record: LaunchRecord) -> None:
    """Write a preset's launch so that the same record always gives the same file."""
    write_without(recording_path(slug), record, "inputs")


@lru_cache(maxsize=32)
def recorded(slug: str) -> LaunchRecord:
    """The committed launch of a preset."""
    return read_with(recording_path(slug), LaunchRecord, "inputs", LAUNCHES[slug])
