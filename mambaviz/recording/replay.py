"""A recording as a `Trace`, for the pictures, with the verdicts of every step.

Nothing is made up: a phase of which no line tells is empty and named in ``Trace.recorded``, bytes
are there only where they were recorded. Layers of a group share its table and are moved together,
so one layer stands for all of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from mambaviz.columns import last_column
from mambaviz.limits import (
    LONGEST_RECORDED_LINE,
    MOST_BLOCKS,
    MOST_RECORDED_STEPS,
    MOST_REQUESTS,
)
from mambaviz.recording.cut import WHOLE, Span
from mambaviz.recording.judge import Judge
from mambaviz.recording.lines import CopyRow, Group, Head, Scheduled
from mambaviz.recording.reader import Reader, RecordingError
from mambaviz.recording.rules import RULES, Verdict
from mambaviz.recording.steps import Gatherer, GroupRows, RecordedStep, request_names
from mambaviz.recording.told import summary
from mambaviz.recording.values import built_fields
from mambaviz.roles import block_roles, row_roles
from mambaviz.scenario import EngineSettings, LayerSettings, RequestPlan, Scenario
from mambaviz.trace import (
    PHASES,
    BlockChange,
    BlockCopy,
    CopyKind,
    Decision,
    InvariantCheck,
    Metadata,
    Phase,
    PhaseName,
    Recorded,
    RequestStep,
    Role,
    RowTables,
    StateKind,
    StateSpec,
    Step,
    Tables,
    Trace,
    Violation,
)

MOST_TOKENS = 4_096  # of a request, which are drawn one by one
MOST_GROUPS = 64
NOTHING = Tables(rows={}, registered={}, free_queue=[], block_roles=["null"])


@dataclass(frozen=True)
class Replay:
    """A recording in memory: what was recorded, the trace of it, and what is wrong with it."""

    head: Head
    trace: Trace
    steps: tuple[RecordedStep, ...]
    verdicts: tuple[Verdict, ...]
    remarks: tuple[str, ...]

    @property
    def first(self) -> Verdict | None:
        """The first thing that contradicts a rule."""
        return self.verdicts[0] if self.verdicts else None

    @property
    def opening(self) -> tuple[int, PhaseName]:
        """Where it is worth looking first: step of the trace and phase of the first verdict."""
        if self.first is None:
            return 0, "schedule"
        index = next(i for i, step in enumerate(self.steps) if step.index == self.first.step)
        return index, self.first.phase

    @property
    def summary(self) -> str:
        rules = {verdict.rule for verdict in self.verdicts}
        return summary(len(self.steps), len(self.verdicts), self.first, rules)


def replay(
    reader: Reader,
    span: Span = WHOLE,
    only: frozenset[str] = frozenset(),
    *,
    first: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Replay:
    """The whole recording, or some of its steps, or what is about some requests: ``only`` these,
    or no more than the ``first`` so many.

    Everything is judged in any case; ``progress(steps_judged)`` is called after every step, and
    what it raises ends the judging. Raises `RecordingError` for more than pictures can take.
    """
    judge = Judge(reader.head)
    steps: list[RecordedStep] = []
    verdicts: list[Verdict] = []
    checks: list[list[InvariantCheck]] = []
    classes: list[dict[str, bool]] = []
    for step in Gatherer(reader.remarks).steps(reader.lines()):
        found = judge.step(step)
        if not span.holds(step.index):
            continue
        if len(steps) == MOST_RECORDED_STEPS:
            raise RecordingError(
                f"{reader.name} has more than {MOST_RECORDED_STEPS} steps, which is all that the "
                "pictures take: cut it with python -m mambaviz replay FILE --steps 0:500 --cut PART"
            )
        steps.append(judge.settled or step)
        verdicts += found
        checks.append([InvariantCheck(invariant=i, compared=n) for i, n in judge.compared.items()])
        classes.append(judge.decodes)
        progress(len(steps))
    names = [name for name in request_names(steps) if not only or name in only]
    builder = _Builder(reader.name, reader.head, steps, verdicts, names[:first])
    trace = builder.trace(checks, classes, reader.digest.hexdigest())
    return Replay(reader.head, trace, tuple(steps), tuple(verdicts), tuple(reader.remarks))


@dataclass
class _Builder:
    name: str  # of the file
    head: Head
    steps: Sequence[RecordedStep]
    verdicts: Sequence[Verdict]
    names: Sequence[str]  # the requests that are drawn
    rows: dict[str, RowTables] = field(default_factory=dict)

    def trace(
        self,
        checks: Sequence[list[InvariantCheck]],
        classes: Sequence[Mapping[str, bool]],
        digest: str,
    ) -> Trace:
        _refuse_what_is_too_large(self.head, self.names, self.steps)
        self.states = _states(self.head.groups or [])
        self.groups = max(
            len(self.head.groups or ()),
            *(len(r) for s in self.steps for r in _rows_of(s, self.names)),
            1,
        )
        self.scenario = _scenario(self.name, self.head, self.steps, self.names, self.states)
        self.tables = NOTHING
        self.unknown: dict[int, list[PhaseName]] = {}
        self.left_out: dict[int, int] = {}
        self.last_shown = NOTHING
        found = [
            self._step(step, index, check, prefills)
            for index, (step, check, prefills) in enumerate(
                zip(self.steps, checks, classes, strict=True)
            )
        ]
        return Trace.model_construct(  # the scenario describes, and need not be able to run
            scenario=self.scenario,
            scenario_hash=digest,
            backend=f"recorded from {self.head.engine} {self.head.engine_version}",
            versions={self.head.engine: self.head.engine_version},
            states=self.states,
            initial_tables=NOTHING,
            steps=found,
            recorded=Recorded(
                engine=self.head.engine,
                engine_version=self.head.engine_version,
                states=self.head.states,
                free_known=any(s.blocks and s.blocks.free_queue is not None for s in self.steps),
                unknown=self.unknown,
                left_out=self.left_out,
            ),
        )

    # ------------------------------------------------------------------ one step

    def _mine(self, requests: Iterable[str]) -> list[str]:
        return [name for name in requests if name in self.names]

    def _step(
        self,
        step: RecordedStep,
        index: int,
        checks: list[InvariantCheck],
        decodes: Mapping[str, bool],
    ) -> Step:
        schedule = step.schedule
        requests = {
            r.id: self._request(step, r, decodes) for r in step.requests if r.id in self.names
        }
        if len(requests) < len(step.requests):
            self.left_out[index] = len(step.requests) - len(requests)
        order = list(requests)
        batch = [name for name in (step.rows.order if step.rows else order) if name in requests]
        phases = self._phases(step, requests)
        missing = _missing(step)
        if missing:
            self.unknown[index] = missing
        commit = step.commit
        return Step(
            index=index,
            arrivals=self._mine(came.id for came in step.came),
            order=order,
            batch_order=batch if set(batch) == set(order) else order,
            requests=requests,
            waiting=self._mine((schedule.waiting or ()) if schedule else ()),
            preempted=self._mine((schedule.preempted or ()) if schedule else ()),
            finished_reported=self._mine((schedule.finished or ()) if schedule else ()),
            finished_after=self._mine((commit.finished or ()) if commit else ()),
            num_computed_after={
                name: count
                for name, count in ((commit.computed or {}) if commit else {}).items()
                if name in requests
            },
            actions=[f"{one.kind} {one.request or ''}".strip() for one in step.actions],
            free_queue_after_alloc=list((step.blocks.free_queue or ()) if step.blocks else ()),
            free_count=(schedule.free_count or 0) if schedule else 0,
            phases=phases,
            metadata=[
                Metadata(group=built.group, fields=built_fields(built)) for built in step.metadata
            ],
            checks=checks,
            violations=[
                self._violation(verdict, index)
                for verdict in self.verdicts
                if verdict.step == step.index
            ],
        )

    def _request(
        self, step: RecordedStep, request: Scheduled, decodes: Mapping[str, bool]
    ) -> RequestStep:
        counts = (step.accept.counts or {}) if step.accept else {}
        count = counts.get(request.id)
        prefilling = not decodes.get(request.id, bool(request.drafts))
        known = request.known if request.known is not None else request.running
        return RequestStep(
            event=request.kind,
            row_class="prefill" if prefilling else "decode",
            class_rule=(
                "tokens known at admission are still to be computed"
                if prefilling
                else "all tokens known at admission are computed, or one is left"
            ),
            num_computed=request.computed,
            num_scheduled=request.scheduled,
            num_tokens=known,
            num_prompt_tokens=request.prompt if request.prompt is not None else known,
            tokens=request.tokens or [],
            drafts=request.drafts,
            accepted_drafts=None if count is None else max(0, min(count - 1, request.drafts)),
            padded_tail=request.padded_tail,
        )

    def _violation(self, verdict: Verdict, index: int) -> Violation:
        """A verdict on the stage. One of a rule without a lamp lights I2: what a forward reads."""
        layer = next((s.layer for s in self.states if s.group == verdict.group), None)
        rule = RULES[verdict.rule]
        return Violation(
            invariant=verdict.lamp or "I2",
            step=index,
            phase=verdict.phase,
            message=f"{verdict.message}. {verdict.rule.capitalize()}, section {rule.section}: "
            f"{rule.says}",
            rule=verdict.rule,
            request=verdict.request if verdict.request in self.names else None,
            group=verdict.group,
            layer=layer if verdict.block is not None else None,
            block=verdict.block,
            column=verdict.column,
            expected=verdict.expected,
            found=verdict.found,
        )

    # ------------------------------------------------------------------ phases and tables

    def _phases(self, step: RecordedStep, requests: Mapping[str, RequestStep]) -> list[Phase]:
        after: dict[PhaseName, Tables] = {"schedule": self._without_the_gone(step)}
        after["allocate"] = self._allocated(step)
        after["pre-copy"] = self._copied(step, "migrate")
        after["accept"] = self._counted(step)
        after["post-copy"] = self._copied(step, "checkpoint")
        after["commit"] = self._committed(step)
        phases = []
        before = self.last_shown
        for name in PHASES:
            tables = after.get(name, before)
            phases.append(
                Phase(
                    name=name,
                    tables=tables if tables != before else None,
                    changes=self._changes(step, name),
                    decisions=self._decisions(step, name, requests),
                    copies=self._copies(step, name, requests),
                )
            )
            before = tables
        self.last_shown = before
        return phases

    def _with_rows(self, rows: dict[str, RowTables], **changes: Any) -> Tables:
        values = {**dict(self.tables), **changes, "rows": rows}
        self.tables = Tables.model_construct(**values)
        return self.tables

    def _without_the_gone(self, step: RecordedStep) -> Tables:
        gone = set((step.schedule.preempted or ()) if step.schedule else ())
        gone |= set((step.schedule.finished or ()) if step.schedule else ())
        return self._with_rows({n: row for n, row in self.tables.rows.items() if n not in gone})

    def _allocated(self, step: RecordedStep) -> Tables:
        lists = step.blocks.lists if step.blocks is not None else {}
        registered = dict((step.blocks.registered or {}) if step.blocks is not None else {})
        rows: dict[str, RowTables] = {}
        scheduled = {request.id: request for request in step.requests}
        holders = lists if step.blocks is not None else (step.rows.rows if step.rows else {})
        for name in holders:
            if name in self.names:
                rows[name] = self._row(step, name, scheduled.get(name), registered)
        in_rows = {
            b for row in rows.values() for ids in (*row.block_list, *row.worker_row) for b in ids
        }
        weights = [
            pair for row in rows.values() for pair in zip(row.worker_row, row.roles, strict=True)
        ]
        queue = list((step.blocks.free_queue or ()) if step.blocks is not None else ())
        if max(in_rows, default=0) > MOST_BLOCKS:
            raise RecordingError(
                f"block {max(in_rows)}: the pictures take ids up to {MOST_BLOCKS}; the log and the "
                "verdicts are all there is for a pool of this size"
            )
        largest = max((*in_rows, *queue, *registered, 0))
        roles = block_roles(min(largest, MOST_BLOCKS) + 1, weights, registered)
        return self._with_rows(rows, registered=registered, free_queue=queue, block_roles=roles)

    def _row(
        self,
        step: RecordedStep,
        name: str,
        scheduled: Scheduled | None,
        registered: Mapping[int, str],
    ) -> RowTables:
        old = self.tables.rows.get(name)
        block_list = self._whole(step.blocks.lists.get(name) if step.blocks else None)
        worker = self._whole(step.rows.rows.get(name) if step.rows else None)
        column = old.state_col if old is not None else None
        if scheduled is not None:
            column = last_column(scheduled.end, self.scenario.engine.effective_block_size)
        accepted = (step.rows.accepted or {}).get(name) if step.rows else None
        if accepted is None:
            fresh = old is None or (scheduled is not None and scheduled.kind != "running")
            accepted = 1 if fresh else old.num_accepted  # type: ignore[union-attr]
        order = step.rows.order if step.rows is not None else ()
        slots = (step.rows.slots or {}) if step.rows is not None else {}
        return RowTables(
            block_list=block_list,
            worker_row=worker,
            roles=[
                self._roles(g, block_list[g], worker[g], column, registered)
                for g in range(self.groups)
            ],
            hashed_cols=[
                [c for c, block in enumerate(ids) if block in registered] for ids in block_list
            ],
            state_col=column,
            num_accepted=accepted,
            num_computed=scheduled.computed if scheduled else old.num_computed if old else 0,
            batch_row=order.index(name) if name in order else None,
            slot=slots.get(name),
        )

    def _whole(self, rows: GroupRows | None) -> list[list[int]]:
        """A list for every group; what is unknown is empty."""
        found = [list(ids or ()) for ids in rows or ()]
        return found + [[] for _ in range(self.groups - len(found))]

    def _roles(
        self,
        group: int,
        block_list: list[int],
        worker: list[int],
        column: int | None,
        registered: Mapping[int, str],
    ) -> list[Role]:
        groups = self.head.groups
        if groups is not None and group < len(groups) and groups[group].kind != "mamba":
            return ["cached" if b in registered else "running" if b else "null" for b in worker]
        listed = block_list or worker
        return row_roles(listed, worker, column, lambda block, _: block in registered)

    def _copied(self, step: RecordedStep, kind: CopyKind) -> Tables:
        line = step.pre_copy if kind == "migrate" else step.post_copy
        counts = {row.id: row.accepted_out for row in line.rows} if line is not None else {}
        return self._counts(counts)

    def _counted(self, step: RecordedStep) -> Tables:
        return self._counts(dict((step.accept.counts or {}) if step.accept else {}))

    def _counts(self, counts: Mapping[str, int | None]) -> Tables:
        rows = dict(self.tables.rows)
        for name, count in counts.items():
            if count is not None and name in rows and rows[name].num_accepted != count:
                rows[name] = rows[name].model_copy(update={"num_accepted": count})
        return self._with_rows(rows)

    def _committed(self, step: RecordedStep) -> Tables:
        commit = step.commit
        computed = (commit.computed or {}) if commit else {}
        finished = set((commit.finished or ()) if commit else ())
        rows = {}
        for name, row in self.tables.rows.items():
            if name not in finished:
                count = computed.get(name, row.num_computed)
                rows[name] = row.model_copy(update={"num_computed": count})
        return self._with_rows(rows)

    def _changes(self, step: RecordedStep, phase: PhaseName) -> list[BlockChange]:
        known = {(s.layer, s.state): s for s in self.states}
        found = []
        for one in step.states:
            spec = known.get((one.layer, one.state))  # type: ignore[arg-type]
            if spec is not None and one.after == phase:
                change = BlockChange(
                    layer=one.layer, state=spec.state, block=one.block, data=one.data
                )
                _refuse_other_bytes(spec, step.index, change)
                found.append(change)
        return found

    # ------------------------------------------------------------------ decisions and copies

    def _lines(self, step: RecordedStep, phase: PhaseName) -> list[CopyRow]:
        line = {"pre-copy": step.pre_copy, "post-copy": step.post_copy}.get(phase)
        return [row for row in line.rows if row.id in self.names] if line is not None else []

    def _decisions(
        self, step: RecordedStep, phase: PhaseName, requests: Mapping[str, RequestStep]
    ) -> list[Decision]:
        return [
            self._decision(row, number, phase, requests[row.id])
            for number, row in enumerate(self._lines(step, phase))
            if row.id in requests
        ]

    def _decision(
        self, row: CopyRow, number: int, phase: PhaseName, request: RequestStep
    ) -> Decision:
        pre = phase == "pre-copy"
        outcome = {
            True: "a copy was asked for",
            False: "nothing was copied",
            None: "whether it was copied, the recording does not show",
        }[row.copies]
        return Decision(
            request=row.id,
            row=number,
            slot=None,
            computed=request.num_computed if row.computed is None else row.computed,
            scheduled=request.num_scheduled if row.scheduled is None else row.scheduled,
            drafts=request.drafts if row.drafts is None else row.drafts,
            accepted=row.accepted,
            new=row.new_computed,
            bias=row.bias,
            src_col=row.src_col if row.src_col is not None or pre else row.column,
            dst_col=row.dst_col if row.dst_col is not None or not pre else row.column,
            accepted_out=row.accepted_out,
            copies=bool(row.copies),
            outcome=outcome,
        )

    def _copies(
        self, step: RecordedStep, phase: PhaseName, requests: Mapping[str, RequestStep]
    ) -> list[BlockCopy]:
        kind: CopyKind = "migrate" if phase == "pre-copy" else "checkpoint"
        found: list[BlockCopy] = []
        for row in self._lines(step, phase):
            if row.copies and row.id in requests:
                found += [c for s in self.states if (c := self._copy(step, row, s, kind))]
        return found

    def _copy(
        self, step: RecordedStep, row: CopyRow, spec: StateSpec, kind: CopyKind
    ) -> BlockCopy | None:
        if row.src_col is None or row.dst_col is None or row.bias is None:
            return None
        source = row.src_col + (row.bias if spec.state == "temporal" else 0)
        ids = step.row(row.id, spec.group) or ()
        named = next(
            (
                b
                for b in row.blocks or ()
                if b.group == spec.group and b.state in (None, spec.state)
            ),
            None,
        )
        src = named.src if named else ids[source] if 0 <= source < len(ids) else None
        dst = named.dst if named else ids[row.dst_col] if 0 <= row.dst_col < len(ids) else None
        inside = 0 <= source < len(ids) and 0 <= row.dst_col < len(ids)
        if src and dst and not inside:  # named by the line, at columns where nothing can be drawn
            src = dst = None
        stopped = None if src and dst else "it names the null block or a column outside the row"
        rows = spec.shape[0] if self.scenario.engine.layout == "SD" else spec.shape[-1]
        part = 1.0 if spec.state == "temporal" else max(0, rows - row.bias) / max(rows, 1)
        return BlockCopy(
            kind=kind,
            request=row.id,
            group=spec.group,
            layer=spec.layer,
            state=spec.state,
            src_col=source,
            dst_col=row.dst_col,
            src_block=src,
            dst_block=dst,
            bias=row.bias,
            source=None,
            target=None,
            num_bytes=int(spec.num_bytes * part),
            skipped=stopped,
        )


def _rows_of(step: RecordedStep, names: Collection[str]) -> list[GroupRows]:
    """Lists and worker rows of the requests that are drawn."""
    lists = step.blocks.lists if step.blocks is not None else {}
    rows = step.rows.rows if step.rows is not None else {}
    return [found[name] for found in (lists, rows) for name in names if name in found]


def _missing(step: RecordedStep) -> list[PhaseName]:
    """Phases of which the lines of a step say nothing."""
    found: dict[PhaseName, object] = {
        "schedule": step.schedule,
        "allocate": step.blocks or step.rows,
        "pre-copy": step.pre_copy,
        "metadata": step.metadata,
        "accept": step.accept,
        "post-copy": step.post_copy,
        "commit": step.commit,
    }
    return [name for name, line in found.items() if not line]


def _refuse_what_is_too_large(
    head: Head, names: Sequence[str], steps: Sequence[RecordedStep]
) -> None:
    if not steps or not names:
        raise RecordingError("there is no step with a request in this recording")
    if len(names) > MOST_REQUESTS:
        raise RecordingError(
            f"there are {len(names)} requests, and the pictures take {MOST_REQUESTS}: choose some "
            "of them, or some steps"
        )
    if head.groups and not any(group.kind == "mamba" for group in head.groups):
        raise RecordingError(
            "its head has groups, but none of Mamba layers, whose state the pictures show; the log "
            "and the verdicts take any"
        )
    widest = max((one.block_size for one in head.groups or ()), default=0)
    if head.settings.mode != "none" and widest > MOST_TOKENS:  # none: one column for the request
        raise RecordingError(
            f"a block covers {widest} tokens, and the pictures take {MOST_TOKENS}; the log and the "
            "verdicts take any"
        )
    mine = [r for s in steps for r in _rows_of(s, names)]
    groups = max(len(head.groups or ()), *(len(r) for r in mine), 0)
    columns = max((len(row or ()) for r in mine for row in r), default=0)
    for number, most, what in (
        (groups, MOST_GROUPS, "cache groups"),
        (columns, MOST_TOKENS, "columns in a row"),  # no more than tokens
    ):
        if number > most:
            raise RecordingError(
                f"there are {number} {what}, and the pictures take {most}; the log and the "
                "verdicts take any"
            )
    largest = max((spec.num_bytes for spec in _states(head.groups or ())), default=0)
    if head.states and largest > LONGEST_RECORDED_LINE:
        raise RecordingError(
            f"a state has {largest} bytes, and a line, which would have to hold them, at most "
            f"{LONGEST_RECORDED_LINE}"
        )
    longest = max((r.end for s in steps for r in s.requests if r.id in names), default=0)
    if longest > MOST_TOKENS:
        raise RecordingError(
            f"a request has {longest} tokens, and the pictures take {MOST_TOKENS}: choose other "
            "requests; the log and the verdicts take any"
        )


def _refuse_other_bytes(spec: StateSpec, step: int, change: BlockChange) -> None:
    """Bytes that are not those of the shape in the head cannot be read as numbers."""
    where = f"step {step}, {spec.state} state of block {change.block}"
    if spec.dtype not in get_args(StateSpec.model_fields["dtype"].annotation):
        raise RecordingError(f"{where}: bytes of {spec.dtype[:40]!r} cannot be shown")
    if len(change.raw) != spec.num_bytes:
        raise RecordingError(
            f"{where}: {len(change.raw)} bytes, where the head’s shape {spec.shape} has "
            f"{spec.num_bytes}"
        )


def _states(groups: Sequence[Group]) -> list[StateSpec]:
    """One layer for every Mamba group; a group whose shapes are unknown has a state without any."""
    found: list[StateSpec] = []
    layer = 0
    for number, group in enumerate(groups):
        if group.kind != "mamba":
            continue
        shapes = {one.state: one for one in group.states}
        offset = 0
        for kind in ("conv", "temporal"):
            if shapes and kind not in shapes:
                continue
            state: StateKind = "conv" if kind == "conv" else "temporal"
            shape = list(shapes[kind].shape) if shapes else [0, 0]
            dtype = shapes[kind].dtype if shapes else "float32"
            spec = StateSpec.model_construct(
                layer=layer,
                layer_name=f"group {number}, {group.layers or 'all'} layers",
                group=number,
                state=state,
                index=len(found),
                shape=shape,
                dtype=dtype,
                offset=offset,
                page_bytes=group.page_bytes or 0,
            )
            offset += math.prod(shape) * (4 if dtype == "float32" else 2)
            found.append(spec)
        layer += 1
    return found


def _scenario(
    name: str,
    head: Head,
    steps: Sequence[RecordedStep],
    names: Sequence[str],
    states: Sequence[StateSpec],
) -> Scenario:
    """The recording's settings and requests in a scenario's words, not validated: it cannot run.

    Without a title it is called after its file.
    """
    settings, groups = head.settings, head.groups or []
    mamba = [group for group in groups if group.kind == "mamba"]
    longest = max((r.end for s in steps for r in s.requests), default=1)
    engine = EngineSettings.model_construct(
        mode=settings.mode or "align",
        runner=settings.runner or "v1",
        layout=settings.layout or "SD",
        block_size=mamba[0].block_size if mamba else settings.block_size or longest,
        num_spec=settings.num_spec or 0,
        num_blocks=settings.num_blocks or 1,
        max_model_len=settings.max_model_len or longest,
        num_mamba_groups=len(mamba) or 1,
        attention_group=len(groups) > len(mamba),
    )
    conv = next((spec for spec in states if spec.state == "conv"), None)
    rows = 0 if conv is None else conv.shape[0 if engine.layout == "SD" else -1]
    kinds = {spec.state for spec in states}
    layer = LayerSettings.model_construct(
        num_layers=max(1, len({spec.layer for spec in states})),
        conv_kernel=max(2, rows - engine.num_spec + 1),
        states="both" if len(kinds) != 1 else next(iter(kinds)),
    )
    return Scenario.model_construct(
        name=head.title or name,
        story=head.story or "",
        engine=engine,
        layer=layer,
        requests=[_plan(name, steps) for name in names],
        events=[],
        edits=[],
        faults=[],
    )


def _plan(name: str, steps: Sequence[RecordedStep]) -> RequestPlan:
    came = next((c for s in steps for c in s.came if c.id == name), None)
    ran = next((r for s in steps for r in s.requests if r.id == name), None)
    prompt = came.prompt if came is not None else None
    if prompt is None and ran is not None:
        prompt = ran.prompt if ran.prompt is not None else ran.known
    first = next(
        (
            index
            for index, step in enumerate(steps)
            if any(c.id == name for c in step.came) or any(r.id == name for r in step.requests)
        ),
        0,
    )
    return RequestPlan.model_construct(
        id=name, prompt=None, prompt_len=prompt or 1, arrive=first, accept="all"
    )
