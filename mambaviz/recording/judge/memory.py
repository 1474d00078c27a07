"""What the steps before say about a request."""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.recording.judge.facts import Facts
from mambaviz.recording.lines import Scheduled

NO_COLUMN = -1  # a request without state: nothing is computed yet


@dataclass
class Memory:
    """What the steps before say about a request; None: unknown."""

    base: int | None = None  # tokens known at its last admission
    column: int | None = None  # remembered running column, NO_COLUMN: none
    accepted: int | None = None
    computed: int | None = None
    previous: int | None = None  # all mode with drafts: column that its last full query wrote

    @classmethod
    def admitted(cls, request: Scheduled, facts: Facts) -> Memory:
        """Of a new or resumed request; its accepted count starts with 1 (section 2)."""
        column = _first_column(request, facts)
        return cls(base=request.known, column=column, accepted=1, computed=request.computed)

    def is_decode(self, request: Scheduled) -> bool:
        """Section 4.2: decodes and the short extends that count as such."""
        if self.base is None:  # admitted before the recording began
            fits = request.known is None or request.computed == request.known - 1
            return bool(request.drafts) or (fits and request.scheduled == 1)
        if request.computed >= self.base:
            return True
        return request.computed > 0 and (request.scheduled == 1 or request.padded_tail)


def _first_column(request: Scheduled, facts: Facts) -> int | None:
    """Section 3.7: where the state of a new or resumed request lies."""
    if request.computed == 0:
        return NO_COLUMN
    if facts.block_size is None:
        return None
    return facts.last_column(request.computed)
