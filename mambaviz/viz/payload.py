"""A whole run as the browser component takes it: every picture as differences between phases.

A channel (one lane, one state stage, one panel) lists only what changed from phase to phase
(`mambaviz.viz.timelines`), and channels that never differ are kept once. Texts are shared the
same way. A run of 200 steps stays within a few megabytes.
"""

from __future__ import annotations

import base64
import gc
import gzip
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

from mambaviz.trace import INVARIANTS, PHASES, PhaseName, Role, Step, Trace
from mambaviz.viz import (
    alt,
    changes,
    lanes,
    legend,
    line_lane,
    shapes,
    state_stage,
    tables,
)
from mambaviz.viz.changes import Scales
from mambaviz.viz.lanes import Axis
from mambaviz.viz.recorded_words import pool_text as recorded_pool
from mambaviz.viz.recorded_words import recorded_words
from mambaviz.viz.scene import Primitive, body_json, primitive_json, short
from mambaviz.viz.theme import CHANGES, EASING, LANES, MOTION, STATE
from mambaviz.viz.timelines import Bodies, Channel, Table
from mambaviz.viz.views import (
    Frame,
    LaneView,
    RowStatus,
    frames,
    group_of,
    layers_of,
    num_groups,
    twin_layers,
)
from mambaviz.viz.words import Words, boundary_reached, pool_counts, words

Json = Any

NEEDS_BYTES = ["I3"]  # what nobody can judge by indices
PACK_FROM = 1_000_000  # characters; shorter ones are drawn at once, without unpacking


@dataclass(frozen=True)
class StagePayload:
    """A run for the stage: ``run`` tells one from another, ``text`` is JSON."""

    run: str
    text: str
    about: tuple[tuple[str, ...], ...]  # by frame, the requests that its events are about
    opening: tuple[int, PhaseName]  # the first copy, or what breaks first, or the start
    requests: frozenset[str]
    layers: int

    @cached_property
    def packed(self) -> str:
        """The text as it travels: a long one as base64 of gzip (``stage/unpack.js``).

        A page sends it with every answer, and a tenth of it is read and compared as fast.
        """
        if len(self.text) < PACK_FROM:
            return self.text
        return base64.b64encode(gzip.compress(self.text.encode(), 6, mtime=0)).decode()

    def has(self, step: int, request: str | None, layer: int) -> bool:
        """Whether there is such a place in the run."""
        known = request is None or request in self.requests
        return known and step < len(self.about) // len(PHASES) and layer < self.layers

    def request_at(self, step: int, phase: PhaseName) -> str | None:
        """The request that a view opens with which names none: the latest event's, up to there;
        None for the first one."""
        until = step * len(PHASES) + PHASES.index(phase) + 1
        return next((about[0] for about in reversed(self.about[:until]) if about), None)


def stage_payload(trace: Trace, progress: Callable[[int], None] | None = None) -> StagePayload:
    """Everything the stage shows of a run. Takes a while for long runs: keep it per trace.

    ``progress(steps_drawn)`` is called after every step; what it raises ends the drawing.
    """
    with _collector_paused():
        data = _Packer(trace).pack(progress or (lambda _: None))
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    about = tuple(
        requests_about(step, phase) for step in trace.steps for phase in range(len(PHASES))
    )
    return StagePayload(
        f"{trace.scenario_hash}:{trace.backend}",
        text,
        about,
        first_event(trace),
        frozenset(plan.id for plan in trace.scenario.requests),
        trace.scenario.layer.num_layers,
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A picture has no cycles, but hundreds of thousands of parts: looking through them again and
    again for garbage takes as long as drawing them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


LaneSize = Literal["full", "small", "line"]
MOST_FULL = 2  # requests that are drawn whole side by side
MOST_SMALL = 3  # requests; from four on the others shrink to one line each

_LANE_PARTS: dict[LaneSize, Callable[[LaneView, Axis], lanes.Parts]] = {
    "full": lambda view, axis: lanes.lane_parts(view, axis, small=False),
    "small": lambda view, axis: lanes.lane_parts(view, axis, small=True),
    "line": line_lane.lane_parts,
}


class _Packer:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.requests = [plan.id for plan in trace.scenario.requests]
        self.layers = sorted({spec.layer for spec in trace.states})
        self.groups = list(range(num_groups(trace)))
        self.axes: list[Axis] = [lanes.axis_of(trace, group) for group in self.groups]
        self.scales: Scales = changes.scales_of(trace)
        self.bodies, self.names, self.texts, self.lines = Bodies(), Table(), Table(), Table()
        self.channels: dict[str, Channel] = {}
        self.panels: dict[str, dict[int, int]] = {}
        self.twins = twin_layers(trace)
        self.looks: dict[int, Hashable] = {}
        self.drawn: dict[str, Hashable] = {}  # by channel, the view that stands there
        self.last_panel: dict[str, int] = {}
        self.roles: set[Role] = set()  # that occur in this run
        self.statuses: set[RowStatus] = set()

    @property
    def has_bytes(self) -> bool:
        """Whether what lies in the blocks is known; a recording may hold indices alone."""
        return self.trace.recorded is None or self.trace.recorded.states

    def pack(self, progress: Callable[[int], None]) -> Json:
        steps = []
        for frame in frames(self.trace):
            self._frame(frame)
            if frame.phase_index == len(PHASES) - 1:
                steps.append(self._step(frame.step))
                progress(len(steps))
        distinct = Table()
        channels = {
            name: distinct.number(json.dumps(channel.changes), channel.changes)
            for name, channel in self.channels.items()
        }
        panels = {
            name: distinct.number(json.dumps(found), found) for name, found in self.panels.items()
        }
        return {
            "run": self.trace.scenario_hash,
            "phases": PHASES,
            "requests": self.requests,
            # number, cache group, and the layer whose pictures it shares
            "layers": [
                [layer, group_of(self.trace, layer), self.twins.get(layer, layer)]
                for layer in self.layers
            ],
            "groups": [self._group(group) for group in self.groups],
            "sizes": self._sizes(),
            "motion": {**MOTION, "easing": EASING},
            "signs": {event: _parts(shapes.event_sign(event)) for event in shapes.EVENTS},
            "events_in_words": shapes.EVENTS,
            "invariants": INVARIANTS,
            "unjudged": [] if self.has_bytes else NEEDS_BYTES,
            "bytes": self.has_bytes,
            "legend": self._legend(),
            "meanings": tables.meanings(self.trace.scenario.engine.mode),
            "steps": steps,
            "names": self.names.values,
            "bodies": self.bodies.values,
            "texts": self.texts.values,
            "lines": self.lines.values,
            "timelines": distinct.values,
            "channels": channels,
            "panels": panels,
        }

    def _legend(self) -> Json:
        """Drawn signs and what they stand for; None is a dividing line."""
        copies = any(phase.copies for step in self.trace.steps for phase in step.phases)
        return [
            None
            if item is None
            else [short(item.width), body_json(item.body), item.text, item.term]
            for item in legend.items(self.roles, self.statuses, self._events(), copies=copies)
        ]

    def _events(self) -> set[str]:
        return {
            event
            for step in self.trace.steps
            for phase in range(len(PHASES))
            for event in phase_events(self.trace, step, phase)
        }

    @property
    def others(self) -> LaneSize:
        """How the requests that are not selected are drawn."""
        return "small" if len(self.requests) <= MOST_SMALL else "line"

    @property
    def _others_height(self) -> float:
        if len(self.requests) <= MOST_FULL:
            return LANES.height
        return LANES.small_height if self.others == "small" else LANES.line_height

    def _sizes(self) -> Json:
        return {
            # the heights are of the selected request's lane and of the others'
            "lanes": [LANES.width, LANES.heading, LANES.height, self._others_height, LANES.left],
            "others": self.others,
            "state": [STATE.width, STATE.height],
            "changes": [CHANGES.pitch, CHANGES.height],
        }

    def _group(self, group: int) -> Json:
        axis = self.axes[group]
        heading = [
            [self.bodies.of(mark.body), short(mark.x), short(mark.y)]
            for mark in lanes.heading(axis)
        ]
        name = "attention" if not layers_of(self.trace, group) else f"group {group}"
        return {
            "name": name,
            "width": short(axis.width),
            "lefts": [short(left) for left in axis.lefts],
            "heading": heading,
        }

    # ------------------------------------------------------------------ per frame

    def _channel(self, name: str) -> Channel:
        if name not in self.channels:
            self.channels[name] = Channel(self.bodies, self.names)
        return self.channels[name]

    def _panel(self, name: str, frame: Frame, key: Hashable, make: Callable[[], Json]) -> None:
        """``make()`` is shown from this frame on; JSON of equal ``key`` is made and kept once."""
        self._shows(name, frame, self.texts.number_of((name.split(":")[0], key), make))

    def _shows(self, name: str, frame: Frame, number: int) -> None:
        if self.last_panel.get(name) != number:
            self.panels.setdefault(name, {})[frame.index] = number
            self.last_panel[name] = number

    def _told(self, name: str, frame: Frame, lines: alt.Lines) -> None:
        """A picture in words. A line comes again and again, so each is kept once."""
        self._panel(name, frame, lines, lambda: [self.lines.number(line, line) for line in lines])

    def _is_new(self, name: str, view: Hashable) -> bool:
        """Whether a picture has to be drawn: it shows the view and nothing else."""
        if name in self.drawn and self.drawn[name] == view:
            return False
        self.drawn[name] = view
        return True

    def _frame(self, frame: Frame) -> None:
        looks = [frame.look(request) for request in self.requests]
        for index, request in enumerate(self.requests):
            if self.looks.get(index) != looks[index]:
                self._lanes(frame, index, request)
                self._states(frame, index, request)
        self.looks = dict(enumerate(looks))
        for layer in self.layers:
            self._changes(frame, layer)
        self._texts(frame)

    def _states(self, frame: Frame, index: int, request: str) -> None:
        for layer in self.layers:
            if layer not in self.twins:
                view = frame.state(request, layer)
                if not self._is_new(f"state:{index}:{layer}", view):
                    continue
                stage = state_stage.state(view)
                self._channel(f"state:{index}:{layer}").add(frame.index, (stage,))
                self._told(f"alt-state:{index}:{layer}", frame, alt.state(view))

    def _lanes(self, frame: Frame, index: int, request: str) -> None:
        sizes: tuple[LaneSize, ...] = (
            ("full", self.others) if len(self.requests) > MOST_FULL else ("full",)
        )
        for group, layer in self._lane_layers():
            view = frame.lane(request, group, layer)
            if not self._is_new(f"lane:{group}:{layer}:{index}", view):
                continue
            self.roles.update(cell.role for cell in view.cells)
            self.statuses.update(view.tokens)
            self._told(f"alt-lane:{group}:{layer}:{index}", frame, alt.lane(view))
            for size in sizes:
                parts = _LANE_PARTS[size](view, self.axes[group])
                self._channel(f"lane:{group}:{layer}:{index}:{size}").add(frame.index, parts)

    def _lane_layers(self) -> list[tuple[int, int | None]]:
        """Cache groups with the layers whose bytes tell their lanes apart."""
        found: list[tuple[int, int | None]] = []
        for group in self.groups:
            layers = layers_of(self.trace, group)
            found += [(group, layer) for layer in layers if layer not in self.twins]
            if not layers:
                found.append((group, None))
        return found

    def _changes(self, frame: Frame, layer: int) -> None:
        views = frame.changes(layer)
        if not self._is_new(f"changes:{layer}", views):
            return
        marks, width = changes.changes(views, self.trace, self.scales)
        self._told(f"alt-changes:{layer}", frame, alt.changes(views))
        self._channel(f"changes:{layer}").add(frame.index, (marks,))
        self._panel(f"width:{layer}", frame, short(width), lambda: short(width))

    def _texts(self, frame: Frame) -> None:
        tell = words if self.trace.recorded is None else recorded_words
        for layer in self.layers:
            if layer in self.twins:
                continue  # a sentence names no layer
            known: dict[int, tuple[Words, int]] = {}  # by identity: who does nothing hears the same
            for index, request in enumerate(self.requests):
                told = tell(frame, request, layer)
                if id(told) not in known:
                    number = self.texts.number_of(("words", told), partial(_words_json, told))
                    known[id(told)] = told, number
                self._shows(f"words:{index}:{layer}", frame, known[id(told)][1])
        reasons = tables.why(frame)
        self._panel("why", frame, reasons, lambda: _why_json(reasons))
        for group in self.groups:
            if layers_of(self.trace, group):
                found = tables.metadata(frame, group)
                self._panel(f"metadata:{group}", frame, found, partial(self._metadata_json, found))
        pool = pool_text(frame)
        self._panel("pool", frame, pool, lambda: pool)

    def _metadata_json(self, found: tables.MetadataTable) -> Json:
        rows = [
            [
                row.name,
                [[cell.text, cell.block, cell.role] for cell in row.cells],
                row.kind,
                row.changed,
                [[self.requests.index(at.request), at.first, at.end] for at in row.tokens],
            ]
            for row in found.rows
        ]
        return {"note": found.note, "rows": rows, "empty": found.empty}

    # ------------------------------------------------------------------ per step

    def _step(self, step: Step) -> Json:
        events = [phase_events(self.trace, step, index) for index in range(len(PHASES))]
        came = [shapes.EVENTS[event] for phase in events for event in phase]
        return {
            "title": step_title(step),
            "alt": alt.overview(step, step_title(step), came),
            "events": events,
            "about": [
                [self.requests.index(name) for name in requests_about(step, index)]
                for index in range(len(PHASES))
            ],
            "lamps": tables.lamp_texts(step),
            "findings": [
                [
                    found.invariant,
                    found.phase,
                    found.text,
                    found.place,
                    self.requests.index(found.request) if found.request in self.requests else None,
                    found.layer,
                    found.block,
                    found.column,
                    found.field,
                ]
                for found in tables.findings(step)
            ],
        }


def _words_json(told: Words) -> Json:
    return [told.headline, [[span.text, span.role] for span in told.sentence]]


def _why_json(why: tables.Why) -> Json:
    rows = [[row.name, row.how, row.values, row.key, row.rule, row.term] for row in why.rows]
    return {
        "title": why.title,
        "requests": why.requests,
        "rows": rows,
        "formulas": why.formulas,
        "reasons": why.reasons,
    }


def _parts(parts: Sequence[Primitive]) -> Json:
    return [primitive_json(part) for part in parts]


# --------------------------------------------------------------------------------------
# What a step is called and what happened in it
# --------------------------------------------------------------------------------------


def step_title(step: Step) -> str:
    """``prefill``, ``prefill tail``, ``decode, finish``: what a glance at the overview needs."""
    if step.stuck:
        return "stuck"
    if not step.order:
        return "idle"
    running = step.requests.values()
    prompts = [request for request in running if request.row_class != "decode"]
    parts = []
    if prompts:
        parts.append("prefill tail" if all(r.num_computed for r in prompts) else "prefill")
    if len(prompts) < len(running):
        parts.append("decode")
    if step.preempted:
        parts.append("preempt")
    if step.finished_after:
        parts.append("finish")
    return ", ".join(parts)


def phase_events(trace: Trace, step: Step, phase: int) -> list[str]:
    """Events of one phase, a copy once for each request it was made for."""
    found = step.phases[phase]
    name = found.name
    events = []
    if name == "schedule":
        events += ["preempted"] * len(step.preempted)
        events += ["hit" for r in step.requests.values() if r.event != "running" and r.num_computed]
    if name == "accept":
        events += [
            "boundary" for request in step.batch_order if boundary_reached(trace, step, request)
        ][:1]
    requests = []
    for copy in found.copies:
        if (copy.request, copy.kind) not in requests and copy.skipped is None:
            requests.append((copy.request, copy.kind))
    events += [kind for _, kind in requests]
    if any(PHASES.index(violation.phase) == phase for violation in step.violations):
        events.append("wrong")
    return events


def first_event(trace: Trace) -> tuple[int, PhaseName]:
    """Where a run is worth opening: its first copy, else the first thing that breaks."""
    for wanted in ({"migrate", "checkpoint"}, {"wrong"}):
        for step in trace.steps:
            for index, phase in enumerate(PHASES):
                if wanted & set(phase_events(trace, step, index)):
                    return step.index, phase
    return 0, PHASES[0]


def requests_about(step: Step, phase: int) -> tuple[str, ...]:
    """Requests that a phase's events are about, the weightiest event deciding: an invariant that
    breaks here, a copy, else what has broken in this step so far."""
    found = step.phases[phase]
    broken = [v for v in step.violations if PHASES.index(v.phase) <= phase and v.request]
    here = [v.request for v in broken if v.phase == found.name]
    copied = [copy.request for copy in found.copies if copy.skipped is None]
    stopped = [copy.request for copy in found.copies]
    names = here or copied or stopped or [v.request for v in broken]
    return tuple(dict.fromkeys(name for name in names if name in step.requests))


def pool_text(frame: Frame) -> str:
    """Where the pool's blocks are, in words that add up."""
    if frame.trace.recorded is not None:
        return recorded_pool(frame)
    free, cached = pool_counts(frame)
    total = frame.trace.scenario.engine.num_blocks - 1
    owned = total - free - cached
    return f"pool: {free} free + {owned} owned + {cached} cached, unowned = {total}"
