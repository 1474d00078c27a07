"""Which rows are decodes and which are prefills (section 4.2).

The rules themselves are in `mambaviz.attention.rules`; here the builder asks them about a batch
of tensors and cuts it in two. The cut and the per-row explanation read the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mambaviz.attention.common import (
    CommonAttentionMetadata,
    HostBatch,
    host_batch,
    is_prefilling_on_cpu,
    query_start_loc_on_cpu,
    require_rows,
)
from mambaviz.attention.rules import (
    BoolArray,
    IntArray,
    RowClass,
    RowDecision,
    RowFacts,
    RowRule,
    decide,
    first_prefill,
    makes_prefill,
    rule_numbers,
)


@dataclass(frozen=True)
class BatchSplit:
    """Where a batch is cut: rows and tokens on either side (section 4.2)."""

    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    num_prefill_tokens: int


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
    rules = rule_numbers(_facts(batch, num_decode_draft_tokens_cpu), decode_threshold)
    return _cut(makes_prefill(rules), batch.query_start_loc, num_actual_tokens)


def explain_split(
    common: CommonAttentionMetadata,
    decode_threshold: int = 1,
    num_decode_draft_tokens_cpu: torch.Tensor | None = None,
) -> tuple[RowDecision, ...]:
    """Say for every row why the builder classes it as it does (section 4.2).

    Same inputs and errors as the split of the builder, and the same rules behind it.
    """
    return decide(_facts(host_batch(common), num_decode_draft_tokens_cpu), decode_threshold)


def _facts(batch: HostBatch, num_decode_draft_tokens_cpu: torch.Tensor | None) -> RowFacts:
    return RowFacts(
        batch.query_lens,
        batch.is_prefilling,
        batch.has_state,
        _drafts(batch, num_decode_draft_tokens_cpu),
    )


def _cut(is_prefill: BoolArray, query_start_loc: IntArray, num_actual_tokens: int) -> BatchSplit:
    rows, num_decodes = len(is_prefill), first_prefill(is_prefill)
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


__all__ = [
    "BatchSplit",
    "RowClass",
    "RowDecision",
    "RowRule",
    "explain_split",
    "split_batch",
    "split_decodes_and_prefills",
]
