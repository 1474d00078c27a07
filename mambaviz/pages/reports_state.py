"""What the Reports page shows, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mambaviz.reports import REPORTS, Report
from mambaviz.trace import PHASES, PhaseName

DEFAULT_REPORT = "S03"


class ReportsView(BaseModel):
    """One report. ``at`` and ``phase`` None: where the damage shows first. ``revealed`` is whether
    the run with the fault is shown without a guess."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    report: str = DEFAULT_REPORT
    at: Annotated[int, Field(ge=0)] | None = None
    phase: PhaseName | None = None
    revealed: bool = False

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.report not in REPORTS:
            raise ValueError(f"there is no report {self.report!r}")
        return self

    @property
    def shown(self) -> Report:
        return REPORTS[self.report]

    def changed(self, **changes: Any) -> ReportsView:
        """A validated copy with other values."""
        return ReportsView.model_validate({**dict(self), **changes})


def to_link(view: ReportsView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.report != DEFAULT_REPORT:
        link["report"] = view.report
    if view.at is not None:
        link["report-step"] = str(view.at)
    if view.phase is not None:
        link["report-phase"] = view.phase
    if view.revealed:
        link["revealed"] = "yes"
    return link


def from_values(values: Mapping[str, Any]) -> ReportsView:
    """The view of what `READERS` have read."""
    names = {"report-step": "at", "report-phase": "phase"}
    return ReportsView(**{names.get(name, name): value for name, value in values.items()})


def _read_report(text: str) -> str:
    if text not in REPORTS:
        raise ValueError(
            f"This link asks for a report “{text[:40]}”, which is none of {REPORTS_RANGE}, so "
            f"{DEFAULT_REPORT} is shown."
        )
    return text


REPORTS_RANGE = f"the {len(REPORTS)} from {min(REPORTS)} to {max(REPORTS)}"


def _read_step(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError(
            f"This link's report-step “{text[:40]}” is no whole number from 0, so it is left out."
        )
    return int(text)


def _read_phase(text: str) -> str:
    if text not in PHASES:
        raise ValueError(
            f"This link's report-phase “{text[:40]}” is none of {', '.join(PHASES)}, "
            "so it is left out."
        )
    return text


def _read_revealed(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"This link's revealed “{text[:40]}” is neither yes nor no.")
    return text == "yes"


READERS: Mapping[str, Callable[[str], Any]] = {
    "report": _read_report,
    "report-step": _read_step,
    "report-phase": _read_phase,
    "revealed": _read_revealed,
}
