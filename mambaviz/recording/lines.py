"""The kinds of line of a recording (docs/recording.md), as validated data.

A key that may be absent is None where it was absent: unknown. Keys that this version does not
know are skipped. Ids of blocks are the engine's own, columns and rows count from 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mambaviz.limits import (
    LONGEST_RECORDED_LINE,
    LONGEST_REQUEST,
    MOST_RECORDED_BLOCKS,
    MOST_RECORDED_TOKENS,
    MOST_STEP_TOKENS,
)
from mambaviz.recording.checked import checked_base64, checked_field, checked_names

FORMAT = "mambaviz-recording"
VERSION = 1
LONGEST_LINE = LONGEST_RECORDED_LINE
LONGEST_ID = LONGEST_REQUEST  # characters

Count = Annotated[int, Field(ge=0, lt=2**53)]
Number = Annotated[int, Field(gt=-(2**53), lt=2**53)]  # an id or a column, which may be wrong
Tokens = Annotated[int, Field(ge=0, le=MOST_RECORDED_TOKENS)]
BlockSize = Annotated[int, Field(ge=1, lt=2**53)]
RequestId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
RequestKind = Literal["new", "resumed", "running"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class StateShape(_Data):
    """One block's state tensor in one layer, shape without the block axis."""

    state: str
    shape: Annotated[list[Count], Field(min_length=1, max_length=4)]
    dtype: str


class Group(_Data):
    """A cache group."""

    kind: Literal["mamba", "attention", "other"]
    block_size: BlockSize
    layers: Count | None = None
    states: list[StateShape] = []
    page_bytes: Count | None = None


class Settings(_Data):
    """The engine's settings; None: unknown (``prefill_chunk_limit``: none, or unknown)."""

    mode: Literal["none", "align", "all"] | None = None
    runner: Literal["v1", "v2"] | None = None
    layout: Literal["SD", "DS"] | None = None
    block_size: BlockSize | None = None
    hash_block_size: BlockSize | None = None
    num_spec: Annotated[int, Field(ge=0, le=1024)] | None = None
    num_speculative_blocks: Count | None = None
    num_blocks: Annotated[int, Field(ge=2, le=MOST_RECORDED_BLOCKS)] | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_model_len: Count | None = None
    prefill_chunk_limit: Count | None = None
    retention: Literal["dense", "boundary"] | Count | None = None
    admission_gate: bool | None = None
    stop_before_last_token: bool | None = None
    drop_last_matched_block: bool | None = None
    register_draft_filled_blocks: bool | None = None
    full_cuda_graphs: bool | None = None
    async_scheduling: bool | None = None
    prefix_caching: bool | None = None
    replayssm_buffer_len: Tokens | None = None
    prefill_checkpoint_blocks: Count | None = None
    chunk_size: BlockSize | None = None
    parallel_drafting: bool | None = None


class Hook(_Data):
    """A seam of the engine: whether it was found, where, and why not."""

    seam: str
    hooked: bool
    where: str | None = None
    why: str | None = None


class Aliases(_Data):
    requests: Literal["alias", "kept"] | None = None
    tokens: Literal["left out", "kept"] | None = None


class Process(_Data):
    role: Literal["engine", "worker"]
    rank: Count


class Head(_Data):
    """The first line: what was recorded, and what could not be."""

    event: Literal["head"]
    format: str
    version: int
    engine: str
    engine_version: str
    recorder: str | None = None
    title: str | None = None
    story: str | None = None
    settings: Settings
    groups: list[Group] | None = None
    hooks: list[Hook] | None = None
    aliases: Aliases | None = None
    states: bool = False
    process: Process | None = None

    @property
    def missing(self) -> list[Hook]:
        """Seams that no wrapper was put on. Some have one for every runner, and need but one."""
        hooks = self.hooks or []
        found = {hook.seam for hook in hooks if hook.hooked}
        return [hook for hook in hooks if not hook.hooked and hook.seam not in found]


class Cut(_Data):
    """Columns from ``start`` on; those before are as they were."""

    start: Count = 0
    ids: list[Number]

    def after(self, before: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The whole list; None where it goes on from columns that are not known."""
        if self.start == 0:
            return tuple(self.ids)
        if before is None or len(before) < self.start:
            return None
        return (*before[: self.start], *self.ids)


class _Event(_Data):
    step: Count


class RequestCame(_Event):
    event: Literal["request"]
    id: RequestId
    prompt: Tokens | None = None
    max_tokens: Count | None = None
    prefix: list[int] | None = None
    tokens: list[Number] | None = None
    salted: bool | None = None


class Action(_Event):
    event: Literal["action"]
    kind: Literal["abort", "preempt", "reset", "reset_running"]
    request: RequestId | None = None


class Scheduled(_Data):
    """One request of a step, as the scheduler's output has it."""

    id: RequestId
    kind: RequestKind
    computed: Tokens
    scheduled: Tokens
    drafts: Tokens = 0
    known: Tokens | None = None
    prompt: Tokens | None = None
    padded_tail: bool = False
    tokens: list[Number] | None = None

    @property
    def end(self) -> int:
        """Tokens after the step if all drafts are kept."""
        return self.computed + self.scheduled

    @property
    def running(self) -> int:
        """Tokens that stand in the running column, before any draft (section 3.2)."""
        return self.end - self.drafts

    def computed_after(self, accepted: int) -> int:
        """Tokens computed after the step, of which ``accepted`` came out (section 2)."""
        return self.running + accepted - 1


def within_a_step(requests: list[Scheduled]) -> list[Scheduled]:
    scheduled = sum(request.scheduled for request in requests)
    if scheduled > MOST_STEP_TOKENS:
        raise ValueError(f"{scheduled} tokens in one step, at most {MOST_STEP_TOKENS} are read")
    return requests


class Schedule(_Event):
    event: Literal["schedule"]
    requests: Annotated[list[Scheduled], AfterValidator(within_a_step)]
    finished: list[RequestId] | None = None
    preempted: list[RequestId] | None = None
    waiting: list[RequestId] | None = None
    free_count: Count | None = None


class Blocks(_Event):
    event: Literal["blocks"]
    lists: dict[RequestId, list[Cut | None]]
    gone: list[RequestId] | None = None
    registered: dict[Number, str | None] | None = None
    refs: dict[Number, Count] | None = None
    free_queue: list[Number] | None = None
    remembered: dict[RequestId, Number | None] | None = None
    whole: bool = False


class Rows(_Event):
    event: Literal["rows"]
    order: list[RequestId]
    rows: dict[RequestId, list[Cut | None]]
    computed: dict[RequestId, Count] | None = None
    accepted: dict[RequestId, Number] | None = None
    slots: dict[RequestId, Number] | None = None


class CopiedBlocks(_Data):
    """Source and destination of a copy in one group; ``state`` None: of all its states."""

    group: Count
    src: Number | None
    dst: Number | None
    state: str | None = None


class CopyRow(_Data):
    """What a copy phase was given and decided for one request."""

    id: RequestId
    column: Number | None = None
    accepted: Number | None = None
    accepted_out: Number | None = None
    src_col: Number | None = None
    dst_col: Number | None = None
    bias: Number | None = None
    copies: bool | None = None
    blocks: list[CopiedBlocks] | None = None
    # What the postprocess was staged with.
    computed: Number | None = None
    scheduled: Number | None = None
    drafts: Number | None = None
    new_computed: Number | None = None


class PreCopy(_Event):
    event: Literal["pre_copy"]
    rows: list[CopyRow]
    columns_before: dict[RequestId, Number] | None = None
    forgotten: list[RequestId] | None = None


class Built(_Event):
    """What a metadata builder made for one group."""

    event: Literal["metadata"]
    group: Count
    builder: str | None = None
    inputs: dict[str, Any] | None = None
    fields: Annotated[
        dict[str, Annotated[Any, AfterValidator(checked_field)]], AfterValidator(checked_names)
    ]


class Accept(_Event):
    event: Literal["accept"]
    counts: dict[RequestId, Number] | None = None
    sampled: dict[RequestId, Count] | None = None


class PostCopy(_Event):
    event: Literal["post_copy"]
    rows: list[CopyRow]


class Commit(_Event):
    event: Literal["commit"]
    computed: dict[RequestId, Number] | None = None
    known: dict[RequestId, Count] | None = None
    finished: list[RequestId] | None = None


class StateBytes(_Event):
    event: Literal["state"]
    after: Literal["pre-copy", "forward", "post-copy"]
    group: Count
    layer: Count
    state: str
    block: Count
    data: Annotated[str, AfterValidator(checked_base64)]


class Note(_Data):
    event: Literal["note"]
    seam: str
    what: str
    step: Count | None = None


class Lost(_Data):
    event: Literal["lost"]
    lines: Count
    step: Count | None = None


class End(_Data):
    event: Literal["end"]
    steps: Count | None = None
    lines: Count | None = None
    why: str | None = None


StepLine = (
    RequestCame
    | Action
    | Schedule
    | Blocks
    | Rows
    | PreCopy
    | Built
    | Accept
    | PostCopy
    | Commit
    | StateBytes
)
Line = Annotated[StepLine | Note | Lost | End, Field(discriminator="event")]
