"""What an exploration in a process of its own is asked, and what it answers, line by line.

Both ends read this module, and one of them does without torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from mambaviz.explore.progress import Progress
from mambaviz.explore.queries import AskedQuery
from mambaviz.explore.scope import Scope
from mambaviz.scenario import Scenario
from mambaviz.trace import PhaseName, Trace


class Order(BaseModel):
    """A scope to go through, its fault in it, for a broken invariant or for a query's step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: Scope
    find: str | None = None

    @property
    def goal(self) -> AskedQuery | None:
        return None if self.find is None else AskedQuery.parse(self.find)

    @property
    def key(self) -> str:
        """The same for the same question."""
        return self.model_dump_json()


class Size(BaseModel):
    """Of the shortest run, up to where it is of interest."""

    steps: int
    tokens: int
    requests: int
    events: int


class Shortest(BaseModel):
    size: Size
    words: list[str]


class Findings(BaseModel):
    """The report as ``--json`` prints it, as far as a page shows it; ``trace`` is the shortest
    scenario, run by the engine on the plain back end."""

    depth: int
    scenarios: int
    hits: int
    refused: int
    set_aside: int
    shortest: Shortest | None
    scenario: Scenario | None
    replayed_hits: int
    replayed_others: int
    disagreements: list[str]
    seconds: float
    scenarios_a_second: float
    trace: Trace | None = None

    @property
    def place(self) -> tuple[int, PhaseName]:
        """Where to look at the shortest scenario: its first broken invariant, or the step asked
        for."""
        if self.trace is None or self.shortest is None:
            raise ValueError("nothing was found, so there is no place in it")
        if self.trace.violations:
            first = self.trace.violations[0]
            return first.step, first.phase
        return self.shortest.size.steps - 1, "schedule"


class Line(BaseModel):
    """One line of an answer: exactly one of these is there."""

    model_config = ConfigDict(extra="forbid")

    progress: dict[str, Any] | None = None
    findings: Findings | None = None
    refused: str | None = None  # advice: what was wrong, what would be right

    @classmethod
    def of(cls, progress: Progress) -> Line:
        return cls(progress=asdict(progress))

    @property
    def standing(self) -> Progress | None:
        return None if self.progress is None else Progress(**self.progress)


@dataclass(frozen=True)
class Bound:
    """The largest scope that a shared machine takes on."""

    combinations: int
    scenarios: int

    def problem(self, scope: Scope) -> str:
        """Why a scope is too large, in a sentence; empty if it is not."""
        if scope.num_shapes > self.combinations:
            return (
                f"{scope.num_shapes:,} combinations are too many for this page, which takes up to "
                f"{self.combinations:,}: take values out, or use the command line"
            )
        if scope.most_runs > self.scenarios:
            return (
                f"Up to {scope.most_runs:,} scenarios are too many for this page, which takes up "
                f"to {self.scenarios:,}: take steps or values out, or use the command line"
            )
        return ""
