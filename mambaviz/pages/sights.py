"""Where each word of the glossary can be seen: a page, and on Watch a moment of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mambaviz.attention.fields import FIELDS
from mambaviz.pages.reports_state import ReportsView
from mambaviz.pages.state import PageState, path_of, to_link
from mambaviz.scenario import DEFAULT_PRESET, PRESETS
from mambaviz.trace import INVARIANTS, PhaseName


@dataclass(frozen=True)
class Sight:
    """A page by its title and, on the Watch page, after which phase of a preset's step, with or
    without the expert panels; on the Reports page which report."""

    page: str = "Watch"
    preset: str = DEFAULT_PRESET
    step: int = 2
    phase: PhaseName = "post-copy"
    details: bool = False
    report: str | None = None

    @property
    def words(self) -> str:
        if self.report is not None:
            return f"{self.page}, {self.report}"
        if self.page != "Watch":
            return self.page
        where = "" if self.preset == DEFAULT_PRESET else f"“{PRESETS[self.preset].name}”, "
        return f"Watch, {where}step {self.step}, {self.phase}"

    @property
    def href(self) -> str:
        """Below the address of the app."""
        path = path_of(self.page)
        link = to_link(PageState(**self.view))
        query = "&".join(f"{name}={text}" for name, text in link.items())
        return f"./{path}?{query}" if query else f"./{path}"

    @property
    def view(self) -> dict[str, Any]:
        """What of a `PageState` leads there."""
        if self.report is not None:
            return {"museum": ReportsView(report=self.report)}
        if self.page != "Watch":
            return {}
        return {
            "preset": self.preset,
            "custom": None,
            "lesson": None,
            "request": None,
            "layer": 0,
            "step": self.step,
            "phase": self.phase,
            "details": self.details,
        }


_PREFIX = "a-shared-prefix"
_NUMBERS = Sight(details=True)

SIGHTS: Mapping[str, Sight] = {
    "schedule": Sight(phase="schedule"),
    "allocate": Sight(phase="allocate"),
    "pre-copy": Sight(step=3, phase="pre-copy"),
    "metadata": Sight(phase="metadata", details=True),
    "forward": Sight(phase="forward"),
    "accept": Sight(phase="accept"),
    "post-copy": Sight(),
    "commit": Sight(phase="commit"),
    "block": Sight(phase="forward"),
    "block table": Sight(phase="forward"),
    "column": Sight(phase="forward"),
    "block boundary": Sight(phase="accept"),
    "cached": Sight(phase="commit"),
    "running": Sight(phase="forward"),
    "previous": Sight(phase="forward"),
    "speculative": Sight(phase="forward"),
    "null": Sight(preset=_PREFIX, step=3, phase="allocate"),
    "retired": Sight(step=4, phase="forward"),
    "free": Sight(step=0, phase="allocate"),
    "wrong": Sight(preset="draft-filled-blocks", step=1, phase="commit"),
    "pool": Sight(phase="allocate"),
    "state": Sight(phase="forward"),
    "h(n)": Sight(phase="forward"),
    "conv state": Sight(),
    "temporal state": Sight(),
    "window": Sight(),
    "migrate": Sight(step=3, phase="pre-copy"),
    "checkpoint": Sight(),
    "bias": Sight(),
    "in place": Sight(preset="shift-in-place"),
    "boundary": Sight(phase="accept"),
    "hit": Sight(preset=_PREFIX, step=3, phase="allocate"),
    "preempted": Sight("Reports", report="S01"),
    "prompt": Sight(step=0, phase="schedule"),
    "generated": Sight(phase="commit"),
    "reused": Sight(preset=_PREFIX, step=3, phase="allocate"),
    "ahead": Sight(preset="a-long-prompt-in-chunks", step=1, phase="schedule"),
    "pending": Sight(phase="forward"),
    "accepted": Sight(phase="accept"),
    "rejected": Sight(preset="all-drafts-rejected", phase="accept"),
    "draft": Sight(phase="forward"),
    "computed": _NUMBERS,
    "scheduled": _NUMBERS,
    "accepted count": _NUMBERS,
    "running tokens": _NUMBERS,
    "new tokens": _NUMBERS,
    "aligned tokens": _NUMBERS,
    "source column": _NUMBERS,
    "target column": _NUMBERS,
    "accepted out": _NUMBERS,
    "tokens known": Sight(phase="schedule", details=True),
    "counts as": Sight("Metadata"),
    "oracle": Sight(phase="commit"),
    **{name: Sight(phase="commit") for name in INVARIANTS},
    **{name: Sight("Metadata") for name in FIELDS},
}
