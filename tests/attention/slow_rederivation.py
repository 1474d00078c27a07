"""Section 4 once more, in plain Python, one request and one token at a time.

Slow and simple on purpose: it counts where the builder computes. It shares nothing with
`mambaviz.attention`, so that a mistake there is not made here too. All values are lists, numbers
or None; block tables are lists of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Config:
    """What a builder is configured with."""

    mode: str
    block_size: int
    num_spec: int
    parallel_drafting: bool
    ring_len: int | None  # None: ReplaySSM off
    chunk: int | None  # tokens per chunk, None: the layer reads no chunks


@dataclass
class Row:
    """One row of a batch; `query` tokens follow `computed` ones."""

    computed: int
    query: int
    prefilling: bool
    blocks: list[int]
    accepted: int = 1
    prev_column: int = -1
    drafts: int = -1
    base: int = 0


@dataclass
class Given:
    """A batch, and which of the keyword inputs were given with it."""

    rows: list[Row]
    with_accepted: bool = False
    with_prev_column: bool = False
    with_drafts: bool = False


@dataclass
class Derived:
    """Every field of the metadata, as plain values."""

    num_decodes: int = 0
    num_prefills: int = 0
    num_decode_tokens: int = 0
    num_prefill_tokens: int = 0
    num_reqs: int = 0
    seq_lens: list[int] = field(default_factory=list)
    state_indices_tensor_d: list[Any] = field(default_factory=list)
    state_indices_tensor_p: list[Any] = field(default_factory=list)
    query_start_loc_d: list[int] | None = None
    num_accepted_tokens: list[int] | None = None
    query_start_loc_p: list[int] | None = None
    has_initial_states_p: list[bool] | None = None
    nums: list[int] | None = None
    mlist: list[int] | None = None
    offsetlist: list[int] | None = None
    num_computed_tokens_p: list[int] | None = None
    block_idx_first_scheduled_token_p: list[int] | None = None
    block_idx_last_scheduled_token: list[int] | None = None
    block_idx_last_computed_token: list[int] | None = None
    block_idx_last_scheduled_token_prev_step: list[int] | None = None
    num_state_writes_p: int = 0
    cu_chunk_seqlen_p: list[int] | None = None
    seq_idx_p: list[int] | None = None
    last_chunk_indices_p: list[int] | None = None
    prep_initial_states: bool = False
    write_pos_d: list[int] | None = None
    is_flush_d: list[int] | None = None


def derive(config: Config, given: Given) -> Derived:
    rows = given.rows
    out = Derived(num_reqs=len(rows), seq_lens=[row.computed + row.query for row in rows])
    decodes: list[Row] = []
    for row in rows:
        if is_prefill(row, config, given):
            break
        decodes.append(row)
    prefills = rows[len(decodes) :]
    out.num_decodes, out.num_prefills = len(decodes), len(prefills)
    out.num_decode_tokens = sum(row.query for row in decodes)
    out.num_prefill_tokens = sum(row.query for row in prefills)

    for row in decodes:
        out.state_indices_tensor_d.append(blocks_of(row, config))
    for row in prefills:
        blocks = blocks_of(row, config)
        out.state_indices_tensor_p.append(blocks if config.mode == "all" else blocks[0])

    if given.with_accepted:
        out.num_accepted_tokens = [row.accepted for row in rows]
        if config.num_spec and decodes:
            out.num_accepted_tokens = [row.accepted for row in decodes]
            out.query_start_loc_d = offsets(decodes)
    if prefills:
        derive_prefills(out, prefills)
        if config.chunk is not None:
            derive_chunks(out, prefills, config.chunk)
    if config.mode == "all":
        derive_columns(out, config, given, prefills)
    if config.ring_len is not None and decodes:
        derive_ring(out, config, decodes)
    return out


def is_prefill(row: Row, config: Config, given: Given) -> bool:
    longest_decode = 1
    if given.with_accepted:
        longest_decode += config.num_spec * (2 if config.parallel_drafting else 1)
    if row.query > longest_decode:
        return True
    if not row.prefilling:
        return False
    if row.computed == 0:
        return True
    if row.query == 1:
        return False
    padded_tail = given.with_drafts and row.drafts >= 0 and row.query == 1 + row.drafts
    return not padded_tail


def column_of(tokens: int, config: Config) -> int:
    """Column of the last of `tokens` tokens, found by walking over them."""
    column = 0
    for position in range(tokens):
        if position > 0 and position % config.block_size == 0:
            column += 1
    return column


def blocks_of(row: Row, config: Config) -> list[int]:
    if config.mode == "all":
        return list(row.blocks)
    start = column_of(row.computed + row.query, config) if config.mode == "align" else 0
    return [row.blocks[start + i] for i in range(1 + config.num_spec)]


def offsets(rows: list[Row]) -> list[int]:
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + row.query)
    return starts


def derive_prefills(out: Derived, prefills: list[Row]) -> None:
    out.query_start_loc_p = offsets(prefills)
    out.has_initial_states_p = [row.computed > 0 for row in prefills]
    out.prep_initial_states = any(out.has_initial_states_p)
    out.nums, out.mlist, out.offsetlist = [], [], []
    for index, row in enumerate(prefills):
        tiles = 0
        for token in range(row.query):
            if token % 8 == 0:  # a program starts
                out.mlist.append(index)
                out.offsetlist.append(tiles)
                tiles += 1
        out.nums.append(tiles)


def derive_chunks(out: Derived, prefills: list[Row], chunk: int) -> None:
    starts: list[int] = []
    owners: list[int] = []
    last: list[int] = []
    flat = 0
    for index, row in enumerate(prefills):
        if row.query == 0 and row.computed % chunk != 0:
            starts.append(flat)
            owners.append(index)
        for token in range(row.query):
            if token == 0 or (row.computed + token) % chunk == 0:
                starts.append(flat)
                owners.append(index)
            flat += 1
        last.append(len(starts) - 1)
    out.cu_chunk_seqlen_p = [*starts, flat]
    out.seq_idx_p = owners
    out.last_chunk_indices_p = last


def derive_columns(out: Derived, config: Config, given: Given, prefills: list[Row]) -> None:
    B = config.block_size
    out.block_idx_last_scheduled_token = []
    out.block_idx_last_computed_token = []
    for row in given.rows:
        out.block_idx_last_scheduled_token.append(column_of(row.computed + row.query, config))
        out.block_idx_last_computed_token.append(column_of(row.computed, config))
    if prefills:
        # The column of the first new token, were there one.
        out.block_idx_first_scheduled_token_p = [
            column_of(row.computed + 1, config) for row in prefills
        ]
        out.num_computed_tokens_p = [row.computed for row in prefills]
    for row in prefills:
        for boundary in range(B, row.computed + row.query, B):
            if boundary > row.computed:
                out.num_state_writes_p += 1
    if config.num_spec and given.with_prev_column:
        out.block_idx_last_scheduled_token_prev_step = [
            row.prev_column if row.prev_column >= 0 else column_of(row.computed, config)
            for row in given.rows
        ]


def derive_ring(out: Derived, config: Config, decodes: list[Row]) -> None:
    assert config.ring_len is not None
    out.write_pos_d, out.is_flush_d = [], []
    for row in decodes:
        position, flush = 0, False
        if row.query:
            anchor = row.base
            if config.mode == "align":
                block_start = row.computed
                while block_start % config.block_size != 0:
                    block_start -= 1
                anchor = max(anchor, block_start)
                flush = (row.computed + row.query) % config.block_size == 0
            for _ in range(anchor, row.computed):
                position = 0 if position + 1 == config.ring_len else position + 1
            flush = flush or position + 1 == config.ring_len or row.computed < anchor
        out.write_pos_d.append(position)
        out.is_flush_d.append(int(flush))
