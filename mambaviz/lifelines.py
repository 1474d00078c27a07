"""The life of every physical block: who held it, how often it was referenced, who wrote it.

Derived from the trace alone. A block's *life* is a list of spans, in which nothing about it
changes, and of events. Its reference count is the number of the scheduler's lists that it stands
in, which is what invariant I6 holds the pool's own count to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from mambaviz.history import AtFrame, History, phases_of
from mambaviz.trace import Phase, Role, Step, Tables

LifeKind = Literal[
    "taken",
    "found",
    "let go",
    "freed",
    "registered",
    "unregistered",
    "forward",
    "migrate",
    "checkpoint",
]
LIFE_KINDS: tuple[LifeKind, ...] = get_args(LifeKind)
Why = Literal["", "finished", "preempted", "dropped"]


@dataclass(frozen=True)
class Owner:
    """A place in a scheduler's list."""

    request: str
    group: int
    column: int


@dataclass(frozen=True)
class Span:
    """Frames ``first`` to ``last`` in which a block keeps role, owners and registration."""

    first: int
    last: int
    role: Role
    owners: tuple[Owner, ...]
    prefix: str  # ``request@tokens`` it is registered for; empty if it is not

    @property
    def references(self) -> int:
        return len(self.owners)


@dataclass(frozen=True)
class LifeEvent(AtFrame):
    """Something that happened to a block. What a kind has nothing to say about stays empty.

    ``tokens`` are the first and last query token of a forward, ``source`` the blocks that a copy
    read (conv and temporal may come from two), ``holds`` what the bytes of the first layer say
    afterwards, ``references`` how many lists hold the block afterwards. ``lost`` is the ``n`` of
    a saved h(n) that goes with a block freed before it was registered.
    """

    kind: LifeKind
    request: str = ""
    column: int | None = None
    tokens: tuple[int, int] | None = None
    source: tuple[int, ...] = ()
    bias: int | None = None
    prefix: str = ""
    holds: int | None = None
    why: Why = ""
    references: int = 0
    lost: int | None = None


@dataclass(frozen=True)
class Life:
    block: int
    spans: tuple[Span, ...]
    events: tuple[LifeEvent, ...]

    def span_at(self, frame: int) -> Span:
        return next(span for span in self.spans if span.first <= frame <= span.last)

    def events_at(self, frame: int) -> list[LifeEvent]:
        return [event for event in self.events if event.frame == frame]


def lifelines(history: History) -> tuple[Life, ...]:
    """The life of every block that was ever used, by id; the null block has none."""
    num_blocks = history.trace.scenario.engine.num_blocks
    events, looks = _events(history), list(_looks(history))
    lives = (
        Life(block, tuple(_spans(looks, block, len(history.tables))), tuple(events.get(block, ())))
        for block in range(1, num_blocks)
    )
    return tuple(life for life in lives if life.events)


def owners_of(tables: Tables) -> dict[int, tuple[Owner, ...]]:
    """For every held block the places of the scheduler's lists where it stands."""
    found: dict[int, tuple[Owner, ...]] = {}
    for name, row in tables.rows.items():
        for group, ids in enumerate(row.block_list):
            for column, block in enumerate(ids):
                if block:
                    found[block] = (*found.get(block, ()), Owner(name, group, column))
    return found


@dataclass(frozen=True)
class _Look:
    """The tables from a frame on, until the next look."""

    frame: int
    tables: Tables
    owners: dict[int, tuple[Owner, ...]]


def _looks(history: History) -> Iterator[_Look]:
    """The tables each time that they are others: most phases leave them as they were."""
    before: Tables | None = None
    for frame, tables in enumerate(history.tables):
        if tables is not before:
            yield _Look(frame, tables, owners_of(tables))
        before = tables


def _spans(looks: Sequence[_Look], block: int, frames: int) -> Iterator[Span]:
    held: Span | None = None
    for look in looks:
        owners = look.owners.get(block, ())
        role, prefix = look.tables.block_roles[block], look.tables.registered.get(block, "")
        if held is not None and (held.role, held.owners, held.prefix) == (role, owners, prefix):
            continue
        if held is not None:
            yield replace(held, last=look.frame - 1)
        held = Span(look.frame, look.frame, role, owners, prefix)
    if held is not None:
        yield replace(held, last=frames - 1)


def _events(history: History) -> dict[int, list[LifeEvent]]:
    found: dict[int, list[LifeEvent]] = {}
    before = history.trace.initial_tables
    for frame, (step, phase) in enumerate(phases_of(history.trace)):
        tables = history.tables[frame]
        if tables is not before:
            for block, event in _moves(frame, step, before, tables):
                found.setdefault(block, []).append(event)
        for block, event in _writes(history, frame, step, phase):
            found.setdefault(block, []).append(event)
        before = tables
    return {block: list(_with_past(events)) for block, events in found.items()}


def _with_past(events: Sequence[LifeEvent]) -> Iterator[LifeEvent]:
    """What a block held when it was registered, and what was lost when it was freed."""
    held, saved = None, False
    for event in events:
        if event.kind == "taken" and event.references == 1:
            held, saved = None, False  # the bytes of an earlier owner
        elif event.kind in ("forward", "migrate", "checkpoint"):
            held, saved = event.holds, event.kind == "checkpoint"
        elif event.kind == "registered":
            yield replace(event, holds=held)
            continue
        elif event.kind == "freed" and not event.prefix and saved:
            yield replace(event, lost=held)
            continue
        yield event


def _moves(
    frame: int, step: Step, before: Tables, after: Tables
) -> Iterator[tuple[int, LifeEvent]]:
    """Lists and registrations that changed in a phase."""
    old, new = owners_of(before), owners_of(after)
    for block in sorted({*old, *new, *before.registered, *after.registered}):
        had, has = old.get(block, ()), new.get(block, ())
        was, now = before.registered.get(block, ""), after.registered.get(block, "")
        left = [owner for owner in had if owner.request not in {one.request for one in has}]
        came = [owner for owner in has if owner.request not in {one.request for one in had}]
        stayed = len(has) - len(came)
        for owner in left:
            yield (
                block,
                LifeEvent(
                    frame,
                    "let go" if stayed else "freed",
                    owner.request,
                    owner.column,
                    prefix=now,
                    why=_why(step, owner.request, after),
                    references=stayed,
                ),
            )
        if was and was != now:
            yield block, LifeEvent(frame, "unregistered", prefix=was, references=stayed)
        for owner in came:
            found = bool(was) and was == now
            yield (
                block,
                LifeEvent(
                    frame,
                    "found" if found else "taken",
                    owner.request,
                    owner.column,
                    prefix=now if found else "",
                    references=len(has),
                ),
            )
        if now and was != now:
            yield block, LifeEvent(frame, "registered", prefix=now, references=len(has))


def _why(step: Step, request: str, after: Tables) -> Why:
    if request in after.rows:
        return "dropped"
    return "preempted" if request in step.preempted else "finished"


def _writes(
    history: History, frame: int, step: Step, phase: Phase
) -> Iterator[tuple[int, LifeEvent]]:
    """Forwards and copies that wrote a block, in whichever layers."""
    owners = owners_of(history.tables[frame])
    if phase.name == "forward":
        for block in sorted({change.block for change in phase.changes}):
            name = history.writer(block, frame) or ""
            request = step.requests.get(name)
            span = None
            if request is not None:
                span = (request.num_computed, request.num_computed + request.num_scheduled - 1)
            holds = _holds(history, block, frame)
            references = len(owners.get(block, ()))
            yield (
                block,
                LifeEvent(frame, "forward", name, tokens=span, holds=holds, references=references),
            )
    done = [copy for copy in phase.copies if copy.target is not None]
    for kind in ("migrate", "checkpoint"):
        targets = {copy.dst_block for copy in done if copy.kind == kind and copy.dst_block}
        for block in sorted(targets):
            mine = [copy for copy in done if copy.dst_block == block and copy.kind == kind]
            sources = dict.fromkeys(copy.src_block for copy in mine if copy.src_block is not None)
            yield (
                block,
                LifeEvent(
                    frame,
                    mine[0].kind,
                    mine[0].request,
                    mine[0].dst_col,
                    source=tuple(sources),
                    bias=mine[0].bias,
                    holds=_holds(history, block, frame),
                    references=len(owners.get(block, ())),
                ),
            )


def _holds(history: History, block: int, frame: int) -> int | None:
    """``n`` of the h(n) in the first layer that wrote the block; None without a temporal state."""
    for spec in history.trace.states:
        key = (spec.layer, spec.state, block)
        if spec.state == "temporal" and history.last_write(key, frame) is not None:
            return history.absorbed(spec.layer, block, frame)
    return None
