"""What there is to see of a report: the block in question around every phase, in both runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mambaviz.alignment import align
from mambaviz.differences import Difference, Parting, RunFacts, parting
from mambaviz.faults import METADATA
from mambaviz.reports import Replay
from mambaviz.trace import (
    PHASES,
    CopyKind,
    Phase,
    PhaseName,
    Role,
    StateKind,
    Step,
    Tables,
    TensorRecord,
    Trace,
)
from mambaviz.viz.changes import Scales, as_grid, scales_of
from mambaviz.viz.compare.beside import SideBySide
from mambaviz.viz.shapes import KIND_NAME
from mambaviz.viz.views import RowStatus

FAULT, FIX = 0, 1  # the runs, in the order in which they are shown
Values = tuple[tuple[float, ...], ...]  # conv [rows, channels], temporal [channels, d_state]
COPY_PHASES = ("pre-copy", "post-copy")


@dataclass(frozen=True)
class Piece:
    """One state of one block at one time. ``statuses`` are those of its conv rows' tokens."""

    block: int
    role: Role
    place: str  # A, column 1
    values: Values
    labels: tuple[str, ...]  # of conv rows: the token each says it is of
    statuses: tuple[RowStatus, ...]
    absorbed: int | None  # of a temporal state


@dataclass(frozen=True)
class Around:
    """The block before and after a phase. ``source`` is the block copied from, if one is.

    ``reads`` is the row from which a copy or the forward reads the window, ``writes`` the one to
    which it goes; None where neither is done, or the row is not known.
    """

    source: Piece
    target: Piece
    kind: CopyKind | None
    bias: int
    reads: int | None
    writes: int | None
    words: str  # what happens to it


@dataclass(frozen=True)
class Subject:
    """The state that the panels show: the one that goes wrong first."""

    layer: int
    state: StateKind
    block: int


class Exhibit:
    """A replay with runs, opened up for drawing. Raises ValueError for one without."""

    def __init__(self, replay: Replay) -> None:
        if replay.right is None or replay.wrong is None:
            raise ValueError(f"{replay.report.id} has no runs to show")
        self.replay = replay
        self.traces = (replay.wrong, replay.right)
        cell = replay.first_wrong_cell
        self.subject = None if cell is None else Subject(cell.layer, cell.state, cell.block)
        self.side = SideBySide(self.traces, layer=self._layer())
        self.scales: Scales = scales_of(replay.right)

    @property
    def parting(self) -> Parting | None:
        return self.replay.first_difference

    def _layer(self) -> int:
        """The layer whose state goes wrong; else the first one that shows the difference."""
        if self.subject is not None:
            return self.subject.layer
        moments = align(self.traces)
        for layer in sorted({spec.layer for spec in self.traces[FIX].states}):
            found = parting([RunFacts(trace, layer) for trace in self.traces], moments)
            wanted = self.parting
            if found and wanted and (found.moment, found.phase) == (wanted.moment, wanted.phase):
                return layer
        return 0

    @property
    def opening(self) -> tuple[int, PhaseName]:
        """Where the damage shows first: a wrong cell, a broken invariant, the parting."""
        cell, broken, part = (
            self.replay.first_wrong_cell,
            self.replay.first_violation,
            self.parting,
        )
        if cell is not None:
            return cell.step, cell.phase
        if broken is not None:
            return broken.step, broken.phase
        if part is None:
            return 0, PHASES[0]
        # Other tokens are scheduled, and no harm is done: at the end of the step both have blocks.
        return part.moment, PHASES[-1] if part.phase == PHASES[0] else part.phase

    # ------------------------------------------------------------------ the request in question

    @cached_property
    def request(self) -> str:
        """The one that owns the wrong block, or that the runs part over."""
        cell, found = self.replay.first_wrong_cell, self.replay.first_violation
        known = (
            cell.request if cell is not None else None,
            next((d.fact.request for d in self._parted if d.fact.request), None),
            found.request if found is not None else None,
        )
        return next((name for name in known if name), self.side.requests[0])

    @property
    def _parted(self) -> tuple[Difference, ...]:
        return self.parting.differences if self.parting is not None else ()

    # ------------------------------------------------------------------ the block in question

    def around(self, run: int, moment: int, phase: PhaseName) -> Around | None:
        """The block in question in a run; None without one, or before the run's first step."""
        step = self.side.moments[moment].steps[run]
        shown = self.side.latest(run, moment) if step is None else step
        if self.subject is None or shown is None:
            return None
        at = phase if step is not None else PHASES[-1]
        return self._around[run][shown * len(PHASES) + PHASES.index(at)]

    @cached_property
    def _around(self) -> tuple[list[Around], list[Around]]:
        return self._walk(FAULT), self._walk(FIX)

    def _walk(self, run: int) -> list[Around]:
        subject, trace = self.subject, self.traces[run]
        assert subject is not None
        found, held = [], dict[int, bytes]()
        place = Place(self, run, trace, subject)
        for step, phase, tables, contents in trace.walk():
            now = {
                block: raw
                for (layer, state, block), raw in contents.items()
                if (layer, state) == (subject.layer, subject.state)
            }
            found.append(place.around(step, phase, tables, held, now))
            held = now
        return found

    # ------------------------------------------------------------------ checks that turn red

    @cached_property
    def red_from(self) -> dict[str, tuple[int, PhaseName]]:
        """The checks that the run with the fault turns red, with the first place of each."""
        first: dict[str, tuple[int, PhaseName]] = {}
        for violation in self.traces[FAULT].violations:
            first.setdefault(violation.invariant, (violation.step, violation.phase))
        for problem in self.replay.metadata_problems:
            first.setdefault(METADATA, (problem.step, "metadata"))
        return dict(sorted(first.items()))


@dataclass(frozen=True)
class Place:
    """Where the block in question is looked at: a run, a layer, a state."""

    exhibit: Exhibit
    run: int
    trace: Trace
    subject: Subject

    def around(
        self,
        step: Step,
        phase: Phase,
        tables: Tables,
        before: Mapping[int, bytes],
        after: Mapping[int, bytes],
    ) -> Around:
        layer, state, block = self.subject.layer, self.subject.state, self.subject.block
        mine = [copy for copy in phase.copies if (copy.layer, copy.state) == (layer, state)]
        copy = next((one for one in mine if one.dst_block == block), None)
        done = copy is not None and copy.skipped is None
        source = copy.src_block if copy is not None and done else None
        if source is None:
            source = block
        at = (step, phase.name, tables)
        strays = sorted(
            {change.block for change in phase.changes
             if (change.layer, change.state) == (layer, state)}
            - {one.dst_block for one in mine if one.skipped is None}
        )  # fmt: skip
        if copy is not None and copy.skipped is not None:
            words = f"stopped: {copy.skipped}"
        elif copy is not None:
            words = f"{KIND_NAME[copy.kind]}, bias {copy.bias}"
            if strays and before.get(block) == after.get(block) and source != block:
                words += f"; the bytes land in block {', '.join(map(str, strays))}"
        elif before.get(block) != after.get(block):
            words = f"the {phase.name} writes it" if phase.name not in COPY_PHASES else (
                "bytes that no copy of the plan explains"
            )  # fmt: skip
        else:
            words = "nothing happens to it here"
        return Around(
            source=self._piece(source, before.get(source), *at),
            target=self._piece(block, after.get(block), *at),
            kind=copy.kind if copy is not None and done else None,
            bias=copy.bias if copy is not None and done else 0,
            reads=copy.bias if copy is not None and done else self._read(step, phase, tables),
            writes=0 if done or before.get(block) != after.get(block) else None,
            words=words,
        )

    def _read(self, step: Step, phase: Phase, tables: Tables) -> int | None:
        """The row from which the forward reads: as far on as its metadata says were accepted."""
        spec = self.trace.spec_of[self.subject.layer, self.subject.state]
        request, _, _ = _owner(tables, spec.group, self.subject.block)
        metadata = next((one for one in step.metadata if one.group == spec.group), None)
        if phase.name != "forward" or metadata is None or request not in step.batch_order:
            return None
        counts = next(
            (one.value for one in metadata.fields if one.name == "num_accepted_tokens"), None
        )
        row = step.batch_order.index(request)
        if not isinstance(counts, TensorRecord) or row >= len(counts.values):
            return None
        return counts.values[row] - 1

    def _piece(
        self, block: int, raw: bytes | None, step: Step, phase: PhaseName, tables: Tables
    ) -> Piece:
        spec = self.trace.spec_of[self.subject.layer, self.subject.state]
        grid = as_grid(spec, raw or b"", self.trace.scenario.engine.layout)
        request, column, role = _owner(tables, spec.group, block)
        labels: tuple[str, ...] = ()
        statuses: tuple[RowStatus, ...] = ()
        if self.subject.state == "conv":
            tokens = [_token(value) for value in grid[:, 0].tolist()]
            labels = tuple("–" if token is None else f"t{token}" for token in tokens)
            labels = tuple("?" if text == "t-1" else text for text in labels)
            statuses = tuple(self._status(request, token, step, phase) for token in tokens)
        return Piece(
            block=block,
            role=role,
            place=f"{request}, col {column}" if request else "nobody’s",
            values=tuple(tuple(row) for row in grid.tolist()),
            labels=labels,
            statuses=statuses,
            absorbed=int(grid[0, 0]) if self.subject.state == "temporal" else None,
        )

    def _status(self, request: str, token: int | None, step: Step, phase: PhaseName) -> RowStatus:
        if token is None:
            return "empty"
        rows = self.exhibit.side.rows[self.run].at(step.index, phase)
        known = rows[request].tokens if request in rows else ()
        return known[token] if 0 <= token < len(known) else "generated"


def _token(value: float) -> int | None:
    """The position that channel 0 of a row says, -1 for a number that says none, None for 0."""
    if value == 0:
        return None
    return int(value) - 1 if value >= 1 and value == int(value) else -1


def _owner(tables: Tables, group: int, block: int) -> tuple[str, int, Role]:
    """In whose worker row a block stands, at which column, and its role there."""
    for request, row in tables.rows.items():
        if block in row.worker_row[group]:
            column = row.worker_row[group].index(block)
            roles = row.roles[group]
            return request, column, roles[column] if column < len(roles) else "free"
    return "", 0, tables.block_roles[block]
