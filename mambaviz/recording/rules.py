"""What a recording is judged by: each rule with its section, its lamp and its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mambaviz.trace import Invariant, PhaseName


@dataclass(frozen=True)
class Rule:
    """``lamp`` is the invariant of section 1 that the rule is a part of; None: a rule of its own.

    ``says`` is what must hold, in a sentence.
    """

    section: str
    lamp: Invariant | None
    says: str


RuleName = Literal[
    "accepted range",
    "accepted count",
    "computed tokens",
    "ids",
    "columns",
    "worker row",
    "null block",
    "column",
    "source",
    "destination",
    "bias",
    "copy",
    "count reset",
    "staged values",
    "stale entry",
    "running state",
    "registered prefix",
    "boundary state",
    "ownership",
    "freed block",
    "conservation",
    "metadata",
]

RULES: dict[RuleName, Rule] = {
    "accepted range": Rule("1", "I2", "1 ≤ accepted ≤ 1 + drafts, the bonus token counted"),
    "accepted count": Rule(
        "2",
        "I2",
        "a row starts with the count that its request's step before left, 1 after an admission",
    ),
    "computed tokens": Rule(
        "2", "I2", "computed grows by scheduled - drafts + accepted - 1, or by a prefill's chunk"
    ),
    "ids": Rule("1", "I7", "every id of a list is a block of the pool"),
    "columns": Rule("3.1", "I7", "every column that is read or written lies inside the row"),
    "worker row": Rule(
        "2", "I7", "the worker's row holds every block of the list at the list's column"
    ),
    "null block": Rule("1", "I4", "no live row reads or writes the null block"),
    "column": Rule("3.7", "I2", "the running column is cdiv(computed + scheduled, B) - 1"),
    "source": Rule(
        "3.7",
        "I2",
        "the source is the column remembered from the step before, (computed - 1) // B for a new "
        "or resumed request",
    ),
    "destination": Rule(
        "3.2", "I2", "a copy goes to the running column, a checkpoint to aligned // B - 1"
    ),
    "bias": Rule(
        "3", "I2", "the bias is accepted - 1 before a forward, aligned - running after one"
    ),
    "copy": Rule(
        "3", "I2", "the state is copied when the running column changes or a boundary was reached"
    ),
    "count reset": Rule(
        "3", "I2", "the accepted count becomes 1 once the state has moved, else it stays"
    ),
    "staged values": Rule("3.7", "I2", "the postprocess is staged with what the step did"),
    "stale entry": Rule(
        "3.7", "I2", "finished, preempted and resumed requests are forgotten before the pre-copy"
    ),
    "running state": Rule(
        "1", "I2", "the block that a forward reads holds the state after the computed tokens"
    ),
    "registered prefix": Rule(
        "2", "I1", "a block is registered for tokens that are computed or scheduled, and known"
    ),
    "boundary state": Rule(
        "1", "I1", "a registered block holds the state after exactly its prefix"
    ),
    "ownership": Rule(
        "1", "I5", "a block in two lists is registered for reuse; a written one stands in one list"
    ),
    "freed block": Rule("1", "I5", "a block that is written stands in the list of its request"),
    "conservation": Rule(
        "1", "I6", "every block is either free or held, never both, never neither"
    ),
    "metadata": Rule("4", None, "the metadata is what section 4 makes of the batch"),
}


@dataclass(frozen=True)
class Verdict:
    """One thing in a recording that contradicts a rule: where, and the numbers."""

    rule: RuleName
    step: int
    phase: PhaseName
    message: str
    request: str | None = None
    group: int | None = None
    block: int | None = None
    column: int | None = None
    expected: str | None = None
    found: str | None = None

    @property
    def lamp(self) -> Invariant | None:
        return RULES[self.rule].lamp

    @property
    def section(self) -> str:
        return RULES[self.rule].section

    @property
    def sentence(self) -> str:
        """What is wrong, and the rule that says so."""
        return f"{self.message} ({RULES[self.rule].says}; section {self.section})"
