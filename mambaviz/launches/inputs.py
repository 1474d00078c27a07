"""The inputs of one kernel launch, as data: what a person edits, a link carries, a file holds.

`LaunchInputs` describes a batch, its block table and small state caches. It is validated before
anything is launched: what the kernels guard against may stand in it (null ids, short rows, ids
beyond the pool when the kernel is told the pool's size), what would make a launch touch memory
that is not its own may not. Importing this module costs no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mambaviz import json_text
from mambaviz.limits import (
    LONGEST_NAME,
    LONGEST_REQUEST,
    LONGEST_STORY,
    MOST_COLUMNS,
    MOST_ROW_TOKENS,
    MOST_ROWS,
)
from mambaviz.scenario import EXACT_COUNT_LIMIT, PRESET_DIR, Grammar, explain, one_line

LAUNCH_DIR = PRESET_DIR / "launches"
DEFAULT_LAUNCH = "every-outcome"

KernelName = Literal["postprocess", "preprocess", "precopy", "memcpy"]

# How a person calls a kernel, its name in `kernels`, and what it is for.
KERNEL_LABELS: dict[KernelName, str] = {
    "postprocess": "after acceptance",
    "preprocess": "before the forward, columns",
    "precopy": "before the forward, copies",
    "memcpy": "copies from a list",
}
KERNEL_FUNCTIONS: dict[KernelName, str] = {
    "postprocess": "postprocess_mamba_fused_kernel",
    "preprocess": "preprocess_mamba_align_fused_kernel",
    "precopy": "precopy_mamba_align_fused_kernel",
    "memcpy": "batch_memcpy_kernel",
}
KERNEL_STORIES: dict[KernelName, str] = {
    "postprocess": "One program for each request and state. It decides, then copies (3.2).",
    "preprocess": "One lane for each request: in which column it runs, where its state lies (3.3).",
    "precopy": "One program for each request and state: into the new running block (3.4).",
    "memcpy": "One program for each copy of a list that the CPU has made (3.5).",
}

FAST_STORY = (
    "A fixed number of programs. Each decides for all requests, a lane each, and takes its share "
    "of the pieces that move."
)

Tokens = Annotated[int, Field(ge=0, le=MOST_ROW_TOKENS)]
Column = Annotated[int, Field(ge=-1, le=MOST_ROW_TOKENS)]
BlockId = Annotated[int, Field(ge=-999_999, le=999_999)]


class LaunchError(ValueError):
    """Inputs that cannot be launched. The message is one line fit for a screen."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LaunchRow(_Data):
    """One request of the batch.

    Which fields a kernel reads depends on the kernel (`FIELDS`). ``computed`` is
    ``num_computed_tokens``: before the step, or already advanced (`LaunchInputs.advanced`). For
    the two copies before a forward it says only which tokens the blocks hold. ``state_idx`` is the
    running column, ``slot`` the request's slot where the batch goes through a mapping (None: the
    batch index; -1: no request).
    """

    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    computed: Tokens = 0
    scheduled: Tokens = 1
    drafts: Annotated[int, Field(ge=0, le=16)] = 0
    accepted: Annotated[int, Field(ge=1, le=17)] = 1
    state_idx: Column = 0
    src_col: Column = -1
    bias: Annotated[int, Field(ge=-16, le=16)] = 0
    slot: Annotated[int, Field(ge=-1, le=31)] | None = None
    blocks: Annotated[list[BlockId], Field(max_length=MOST_COLUMNS)] = []


class LaunchInputs(_Data):
    """A launch: the kernel, how it is asked, the caches' sizes, the batch.

    ``advanced`` and ``mapped`` are the V2 runner's ways (section 3.2): counts that include this
    step, and requests in slots. ``bounded``: the kernel is told ``num_blocks``. A conv state has
    ``conv_kernel - 1 + num_spec`` token rows of ``channels`` values, a temporal state
    ``channels * d_state`` values.
    """

    name: Annotated[str, Field(max_length=LONGEST_NAME)] = "untitled"
    story: Annotated[str, Field(max_length=LONGEST_STORY)] = ""
    kernel: KernelName = "postprocess"
    advanced: bool = False
    mapped: bool = False
    bounded: bool = True
    block_size: Annotated[int, Field(ge=1, le=MOST_ROW_TOKENS)] = 4
    layout: Literal["SD", "DS"] = "SD"
    layers: Annotated[int, Field(ge=1, le=4)] = 2
    num_spec: Annotated[int, Field(ge=0, le=6)] = 2
    conv_kernel: Annotated[int, Field(ge=2, le=4)] = 4
    channels: Annotated[int, Field(ge=1, le=8)] = 4
    d_state: Annotated[int, Field(ge=1, le=8)] = 4
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    padding: Annotated[int, Field(ge=0, le=256)] = 0
    num_blocks: Annotated[int, Field(ge=2, le=256)] = 24
    columns: Annotated[int, Field(ge=1, le=MOST_COLUMNS)] = 6
    rows: Annotated[list[LaunchRow], Field(min_length=1, max_length=MOST_ROWS)]

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 over what is launched: everything but the name and the story."""
        content = self.model_dump(mode="json", exclude={"name", "story"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def conv_width(self) -> int:
        """Token rows of a conv state."""
        return self.conv_kernel - 1 + self.num_spec

    @property
    def elem_size(self) -> int:
        return 4 if self.dtype == "float32" else 2

    @property
    def conv_shape(self) -> tuple[int, int]:
        """One block's conv state: ``[tokens, channels]`` (SD) or ``[channels, tokens]`` (DS)."""
        sizes = (self.conv_width, self.channels)
        return sizes if self.layout == "SD" else (sizes[1], sizes[0])

    @property
    def takes_slots(self) -> bool:
        return self.kernel == "preprocess" or (self.mapped and self.kernel != "memcpy")

    @property
    def copies(self) -> bool:
        """Whether the kernel moves bytes between blocks."""
        return self.kernel != "preprocess"

    def slot_of(self, row: int) -> int:
        """The slot in which the per-request numbers of a batch row stand."""
        slot = self.rows[row].slot if self.takes_slots else None
        return row if slot is None else slot

    def running(self, row: int) -> int:
        """Tokens in the state of a request's running column, before the launch."""
        found = self.rows[row]
        if self.kernel != "postprocess":
            return found.computed - found.bias
        if self.advanced:
            return found.computed - found.accepted + 1
        return found.computed + found.scheduled - found.drafts

    def table_row(self, row: int) -> list[int]:
        """A row of the block table, filled up with the null block."""
        blocks = self.rows[row].blocks
        return [*blocks, *[0] * (self.columns - len(blocks))]


def fields_of(inputs: LaunchInputs) -> tuple[str, ...]:
    """What this kernel reads from a row, in the order of the table's columns."""
    slot = ("slot",) if inputs.takes_slots else ()
    match inputs.kernel:
        case "postprocess":
            counts = ("computed",) if inputs.advanced else ("computed", "scheduled", "drafts")
            return (*slot, *counts, "accepted", "state_idx", "blocks")
        case "preprocess":
            return (*slot, "computed", "scheduled", "accepted", "state_idx")
        case _:
            return (*slot, "computed", "src_col", "bias", "state_idx", "blocks")


# --------------------------------------------------------------------------------------
# What cannot be launched, each with its sentence
# --------------------------------------------------------------------------------------


def _problems(inputs: LaunchInputs) -> Iterator[str]:
    if inputs.padding % inputs.elem_size:
        yield (
            f"padding = {inputs.padding}: pages end on whole {inputs.dtype} values, so it must be "
            f"a multiple of {inputs.elem_size}"
        )
    if inputs.advanced and inputs.kernel != "postprocess":
        yield "advanced counts: only the kernel after acceptance is given them; switch them off"
    if inputs.kernel == "memcpy" and inputs.layout == "DS":
        yield (
            "layout = DS: a shifted DS window is no single region, so the copy list cannot hold "
            "it; use the copies before the forward (section 3.6)"
        )
    seen: set[str] = set()
    slots: dict[int, str] = {}
    for index, row in enumerate(inputs.rows):
        where = f"row {index} ({row.request})"
        if row.request in seen:
            yield f"{where}, request: the name is taken; every row needs its own"
        seen.add(row.request)
        slot = inputs.slot_of(index)
        if slot >= 0 and slot in slots:
            yield f"{where}, slot = {slot}: {slots[slot]} has it already; every request needs one"
        slots[slot] = row.request
        yield from _row_problems(inputs, row, where)


def _row_problems(inputs: LaunchInputs, row: LaunchRow, where: str) -> Iterator[str]:
    if len(row.blocks) > inputs.columns:
        yield (
            f"{where}, block-table row: {len(row.blocks)} ids, but a row has {inputs.columns} "
            "columns; raise the columns or shorten it"
        )
    beyond = next((block for block in row.blocks if block >= inputs.num_blocks), None)
    if beyond is not None and not (inputs.bounded and inputs.kernel != "memcpy"):
        yield (
            f"{where}, block-table row: there is no block {beyond}, ids go to "
            f"{inputs.num_blocks - 1}, and a kernel that is not told so would leave the cache"
        )
    limit = EXACT_COUNT_LIMIT[inputs.dtype]
    if inputs.copies and row.computed + row.scheduled + inputs.num_spec >= limit:
        yield (
            f"{where}, computed = {row.computed}: {inputs.dtype} counts tokens exactly only below "
            f"{limit}; lower it or choose a wider dtype"
        )
    if inputs.kernel == "postprocess" and not inputs.advanced and row.drafts > row.scheduled:
        yield (
            f"{where}, drafts = {row.drafts}: they are part of the {row.scheduled} scheduled "
            "tokens; lower them or schedule more"
        )


# --------------------------------------------------------------------------------------
# From text and from plain data
# --------------------------------------------------------------------------------------

# What a person calls the fields, in sentences and above the columns.
LABELS: dict[str, str] = {
    "blocks": "block-table row",
    "block_size": "block size",
    "num_spec": "drafts a step",
    "conv_kernel": "conv kernel",
    "d_state": "state values",
    "num_blocks": "blocks",
    "src_col": "source column",
}


def parse(text: str) -> LaunchInputs:
    """Inputs from JSON text. Raises `LaunchError` with one line."""
    return json_text.parsed(LaunchInputs, text, _explain, LaunchError)


def build(data: Mapping[str, Any]) -> LaunchInputs:
    """Inputs from a plain mapping, as an editor holds them. Raises `LaunchError`."""
    return json_text.built(LaunchInputs, data, _explain, LaunchError)


def load(path: Path) -> LaunchInputs:
    """Inputs from a JSON file."""
    return parse(path.read_text(encoding="utf-8"))


GRAMMAR = Grammar(LaunchInputs, {"rows": LaunchRow}, choices={}, called="launch")


def _explain(error: ValidationError) -> str:
    """The first thing wrong: row and field as the screen names them, and what would be right."""
    first = error.errors(include_url=False)[0]
    text = explain(error, GRAMMAR)
    place = list(first["loc"])
    if len(place) < 3 or place[0] != "rows":
        name, equals, rest = text.partition(" = ")
        return f"{LABELS.get(name, name)}{equals}{rest}"
    name = LABELS.get(str(place[2]), str(place[2]))
    if first["type"] in ("missing", "extra_forbidden"):
        return f"row {place[1]}: {text.partition(': ')[2] or text}"
    if first["input"] is None:
        return f"row {place[1]}, {name}: it is empty; fill it in"
    _, equals, rest = text.partition(" = ")
    return f"row {place[1]}, {name}{equals}{rest}"


# --------------------------------------------------------------------------------------
# Presets
# --------------------------------------------------------------------------------------


def _load_launches() -> dict[str, LaunchInputs]:
    paths = sorted(LAUNCH_DIR.glob("*.json"))
    return {path.stem.split("-", 1)[1]: load(path) for path in paths}


LAUNCHES: dict[str, LaunchInputs] = _load_launches()


def slug_of(inputs: LaunchInputs) -> str | None:
    """The preset with the same content; None if there is none."""
    wanted = inputs.content_hash
    return next((slug for slug, preset in LAUNCHES.items() if preset.content_hash == wanted), None)
