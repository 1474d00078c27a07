"""The kinds of line of a recording (docs/recording.md), as validated data.

A key that may be absent is None where it was absent: unknown. Keys that this version does not
know are skipped. Ids of blocks are the engine's own, columns and rows count from 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mambaviz.limits import LONGEST_RECORDED_LINE, LONGEST_REQUEST

FORMAT = "mambaviz-recording"
VERSION = 1
LONGEST_LINE = LONGEST_RECORDED_LINE
LONGEST_ID = LONGEST_REQUEST  # characters

Count = Annotated[int, Field(ge=0, lt=2**53)]
RequestId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
RequestKind = Literal["new", "resumed", "running"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class StateShape(_Data):
    """One block's state tensor in one layer, shape without the block axis."""

    state: str
    shape: list[Count]
    dtype: str


class Group(_Data):
    """A cache group."""

    kind: Literal["mamba", "attention", "other"]
    block_size: Annotated[int, Field(ge=1)]
    layers: Count | None = None
    states: list[StateShape] = []
    page_bytes: Count | None = None


class Settings(_Data):
    """The engine's settings; None: unknown (``prefill_chunk_limit``: none, or unknown)."""

    mode: Literal["none", "align", "all"] | None = None
    runner: Literal["v1", "v2"] | None = None
    layout: Literal["SD", "DS"] | None = None
    block_size: Annotated[int, Field(ge=1)] | None = None
    hash_block_size: Annotated[int, Field(ge=1)] | None = None
    num_spec: Annotated[int, Field(ge=0, le=1024)] | None = None
    num_speculative_blocks: Count | None = None
    num_blocks: Annotated[int, Field(ge=2)] | None = None
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
    replayssm_buffer_len: Count | None = None
    prefill_checkpoint_blocks: Count | None = None
    chunk_size: Count | None = None
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
    ids: list[int]

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
    prompt: Count | None = None
    max_tokens: Count | None = None
    prefix: list[int] | None = None
    tokens: list[int] | None = None
    salted: bool | None = None


class Action(_Event):
    event: Literal["action"]
    kind: Literal["abort", "preempt", "reset", "reset_running"]
    request: RequestId | None = None


class Scheduled(_Data):
    """One request of a step, as the scheduler's output has it."""

    id: RequestId
    kind: RequestKind
    computed: Count
    scheduled: Count
    drafts: Count = 0
    known: Count | None = None
    prompt: Count | None = None
    padded_tail: bool = False
    tokens: list[int] | None = None

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


class Schedule(_Event):
    event: Literal["schedule"]
    requests: list[Scheduled]
    finished: list[RequestId] | None = None
    preempted: list[RequestId] | None = None
    waiting: list[RequestId] | None = None
    free_count: Count | None = None


class Blocks(_Event):
    event: Literal["blocks"]
    lists: dict[RequestId, list[Cut | None]]
    gone: list[RequestId] | None = None
    registered: dict[int, str | None] | None = None
    refs: dict[int, Count] | None = None
    free_queue: list[int] | None = None
    remembered: dict[RequestId, int | None] | None = None
    whole: bool = False


class Rows(_Event):
    event: Literal["rows"]
    order: list[RequestId]
    rows: dict[RequestId, list[Cut | None]]
    computed: dict[RequestId, Count] | None = None
    accepted: dict[RequestId, int] | None = None
    slots: dict[RequestId, int] | None = None


class CopiedBlocks(_Data):
    """Source and destination of a copy in one group; ``state`` None: of all its states."""

    group: Count
    src: int | None
    dst: int | None
    state: str | None = None


class CopyRow(_Data):
    """What a copy phase was given and decided for one request."""

    id: RequestId
    column: int | None = None
    accepted: int | None = None
    accepted_out: int | None = None
    src_col: int | None = None
    dst_col: int | None = None
    bias: int | None = None
    copies: bool | None = None
    blocks: list[CopiedBlocks] | None = None
    # What the postprocess was staged with.
    computed: int | None = None
    scheduled: int | None = None
    drafts: int | None = None
    new_computed: int | None = None


class PreCopy(_Event):
    event: Literal["pre_copy"]
    rows: list[CopyRow]
    columns_before: dict[RequestId, int] | None = None
    forgotten: list[RequestId] | None = None


class Built(_Event):
    """What a metadata builder made for one group."""

    event: Literal["metadata"]
    group: Count
    builder: str | None = None
    inputs: dict[str, Any] | None = None
    fields: dict[str, Any]


class Accept(_Event):
    event: Literal["accept"]
    counts: dict[RequestId, int] | None = None
    sampled: dict[RequestId, Count] | None = None


class PostCopy(_Event):
    event: Literal["post_copy"]
    rows: list[CopyRow]


class Commit(_Event):
    event: Literal["commit"]
    computed: dict[RequestId, int] | None = None
    known: dict[RequestId, Count] | None = None
    finished: list[RequestId] | None = None


class StateBytes(_Event):
    event: Literal["state"]
    after: Literal["pre-copy", "forward", "post-copy"]
    group: Count
    layer: Count
    state: str
    block: Count
    data: str


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
