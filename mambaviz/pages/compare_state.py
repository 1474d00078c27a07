"""What the Compare page shows, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mambaviz.comparisons import (
    DEFAULT_COMPARISON,
    FEWEST_RUNS,
    MOST_RUNS,
    READY_MADE,
    Comparison,
    modes_differ,
)
from mambaviz.limits import LONGEST_REQUEST, USUAL
from mambaviz.pages.packing import pack, unpacked
from mambaviz.scenario import PRESETS, Scenario, ScenarioError, parse
from mambaviz.trace import PHASES, PhaseName
from mambaviz.workload import within

OPENING_PHASE: PhaseName = "forward"


class CompareView(BaseModel):
    """Runs side by side: a ready-made comparison, or ``own`` scenarios of the reader's.

    ``at`` is a step, or a token of the request ``lock``; None is where the comparison opens.
    ``marks`` None means: as the comparison wants it (`marked`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ready: str = DEFAULT_COMPARISON
    own: Annotated[tuple[Scenario, ...], Field(max_length=MOST_RUNS)] = ()
    at: Annotated[int, Field(ge=0)] | None = None
    phase: PhaseName = OPENING_PHASE
    lock: str | None = None
    marks: bool | None = None

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.ready not in READY_MADE:
            raise ValueError(f"there is no comparison {self.ready!r}")
        if self.own and len(self.own) < FEWEST_RUNS:
            raise ValueError(f"a comparison needs at least {FEWEST_RUNS} runs")
        return self

    @property
    def comparison(self) -> Comparison:
        if not self.own:
            return READY_MADE[self.ready]
        names = dict.fromkeys(scenario.name for scenario in self.own)
        return Comparison(" and ".join(names), "", self.own)

    @property
    def marked(self) -> bool:
        """Whether differences are underlined. Between cache modes nearly every id differs."""
        return not modes_differ(self.comparison.scenarios) if self.marks is None else self.marks

    @property
    def locked(self) -> str | None:
        """The request that the runs are locked to, if any of them has it."""
        known = {plan.id for run in self.comparison.scenarios for plan in run.requests}
        return self.lock if self.lock in known else None

    def changed(self, **changes: Any) -> CompareView:
        """A validated copy with other values."""
        return CompareView.model_validate({**dict(self), **changes})


def to_link(view: CompareView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.own:
        link["runs"] = ",".join(_name(scenario) for scenario in view.own)
    elif view.ready != DEFAULT_COMPARISON:
        link["compare"] = view.ready
    if view.lock is not None:
        link["lock"] = view.lock
    if view.at is not None:
        link["at"] = str(view.at)
    if view.phase != OPENING_PHASE:
        link["after"] = view.phase
    if view.marks is not None:
        link["marks"] = "on" if view.marks else "off"
    return link


def from_values(values: Mapping[str, Any]) -> CompareView:
    """The view of what `READERS` have read."""
    names = {"compare": "ready", "runs": "own", "after": "phase"}
    return CompareView(**{names.get(name, name): value for name, value in values.items()})


def _name(scenario: Scenario) -> str:
    """A preset by its slug, any other scenario as it is. Neither has a comma in it."""
    slug = next((slug for slug, preset in PRESETS.items() if preset == scenario), None)
    return slug or pack(scenario)


def _read_ready(text: str) -> str:
    if text not in READY_MADE:
        raise ValueError(
            f"This link asks for a comparison “{text[:40]}”, which does not exist, so “"
            f"{READY_MADE[DEFAULT_COMPARISON].name}” is shown."
        )
    return text


def _read_runs(text: str) -> tuple[Scenario, ...]:
    shown = f"so “{READY_MADE[DEFAULT_COMPARISON].name}” is compared."
    parts = text.split(",")
    if not FEWEST_RUNS <= len(parts) <= MOST_RUNS:
        raise ValueError(
            f"This link compares {len(parts)} run{'s' * (len(parts) != 1)} where {FEWEST_RUNS} or "
            f"{MOST_RUNS} can be, {shown}"
        )
    return tuple(_read_run(part, shown) for part in parts)


def _read_run(text: str, shown: str) -> Scenario:
    if text in PRESETS:
        return PRESETS[text]
    try:
        return within(parse(unpacked(text, "A scenario in this link", shown)), USUAL)
    except ScenarioError as error:
        raise ValueError(f"A scenario in this link cannot run ({error}), {shown}") from None


def _read_at(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError(f"This link's at “{text[:40]}” is no whole number from 0.")
    return int(text)


def _read_phase(text: str) -> str:
    if text not in PHASES:
        raise ValueError(f"This link's after “{text[:40]}” is none of {', '.join(PHASES)}.")
    return text


def _read_marks(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"This link's marks “{text[:40]}” is neither on nor off.")
    return text == "on"


READERS: Mapping[str, Callable[[str], Any]] = {
    "runs": _read_runs,
    "compare": _read_ready,
    "lock": lambda text: text[:LONGEST_REQUEST],  # whether a run has it shows with the runs
    "at": _read_at,
    "after": _read_phase,
    "marks": _read_marks,
}
