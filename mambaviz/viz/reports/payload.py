"""A report as the browser component takes it: one frame for each phase of a step."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from mambaviz.reports import Replay, Report
from mambaviz.reports.outputs import largest_errors
from mambaviz.trace import PHASES, PhaseName, Violation
from mambaviz.viz import shapes
from mambaviz.viz.compare import pictures as lists
from mambaviz.viz.compare.rows import ListRow
from mambaviz.viz.compare.sizes import SIZES as LISTS
from mambaviz.viz.payload import phase_events
from mambaviz.viz.reports import pictures, told
from mambaviz.viz.reports.exhibit import FAULT, FIX, Exhibit
from mambaviz.viz.reports.sizes import SIZES as Z
from mambaviz.viz.scene import primitive_json
from mambaviz.viz.theme import EASING, MOTION
from mambaviz.viz.timelines import Bodies, Channel, Table

Json = Any
EVENTS = ("migrate", "checkpoint", "hit", "preempted", "boundary")
RUNS = (FAULT, FIX)
UNORDERED = "unordered-in-place-shift"


@dataclass(frozen=True)
class ReportPayload:
    """A report for the component: ``run`` tells one from another, ``text`` is JSON.

    ``at`` and ``phase`` are where the damage shows first, the place to open at; ``steps`` how many
    there are (0 for a report without runs); ``answer`` is the right choice of its question.
    """

    run: str
    text: str
    at: int
    phase: PhaseName
    steps: int
    answer: int


def report_payload(replay: Replay) -> ReportPayload:
    """Everything the component shows of a report; keep it per report."""
    common = _told(replay)
    if replay.right is None:
        data = {**common, "steps": [], "parting": None}
        answer = replay.question.answer
        return ReportPayload(replay.report.id, _json(data), 0, PHASES[0], 0, answer)
    exhibit = Exhibit(replay)
    data = {**common, **_Packer(exhibit).pack()}
    at, phase = exhibit.opening
    return ReportPayload(
        run=replay.report.id,
        text=_json(data),
        at=at,
        phase=phase,
        steps=len(exhibit.side.moments),
        answer=replay.question.answer,
    )


def _json(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _told(replay: Replay) -> Json:
    """What does not depend on the step."""
    report, question = replay.report, replay.question
    return {
        "run": report.id,
        "phases": PHASES,
        "title": f"{report.id}: {report.title}.",
        "symptom": report.symptom,
        "cause": report.cause,
        "links": [[url.removeprefix("https://"), url] for url in (report.url, *report.related)],
        "certainty": report.certainty,
        "setting": setting(report),
        "fault": [report.fault_name or "", report.fault.what if report.fault else _setting(report)],
        "why_not": report.why_not if replay.right is None else "",
        "question": [question.text, question.choices, question.answer, question.because],
        "numbers": told.numbers(replay),
        "along": told.take_along(replay),
    }


def setting(report: Report) -> str:
    """``align mode, V1, SD, blocks of 4, 2 drafts``"""
    drafts = f"{report.num_spec} draft{'' if report.num_spec == 1 else 's'}"
    blocks = f"blocks of {report.block_size}"
    return f"{report.mode} mode, {report.runner}, {report.layout}, {blocks}, {drafts}"


def _setting(report: Report) -> str:
    """The settings that are the mistake, where it is no fault."""
    right, wrong = report.scenario, report.faulty_scenario
    if right is None or wrong is None:
        return ""
    fields = type(wrong.engine).model_fields
    other = [name for name in fields if getattr(right.engine, name) != getattr(wrong.engine, name)]
    return ", ".join(f"{name}: {str(getattr(wrong.engine, name)).lower()}" for name in other)


class _Packer:
    def __init__(self, exhibit: Exhibit) -> None:
        self.exhibit, self.side = exhibit, exhibit.side
        self.bodies, self.names, self.texts = Bodies(), Table(), Table()
        self.channels: dict[str, Channel] = {}
        self.panels: dict[str, dict[int, int]] = {}
        self.last_panel: dict[str, int] = {}
        columns = max(rows.most_columns for rows in self.side.rows)
        self.panel = lists.panel_for(len(RUNS), columns)
        self.apart: list[int] = []  # frames in which the runs differ

    def pack(self) -> Json:
        for moment in range(len(self.side.moments)):
            for index, phase in enumerate(PHASES):
                self._frame(moment, phase, moment * len(PHASES) + index)
        errors = largest_errors(self.side.traces[FIX], self.side.traces[FAULT])
        self._channel("errors").add(0, (pictures.errors_picture(errors),))
        part, red = self.exhibit.parting, self.exhibit.red_from
        distinct = Table()
        channels = {
            name: distinct.number(json.dumps(channel.changes), channel.changes)
            for name, channel in self.channels.items()
        }
        panels = {
            name: distinct.number(json.dumps(found), found) for name, found in self.panels.items()
        }
        return {
            "steps": [self._step(moment) for moment in range(len(self.side.moments))],
            "parting": None if part is None else [part.moment, PHASES.index(part.phase)],
            "apart": self.apart,
            "red": [[name, step, PHASES.index(phase)] for name, (step, phase) in red.items()],
            "harmless": not any(errors),
            "has_block": self.exhibit.subject is not None,
            "requests": [[name, lists.short_name(name)] for name in self.side.requests],
            "sizes": {
                "block": [Z.width, self._block_height()],
                "lists": [
                    self.panel.lists_width,
                    LISTS.heading + len(self.side.requests) * LISTS.row,
                ],
                "rows": [LISTS.left, LISTS.heading, LISTS.row],
                "errors": [Z.chart_width, Z.chart_height],
            },
            "motion": {**MOTION, "easing": EASING},
            "signs": {
                event: [primitive_json(p) for p in shapes.event_sign(event)] for event in EVENTS
            },
            "names": self.names.values,
            "bodies": self.bodies.values,
            "texts": self.texts.values,
            "timelines": distinct.values,
            "channels": channels,
            "panels": panels,
        }

    def _block_height(self) -> float:
        """As tall as its rows of numbers."""
        found = self.exhibit.around(FIX, len(self.side.moments) - 1, PHASES[-1])
        rows = 0 if found is None else min(len(found.target.values), Z.most_rows)
        return max(Z.heat + rows * Z.heat_row + 6, Z.least_height)

    def _step(self, moment: int) -> Json:
        """A step: its number, and for each run the event of every phase; null without a step."""
        rows: list[list[str] | None] = []
        for run in RUNS:
            step = self.side.step(run, moment)
            if step is None:
                rows.append(None)
                continue
            trace = self.side.traces[run]
            happened = [phase_events(trace, step, index) for index in range(len(PHASES))]
            rows.append([next((e for e in EVENTS if e in found), "") for found in happened])
        return {"at": self.side.moments[moment].at, "events": rows}

    def _frame(self, moment: int, phase: PhaseName, frame: int) -> None:
        side, exhibit = self.side, self.exhibit
        found = side.differences(moment, phase)
        around = [exhibit.around(run, moment, phase) for run in RUNS]
        if found or (around[0] and around[1] and around[0].target != around[1].target):
            self.apart.append(frame)
        for run in RUNS:
            self._lists(run, moment, phase, frame)
        if exhibit.subject is not None:
            for run in RUNS:
                self._block(run, moment, phase, frame)
        self._panel("where", frame, told.where(exhibit, moment, phase))
        self._panel(
            "facts", frame, told.facts(found, self._broken(moment, phase), exhibit.subject is None)
        )

    def _broken(self, moment: int, phase: PhaseName) -> list[Violation]:
        """What the run with the fault has broken in this step so far."""
        step = self.side.step(FAULT, moment)
        found = step.violations if step is not None else []
        return [one for one in found if PHASES.index(one.phase) <= PHASES.index(phase)]

    def _block(self, run: int, moment: int, phase: PhaseName, frame: int) -> None:
        exhibit, subject = self.exhibit, self.exhibit.subject
        assert subject is not None
        shown, right = (exhibit.around(one, moment, phase) for one in (run, FIX))
        if shown is None or right is None:
            return
        cell = exhibit.replay.first_wrong_cell
        at_first = cell is not None and (cell.step, cell.phase) == (moment, phase)
        lines = tuple(told.note(shown, right, subject.state, at_first))
        in_place = shown.source.block == shown.target.block
        marks = pictures.block_picture(
            shown,
            right.target.values,
            pictures.scale_of(exhibit.scales[subject.layer, subject.state]),
            subject.state,
            self.side.traces[run].scenario.layer.conv_kernel - 1,
            run == FAULT and in_place and exhibit.replay.report.fault_name == UNORDERED,
            lines,
        )
        self._channel(f"block:{run}").add(frame, (marks,))
        self._panel(f"alt:{run}", frame, told.alt(shown, lines))

    def _lists(self, run: int, moment: int, phase: PhaseName, frame: int) -> None:
        side, panel = self.side, self.panel
        step = side.moments[moment].steps[run]
        shown = side.latest(run, moment) if step is None else step
        at = phase if step is not None else PHASES[-1]
        held = {} if shown is None else side.rows[run].at(shown, at)
        rows = [held.get(name) or ListRow(name, (), (), "not here") for name in side.requests]
        parts = [lists.heading(panel)]
        parts += [lists.list_row(row, index, panel) for index, row in enumerate(rows)]
        self._channel(f"lists:{run}").add(frame, parts)

    def _channel(self, name: str) -> Channel:
        if name not in self.channels:
            self.channels[name] = Channel(self.bodies, self.names)
        return self.channels[name]

    def _panel(self, name: str, frame: int, value: Json) -> None:
        key: Hashable = json.dumps(value)
        number = self.texts.number(key, value)
        if self.last_panel.get(name) != number:
            self.panels.setdefault(name, {})[frame] = number
            self.last_panel[name] = number
