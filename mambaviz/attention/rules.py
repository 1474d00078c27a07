"""Why a row is a decode or a prefill: the rules of section 4.2, on CPU arrays.

Every row gets one rule: the first that fits, in the order of `RowRule`. The first row whose rule
makes it a prefill splits the batch; what stands behind it is prefill too, since the kernels take
the batch as two contiguous parts. No torch in here: an editor judges a batch before it is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]

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


# Rules by number, so that a whole batch is classed with array operations.
_RULES = tuple(RowRule)
_NUMBER = {rule: number for number, rule in enumerate(_RULES)}
_IS_PREFILL = np.array([rule.row_class == "prefill" for rule in _RULES])


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What the rules look at; arrays ``[R]``. ``drafts`` is -1 where a row is no draft row."""

    query_lens: IntArray
    is_prefilling: BoolArray
    has_state: BoolArray
    drafts: IntArray


def rule_numbers(rows: RowFacts, decode_threshold: int) -> IntArray:
    """The number of the first rule that fits each row; ``[R]``."""
    query_lens, drafts = rows.query_lens, rows.drafts
    fits = {
        RowRule.LONG_QUERY: query_lens > decode_threshold,
        RowRule.PADDING: ~rows.is_prefilling & (query_lens == 0),
        RowRule.DECODING: ~rows.is_prefilling,
        RowRule.FIRST_CHUNK: ~rows.has_state,
        RowRule.ONE_TOKEN_EXTEND: query_lens == 1,
        # Without drafts >= 0 an empty query would pass for a tail of -1 drafts.
        RowRule.PADDED_TAIL: (drafts >= 0) & (query_lens == drafts + 1),
    }
    return np.select(
        list(fits.values()), [_NUMBER[rule] for rule in fits], _NUMBER[RowRule.PREFILLING]
    )


def makes_prefill(rules: IntArray) -> BoolArray:
    """Which of these rule numbers make their row a prefill; same shape."""
    return _IS_PREFILL[rules]


def first_prefill(is_prefill: BoolArray) -> int:
    """Row that splits the batch: the first prefill, or the number of rows."""
    prefills = np.flatnonzero(is_prefill)
    return int(prefills[0]) if prefills.size else len(is_prefill)


def decide(rows: RowFacts, decode_threshold: int) -> tuple[RowDecision, ...]:
    """Class, rule and reason of every row (section 4.2)."""
    rules = rule_numbers(rows, decode_threshold)
    split = first_prefill(makes_prefill(rules))
    decisions = []
    for row, number in enumerate(rules):
        rule = _RULES[number]
        if row > split and rule.row_class == "decode":
            rule = RowRule.BEHIND_A_PREFILL
        reason = rule.sentence.format(
            q=rows.query_lens[row],
            threshold=decode_threshold,
            drafts=rows.drafts[row],
            split=split,
        )
        decisions.append(RowDecision(row, rule.row_class, rule, reason))
    return tuple(decisions)
