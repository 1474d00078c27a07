"""What there is to see after each phase: labels read from bytes, statuses, copies, changes.

`frames(trace)` walks a trace once and yields a `Frame` for every phase. Its views are small
frozen values without coordinates; equal views are drawn once. Which tokens a window holds and
how many a state has taken in is read from the block's bytes (section 5.1), never from a ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from mambaviz.scenario import RequestPlan
from mambaviz.trace import (
    PHASES,
    BlockChange,
    BlockCopy,
    CopyKind,
    Decision,
    Phase,
    RequestStep,
    Role,
    RowTables,
    StateKind,
    Step,
    Tables,
    Trace,
    Violation,
    tokens_absorbed,
    window_rows,
)
from mambaviz.viz.theme import STATE

TokenStatus = Literal["prompt", "reused", "ahead", "generated", "pending", "accepted", "rejected"]
RowStatus = TokenStatus | Literal["old", "empty"]
Rows = tuple[int | None, ...]

T = TypeVar("T")

_ACCEPT = PHASES.index("accept")
NO_BYTES = "the recording holds indices, no bytes"
MOST_BARS = 7  # the last columns of a row are the ones at work


@dataclass(frozen=True)
class Label:
    """What a block's bytes say: the token of each conv row, and how many tokens h has absorbed."""

    rows: Rows = ()
    absorbed: int | None = None  # None: never written

    @property
    def written(self) -> bool:
        return self.absorbed is not None or any(row is not None for row in self.rows)


NOTHING = Label()


@dataclass(frozen=True)
class BlockView:
    """A block at a column of a worker row."""

    column: int
    block: int
    role: Role
    absorbed: int | None
    window: Rows  # the rows that the request would read, from `offset` on
    offset: int
    holder: str = ""  # a retired id that another request holds by now
    kept: bool = False  # a retired id whose block the pool still keeps cached
    stale: bool = False  # bytes of an earlier owner
    wrong: bool = False  # an invariant names it
    state: bool = True  # False in a group that keeps no recurrent state


@dataclass(frozen=True)
class CopyView:
    """The copies of one kind for one request and layer: conv rows and the temporal state."""

    kind: CopyKind
    bias: int
    src_col: int
    dst_col: int
    temporal_col: int
    src_block: int | None
    dst_block: int | None
    temporal_block: int | None
    conv_rows: int  # rows moved, 0 when skipped
    conv_bytes: int
    temporal_bytes: int
    conv_skipped: str = ""
    temporal_skipped: str = ""

    @property
    def has_conv(self) -> bool:
        """Whether the layer has a conv state at all; the same for the temporal one below."""
        return bool(self.conv_bytes or self.conv_skipped)

    @property
    def has_temporal(self) -> bool:
        return bool(self.temporal_bytes or self.temporal_skipped)

    def has(self, state: str) -> bool:
        """`has_conv` or `has_temporal`, by the name of the state."""
        return self.has_conv if state == "conv" else self.has_temporal

    @property
    def from_block(self) -> int | None:
        """Where the state comes from, named by the conv state if there is one."""
        return self.src_block if self.has_conv else self.temporal_block

    @property
    def in_place(self) -> bool:
        return self.has_conv and self.src_block == self.dst_block

    @property
    def temporal_stays(self) -> bool:
        """Whether the temporal state is copied onto itself: it lies in the target already."""
        copied = self.has_temporal and not self.temporal_skipped
        return copied and self.temporal_block == self.dst_block

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Conv rows moved, as (source row, target row)."""
        return tuple((row + self.bias, row) for row in range(self.conv_rows))


@dataclass(frozen=True)
class QueryView:
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class LaneView:
    """One request's tokens over its blocks."""

    index: int  # position among the scenario's requests
    name: str
    tokens: tuple[TokenStatus, ...]
    query: QueryView | None
    cells: tuple[BlockView, ...]
    block_list: tuple[int, ...]
    copies: tuple[CopyView, ...]
    batch_row: int | None
    note: str  # why there is no row: waiting, finished, yet to come


@dataclass(frozen=True)
class StripView:
    """A conv state as a strip of rows."""

    column: int
    block: int
    role: Role
    caption: str
    rows: tuple[tuple[int | None, RowStatus], ...]
    window: tuple[int, int] | None  # first row and number of rows
    wrong: bool = False


@dataclass(frozen=True)
class BarView:
    """A temporal state as a bar with one cell for each token it has absorbed.

    ``cells`` are the tokens behind the fold (`StateView.fold`).
    """

    column: int
    block: int
    role: Role
    absorbed: int | None
    was: int | None  # before this phase, where it changed
    cells: tuple[TokenStatus, ...]
    holder: str = ""
    kept: bool = False
    stale: bool = False
    wrong: bool = False


@dataclass(frozen=True)
class StateView:
    """The state of one request in one layer."""

    strips: tuple[StripView, ...]
    ribbons: tuple[tuple[int, int], ...]
    copy: CopyView | None
    accepted: int
    bars: tuple[BarView, ...]
    block_size: int
    fold: int  # tokens in front, whole blocks, that are drawn as one cell
    cell: float  # width of a token's cell in the bars
    note: str  # why there is nothing to see
    states: Literal["both", "conv", "temporal"] = "both"  # what the layer keeps


@dataclass(frozen=True)
class ChangeView:
    """One block before and after a phase, in one layer."""

    layer: int
    block: int
    role: Role
    request: str
    column: int | None
    states: tuple[ChangedState, ...]


@dataclass(frozen=True)
class ChangedState:
    """One state tensor of a changed block. ``before`` and ``after`` are raw bytes."""

    state: StateKind
    before: bytes
    after: bytes
    label_before: Label
    label_after: Label


@dataclass
class _Life:
    """What the pages of a request's life so far tell about it."""

    plan: RequestPlan
    known: int  # tokens known: prompt and outputs
    computed: int = 0
    reused: int = 0  # of them, found in the cache at admission
    finished: int | None = None  # the step
    started: bool = False


@dataclass
class Frame:
    """One phase with everything around it. Valid until the next one is asked for."""

    trace: Trace
    step: Step
    phase: Phase
    index: int  # counts phases over the whole run
    tables: Tables
    tables_before: Tables
    labels: Mapping[tuple[int, int], Label]
    old_labels: Mapping[tuple[int, int], Label]  # of the blocks this phase changed
    contents: Mapping[tuple[int, StateKind, int], bytes]
    old_contents: Mapping[tuple[int, StateKind, int], bytes]
    stale: frozenset[tuple[int, StateKind, int]]
    lives: Mapping[str, _Life]
    migrations: Mapping[str, int]  # bias of this step's migrate, by request
    bytes_seen: Mapping[str, int]  # by request: grows whenever a block of its row changes
    touched: frozenset[str]  # requests that have a block of this phase's changes in their row
    past: dict[Hashable, BlockView]  # cells of retired columns, which seldom change
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    # ------------------------------------------------------------------ where we are

    @property
    def phase_index(self) -> int:
        return PHASES.index(self.phase.name)

    @property
    def after_accept(self) -> bool:
        return self.phase_index >= _ACCEPT

    @property
    def has_bytes(self) -> bool:
        """Whether what lies in the blocks is known; a recording may hold indices alone."""
        return self.trace.recorded is None or self.trace.recorded.states

    def request_step(self, request: str) -> RequestStep | None:
        return self.step.requests.get(request)

    def row(self, request: str) -> RowTables | None:
        return self.tables.rows.get(request)

    def label(self, layer: int, block: int) -> Label:
        return self.labels.get((layer, block), NOTHING)

    def label_before(self, layer: int, block: int) -> Label:
        return self.old_labels.get((layer, block), self.label(layer, block))

    def changed(self, layer: int, block: int) -> bool:
        return (layer, block) in self.old_labels

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What many views of this frame ask for is worked out once."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def violations_so_far(self) -> list[Violation]:
        """Broken invariants of this step, up to this phase."""
        return self.once(
            "violations",
            lambda: [
                violation
                for violation in self.step.violations
                if PHASES.index(violation.phase) <= self.phase_index
            ],
        )

    def is_wrong(self, layer: int, block: int, state: StateKind | None = None) -> bool:
        return any(
            violation.block == block
            and violation.layer in (None, layer)
            and (state is None or violation.state in (None, state))
            for violation in self.violations_so_far()
        )

    def look(self, request: str) -> Hashable:
        """Two neighbouring frames in which this is equal show a request's lane and state alike."""
        if self.row(request) is None:  # no block of it is on show, whatever becomes of the others
            return self.token_statuses(request), self.query(request), self.absence(request)
        return (
            id(self.tables),
            self.bytes_seen.get(request, 0),
            self.token_statuses(request),
            self.query(request),
            len(self.violations_so_far()),
            any(copy.request == request for copy in self.phase.copies),
            request in self.touched,
            self.phase.name == "forward",
        )

    # ------------------------------------------------------------------ tokens

    def token_statuses(self, request: str) -> tuple[TokenStatus, ...]:
        """Status of every known token and draft, by position."""
        return self.once(("tokens", request), lambda: self._token_statuses(request))

    def _token_statuses(self, request: str) -> tuple[TokenStatus, ...]:
        life = self.lives[request]
        running = self.request_step(request)
        known = running.num_tokens if running else life.known
        end = running.num_computed + running.num_scheduled if running else life.computed
        kept = (running.accepted_drafts or 0) if self.after_accept and running else None
        return _statuses(life.plan.num_prompt_tokens, known, end, life.reused, kept)

    def accepted(self, request: str) -> int | None:
        """Tokens kept by this step's verification, bonus token included; None before it."""
        running = self.request_step(request)
        if running is None or running.accepted_drafts is None or not self.after_accept:
            return None
        return running.accepted_drafts + 1

    def query(self, request: str) -> QueryView | None:
        running = self.request_step(request)
        if running is None:
            return None
        start, count = running.num_computed, running.num_scheduled
        text = f"query {count}"
        if self.after_accept:
            accepted = self.accepted(request)
            if running.drafts and accepted is not None:
                text += f", accepted {accepted}"
            text += f": computed {start} → {self.step.num_computed_after.get(request, start)}"
        elif running.drafts:
            text += f", {running.drafts} of them drafts" if running.drafts > 1 else ", 1 a draft"
        return QueryView(start, start + count, text)

    # ------------------------------------------------------------------ lanes

    def lane(self, request: str, group: int, layer: int | None) -> LaneView:
        """Tokens and blocks of one request; ``layer`` None in a group without recurrent state."""
        row = self.row(request)
        names = [plan.id for plan in self.trace.scenario.requests]
        bare = LaneView(
            index=names.index(request),
            name=request,
            tokens=self.token_statuses(request) if self.lives[request].started else (),
            query=self.query(request),
            cells=(),
            block_list=(),
            copies=(),
            batch_row=None,
            note="",
        )
        if row is None:
            return replace(bare, note=self.absence(request))
        return replace(
            bare,
            cells=tuple(
                self.block_view(request, group, layer, column)
                for column in range(len(row.worker_row[group]))
            ),
            block_list=tuple(row.block_list[group]),
            copies=self.copies(request, layer) if layer is not None else (),
            batch_row=row.batch_row,
        )

    def absence(self, request: str) -> str:
        """Why a request has no row now."""
        life = self.lives[request]
        if life.finished is not None and life.finished <= self.step.index:
            return f"finished in step {life.finished}; its blocks are back in the pool"
        if request in self.step.requests:
            return "scheduled; its blocks come next"
        if request in self.step.preempted:
            return "preempted: its blocks are free, it waits"
        if life.plan.arrive > self.step.index:
            return f"arrives at step {life.plan.arrive}"
        return "waiting"

    def block_view(self, request: str, group: int, layer: int | None, column: int) -> BlockView:
        row = self.tables.rows[request]
        block, role = row.worker_row[group][column], row.roles[group][column]
        if layer is None:
            return BlockView(column, block, role, None, (), 0, state=False)
        if not self.has_bytes:
            return self._block_without_bytes(request, group, layer, column)
        label = self.label(layer, block)
        if role == "retired":
            holder = self._holder(request, group, block)
            kept = self.is_kept(block)
            key = (column, block, label, holder, kept)
            if key not in self.past:
                window = self._window(label, 0)
                self.past[key] = BlockView(
                    column, block, role, label.absorbed, window, 0, holder=holder, kept=kept
                )
            return self.past[key]
        offset = self.window_offset(request, role)
        return BlockView(
            column=column,
            block=block,
            role=role,
            absorbed=label.absorbed,
            window=self._window(label, offset) if role != "speculative" else (),
            offset=offset,
            stale=(layer, "temporal", block) in self.stale and role != "cached",
            wrong=block != 0 and self.is_wrong(layer, block),
        )

    def _block_without_bytes(self, request: str, group: int, layer: int, column: int) -> BlockView:
        row = self.tables.rows[request]
        block, role = row.worker_row[group][column], row.roles[group][column]
        retired = role == "retired"
        return BlockView(
            column=column,
            block=block,
            role=role,
            absorbed=None,
            window=(),
            offset=0,
            holder=self._holder(request, group, block) if retired else "",
            kept=retired and self.is_kept(block),
            wrong=block != 0 and not retired and self.is_wrong(layer, block),
            state=False,
        )

    def window_offset(self, request: str, role: Role) -> int:
        """Row at which the window of a block in this role begins (section 1, *window*)."""
        if self.phase.name == "forward" and role == "running" and request in self.step.requests:
            return 0  # a decode shifts it there; what verification keeps is not known yet
        return self.offset_before(request, role)

    def offset_before(self, request: str, role: Role) -> int:
        """The same before the forward of a step has shifted the window."""
        row = self.row(request)
        if row is None or role not in ("running", "previous"):
            return 0
        if role == "previous":
            return self.migrations.get(request, 0)
        return max(row.num_accepted - 1, 0)

    def _window(self, label: Label, offset: int) -> Rows:
        rows = label.rows[offset : offset + self.window_length]
        return rows if any(row is not None for row in rows) else ()

    @property
    def window_length(self) -> int:
        return self.trace.scenario.layer.conv_kernel - 1

    def is_kept(self, block: int) -> bool:
        """Whether the pool keeps a block cached, whatever the rows say."""
        roles = self.tables.block_roles
        return 0 <= block < len(roles) and roles[block] == "cached"  # a recorded id may be none

    def _holder(self, request: str, group: int, block: int) -> str:
        """Another request in whose list a block stands by now, or nothing."""
        holders = self.once(("holders", group), lambda: self._holders(group))
        return next((other for other in holders.get(block, ()) if other != request), "")

    def _holders(self, group: int) -> dict[int, list[str]]:
        holders: dict[int, list[str]] = {}
        for request, row in self.tables.rows.items():
            for block in row.block_list[group]:
                holders.setdefault(block, []).append(request)
        return holders

    def copies(self, request: str, layer: int) -> tuple[CopyView, ...]:
        mine = [c for c in self.phase.copies if c.request == request and c.layer == layer]
        kinds: Sequence[CopyKind] = ("migrate", "checkpoint")
        return tuple(
            _copy_view([copy for copy in mine if copy.kind == kind], self.state_length(layer))
            for kind in kinds
            if any(copy.kind == kind for copy in mine)
        )

    def decision(self, request: str) -> Decision | None:
        """What this phase's copy launch decided for a request."""
        return next((d for d in self.phase.decisions if d.request == request), None)

    # ------------------------------------------------------------------ state

    def state(self, request: str, layer: int) -> StateView:
        row = self.row(request)
        group = group_of(self.trace, layer)
        block_size = self.trace.scenario.engine.effective_block_size
        if row is None or not row.worker_row[group]:
            note = self.absence(request) if row is None else "it has no blocks yet"
            return StateView((), (), None, 1, (), block_size, 0, STATE.bar_cell, note)
        if not self.has_bytes:
            return StateView((), (), None, 1, (), block_size, 0, STATE.bar_cell, NO_BYTES)
        copies = self.copies(request, layer)
        copy = copies[0] if copies else None
        strips, ribbons = self._strips(request, group, layer, copy)
        fold = fold_before(self._most_tokens(request), block_size)
        bars = self._bars(request, group, layer, fold)
        return StateView(
            strips=strips,
            ribbons=ribbons,
            copy=copy,
            accepted=self.step_accepted(request),
            bars=bars,
            block_size=block_size,
            fold=fold,
            cell=bar_cell(self._most_tokens(request)),
            note="",
            states=self.trace.scenario.layer.states,
        )

    def step_accepted(self, request: str) -> int:
        """The accepted count that a copy of this phase was made with."""
        decision = self.decision(request)
        if decision is not None and decision.accepted is not None:
            return decision.accepted
        row = self.row(request)
        return row.num_accepted if row else 1

    def _strips(
        self, request: str, group: int, layer: int, copy: CopyView | None
    ) -> tuple[tuple[StripView, ...], tuple[tuple[int, int], ...]]:
        if copy is not None and copy.src_block and copy.dst_block:
            return self._copy_strips(request, group, layer, copy), copy.pairs
        row = self.tables.rows[request]
        shown = [
            column
            for role in ("previous", "running")
            for column in range(len(row.worker_row[group]))
            if row.roles[group][column] == role
        ]
        if self.phase.name == "forward":
            return self._forward_strips(request, group, layer, shown[-1:])
        strips = tuple(
            self._strip(
                request,
                group,
                layer,
                column,
                "running" if row.roles[group][column] == "running" else "earlier",
                self.label(layer, row.worker_row[group][column]),
                self.window_offset(request, row.roles[group][column]),
            )
            for column in shown[-2:]
        )
        return strips, ()

    def _copy_strips(
        self, request: str, group: int, layer: int, copy: CopyView
    ) -> tuple[StripView, ...]:
        source, target = (copy.src_block or 0), (copy.dst_block or 0)
        names = ("before", "after") if copy.in_place else ("source", "target")
        upper = self._strip(
            request,
            group,
            layer,
            copy.src_col,
            names[0],
            self.label_before(layer, source),
            copy.bias,
            moved=range(copy.bias, copy.bias + copy.conv_rows),
        )
        lower = self._strip(
            request,
            group,
            layer,
            copy.dst_col,
            names[1],
            self.label(layer, target),
            0,
            moved=range(copy.conv_rows),
        )
        return upper, lower

    def _forward_strips(
        self, request: str, group: int, layer: int, columns: list[int]
    ) -> tuple[tuple[StripView, ...], tuple[tuple[int, int], ...]]:
        if not columns:
            return (), ()
        column = columns[0]
        row = self.tables.rows[request]
        block, role = row.worker_row[group][column], row.roles[group][column]
        offset = self.offset_before(request, role)
        before, after = self.label_before(layer, block), self.label(layer, block)
        strips = (
            self._strip(request, group, layer, column, "before", before, offset),
            self._strip(request, group, layer, column, "after", after, 0),
        )
        if before == after:
            return strips, ()
        # Rows of computed tokens went over. A row of this query is a new input, even where a
        # rejected draft of the same position stood before.
        computed = self.step.requests[request].num_computed if self.request_step(request) else 0
        places = {
            token: row
            for row, token in enumerate(before.rows)
            if token is not None and row >= offset
        }
        ribbons = tuple(
            (places[token], index)
            for index, token in enumerate(after.rows)
            if token in places and token is not None and token < computed
        )
        return strips, ribbons

    def _strip(
        self,
        request: str,
        group: int,
        layer: int,
        column: int,
        caption: str,
        label: Label,
        offset: int,
        moved: range = range(0),
    ) -> StripView:
        row = self.tables.rows[request]
        block, role = row.worker_row[group][column], row.roles[group][column]
        statuses = self.token_statuses(request)
        # Before this step's accept, rows behind the window are drafts of this step only if the
        # forward has put them there.
        current = caption != "before" and self.phase_index >= PHASES.index("forward")
        rows = tuple(
            (token, self._row_status(token, index, offset, moved, label.rows, statuses, current))
            for index, token in enumerate(label.rows or (None,) * self.state_length(layer))
        )
        filled = any(token is not None for token in label.rows)
        return StripView(
            column=column,
            block=block,
            role=role,
            caption=caption,
            rows=rows,
            window=(offset, self.window_length) if filled else None,
            wrong=self.is_wrong(layer, block, "conv"),
        )

    def _row_status(
        self,
        token: int | None,
        index: int,
        offset: int,
        moved: range,
        rows: Rows,
        statuses: tuple[TokenStatus, ...],
        current: bool,
    ) -> RowStatus:
        """A row counts while it is in the window, moved by this copy, or goes on behind it."""
        if token is None:
            return "empty"
        if token >= len(statuses):
            return "old"
        if offset <= index < offset + self.window_length or index in moved:
            return statuses[token]
        goes_on = index >= offset + self.window_length and rows[index - 1] == token - 1
        open_query = statuses[token] in ("pending", "accepted", "rejected")
        return statuses[token] if goes_on and open_query and current and not moved else "old"

    def state_length(self, layer: int) -> int:
        spec = self.trace.spec_of.get((layer, "conv"))
        if spec is None:
            return 0  # a layer without a conv state
        return spec.shape[0 if self.trace.scenario.engine.layout == "SD" else 1]

    def _bars(self, request: str, group: int, layer: int, fold: int) -> tuple[BarView, ...]:
        row = self.tables.rows[request]
        statuses = self.token_statuses(request)
        bars = []
        roles = row.roles[group]
        first = max(0, len(roles) - max(5, min(MOST_BARS, roles.count("speculative") + 3)))
        for column in range(first, len(roles)):
            block, role = row.worker_row[group][column], roles[column]
            label = self.label(layer, block)
            was = self.label_before(layer, block).absorbed
            absorbed = label.absorbed or 0
            beyond: TokenStatus = "ahead"
            unknown = (beyond,) * (absorbed - len(statuses))
            bars.append(
                BarView(
                    column=column,
                    block=block,
                    role=role,
                    absorbed=label.absorbed,
                    was=was if self.changed(layer, block) and was != label.absorbed else None,
                    cells=statuses[fold:absorbed] + unknown,
                    holder=self._holder(request, group, block) if role == "retired" else "",
                    kept=role == "retired" and self.is_kept(block),
                    stale=(layer, "temporal", block) in self.stale and role != "cached",
                    wrong=role != "retired" and self.is_wrong(layer, block, "temporal"),
                )
            )
        return tuple(bars)

    def _most_tokens(self, request: str) -> int:
        running = self.request_step(request)
        end = running.num_computed + running.num_scheduled if running else 0
        return max(end, self.lives[request].computed)

    # ------------------------------------------------------------------ changes

    def changes(self, layer: int) -> tuple[ChangeView, ...]:
        """Every block of a layer that this phase changed, requests in batch order."""
        found: dict[int, list[BlockChange]] = {}
        for change in self.phase.changes:
            if change.layer == layer:
                found.setdefault(change.block, []).append(change)
        views = [self._change(layer, block, changes) for block, changes in found.items()]
        order = [*self.step.batch_order, ""]
        return tuple(
            sorted(
                views,
                key=lambda view: (
                    order.index(view.request) if view.request in order else len(order),
                    view.column if view.column is not None else 10**6,
                ),
            )
        )

    def _change(self, layer: int, block: int, changes: list[BlockChange]) -> ChangeView:
        request, column, role = self.owner(group_of(self.trace, layer), block)
        states = tuple(
            ChangedState(
                state=change.state,
                before=self.old_contents.get((layer, change.state, block), b""),
                after=change.raw,
                label_before=self.label_before(layer, block),
                label_after=self.label(layer, block),
            )
            for change in sorted(changes, key=lambda change: change.state)
        )
        return ChangeView(layer, block, role, request, column, states)

    def owner(self, group: int, block: int) -> tuple[str, int | None, Role]:
        """Request, column and role of a block that stands in a row; the live place first. Of a
        recording not all requests need be drawn: a block of the others is nobody's here."""
        roles = self.tables.block_roles
        fallback: tuple[str, int | None, Role]
        fallback = ("", None, roles[block] if block < len(roles) else "free")
        for request, row in self.tables.rows.items():
            for column, other in enumerate(row.worker_row[group]):
                if other == block:
                    place = (request, column, row.roles[group][column])
                    if place[2] != "retired":
                        return place
                    fallback = place
        return fallback


def _copy_view(copies: list[BlockCopy], state_length: int) -> CopyView:
    conv = next((copy for copy in copies if copy.state == "conv"), None)
    temporal = next((copy for copy in copies if copy.state == "temporal"), None)
    first = conv or temporal
    assert first is not None
    return CopyView(
        kind=first.kind,
        bias=first.bias,
        src_col=conv.src_col if conv else first.src_col - first.bias,
        dst_col=first.dst_col,
        temporal_col=temporal.src_col if temporal else first.src_col + first.bias,
        src_block=conv.src_block if conv else None,
        dst_block=first.dst_block,
        temporal_block=temporal.src_block if temporal else None,
        conv_rows=state_length - first.bias if conv and conv.skipped is None else 0,
        conv_bytes=conv.num_bytes if conv else 0,
        temporal_bytes=temporal.num_bytes if temporal else 0,
        conv_skipped=(conv.skipped or "") if conv else "",
        temporal_skipped=(temporal.skipped or "") if temporal else "",
    )


# --------------------------------------------------------------------------------------
# The walk
# --------------------------------------------------------------------------------------


def frames(trace: Trace) -> Iterator[Frame]:
    """Every phase of a run with what can be seen in it."""
    walk = _Walk(trace)
    for step in trace.steps:
        walk.begin(step)
        for phase in step.phases:
            yield walk.enter(step, phase)


def frame_at(trace: Trace, step: int, phase: str) -> Frame:
    """The frame of one phase. Raises KeyError for a phase that is not in the trace."""
    for frame in frames(trace):
        if frame.step.index == step and frame.phase.name == phase:
            return frame
    raise KeyError(f"no phase {phase!r} of step {step}; the run has {len(trace.steps)} steps")


class _Walk:
    """What changes from phase to phase, carried along."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tables = trace.initial_tables
        self.labels: dict[tuple[int, int], Label] = {}
        self.contents: dict[tuple[int, StateKind, int], bytes] = {}
        self.stale: set[tuple[int, StateKind, int]] = set()
        self.lives = {
            plan.id: _Life(plan, known=plan.num_prompt_tokens) for plan in trace.scenario.requests
        }
        self.migrations: dict[str, int] = {}
        self.count = 0
        self.bytes_seen: dict[str, int] = {}
        self.past: dict[Hashable, BlockView] = {}

    def begin(self, step: Step) -> None:
        self.migrations = {}
        for request, running in step.requests.items():
            life = self.lives[request]
            life.started, life.finished = True, None
            life.known = running.num_tokens
            if running.event != "running":
                life.reused = running.num_computed
        for request in step.preempted:
            self.lives[request].computed = self.lives[request].reused = 0

    def enter(self, step: Step, phase: Phase) -> Frame:
        before = self.tables
        self.tables = phase.tables or before
        if phase.name == "allocate":
            self._find_stale(before)
        old_contents, old_labels = self._apply(phase)
        touched = self._touched({change.block for change in phase.changes})
        for copy in phase.copies:
            if copy.kind == "migrate":
                self.migrations[copy.request] = copy.bias
        if phase.name == "commit":
            self._commit(step)
        frame = Frame(
            trace=self.trace,
            step=step,
            phase=phase,
            index=self.count,
            tables=self.tables,
            tables_before=before,
            labels=self.labels,
            old_labels=old_labels,
            contents=self.contents,
            old_contents=old_contents,
            stale=frozenset(self.stale),
            lives=self.lives,
            migrations=self.migrations,
            bytes_seen=self.bytes_seen,
            touched=touched,
            past=self.past,
        )
        self.count += 1
        return frame

    def _touched(self, blocks: set[int]) -> frozenset[str]:
        """Requests that have one of these blocks in their row, in any cache group."""
        found = frozenset(
            request
            for request, row in self.tables.rows.items()
            if any(not blocks.isdisjoint(ids) for ids in row.worker_row)
        )
        for request in found:
            self.bytes_seen[request] = self.bytes_seen.get(request, 0) + 1
        return found

    def _commit(self, step: Step) -> None:
        for request, computed in step.num_computed_after.items():
            if request in self.lives:
                life = self.lives[request]
                life.computed = computed
                life.known = max(life.known, computed)
        for request in step.finished_after:
            self.lives[request].finished = step.index

    def _find_stale(self, before: Tables) -> None:
        """A block taken for new data still holds the bytes of whoever had it before."""
        for request, row in self.tables.rows.items():
            old = before.rows.get(request)
            for group, block_list in enumerate(row.block_list):
                had = set(old.block_list[group]) if old else set()
                for block in block_list:
                    if block and block not in had and block not in before.registered:
                        self.stale |= {key for key in self.contents if key[2] == block}

    def _apply(
        self, phase: Phase
    ) -> tuple[dict[tuple[int, StateKind, int], bytes], dict[tuple[int, int], Label]]:
        old_contents: dict[tuple[int, StateKind, int], bytes] = {}
        old_labels: dict[tuple[int, int], Label] = {}
        for change in phase.changes:
            key = (change.layer, change.state, change.block)
            place = (change.layer, change.block)
            old_contents[key] = self.contents.get(key, b"")
            old_labels.setdefault(place, self.labels.get(place, NOTHING))
            self.contents[key] = change.raw
            self.stale.discard(key)
            self.labels[place] = self._read(change, self.labels.get(place, NOTHING))
        return old_contents, old_labels

    def _read(self, change: BlockChange, label: Label) -> Label:
        values = self.trace.spec_of[change.layer, change.state].decode(change.raw)
        if change.state == "conv":
            layout = self.trace.scenario.engine.layout
            return Label(tuple(window_rows(values, layout)), label.absorbed)
        absorbed = tokens_absorbed(values)
        return Label(label.rows, absorbed if absorbed or np.any(values) else None)


# --------------------------------------------------------------------------------------
# Small facts about a run
# --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)  # a request looks alike for many phases, and most requests do nothing
def _statuses(
    prompt: int, known: int, end: int, reused: int, kept: int | None
) -> tuple[TokenStatus, ...]:
    """``end`` tokens are or are being computed; ``kept``: drafts accepted, None before that."""

    def status(position: int) -> TokenStatus:
        if position >= known:
            if kept is None:
                return "pending"
            return "accepted" if position - known < kept else "rejected"
        if position >= end:
            return "ahead"
        if position < reused:
            return "reused"
        return "prompt" if position < prompt else "generated"

    return tuple(map(status, range(max(known, end))))


def group_of(trace: Trace, layer: int) -> int:
    return next(spec.group for spec in trace.states if spec.layer == layer)


def layers_of(trace: Trace, group: int) -> list[int]:
    """Layers whose state lives in a group's blocks; empty for an attention group."""
    return sorted({spec.layer for spec in trace.states if spec.group == group})


def fold_before(tokens: int, block_size: int) -> int:
    """How many tokens in front, in whole blocks, become one cell so that the others fit."""
    cell = bar_cell(tokens)
    if tokens * cell <= STATE.bars_width:
        return 0
    fitting = int((STATE.bars_width - STATE.fold_width) // cell)
    return -(-(tokens - fitting) // block_size) * block_size


def bar_cell(tokens: int) -> float:
    """Width of one token's cell: three digits need more."""
    return STATE.bar_cell if tokens <= 100 else STATE.wide_bar_cell


def twin_layers(trace: Trace) -> dict[int, int]:
    """Layers that look like an earlier one of their group in every phase, and that earlier one.

    Layers hold different numbers, but as long as nothing is wrong they hold the same tokens.
    """
    layers = sorted({spec.layer for spec in trace.states})
    first = {layer: layers_of(trace, group_of(trace, layer))[0] for layer in layers}
    twins = {layer: base for layer, base in first.items() if layer != base}
    for step in trace.steps:
        for violation in step.violations:
            if violation.layer is not None:
                return {}
    for frame in frames(trace):
        for layer, base in list(twins.items()):
            blocks = {block for at, block in frame.old_labels if at in (layer, base)}
            same = all(
                frame.label(layer, block) == frame.label(base, block)
                and frame.label_before(layer, block) == frame.label_before(base, block)
                for block in blocks
            )
            if not same or any(
                frame.copies(request, layer) != frame.copies(request, base)
                for request in frame.step.requests
            ):
                del twins[layer]
    return twins


def num_groups(trace: Trace) -> int:
    engine = trace.scenario.engine
    return engine.num_mamba_groups + engine.attention_group
