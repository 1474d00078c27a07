"""Runs side by side as the browser component takes them: one frame for each phase of a moment."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from mambaviz.differences import Fact
from mambaviz.trace import INVARIANTS, PHASES, PhaseName, Role, Step, Trace
from mambaviz.viz import legend, shapes, tables
from mambaviz.viz.compare import charts, pictures, told
from mambaviz.viz.compare.beside import SideBySide
from mambaviz.viz.compare.charts import Chart, Value
from mambaviz.viz.compare.rows import ListRow
from mambaviz.viz.compare.sizes import SIZES as Z
from mambaviz.viz.payload import phase_events
from mambaviz.viz.scene import Mark, body_json, primitive_json, short
from mambaviz.viz.theme import EASING, MOTION
from mambaviz.viz.timelines import Bodies, Channel, Table
from mambaviz.viz.views import RowStatus
from mambaviz.viz.words import Span

Json = Any
EVENTS = ("migrate", "checkpoint", "hit", "preempted", "wrong")


@dataclass(frozen=True)
class ComparePayload:
    """Runs for the component: ``run`` tells one comparison from another, ``text`` is JSON.

    ``opening`` is the moment to look at first, ``parting`` the one where the runs part, if they
    do; both as step or token, the way a link names them.
    """

    run: str
    text: str
    opening: int
    parting: int | None


def compare_payload(
    traces: Sequence[Trace], *, lock: str | None = None, layer: int = 0
) -> ComparePayload:
    """Everything the component shows; keep it per runs, lock and layer.

    Raises what `SideBySide` raises.
    """
    side = SideBySide(traces, lock=lock, layer=layer)
    text = json.dumps(_Packer(side).pack(), ensure_ascii=False, separators=(",", ":"))
    return ComparePayload(
        run=run_key(traces, lock, layer),
        text=text,
        opening=side.moments[side.opening].at,
        parting=side.moments[side.parting.moment].at if side.parting else None,
    )


def run_key(traces: Sequence[Trace], lock: str | None, layer: int) -> str:
    runs = " ".join(f"{trace.scenario_hash}:{trace.backend}" for trace in traces)
    return f"{runs} {lock or ''} {layer}"


class _Packer:
    def __init__(self, side: SideBySide) -> None:
        self.side = side
        self.runs = range(len(side.traces))
        self.bodies, self.names, self.texts = Bodies(), Table(), Table()
        self.channels: dict[str, Channel] = {}
        self.panels: dict[str, dict[int, int]] = {}
        self.last_panel: dict[str, int] = {}
        self.roles: set[Role] = set()
        self.statuses: set[RowStatus] = set()
        columns = max(rows.most_columns for rows in side.rows)
        self.panel = pictures.panel_for(len(side.traces), columns)
        self.charts = self._charts()

    def pack(self) -> Json:
        for moment in range(len(self.side.moments)):
            self._moment(moment)
            for index, phase in enumerate(PHASES):
                self._frame(moment, phase, moment * len(PHASES) + index)
        side, parting = self.side, self.side.parting
        distinct = Table()
        channels = {
            name: distinct.number(json.dumps(channel.changes), channel.changes)
            for name, channel in self.channels.items()
        }
        panels = {
            name: distinct.number(json.dumps(found), found) for name, found in self.panels.items()
        }
        return {
            "run": run_key(side.traces, side.lock, side.layer),
            "phases": PHASES,
            "lock": side.lock,
            "requests": [[request, pictures.short_name(request)] for request in side.requests],
            "runs": [[label.name, label.caption] for label in side.labels],
            "moments": [self._moment_json(moment) for moment in range(len(side.moments))],
            "opening": side.opening,
            "parting": None if parting is None else [parting.moment, PHASES.index(parting.phase)],
            "sizes": {
                "lists": [self.panel.lists_width, Z.heading + len(side.requests) * Z.row],
                "rows": [Z.left, Z.heading, Z.row],
                "panel": self.panel.width,
                "strip": Z.strip,
                "found": [
                    Z.found_left + Z.found_most * Z.found,
                    pictures.found_height(len(side.traces)),
                ],
                "chart": [self.charts[0][0].width, Z.chart_height],
            },
            "charts": [title for _, title, _ in self.charts],
            "motion": {**MOTION, "easing": EASING},
            "signs": {
                event: [primitive_json(p) for p in shapes.event_sign(event)] for event in EVENTS
            },
            "invariants": INVARIANTS,
            "legend": [
                None if item is None else [short(item.width), body_json(item.body), item.text]
                for item in self._legend()
            ],
            "names": self.names.values,
            "bodies": self.bodies.values,
            "texts": self.texts.values,
            "timelines": distinct.values,
            "channels": channels,
            "panels": panels,
        }

    def _legend(self) -> list[legend.Item | None]:
        """Roles and tokens; no copy is drawn here."""
        found = legend.items(self.roles, self.statuses)
        return found[:-2]

    # ------------------------------------------------------------------ moments

    def _moment_json(self, moment: int) -> Json:
        side = self.side
        found = side.moments[moment]
        return {
            "at": found.at,
            "last": found.last,
            "name": told.moment_name(side, moment),
            "short": _short_name(found.at, found.last),
            "steps": found.steps,
            "events": [self._events(run, moment) for run in self.runs],
        }

    def _events(self, run: int, moment: int) -> list[str]:
        step = self.side.step(run, moment)
        if step is None:
            return []
        trace = self.side.traces[run]
        happened = {
            event for phase in range(len(PHASES)) for event in phase_events(trace, step, phase)
        }
        return [event for event in EVENTS if event in happened]

    def _moment(self, moment: int) -> None:
        """What does not depend on the phase, put at the moment's first frame."""
        side, frame = self.side, moment * len(PHASES)
        focus = side.focus(moment)
        admitted = [side.admitted(run, focus, moment) for run in self.runs]
        marks = pictures.found_picture(tuple(side.names), tuple(admitted))
        self._channel("found").add(frame, (marks,))
        at = next((one.step for one in admitted if one is not None), None)
        has_found = any(one is not None and one.found for one in admitted)
        title = f"What {focus} could find" + (f" at step {at}" if at is not None else "")
        value = [title if has_found else "", _rows_json(told.request_rows(side, moment))]
        self._panel("left", frame, value)
        for index, (chart, _, static) in enumerate(self.charts):
            parts = (static, charts.now_marks(chart, moment))
            self._channel(f"chart:{index}").add(frame, parts)
        for run in self.runs:
            self._panel(f"numbers:{run}", frame, [*map(list, told.numbers(side, run, moment))])

    # ------------------------------------------------------------------ frames

    def _frame(self, moment: int, phase: PhaseName, frame: int) -> None:
        side = self.side
        found = side.differences(moment, phase)
        differing = frozenset(one.fact for one in found)
        for run in self.runs:
            self._run(run, moment, phase, frame, differing)
        said = told.headline(side, moment, phase)
        self._panel("say", frame, [said.headline, _spans(said.sentence)])
        notes = [_spans(line) for line in told.notes(side, moment, phase)]
        self._panel("notes", frame, notes)
        self._panel("differs", frame, [len(found), _rows_json(told.difference_rows(found))])

    def _run(
        self, run: int, moment: int, phase: PhaseName, frame: int, differing: frozenset[Fact]
    ) -> None:
        side, panel = self.side, self.panel
        step = side.moments[moment].steps[run]
        shown = side.latest(run, moment) if step is None else step
        rows = self._rows(run, shown, phase if step is not None else "commit")
        parts = [pictures.heading(panel)]
        parts += [pictures.list_row(row, index, panel) for index, row in enumerate(rows)]
        self._channel(f"lists:{run}").add(frame, parts)
        cells = frozenset(
            (row.request, cell.column) for row in rows for cell in row.cells if cell.block
        )
        marks = pictures.marked(tuple(side.requests), _cell_facts(differing), cells, panel)
        self._channel(f"differ:{run}").add(frame, (marks,))
        focus = next(row for row in rows if row.request == side.focus(moment))
        words = told.strip_words(side, run, moment)
        self._channel(f"strip:{run}").add(frame, (pictures.strip(focus, words, panel),))
        self.roles.update(cell.role for row in rows for cell in row.cells)
        self.statuses.update(focus.tokens)
        self._panel(f"lamps:{run}", frame, _lamps(side.step(run, moment), phase))

    def _rows(self, run: int, step: int | None, phase: PhaseName) -> tuple[ListRow, ...]:
        found = {} if step is None else self.side.rows[run].at(step, phase)
        return tuple(
            found.get(request) or ListRow(request, (), (), "not in this run")
            for request in self.side.requests
        )

    # ------------------------------------------------------------------ charts

    def _charts(self) -> list[tuple[Chart, list[str], tuple[Mark, ...]]]:
        side = self.side
        moments = range(len(side.moments))
        labels = [_short_name(found.at, found.at) for found in side.moments]
        width = Z.width_of_three
        found = []
        for title, note, read in (
            ("Blocks held", "", side.held),
            ("Bytes copied, total", "", side.total_copied),
            ("Tokens recomputed, total", "prefill tokens that were known", side.total_recomputed),
        ):
            lines: list[list[Value]] = [
                [read(run, m) if side.moments[m].steps[run] is not None else None for m in moments]
                for run in self.runs
            ]
            chart = charts.chart_for(width, labels, lines)
            static = tuple(charts.chart_picture(chart, side.names, lines))
            found.append((chart, [title, note], static))
        return found

    # ------------------------------------------------------------------ channels and panels

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


def _cell_facts(differing: frozenset[Fact]) -> frozenset[Fact]:
    return frozenset(fact for fact in differing if fact.kind in ("blocks", "state"))


def _lamps(step: Step | None, phase: PhaseName) -> Json:
    """Each invariant: what was checked, and whether it is broken by the end of the phase."""
    if step is None:
        return [["not checked: the run has no step here", False] for _ in INVARIANTS]
    upto = PHASES.index(phase)
    broken = {one.invariant for one in step.violations if PHASES.index(one.phase) <= upto}
    texts = tables.lamp_texts(step)
    return [[text, name in broken] for name, text in zip(INVARIANTS, texts, strict=True)]


def _spans(spans: Sequence[Span]) -> Json:
    return [[span.text, span.role] for span in spans]


def _rows_json(rows: Sequence[told.DifferenceRow]) -> Json:
    return [[row.fact, row.values] for row in rows]


def _short_name(at: int, last: int) -> str:
    return str(at) if at == last else f"{at}–{last}"
