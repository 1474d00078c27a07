"""One batch for the metadata builder, as data: what a person edits, a link carries, a file holds.

A `Batch` is validated completely before anything is built: whatever the builder could stumble
over, or could never get from a scheduler, is refused with one sentence that names the row and the
field (sections 2 and 4). Importing this module costs no torch; `Batch.build` does.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mambaviz import json_text
from mambaviz.attention.rules import RowDecision, RowFacts, RowRule, decide
from mambaviz.columns import last_column
from mambaviz.limits import (
    LONGEST_NAME,
    LONGEST_REQUEST,
    LONGEST_STORY,
    MOST_BLOCKS,
    MOST_REQUESTS,
    MOST_ROW_TOKENS,
    MOST_ROWS,
)
from mambaviz.scenario import PRESET_DIR, Grammar, explain, name_with, one_line
from mambaviz.trace import RequestStep, RowTables, Trace

if TYPE_CHECKING:
    from mambaviz.batch_record import BatchRecord

BATCH_DIR = PRESET_DIR / "batches"
DEFAULT_BATCH = "one-of-each-rule"

BuilderName = Literal["mamba2", "mamba1", "base"]
BUILDER_NAMES: dict[BuilderName, str] = {"mamba2": "Mamba-2", "mamba1": "Mamba-1", "base": "base"}

Tokens = Annotated[int, Field(ge=0, le=MOST_ROW_TOKENS)]
NonNegativeInt = Annotated[int, Field(ge=0, lt=2**31)]
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]


class BatchError(ValueError):
    """A batch that cannot be. The message is one line fit for a screen."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BatchRow(_Data):
    """One request of the batch.

    ``computed`` tokens are final before this step, ``query`` tokens are scheduled in it, drafts
    included. ``drafts`` is None where the row is no draft row. ``accepted`` counts the tokens that
    the step *before* kept, bonus included. ``blocks`` is the worker's row: ids by column.
    ``decode_base``: tokens known when the request was last admitted (ReplaySSM).
    ``prev_last_scheduled``: column the step before wrote to (all mode with drafts), None = unknown.
    """

    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    computed: Tokens
    query: Tokens
    prefilling: bool = False
    drafts: NonNegativeInt | None = None
    accepted: PositiveInt = 1
    blocks: Annotated[list[NonNegativeInt], Field(max_length=256)]
    decode_base: Tokens | None = None
    prev_last_scheduled: NonNegativeInt | None = None

    @property
    def seq_len(self) -> int:
        """Tokens of the request once this step is done."""
        return self.computed + self.query


class Batch(_Data):
    """A batch and the builder it is given to. ``replayssm_buffer_len`` 0 means off.

    ``pad_to``: rows of the captured graph that the batch is padded to; 0 = no padding.
    ``max_capture_size`` None: graphs are captured up to ``max_num_seqs`` rows. ``heads``,
    ``head_dim``, ``d_state`` and ``ngroups`` are one layer's; they size the ReplaySSM ring.
    """

    name: Annotated[str, Field(max_length=LONGEST_NAME)] = "untitled"
    story: Annotated[str, Field(max_length=LONGEST_STORY)] = ""
    builder: BuilderName = "mamba2"
    mode: Literal["none", "align", "all"] = "align"
    block_size: Annotated[int, Field(ge=1, le=MOST_ROW_TOKENS)] = 16
    num_spec: Annotated[int, Field(ge=0, le=15)] = 0
    chunk_size: Annotated[int, Field(ge=1, le=MOST_ROW_TOKENS)] = 8
    num_blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS)] = 32  # the null block included
    max_num_seqs: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] = 8
    max_model_len: Annotated[int, Field(ge=2, le=MOST_ROW_TOKENS)] = 64
    accepted_given: bool = True
    full_graphs: bool = False
    max_capture_size: Annotated[int, Field(ge=1, le=64)] | None = None
    pad_to: Annotated[int, Field(ge=0, le=64)] = 0
    replayssm_buffer_len: Annotated[int, Field(ge=0, le=64)] = 0
    heads: Annotated[int, Field(ge=1, le=256)] = 80
    head_dim: Annotated[int, Field(ge=1, le=256)] = 64
    d_state: Annotated[int, Field(ge=1, le=256)] = 128
    ngroups: Annotated[int, Field(ge=1, le=256)] = 1
    rows: Annotated[list[BatchRow], Field(min_length=1, max_length=MOST_ROWS)]

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 over what the builder is given: everything but the name and the story."""
        content = self.model_dump(mode="json", exclude={"name", "story"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def effective_block_size(self) -> int:
        """Tokens a block covers; in none mode one block covers the whole model length."""
        return self.max_model_len if self.mode == "none" else self.block_size

    @property
    def decode_threshold(self) -> int:
        """Longest query that can be a decode (section 4.2)."""
        takes_counts = self.accepted_given and self.builder != "mamba1"
        return 1 + self.num_spec if takes_counts else 1

    @property
    def padding_rows(self) -> int:
        return max(0, self.pad_to - len(self.rows))

    def running_column(self, row: BatchRow) -> int:
        """Column of the block a row works in (section 4.3); 0 in none mode."""
        return last_column(row.seq_len, self.effective_block_size)

    def state_columns(self, row: BatchRow) -> range:
        """Columns whose ids the state indices of this row name, drafts included (section 4.3)."""
        if self.mode == "all":
            return range(len(row.blocks))
        start = self.running_column(row)
        return range(start, start + 1 + self.num_spec)

    def decide(self) -> tuple[RowDecision, ...]:
        """Class, rule and reason of every row, padding rows not included (section 4.2)."""
        return decide(_facts(self.rows), self.decode_threshold)

    def build(self) -> BatchRecord:
        """Give the batch to the real builder and record everything it said. Imports torch."""
        from mambaviz.batch_build import build_batch

        return build_batch(self)


def _facts(rows: Sequence[BatchRow]) -> RowFacts:
    return RowFacts(
        query_lens=np.array([row.query for row in rows]),
        is_prefilling=np.array([row.prefilling for row in rows]),
        has_state=np.array([row.computed > 0 for row in rows]),
        drafts=np.array([-1 if row.drafts is None else row.drafts for row in rows]),
    )


# --------------------------------------------------------------------------------------
# What cannot be, each with its sentence: row, field, value, what would be right.
# --------------------------------------------------------------------------------------


def _problems(batch: Batch) -> Iterator[str]:
    yield from _setting_problems(batch)
    seen: set[str] = set()
    for index, row in enumerate(batch.rows):
        where = f"row {index} ({row.request})"
        if row.request in seen:
            yield f"{where}, request: the name is taken; every row needs its own"
        seen.add(row.request)
        yield from _length_problems(batch, row, where)
        yield from _block_problems(batch, row, where)
        if batch.replayssm_buffer_len:
            yield from _ring_problems(row, where)
    yield from _order_problems(batch)
    yield from _sharing_problems(batch)


def _setting_problems(batch: Batch) -> Iterator[str]:
    drafts, size, chunk = batch.num_spec, batch.block_size, batch.chunk_size
    if batch.builder == "mamba1" and drafts:
        yield f"drafts = {drafts}: the Mamba-1 builder decodes without drafts; set drafts to 0"
    if batch.mode == "all" and batch.builder == "mamba2" and size % chunk:
        yield (
            f"block size = {size}: in all mode it must be a multiple of the chunk size ({chunk}), "
            "since states exist only at chunk ends"
        )
    if batch.replayssm_buffer_len and drafts:
        yield f"drafts = {drafts}: ReplaySSM does not go with drafts; set drafts to 0"
    if batch.replayssm_buffer_len and batch.mode == "all":
        yield "cache mode = all: ReplaySSM runs in none and align mode only"
    if len(batch.rows) > batch.max_num_seqs:
        yield (
            f"max requests = {batch.max_num_seqs}: the batch has {len(batch.rows)} rows; "
            "raise it or remove rows"
        )
    if batch.pad_to:
        yield from _padding_problems(batch)


def _padding_problems(batch: Batch) -> Iterator[str]:
    where = f"padded to = {batch.pad_to}"
    if not batch.full_graphs:
        yield f"{where}: only a captured graph pads its batch; turn full graphs on or set it to 0"
    if batch.pad_to < len(batch.rows):
        yield f"{where}: the batch has {len(batch.rows)} rows already; set it higher, or to 0"
    if batch.pad_to > batch.max_num_seqs:
        yield f"{where}: a batch holds at most max requests ({batch.max_num_seqs}) rows"
    prefill = next((row for row in batch.decide() if row.row_class == "prefill"), None)
    if prefill is not None:
        name = batch.rows[prefill.row].request
        yield (
            f"{where}: row {prefill.row} ({name}) is a prefill, and only batches without "
            "prefills are padded; set it to 0"
        )


def _length_problems(batch: Batch, row: BatchRow, where: str) -> Iterator[str]:
    if row.seq_len > batch.max_model_len:
        yield (
            f"{where}, query = {row.query}: with {row.computed} computed it ends at token "
            f"{row.seq_len}, past the model length of {batch.max_model_len}"
        )
    if not row.query and not row.prefilling:
        yield (
            f"{where}, query = 0: a row that decodes needs a token; padding rows are added by "
            "“padded to”"
        )
    if row.drafts is not None and row.drafts > batch.num_spec:
        yield (
            f"{where}, drafts = {row.drafts}: a step proposes at most {batch.num_spec}; "
            "lower it or raise the drafts of the batch"
        )
    if row.drafts is not None and row.query != row.drafts + 1:
        yield (
            f"{where}, query = {row.query}: with {row.drafts} drafts it must be "
            f"{row.drafts + 1}, the last sampled token and the drafts"
        )
    if row.accepted > 1 + batch.num_spec:
        yield (
            f"{where}, accepted = {row.accepted}: the longest query is 1 + {batch.num_spec} "
            f"tokens, so a step keeps 1 to {1 + batch.num_spec}"
        )
    if row.accepted > max(1, row.computed):
        yield (
            f"{where}, accepted = {row.accepted}: only {row.computed} tokens are computed, and "
            "what was accepted is among them"
        )


def _block_problems(batch: Batch, row: BatchRow, where: str) -> Iterator[str]:
    outside = next((block for block in row.blocks if block >= batch.num_blocks), None)
    if outside is not None:
        yield (
            f"{where}, worker row: there is no block {outside}; the pool has ids 0 to "
            f"{batch.num_blocks - 1}"
        )
    needed = _columns_read(batch, row)
    if len(row.blocks) < needed:
        yield (
            f"{where}, worker row: {len(row.blocks)} ids, but in {batch.mode} mode a sequence of "
            f"{row.seq_len} tokens needs columns 0 to {needed - 1}"
        )
        return
    columns = range(0) if batch.mode == "all" else batch.state_columns(row)
    null = next((column for column in columns if row.blocks[column] == 0), None)
    if null is not None:
        yield (
            f"{where}, worker row: column {null} is the null block 0, but the state of the row "
            "or a draft of it goes there; give it a block"
        )
    column = row.prev_last_scheduled
    if column is not None and column >= len(row.blocks):
        yield (
            f"{where}, previous column = {column}: the worker row has columns 0 to "
            f"{len(row.blocks) - 1}"
        )


def _columns_read(batch: Batch, row: BatchRow) -> int:
    """Columns the builder or a kernel looks up in a row; all mode reaches the last scheduled."""
    if batch.mode == "all":
        return batch.running_column(row) + 1
    return batch.state_columns(row).stop


def _ring_problems(row: BatchRow, where: str) -> Iterator[str]:
    base = row.decode_base
    if base is None:
        yield (
            f"{where}, replay base: it is empty; ReplaySSM needs the tokens known when the "
            "request was last admitted"
        )
    elif row.prefilling != (row.computed < base):
        side = "below" if row.computed < base else "not below"
        should = "prefilling" if row.computed < base else "not prefilling"
        yield (
            f"{where}, replay base = {base}: computed {row.computed} is {side} it, so the row is "
            f"{should}"
        )


def _order_problems(batch: Batch) -> Iterator[str]:
    decisions = batch.decide()
    for found in decisions:
        if found.rule is RowRule.BEHIND_A_PREFILL:
            first = next(d.row for d in decisions if d.row_class == "prefill")
            kind = "a short extend" if batch.rows[found.row].prefilling else "a decode"
            yield (
                f"row {found.row} ({batch.rows[found.row].request}), prefilling: it is {kind} but "
                f"stands behind row {first} ({batch.rows[first].request}), a prefill; the order "
                "is decodes, short extends, prefills"
            )


def _sharing_problems(batch: Batch) -> Iterator[str]:
    """Two rows that write one block; in all mode hits share columns, so only the running one."""
    writers: dict[int, int] = {}
    for index, row in enumerate(batch.rows):
        last = batch.running_column(row)
        columns = range(last, last + 1) if batch.mode == "all" else batch.state_columns(row)
        for block in sorted({row.blocks[column] for column in columns} - {0}):
            if block in writers:
                first = writers[block]
                yield (
                    f"row {index} ({row.request}), worker row: block {block} is written by row "
                    f"{first} ({batch.rows[first].request}) too; give it another"
                )
            writers[block] = index


# --------------------------------------------------------------------------------------
# In and out
# --------------------------------------------------------------------------------------

# What a person calls the fields, in sentences and above the columns.
LABELS: dict[str, str] = {
    "block_size": "block size",
    "num_spec": "drafts",
    "chunk_size": "chunk size",
    "num_blocks": "blocks",
    "max_num_seqs": "max requests",
    "max_model_len": "model length",
    "max_capture_size": "captured up to",
    "pad_to": "padded to",
    "replayssm_buffer_len": "ReplaySSM ring",
    "blocks": "worker row",
    "decode_base": "replay base",
    "prev_last_scheduled": "previous column",
    "mode": "cache mode",
}


def parse(text: str) -> Batch:
    """A batch from JSON text. Raises `BatchError` with one line."""
    return json_text.parsed(Batch, text, _explain, BatchError)


def build(data: Mapping[str, Any]) -> Batch:
    """A batch from a plain mapping, as an editor holds it. Raises `BatchError`."""
    return json_text.built(Batch, data, _explain, BatchError)


def load(path: Path) -> Batch:
    """A batch from a JSON file."""
    return parse(path.read_text(encoding="utf-8"))


GRAMMAR = Grammar(Batch, {"rows": BatchRow}, choices={})


def _explain(error: ValidationError) -> str:
    """The first thing wrong: row and field as the screen names them, and what would be right."""
    first = error.errors(include_url=False)[0]
    place = list(first["loc"])
    if len(place) < 3 or place[0] != "rows":
        text = explain(error, GRAMMAR)
        name, equals, rest = text.partition(" = ")
        return f"{LABELS.get(name, name)}{equals}{rest}"
    name = LABELS.get(str(place[2]), str(place[2]))
    message = first["msg"]
    if first["type"] == "extra_forbidden":
        return f"row {place[1]}, {name}: there is no such field"
    if first["type"] == "missing" or first["input"] is None:
        return f"row {place[1]}, {name}: it is empty; fill it in"
    shown = repr(first["input"])[:40]
    return f"row {place[1]}, {name} = {shown}: {message[0].lower()}{message[1:]}"


def fresh_blocks(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of a batch with rows as long as section 2 makes them and ids counted from 1.

    Works on a draft that is no valid `Batch` yet, as long as its lengths are numbers.
    """
    result, rows, next_id = dict(data), [], 1
    settings = {**{name: Batch.model_fields[name].default for name in _SIZES}, **data}
    for given in data["rows"]:
        length = given["computed"] + given["query"]
        needed = 1 + settings["num_spec"]
        if settings["mode"] != "none":
            needed = max(1, -(-length // settings["block_size"])) + settings["num_spec"]
        rows.append({**given, "blocks": list(range(next_id, next_id + needed))})
        next_id += needed
    result["rows"] = rows
    result["num_blocks"] = max(settings["num_blocks"], next_id)
    return result


_SIZES = ("mode", "num_spec", "block_size", "num_blocks")


# --------------------------------------------------------------------------------------
# From a step of a run
# --------------------------------------------------------------------------------------


def from_trace_step(trace: Trace, step: int, group: int = 0) -> Batch:
    """The batch that the builder was given in one step of a run, for one Mamba group.

    Raises `BatchError` where the step scheduled nothing, or where its batch is one that no
    scheduler should make (a run with a fault switched on).
    """
    scenario, found = trace.scenario, trace.steps[step]
    engine, layer = scenario.engine, scenario.layer
    if not found.batch_order:
        raise BatchError(f"step {step} of this run scheduled nothing, so it has no batch")
    tables = trace.tables_after(step, "metadata").rows
    return build(
        {
            "name": name_with(scenario.name, f"step {step}"),
            "story": f"What the builder was given in step {step} of a run on the Watch page.",
            "builder": "mamba2",
            "mode": engine.mode,
            "block_size": engine.block_size,
            "num_spec": engine.num_spec,
            "chunk_size": layer.chunk_size,
            "num_blocks": engine.num_blocks,
            "max_num_seqs": engine.max_num_seqs,
            "max_model_len": engine.max_model_len,
            "accepted_given": engine.num_spec > 0,
            "full_graphs": engine.full_cuda_graphs,
            "replayssm_buffer_len": engine.replayssm_buffer_len,
            "heads": layer.num_heads,
            "head_dim": layer.head_dim,
            "d_state": layer.d_state,
            "ngroups": layer.num_heads,  # in our layers every head is a group of its own
            "rows": [
                _row_of(trace, step, request, tables[request], group)
                for request in found.batch_order
            ],
        }
    )


def _row_of(trace: Trace, step: int, request: str, tables: RowTables, group: int) -> dict[str, Any]:
    engine, now = trace.scenario.engine, trace.steps[step].requests[request]
    base = _admission(trace, step, request).num_tokens
    return {
        "request": request,
        "computed": now.num_computed,
        "query": now.num_scheduled,
        "prefilling": now.num_computed < base,
        "drafts": now.drafts or None,
        "accepted": tables.num_accepted if engine.num_spec else 1,
        "blocks": tables.worker_row[group],
        "decode_base": base if engine.replayssm_buffer_len else None,
        "prev_last_scheduled": _previous_column(trace, step, request),
    }


def _admission(trace: Trace, step: int, request: str) -> RequestStep:
    """The step in which a request was last admitted or resumed."""
    for index in range(step, -1, -1):
        found = trace.steps[index].requests.get(request)
        if found is not None and found.event != "running":
            return found
    raise BatchError(f"request {request} runs in step {step} but was never admitted")


def _previous_column(trace: Trace, step: int, request: str) -> int | None:
    """All mode with drafts: the column that the row's last step wrote to (section 3.7).

    Remembered for full decode queries only, and not over a preemption.
    """
    engine = trace.scenario.engine
    if engine.mode != "all" or not engine.num_spec:
        return None
    if trace.steps[step].requests[request].event != "running":
        return None
    for index in range(step - 1, -1, -1):
        before = trace.steps[index].requests.get(request)
        if before is not None:
            if before.num_scheduled != 1 + engine.num_spec:
                return None
            last_token = before.num_computed + before.num_scheduled - 1
            return max(0, last_token // engine.block_size)
    return None


# --------------------------------------------------------------------------------------
# Presets
# --------------------------------------------------------------------------------------


def _load_batches() -> dict[str, Batch]:
    paths = sorted(BATCH_DIR.glob("*.json"))
    batches = {path.stem.split("-", 1)[1]: load(path) for path in paths}
    names = Counter(batch.name for batch in batches.values())
    assert not names or max(names.values()) == 1, "two presets with one name"
    return batches


BATCHES: dict[str, Batch] = _load_batches()
