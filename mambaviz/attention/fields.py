"""What each metadata field means: the one table that pages, notebooks and docs read.

Keyed by the field names of `Mamba2AttentionMetadata` (which has all of the base). Symbols in
rules and shapes:

    R, D, P    rows of the batch, decodes, prefills
    c, q, s    of a row: computed tokens, query tokens, ``s = c + q``
    B, S       block size; scratch columns behind the running one
    cols       columns of the block table
    L          entries of the ReplaySSM ring
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ValueKind(StrEnum):
    """What the numbers of a field stand for, so that a page knows what they point to."""

    BLOCK_ID = "block id"  # a physical block
    COLUMN = "column"  # a column of the row's block-table row
    COUNT = "count"  # how many rows, tokens, programs or writes
    OFFSET = "offset"  # a position on the token axis of the batch
    PREFILL_INDEX = "prefill index"  # a row, counted among the prefills
    CHUNK_INDEX = "chunk index"  # a chunk, counted over all prefills
    TILE_INDEX = "tile index"  # a tile of tokens within one prefill
    RING_POSITION = "ring position"  # an entry of a ReplaySSM ring
    FLAG = "flag"  # true or false
    SCRATCH = "scratch"  # memory whose contents mean nothing before the kernel ran
    PROGRAM_LIST = "program list"  # a table of several of these


@dataclass(frozen=True)
class FieldInfo:
    """One field: its meaning, the rule that makes it, when it is there, shape and kind."""

    meaning: str
    rule: str
    present: str
    shape: str
    kind: ValueKind
    section: str


_ALWAYS = "always"
_PREFILL = "with at least one prefill"
_CONV1D = "with at least one prefill, where the layer wants a conv1d program list"
_CHUNKS = "with at least one prefill: Mamba-2, or Mamba-1 in all mode"
_ALL = "in all mode"
_ALL_PREFILL = "in all mode with at least one prefill"
_REPLAY = "with ReplaySSM (Triton) and at least one decode"

FIELDS: dict[str, FieldInfo] = {
    "num_prefills": FieldInfo(
        "Rows that go through the prefill kernels.",
        "all rows from the first prefill on",
        _ALWAYS,
        "scalar",
        ValueKind.COUNT,
        "4.2",
    ),
    "num_prefill_tokens": FieldInfo(
        "Query tokens of those rows.",
        "actual tokens of the batch minus the decode tokens",
        _ALWAYS,
        "scalar",
        ValueKind.COUNT,
        "4.2",
    ),
    "num_decodes": FieldInfo(
        "Rows that go through the decode kernels, graph padding included.",
        "rows before the first prefill; all rows if there is none",
        _ALWAYS,
        "scalar",
        ValueKind.COUNT,
        "4.2",
    ),
    "num_decode_tokens": FieldInfo(
        "Query tokens of those rows; padding rows add none.",
        "query offset of the first prefill; all actual tokens if there is none",
        _ALWAYS,
        "scalar",
        ValueKind.COUNT,
        "4.2",
    ),
    "num_reqs": FieldInfo(
        "Rows of the batch, graph padding included.",
        "as given",
        _ALWAYS,
        "scalar",
        ValueKind.COUNT,
        "4.1",
    ),
    "seq_lens": FieldInfo(
        "Tokens of each row once this step is done, drafts included.",
        "as given: computed plus scheduled",
        _ALWAYS,
        "[R]",
        ValueKind.COUNT,
        "4.1",
    ),
    "state_indices_tensor_d": FieldInfo(
        "Blocks the decode rows read and write: the running one, then the scratch of each draft.",
        "none: the row's first 1+num_spec ids; align: those from column max(0, (s-1)//B) on; "
        "all: the whole row",
        _ALWAYS,
        "[D, 1+num_spec]; all mode [D, cols]",
        ValueKind.BLOCK_ID,
        "4.3",
    ),
    "state_indices_tensor_p": FieldInfo(
        "Block each prefill row starts from and leaves its state in.",
        "none: the row's first id; align: the id in column max(0, (s-1)//B); all: the whole row",
        _ALWAYS,
        "[P]; all mode [P, cols]",
        ValueKind.BLOCK_ID,
        "4.3",
    ),
    "query_start_loc_d": FieldInfo(
        "Where the query of each decode row starts on the token axis.",
        "the first D+1 query offsets",
        "with drafts configured, accepted counts given and at least one decode",
        "[D+1]",
        ValueKind.OFFSET,
        "4.4",
    ),
    "num_accepted_tokens": FieldInfo(
        "Tokens the verification of the step before kept, bonus token included (this step’s own "
        "comes after the forward): the state to start from lies "
        "this many minus one past the running one.",
        "the counts of the decode rows; as given where query_start_loc_d is absent",
        "where accepted counts were given",
        "[D]; as given [R]",
        ValueKind.COUNT,
        "4.4",
    ),
    "query_start_loc_p": FieldInfo(
        "Where the query of each prefill row starts on the prefill part of the token axis.",
        "the last P+1 query offsets minus the decode tokens",
        _PREFILL,
        "[P+1]",
        ValueKind.OFFSET,
        "4.5",
    ),
    "has_initial_states_p": FieldInfo(
        "Whether a prefill row continues from a state; if not, it starts from zeros.",
        "c > 0",
        _PREFILL,
        "[P]",
        ValueKind.FLAG,
        "4.5",
    ),
    "nums_dict": FieldInfo(
        "The programs of the causal conv1d by tile width: how many per prefill, which prefill "
        "and which tile each serves.",
        "tiles of 8 tokens: nums = cdiv(q, 8), mlist = prefill repeated nums times, "
        "offsetlist = 0..nums-1 per prefill, tot and mlist_len = sum of nums",
        _CONV1D,
        "{8: nums [P], mlist and offsetlist [tot]}",
        ValueKind.PROGRAM_LIST,
        "4.5",
    ),
    "batch_ptr": FieldInfo(
        "Prefill that each conv1d program serves; -1 where a program has no work.",
        "mlist, padded with -1",
        _CONV1D,
        "[2*max(1024, tot)]",
        ValueKind.PREFILL_INDEX,
        "4.5",
    ),
    "token_chunk_offset_ptr": FieldInfo(
        "Tile of that prefill which each conv1d program convolves; -1 where it has no work.",
        "offsetlist, padded with -1",
        _CONV1D,
        "[2*max(1024, tot)]",
        ValueKind.TILE_INDEX,
        "4.5",
    ),
    "num_computed_tokens_p": FieldInfo(
        "Tokens of each prefill row whose state is final before this step.",
        "c = s - q",
        _ALL_PREFILL,
        "[P]",
        ValueKind.COUNT,
        "4.6",
    ),
    "block_idx_first_scheduled_token_p": FieldInfo(
        "Column each prefill row first writes a state to.",
        "(c + B)//B - 1",
        _ALL_PREFILL,
        "[P]",
        ValueKind.COLUMN,
        "4.6",
    ),
    "block_idx_last_scheduled_token": FieldInfo(
        "Column each row writes its last state to.",
        "max(0, cdiv(s, B) - 1)",
        _ALL,
        "[R]",
        ValueKind.COLUMN,
        "4.6",
    ),
    "block_idx_last_computed_token": FieldInfo(
        "Column that holds the state each row starts from.",
        "max(0, cdiv(c, B) - 1)",
        _ALL,
        "[R]",
        ValueKind.COLUMN,
        "4.6",
    ),
    "block_idx_last_scheduled_token_prev_step": FieldInfo(
        "Column each row's previous step wrote to, drafts included; after a rejection it can lie "
        "to the right of the last computed token's.",
        "the recorded column where it is >= 0, else max(0, (c-1)//B)",
        "in all mode with drafts, where the record of the previous step was given",
        "[R]",
        ValueKind.COLUMN,
        "4.6",
    ),
    "num_state_writes_p": FieldInfo(
        "States the prefill rows leave at block boundaries, the last column not counted.",
        "sum over prefills of max(0, cdiv(s, B) - (c + B)//B)",
        "always; 0 outside all mode",
        "scalar",
        ValueKind.COUNT,
        "4.6",
    ),
    "cu_chunk_seqlen_p": FieldInfo(
        "Where each chunk of the prefill scan starts, then the total; a chunk holds one sequence.",
        "if c is no multiple of the chunk, first min(q, tokens to the next multiple); "
        "then full chunks, the last possibly short",
        _CHUNKS,
        "[chunks+1]",
        ValueKind.OFFSET,
        "4.7",
    ),
    "seq_idx_p": FieldInfo(
        "Prefill that each chunk belongs to.",
        "prefill index repeated once per chunk",
        _CHUNKS,
        "[chunks]",
        ValueKind.PREFILL_INDEX,
        "4.7",
    ),
    "last_chunk_indices_p": FieldInfo(
        "Last chunk of each prefill: the one whose end state is kept.",
        "chunks of this prefill and all before it, minus 1",
        _CHUNKS,
        "[P]",
        ValueKind.CHUNK_INDEX,
        "4.7",
    ),
    "chunk_size": FieldInfo(
        "Tokens of a full chunk of the Mamba-2 prefill scan.",
        "from the model's configuration",
        "Mamba-2",
        "scalar",
        ValueKind.COUNT,
        "4.7",
    ),
    "prep_initial_states": FieldInfo(
        "Whether any prefill row continues from a state.",
        "any c > 0 among the prefill rows",
        "Mamba-2",
        "scalar",
        ValueKind.FLAG,
        "4.7",
    ),
    "write_pos_d": FieldInfo(
        "Ring entry that each decode row fills this step.",
        "steps mod L, steps = max(0, c - anchor); anchor = decode base, "
        "in align mode max(decode base, c//B*B)",
        _REPLAY,
        "[D]",
        ValueKind.RING_POSITION,
        "4.8",
    ),
    "is_flush_d": FieldInfo(
        "Whether a decode row writes its full state this step instead of filling the ring.",
        "write position L-1, or a leftover prompt token (c < anchor); "
        "in align mode also when c+q ends a block",
        _REPLAY,
        "[D]",
        ValueKind.FLAG,
        "4.8",
    ),
    "bc_pre_scratch": FieldInfo(
        "Scratch for the products of B and C over the ring.",
        "the first D rows of a persistent buffer",
        _REPLAY,
        "[D, ngroups, L]",
        ValueKind.SCRATCH,
        "4.8",
    ),
    "replayssm_scratch": FieldInfo(
        "The three scratch tensors of the FlashInfer decode kernel.",
        "the first D rows of what the library's allocator gave",
        "with ReplaySSM (FlashInfer) and at least one decode",
        "3 tensors [D, ...]",
        ValueKind.SCRATCH,
        "4.8",
    ),
}
