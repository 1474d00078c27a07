"""What a build shows, in a headline and a few sentences; and each row's state indices in words."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.batch import Batch, BatchRow
from mambaviz.batch_record import BatchRecord

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Rules that need a word: a row that still prefills and yet counts as a decode.
EXTENDS = {
    "ONE_TOKEN_EXTEND": "one token, and it has state",
    "PADDED_TAIL": "its last token is padded to a full decode query",
}


def headline(record: BatchRecord) -> str:
    """How many rows count as what, and where the batch is cut."""
    rows, split = len(record.rows), record.split
    if split is None:
        return f"{_rows(rows)} {_counts(rows)}, and the batch is not split."
    if split == 0:
        return f"{_rows(rows)} {_counts(rows, 'prefill')}: there is nothing to decode."
    prefills = rows - split
    return (
        f"{_rows(split)} {_counts(split)}, {number(prefills)} as "
        f"{'a prefill' if prefills == 1 else 'prefills'}: the split is at row {split}."
    )


def sentences(record: BatchRecord) -> list[str]:
    """Why the split is where it is, and what else is to be seen; at most four sentences."""
    found = [*_split_reason(record), *_extends(record), *_graph(record), *_mode(record)]
    return found[:4]


def _split_reason(record: BatchRecord) -> Iterator[str]:
    split = record.split
    if split is None:
        yield f"The longest query that may decode is {_tokens(record.threshold)}."
        return
    row = record.rows[split]
    yield f"Row {split} ({row.request}) goes to the prefills because {row.reason}."
    if 0 < split < len(record.rows) - 1 and not any(row.rule in EXTENDS for row in record.rows):
        yield "Everything from there on is prefill."


def _extends(record: BatchRecord) -> Iterator[str]:
    for row in record.rows:
        if row.rule in EXTENDS:
            yield f"{row.request} still prefills, yet counts as a decode: {EXTENDS[row.rule]}."
            return


def _graph(record: BatchRecord) -> Iterator[str]:
    graph = record.graph
    if graph is None:
        return
    if graph.why_not:
        yield f"No captured graph is replayed: {graph.why_not}."
        return
    padding = record.batch.padding_rows
    rows = f"{number(padding)} padding row{'' if padding == 1 else 's'}"
    yield (
        f"A captured graph is replayed, with {rows}: the decode fields lie in the same memory as "
        "in the build before."
    )


def _mode(record: BatchRecord) -> Iterator[str]:
    batch = record.batch
    writes = record.value("num_state_writes_p")
    if batch.mode == "all" and record.split is not None:
        states = f"{number(writes)} state{'' if writes == 1 else 's'}"
        yield f"The prefills leave {states} at block ends on their way, before their last column."
    if record.rings:
        flushes = sum(record.numbers("is_flush_d"))
        yield (
            f"{_rows(flushes)} of {number(record.num_decodes)} decode rows "
            f"write{'s' if flushes == 1 else ''} the full state in this step."
        )


# --------------------------------------------------------------------------------------
# A row's blocks
# --------------------------------------------------------------------------------------


def row_words(record: BatchRecord, index: int) -> str:
    """Where a row's state indices start and what the forward reads, worked out with its numbers."""
    if index >= len(record.batch.rows):
        return "A padding row: its table row is null, so whatever it does touches block 0 alone."
    batch, row = record.batch, record.batch.rows[index]
    if batch.mode == "all":
        return f"Row {row.request}: {_all_mode(record, index)}"
    start = batch.running_column(row)
    where = (
        f"seq {row.seq_len}, so it starts at column "
        f"({row.seq_len} − 1) // {batch.block_size} = {start}"
    )
    if batch.mode == "none":
        where = "one block for all its tokens, in column 0"
    if record.rows[index].row_class == "prefill":
        alone = f"A prefill takes the running column alone: block {row.blocks[start]}."
        return f"Row {row.request}: {where}. {alone}"
    return f"Row {row.request}: {where}{_decode_columns(batch, row, start)}"


def _decode_columns(batch: Batch, row: BatchRow, start: int) -> str:
    if not batch.num_spec:
        return f" and takes block {row.blocks[start]} alone."
    scratch = [str(row.blocks[start + 1 + draft]) for draft in range(batch.num_spec)]
    text = (
        f" and takes 1 + {batch.num_spec} columns: the running block {row.blocks[start]} and its "
        f"scratch {_listed(scratch)}."
    )
    if batch.accepted_given:
        read = row.blocks[start + row.accepted - 1]
        text += (
            f" The forward reads the temporal state at accepted − 1 = {row.accepted - 1}: "
            f"block {read}."
        )
    return text


def _after_drafts(record: BatchRecord, index: int) -> str:
    """Which state a decode with drafts reads in all mode (section 5.2)."""
    column = record.numbers("block_idx_last_scheduled_token_prev_step")[index]
    row = record.batch.rows[index]
    read = column + row.accepted - 1
    if read >= len(row.blocks):
        return f"It reads column {column} + {row.accepted} − 1 = {read}, which the row lacks."
    return (
        f"The step before wrote from column {column} on, so the temporal state is read from "
        f"{column} + accepted − 1 = {read}: block {row.blocks[read]}."
    )


def _all_mode(record: BatchRecord, index: int) -> str:
    batch, row = record.batch, record.batch.rows[index]
    size = batch.block_size
    last = batch.running_column(row)
    text = (
        "it is given its whole row and writes its last state to column "
        f"⌈{row.seq_len} / {size}⌉ − 1 = {last}"
    )
    if not row.computed:
        return f"{text}. It starts from zeros."
    if batch.num_spec and record.rows[index].row_class == "decode":
        return f"{text}. {_after_drafts(record, index)}"
    source = max(0, -(-row.computed // size) - 1)
    block = row.blocks[source]
    return f"{text}. Its {row.computed} computed tokens end in column {source}: block {block}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(count: int) -> str:
    """A count in words up to ten."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _rows(count: int) -> str:
    return f"{number(count).capitalize()} row{'' if count == 1 else 's'}"


def _counts(count: int, noun: str = "decode") -> str:
    return f"counts as a {noun}" if count == 1 else f"count as {noun}s"


def _tokens(count: int) -> str:
    return f"{number(count)} token{'' if count == 1 else 's'}"
