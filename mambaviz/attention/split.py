"""Which rows are decodes and which are prefills (section 4.2).

Every row gets one rule: the first that fits, in the order of `RowRule`. The first row whose rule
makes it a prefill splits the batch; what stands behind it is prefill too, since the kernels take
the batch as two contiguous parts. The builder and the per-row explanation read the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import torch

from mambaviz.attention.common import (
    BoolArray,
    CommonAttentionMetadata,
    HostBatch,
    IntArray,
    host_batch,
    is_prefilling_on_cpu,
    query_start_loc_on_cpu,
    require_rows,
)

RowClass = Literal["decode", "prefill"]


class RowRule(Enum):
    """Why a row is a decode or a prefill: class and sentence, in order of precedence."""

    LONG_QUERY = "prefill", "its query of {q} tokens is longer than the threshold of {threshold}"
    PADDING = "decode", "it is padding: its query is empty"
    DECODING = "decode", "it decodes a query of {q}, within the threshold of {threshold}"
    FIRST_CHUNK = "prefill", "it is prefilling and has no state yet to decode from"
    ONE_TOKEN_EXTEND = "decode", "it prefills a single token on top of the state it already has"
    PADDED_TAIL = "decode", "it prefills one token, padded with {drafts} placeholder drafts"
    PREFILLING = "prefill", "it is still prefilling"
    BEHIND_A_PREFILL = "prefill", "it stands behind row {split}, which is a prefill"

    def __init__(self, row_class: RowClass, sentence: str) -> None:
        self.row_class = row_class
        self.sentence = sentence


@dataclass(frozen=True)
class RowDecision:
    """How one row was classed: the row, its class, the rule, and the rule as a sentence."""

    row: int
    row_class: RowClass
    rule: RowRule
    reason: str


@dataclass(frozen=True)
class BatchSplit:
    """Where a batch is cut: rows and tokens on either side (section 4.2)."""

    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    num_prefill_tokens: int


# Rules by number, so that a whole batch is classed with array operations.
_RULES = tuple(RowRule)
_NUMBER = {rule: number for number, rule in enumerate(_RULES)}
_IS_PREFILL = np.array([rule.row_class == "prefill" for rule in _RULES])


def split_decodes_and_prefills(
    common: CommonAttentionMetadata,
    decode_threshold: int = 1,
    require_uniform: bool = False,
    treat_short_extends_as_decodes: bool = True,
) -> tuple[int, int, int, int]:
    """Cut a batch in batch order (decodes, short extends, prefills) by its flags alone.

    With ``treat_short_extends_as_decodes`` every row within the threshold is a decode; without,
    a row that ``is_prefilling`` is a prefill. The builder first settles which prefilling rows
    count as decodes (`split_batch`); that needs lengths this function does not ask for.
    With ``require_uniform`` a decode must also be as long as the first row; empty rows are padding.

    Returns ``(num_decodes, num_prefills, num_decode_tokens, num_prefill_tokens)``.
    Raises ValueError where ``query_start_loc_cpu`` or a needed ``is_prefilling`` is missing.
    """
    offsets = query_start_loc_on_cpu(common)
    query_lens = np.diff(offsets)
    is_prefill = query_lens > decode_threshold
    if require_uniform:
        is_prefill |= (query_lens != query_lens[:1]) & (query_lens != 0)
    if not treat_short_extends_as_decodes:
        is_prefill |= is_prefilling_on_cpu(common)
    cut = _cut(is_prefill, offsets, common.num_actual_tokens)
    return cut.num_decodes, cut.num_prefills, cut.num_decode_tokens, cut.num_prefill_tokens


def split_batch(
    batch: HostBatch,
    num_actual_tokens: int,
    decode_threshold: int,
    num_decode_draft_tokens_cpu: torch.Tensor | None = None,
) -> BatchSplit:
    """Cut a batch with every rule of section 4.2: what the builder does.

    ``num_decode_draft_tokens_cpu``: CPU, ``[R]``, -1 where a row is not a draft row.
    """
    rules = _rule_numbers(batch, decode_threshold, num_decode_draft_tokens_cpu)
    return _cut(_IS_PREFILL[rules], batch.query_start_loc, num_actual_tokens)


def explain_split(
    common: CommonAttentionMetadata,
    decode_threshold: int = 1,
    num_decode_draft_tokens_cpu: torch.Tensor | None = None,
) -> tuple[RowDecision, ...]:
    """Say for every row why the builder classes it as it does (section 4.2).

    Same inputs and errors as the split of the builder, and the same rules behind it.
    """
    batch = host_batch(common)
    rules = _rule_numbers(batch, decode_threshold, num_decode_draft_tokens_cpu)
    split = _first_prefill(_IS_PREFILL[rules])
    drafts = _drafts(batch, num_decode_draft_tokens_cpu)
    decisions = []
    for row, number in enumerate(rules):
        rule = _RULES[number]
        if row > split and rule.row_class == "decode":
            rule = RowRule.BEHIND_A_PREFILL
        reason = rule.sentence.format(
            q=batch.query_lens[row], threshold=decode_threshold, drafts=drafts[row], split=split
        )
        decisions.append(RowDecision(row, rule.row_class, rule, reason))
    return tuple(decisions)


def _rule_numbers(
    batch: HostBatch, decode_threshold: int, num_decode_draft_tokens_cpu: torch.Tensor | None
) -> IntArray:
    """The number of the first rule that fits each row; ``[R]``."""
    query_lens, drafts = batch.query_lens, _drafts(batch, num_decode_draft_tokens_cpu)
    fits = {
        RowRule.LONG_QUERY: query_lens > decode_threshold,
        RowRule.PADDING: ~batch.is_prefilling & (query_lens == 0),
        RowRule.DECODING: ~batch.is_prefilling,
        RowRule.FIRST_CHUNK: ~batch.has_state,
        RowRule.ONE_TOKEN_EXTEND: query_lens == 1,
        # Without drafts >= 0 an empty query would pass for a tail of -1 drafts.
        RowRule.PADDED_TAIL: (drafts >= 0) & (query_lens == drafts + 1),
    }
    return np.select(
        list(fits.values()), [_NUMBER[rule] for rule in fits], _NUMBER[RowRule.PREFILLING]
    )


def _first_prefill(is_prefill: BoolArray) -> int:
    """Row that splits the batch: the first prefill, or the number of rows."""
    prefills = np.flatnonzero(is_prefill)
    return int(prefills[0]) if prefills.size else len(is_prefill)


def _cut(is_prefill: BoolArray, query_start_loc: IntArray, num_actual_tokens: int) -> BatchSplit:
    rows, num_decodes = len(is_prefill), _first_prefill(is_prefill)
    if num_decodes == rows:
        # Nothing but decodes: all tokens are theirs, whatever the padding rows say.
        return BatchSplit(rows, 0, num_actual_tokens, 0)
    decode_tokens = int(query_start_loc[num_decodes])
    return BatchSplit(
        num_decodes, rows - num_decodes, decode_tokens, num_actual_tokens - decode_tokens
    )


def _drafts(batch: HostBatch, num_decode_draft_tokens_cpu: torch.Tensor | None) -> IntArray:
    """Drafts per row, -1 where a row is not a draft row; ``[R]``."""
    rows = len(batch.query_lens)
    if num_decode_draft_tokens_cpu is None:
        return np.full(rows, -1, dtype=np.int32)
    require_rows("num_decode_draft_tokens_cpu", num_decode_draft_tokens_cpu, rows)
    return num_decode_draft_tokens_cpu.cpu().numpy()
