"""What every rule looks at: one step, beside what is known from the steps before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mambaviz.recording.held import Ledger
from mambaviz.recording.judge.facts import Facts
from mambaviz.recording.judge.holders import Holders
from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.lines import Scheduled
from mambaviz.recording.rules import RuleName, Verdict
from mambaviz.recording.steps import RecordedStep
from mambaviz.trace import Invariant, PhaseName


@dataclass
class Case:
    """A step before its judge. Rules take it in the order of the phases, and go on with it.

    ``memory``, ``ledger`` and ``holders`` are the judge's own: a rule that has looked at what a
    phase did notes it there. ``compared`` counts what was looked at, by invariant.
    """

    facts: Facts
    now: RecordedStep
    memory: dict[str, Memory]
    ledger: Ledger
    holders: Holders
    compared: Counter[Invariant] = field(default_factory=Counter)

    def is_decode(self, request: Scheduled) -> bool:
        return self.memory[request.id].is_decode(request)

    def know_no_block_of(self, request: Scheduled) -> None:
        """Something may have been written to any block of its rows."""
        for group in self.facts.mamba:
            for block in self.now.row(request.id, group) or ():
                self.ledger.forget_place((group, block))

    def verdict(
        self,
        rule: RuleName,
        phase: PhaseName,
        message: str,
        *,
        request: str | None = None,
        group: int | None = None,
        block: int | None = None,
        column: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> Verdict:
        """A verdict on this step; ``expected`` and ``found`` are numbers or words."""
        return Verdict(
            rule,
            self.now.index,
            phase,
            message,
            request,
            group,
            block,
            column,
            None if expected is None else str(expected),
            None if found is None else str(found),
        )


def at(ids: Sequence[int], column: int) -> int | None:
    """The id at a column; None outside the row."""
    return ids[column] if 0 <= column < len(ids) else None
