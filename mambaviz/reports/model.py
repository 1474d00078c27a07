"""A report as data, and its replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from mambaviz.alignment import align
from mambaviz.differences import Parting, RunFacts, parting
from mambaviz.faults import FAULTS, METADATA, Fault
from mambaviz.metadata_check import MetadataProblem, metadata_problems
from mambaviz.reports.questions import Question, question_of
from mambaviz.reports.replays import AS_IT_SHOULD, FAULT_OF, WITH_THE_FAULT
from mambaviz.reports.wrong_cell import WrongCell, first_wrong_cell
from mambaviz.scenario import Scenario
from mambaviz.trace import PHASES, Trace, Violation

if TYPE_CHECKING:
    from mambaviz.engine import Backend

REPORTS_FILE = Path(__file__).parent / "reports.json"


Measured = dict[str, str]  # a number's text by its name


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReportedNumber(_Data):
    """A number of a report: what it should be, and with the mistake (None: the report has none)."""

    what: str
    expected: str
    buggy: str | None


class Disagreement(_Data):
    """A number that comes out otherwise with the mistake than the report says, and why."""

    what: str
    shown: str
    why: str


class Report(_Data):
    """One public bug report, told anew.

    ``name`` is short enough for a list, ``title`` a sentence. ``look_at`` says where the damage
    shows. ``why_not`` says what of the report this engine cannot replay and what is shown
    instead; ``doubt`` what was worked out again. Both may be empty.
    """

    id: str
    name: str
    title: str
    url: str
    related: list[str]
    mode: str  # cache modes and runners as the report names them
    runner: str
    layout: str
    block_size: int
    num_spec: int
    certainty: Literal["high", "medium"]
    doubt: str
    symptom: str
    cause: str
    lesson: str
    look_at: str
    why_not: str
    numbers: list[ReportedNumber]
    differs: list[Disagreement]

    @property
    def scenario(self) -> Scenario | None:
        """The replay as it should go; None where only a function can be asked."""
        return AS_IT_SHOULD.get(self.id)

    @property
    def faulty_scenario(self) -> Scenario | None:
        """The same with the mistake."""
        return WITH_THE_FAULT.get(self.id)

    @property
    def fault_name(self) -> str | None:
        """The fault that is the mistake; None where a setting is, or no run has it."""
        return FAULT_OF.get(self.id)

    @property
    def fault(self) -> Fault | None:
        return None if self.fault_name is None else FAULTS[self.fault_name]

    def run(self, with_fault: bool, backend: Backend = "reference") -> Trace:
        """One of the two runs. Raises ValueError for a report that no run replays (`why_not`)."""
        from mambaviz import engine  # costs torch

        scenario = self.faulty_scenario if with_fault else self.scenario
        if scenario is None:
            raise ValueError(f"{self.id} has no run: {self.why_not}")
        return engine.run(scenario, backend)

    def replay(self, backend: Backend = "reference") -> Replay:
        """Both runs, where there are any."""
        if self.scenario is None:
            return Replay(self, None, None)
        return Replay(self, self.run(False, backend), self.run(True, backend))


@dataclass(frozen=True)
class Number:
    """One number four times: reported and as it came out, right and with the mistake.

    ``why`` explains a disagreement with the report and is empty otherwise.
    """

    what: str
    expected: str
    right: str
    buggy: str | None
    wrong: str
    why: str

    @property
    def agrees(self) -> bool:
        return self.right == self.expected and self.buggy in (None, self.wrong)

    @property
    def is_damaged(self) -> bool:
        """Whether the mistake changes this number."""
        return self.right != self.wrong


@dataclass(frozen=True)
class Replay:
    """A report's two runs; None where only a function can be asked.

    ``known`` are numbers measured before, without and with the mistake; None has them measured.
    """

    report: Report
    right: Trace | None
    wrong: Trace | None
    known: tuple[Measured, Measured] | None = None

    def measured(self, with_fault: bool) -> Measured:
        """Everything that is measured for this report, by name, in one of the runs."""
        return self._measured[with_fault]

    @cached_property
    def _measured(self) -> tuple[Measured, Measured]:
        if self.known is not None:
            return self.known
        from mambaviz.reports.measures import measure  # costs torch

        return (
            measure(self.report.id, self.right, with_fault=False),
            measure(self.report.id, self.wrong, with_fault=True),
        )

    def numbers(self) -> list[Number]:
        """The report's numbers in its order, and those that came out."""
        right, wrong = self._measured
        why = {one.what: one.why for one in self.report.differs}
        return [
            Number(
                one.what,
                one.expected,
                right[one.what],
                one.buggy,
                wrong[one.what],
                why.get(one.what, ""),
            )
            for one in self.report.numbers
        ]

    @cached_property
    def first_difference(self) -> Parting | None:
        """Step (``moment``), phase and facts in which the runs part, in the layer that shows first.

        None without runs.
        """
        if self.right is None or self.wrong is None:
            return None
        traces = (self.right, self.wrong)
        moments = align(traces)
        layers = sorted({spec.layer for spec in self.right.states})
        found = [parting([RunFacts(trace, layer) for trace in traces], moments) for layer in layers]
        known = [one for one in found if one is not None]
        return min(known, key=lambda one: (one.moment, PHASES.index(one.phase)), default=None)

    @cached_property
    def first_wrong_cell(self) -> WrongCell | None:
        """The first number of a state that is wrong; None if none is, or without runs."""
        if self.right is None or self.wrong is None:
            return None
        return first_wrong_cell(self.right, self.wrong)

    @cached_property
    def first_violation(self) -> Violation | None:
        """What the invariants of section 1 say first about the run with the mistake."""
        return None if self.wrong is None else next(iter(self.wrong.violations), None)

    @cached_property
    def metadata_problems(self) -> list[MetadataProblem]:
        """What is wrong with the metadata of the run with the mistake (section 4)."""
        return [] if self.wrong is None else metadata_problems(self.wrong)

    @property
    def red(self) -> set[str]:
        """The checks that the run with the mistake turns red."""
        violations = self.wrong.violations if self.wrong is not None else []
        broken: set[str] = {violation.invariant for violation in violations}
        return broken | ({METADATA} if self.metadata_problems else set())

    @cached_property
    def question(self) -> Question:
        """Something to predict before the reveal; the answer is read off the runs."""
        return question_of(self)


def _load() -> dict[str, Report]:
    text = REPORTS_FILE.read_text(encoding="utf-8")
    return {report.id: report for report in TypeAdapter(list[Report]).validate_json(text)}


REPORTS: Mapping[str, Report] = _load()
