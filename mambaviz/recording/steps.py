"""Lines gathered into steps. Only what requests hold now is kept: a file may be of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mambaviz.recording.lines import (
    Accept,
    Action,
    Blocks,
    Built,
    Commit,
    Cut,
    End,
    Line,
    Lost,
    Note,
    PostCopy,
    PreCopy,
    RequestCame,
    Rows,
    Schedule,
    Scheduled,
    StateBytes,
)

Row = tuple[int, ...]
GroupRows = tuple[Row | None, ...]  # one a cache group; None: unknown

OPEN_STEPS = 2  # asynchronous scheduling: a step's end may stand behind the next one's beginning


@dataclass(frozen=True)
class Lists:
    """The cache manager's books after an allocation.

    ``lists`` are those of every request that holds blocks; ``registered`` names the prefix of
    every registered block, None: registrations were not seen.
    """

    lists: Mapping[str, GroupRows]
    registered: Mapping[int, str] | None
    fresh: frozenset[int]  # blocks registered since the step before
    refs: Mapping[int, int] | None
    free_queue: tuple[int, ...] | None
    remembered: Mapping[str, int | None]
    whole: bool = False  # nothing was left out: these are all lists there are


@dataclass(frozen=True)
class WorkerRows:
    """The worker's batch: its order, and the rows of all requests that it knows."""

    order: tuple[str, ...]
    rows: Mapping[str, GroupRows]
    computed: Mapping[str, int]
    accepted: Mapping[str, int] | None
    slots: Mapping[str, int] | None


@dataclass
class RecordedStep:
    """What the lines of one step say. None: its seam had nothing to say, or was not hooked."""

    index: int
    came: list[RequestCame] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    schedule: Schedule | None = None
    blocks: Lists | None = None
    rows: WorkerRows | None = None
    pre_copy: PreCopy | None = None
    metadata: list[Built] = field(default_factory=list)
    accept: Accept | None = None
    post_copy: PostCopy | None = None
    commit: Commit | None = None
    states: list[StateBytes] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    lost: int = 0  # lines that the writer dropped in or before this step
    blocks_line: Blocks | None = None  # as written: what has changed
    rows_line: Rows | None = None

    @property
    def requests(self) -> list[Scheduled]:
        return self.schedule.requests if self.schedule is not None else []

    def row(self, request: str, group: int) -> Row | None:
        """The worker's row of a request in a group."""
        return _of(self.rows.rows if self.rows is not None else {}, request, group)

    def block_list(self, request: str, group: int) -> Row | None:
        """The scheduler's list of a request in a group."""
        return _of(self.blocks.lists if self.blocks is not None else {}, request, group)


def _of(rows: Mapping[str, GroupRows], request: str, group: int) -> Row | None:
    found = rows.get(request)
    return found[group] if found is not None and group < len(found) else None


def request_names(steps: Iterable[RecordedStep]) -> list[str]:
    """Every request of a recording, in the order in which they came."""
    found: dict[str, None] = {}
    for step in steps:
        found |= dict.fromkeys(came.id for came in step.came)
        found |= dict.fromkeys(request.id for request in step.requests)
    return list(found)


class Gatherer:
    """Puts lines into their steps and gives out steps in order, each once it is whole.

    Lines that come too late for that are left out, which a sentence among ``remarks`` says.
    """

    def __init__(self, remarks: list[str] | None = None) -> None:
        self._remarks = remarks if remarks is not None else []
        self._late: list[int] = []  # steps of lines that come when the step was given out
        self._open: dict[int, RecordedStep] = {}
        self._lists: dict[str, GroupRows] = {}
        self._registered: dict[int, str] | None = None
        self._remembered: dict[str, int | None] = {}
        self._rows: dict[str, GroupRows] = {}
        self._given = -1
        self._lost = 0

    def steps(self, lines: Iterable[Line]) -> Iterator[RecordedStep]:
        for line in lines:
            if isinstance(line, Lost):
                self._forget(line)
            elif isinstance(line, Note):
                self._note(line)
            elif not isinstance(line, End):
                step = self._step(line.step)
                if step is None:
                    self._late.append(line.step)
                else:
                    self._take(step, line)
                    yield from self._whole(line.step - OPEN_STEPS)
        yield from self._whole(max(self._open, default=-1))
        if self._late:
            self._remarks.append(
                f"{len(self._late)} lines were left out, the first one of step {self._late[0]}: "
                "later steps stand before them, and a recording has its steps in order."
            )

    def _step(self, index: int) -> RecordedStep | None:
        """The open step of a number; None for one that was given out already."""
        if index <= self._given:
            return None
        if index not in self._open:
            self._open[index] = RecordedStep(index, lost=self._lost)
            self._lost = 0
        return self._open[index]

    def _whole(self, last: int) -> Iterator[RecordedStep]:
        for index in sorted(self._open):
            if index <= last:
                self._given = index
                yield self._open.pop(index)

    def _forget(self, lost: Lost) -> None:
        """Lines are missing: nothing that goes on from them is known."""
        self._lost += lost.lines
        self._lists, self._rows, self._remembered = {}, {}, {}
        self._registered = None

    def _note(self, note: Note) -> None:
        step = self._step(note.step) if note.step is not None else None
        if step is not None:
            step.notes.append(note)

    def _take(self, step: RecordedStep, line: Line) -> None:
        if isinstance(line, RequestCame):
            step.came.append(line)
        elif isinstance(line, Action):
            step.actions.append(line)
        elif isinstance(line, Schedule):
            step.schedule = line
            starts = [request.id for request in line.requests if request.kind != "running"]
            for name in (*starts, *(line.finished or ()), *(line.preempted or ())):
                self._rows.pop(name, None)
        elif isinstance(line, Blocks):
            step.blocks, step.blocks_line = self._blocks(line), line
        elif isinstance(line, Rows):
            step.rows, step.rows_line = self._worker(line), line
        elif isinstance(line, PreCopy):
            step.pre_copy = line
        elif isinstance(line, Built):
            step.metadata.append(line)
        elif isinstance(line, Accept):
            step.accept = line
        elif isinstance(line, PostCopy):
            step.post_copy = line
        elif isinstance(line, Commit):
            step.commit = line
        elif isinstance(line, StateBytes):
            step.states.append(line)

    def _blocks(self, line: Blocks) -> Lists:
        if line.whole:
            self._lists, self._registered = {}, {}
        for request in line.gone or ():
            self._lists.pop(request, None)
            self._remembered.pop(request, None)
        for request, cuts in line.lists.items():
            self._lists[request] = _joined(cuts, self._lists.get(request))
        fresh = set()
        if line.registered is not None:
            names = dict(self._registered or {})
            for block, prefix in line.registered.items():
                if prefix is None:
                    names.pop(block, None)
                else:
                    if _length(names.get(block)) != _length(prefix):  # not only another name
                        fresh.add(block)
                    names[block] = prefix
            self._registered = names
        self._remembered.update(line.remembered or {})
        return Lists(
            lists=dict(self._lists),
            registered=self._registered,
            fresh=frozenset(fresh),
            refs=line.refs,
            free_queue=tuple(line.free_queue) if line.free_queue is not None else None,
            remembered=dict(self._remembered),
            whole=line.whole,
        )

    def _worker(self, line: Rows) -> WorkerRows:
        for request, cuts in line.rows.items():
            self._rows[request] = _joined(cuts, self._rows.get(request))
        return WorkerRows(
            order=tuple(line.order),
            rows=dict(self._rows),
            computed=line.computed or {},
            accepted=line.accepted,
            slots=line.slots,
        )


def _length(prefix: str | None) -> str | None:
    return prefix.rpartition("@")[2] if prefix is not None else None


def _joined(cuts: list[Cut | None], before: GroupRows | None) -> GroupRows:
    known = before or ()
    return tuple(
        None if cut is None else cut.after(known[group] if group < len(known) else None)
        for group, cut in enumerate(cuts)
    )
