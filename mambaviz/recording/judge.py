"""What contradicts the rules in a recording, from its indices alone (docs/recording.md).

A `Judge` takes steps in order and says of each what is wrong, with the numbers and the rule. It
keeps only what requests hold now, so a recording may be of any length. What was not recorded is
unknown, and nothing unknown is ever held against a run. Nothing here looks at a byte: whether the
bytes that moved were the right ones, only a run of our own can say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mambaviz.metadata_check import BatchRow, BuilderFacts, batch_problems
from mambaviz.recording.held import Copy, Held, Ledger, Place
from mambaviz.recording.lines import CopyRow, Head, Scheduled
from mambaviz.recording.rules import RuleName, Verdict
from mambaviz.recording.steps import GroupRows, RecordedStep, Row
from mambaviz.recording.values import built_fields
from mambaviz.trace import Invariant, MetadataField, PhaseName, StateKind, TensorRecord

NO_COLUMN = -1


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Facts:
    """The settings that rules need; None: unknown, and what needs it is not judged."""

    mode: str | None
    block_size: int | None  # of the Mamba groups
    num_spec: int | None
    scratch: int | None
    num_blocks: int | None
    ring: int
    checkpoints: bool  # whether one prefill saves boundaries inside its chunk
    chunk_size: int | None
    asynchronous: bool
    mamba: tuple[int, ...]  # cache groups
    states: frozenset[str]

    @classmethod
    def of(cls, head: Head) -> Facts:
        settings, groups = head.settings, head.groups
        mamba = [i for i, group in enumerate(groups or ()) if group.kind == "mamba"]
        size = groups[mamba[0]].block_size if groups and mamba else settings.block_size
        kinds = {shape.state for i in mamba for shape in (groups or [])[i].states}
        scratch = settings.num_speculative_blocks
        return cls(
            mode=settings.mode,
            block_size=size,
            num_spec=settings.num_spec,
            scratch=settings.num_spec if scratch is None else scratch,
            num_blocks=settings.num_blocks,
            ring=settings.replayssm_buffer_len or 0,
            checkpoints=bool(settings.prefill_checkpoint_blocks),
            chunk_size=settings.chunk_size,
            asynchronous=bool(settings.async_scheduling),
            mamba=tuple(mamba) if groups is not None else (0,),
            states=frozenset(kinds or {"conv", "temporal"}),
        )

    def last_column(self, tokens: int) -> int:
        """Column of the last of some tokens; 0 for none of them, and in none mode."""
        if self.mode == "none" or self.block_size is None:
            return 0
        return max(0, cdiv(tokens, self.block_size) - 1)


@dataclass
class Memory:
    """What the steps before say about a request; None: unknown."""

    base: int | None = None  # tokens known at its last admission
    column: int | None = None  # remembered running column, NO_COLUMN: none
    accepted: int | None = None
    computed: int | None = None
    previous: int | None = None  # all mode with drafts: column that its last full query wrote


@dataclass
class Judge:
    """The judge of one recording."""

    head: Head
    memory: dict[str, Memory] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.facts = Facts.of(self.head)
        settings = self.head.settings
        self.ledger.prefix_size = settings.hash_block_size or settings.block_size or 0
        self._lists: dict[str, GroupRows] = {}  # as last judged
        self._holders: Counter[int] = Counter()  # lists that a block stands in
        self._lists_known = False  # whether every holder is in them
        self.decodes: dict[str, bool] = {}  # which rows of the step judged last are decodes
        self.compared: Counter[Invariant] = Counter()  # in the step judged last
        self._group: dict[int, int] = {}  # of every block that stood in a list, the last one

    def step(self, step: RecordedStep) -> list[Verdict]:
        """Everything in one step that contradicts a rule; steps come in order."""
        self.now = step
        self.ledger.written.clear()
        self.compared.clear()
        if step.lost:
            self._know_nothing()
        for came in step.came:
            if came.prefix is not None:
                self.ledger.prefixes[came.id] = came.prefix
        found = [*self._scheduled()]
        self.decodes = {r.id: self.is_decode(r, self.memory[r.id]) for r in step.requests}
        found += [*self._allocated(), *self._rows()]
        if step.schedule is not None:
            found += [*self._pre_copied(), *self._described(), *self._forwarded()]
            found += [*self._accepted(), *self._post_copied()]
            found += [*self._committed()]
        found += self._registered()
        self._forget_the_gone()
        return found

    def _know_nothing(self) -> None:
        self.memory.clear()
        self.ledger.forget()
        self._lists, self._holders, self._lists_known = {}, Counter(), False

    def _forget_the_gone(self) -> None:
        finished = set((self.now.commit.finished or ()) if self.now.commit else ())
        if self.now.schedule is not None:
            running = {request.id for request in self.now.requests}
            finished |= set(self.now.schedule.finished or ()) - running
            for name in set(self.now.schedule.preempted or ()) - running:
                self.memory.pop(name, None)
        for name in finished:
            self.memory.pop(name, None)
            # The prefix stays as long as a block of it can be hit; there are no tokens in it.

    # ------------------------------------------------------------------ schedule

    def _scheduled(self) -> Iterator[Verdict]:
        for request in self.now.requests:
            memory = self.memory.get(request.id)
            if request.kind != "running":
                self.memory[request.id] = Memory(
                    base=request.known,
                    column=self._first_column(request),
                    accepted=1,
                    computed=request.computed,
                )
            elif memory is None:
                self.memory[request.id] = Memory()
            elif memory.computed is not None and memory.computed != request.computed:
                if not self.facts.asynchronous:
                    yield self._verdict(
                        "computed tokens",
                        "schedule",
                        f"{request.id} is scheduled from token {request.computed} on, but its step "
                        f"before left {memory.computed} computed",
                        request=request.id,
                        expected=str(memory.computed),
                        found=str(request.computed),
                    )
                memory.column = memory.accepted = None
            most = 1 + request.drafts
            if request.drafts and request.scheduled < most:
                yield self._verdict(
                    "computed tokens",
                    "schedule",
                    f"{request.id} has {request.drafts} drafts in a query of {request.scheduled} "
                    "tokens, and a query begins with a token that is known",
                    request=request.id,
                    expected=f"at least {most}",
                    found=str(request.scheduled),
                )

    def _first_column(self, request: Scheduled) -> int | None:
        """Section 3.7: where the state of a new or resumed request lies."""
        if request.computed == 0:
            return NO_COLUMN
        if self.facts.block_size is None:
            return None
        return self.facts.last_column(request.computed)

    # ------------------------------------------------------------------ allocate

    def _allocated(self) -> Iterator[Verdict]:
        blocks = self.now.blocks
        if blocks is None:
            return
        changed = [n for n, rows in blocks.lists.items() if self._lists.get(n) is not rows]
        gone = [name for name in self._lists if name not in blocks.lists]
        for name in (*changed, *gone):
            self._holders.subtract(_ids(self._lists.get(name, ())))
        for name in changed:
            self._holders.update(_ids(blocks.lists[name]))
            self._note_groups(blocks.lists[name])
        self._lists = dict(blocks.lists)
        self._lists_known = self._lists_known or blocks.whole
        for name in changed:
            yield from self._list_ids(name, blocks.lists[name])
            yield from self._list_shared(name, blocks.lists[name])
            self._note_hits(name)
        yield from self._conserved()

    def _note_groups(self, rows: GroupRows) -> None:
        """A block that changed groups holds nothing of its old one."""
        for group, row in enumerate(rows):
            for block in row or ():
                before = self._group.get(block)
                if before != group:
                    self._group[block] = group
                    if before is not None:
                        self.ledger.forget_place((before, block))

    def _list_ids(self, request: str, rows: GroupRows) -> Iterator[Verdict]:
        if self.facts.num_blocks is None:
            return
        for group, row in enumerate(rows):
            self.compared["I7"] += len(row or ())
            for column, block in enumerate(row or ()):
                if not 0 <= block < self.facts.num_blocks:
                    yield self._verdict(
                        "ids",
                        "allocate",
                        f"the list of {request} names block {block} at column {column}, but the "
                        f"pool has blocks 0 to {self.facts.num_blocks - 1}",
                        request=request,
                        group=group,
                        column=column,
                        found=str(block),
                    )

    def _list_shared(self, request: str, rows: GroupRows) -> Iterator[Verdict]:
        """I5 on the lists: who shares a block shares a registered one."""
        assert self.now.blocks is not None
        registered = self.now.blocks.registered
        for group, row in enumerate(rows):
            self.compared["I5"] += len(row or ())
            for column, block in enumerate(row or ()):
                if block and self._holders[block] > 1 and registered is not None:
                    if block in registered:
                        continue
                    holders = self._holders_of(block)
                    words = (
                        f"twice in the list of {request}"
                        if len(holders) == 1
                        else f"in the lists of {' and '.join(holders)}"
                    )
                    yield self._verdict(
                        "ownership",
                        "allocate",
                        f"block {block} stands {words}, but it is not registered for reuse",
                        request=request,
                        group=group,
                        block=block,
                        column=column,
                    )

    def _holders_of(self, block: int) -> list[str]:
        return sorted(name for name, rows in self._lists.items() if block in _ids(rows))

    def _note_hits(self, name: str) -> None:
        request = next((r for r in self.now.requests if r.id == name), None)
        size = self.facts.block_size
        if request is None or request.kind == "running" or not request.computed or not size:
            return
        if self.facts.mode == "none":
            return
        column = request.computed // size - 1
        places: list[Place] = []
        for group in self.facts.mamba:
            row = self.now.block_list(name, group)
            if row is not None and column < len(row) and row[column]:
                places.append((group, row[column]))
        self.ledger.hit(name, places, request.computed)

    def _conserved(self) -> Iterator[Verdict]:
        blocks, total = self.now.blocks, self.facts.num_blocks
        if blocks is None or blocks.free_queue is None or total is None or not self._lists_known:
            return
        free = Counter(blocks.free_queue)
        self.compared["I6"] += total - 1
        for block in range(1, total):
            held = self._holders[block] > 0
            if free[block] + held != 1:
                where = (
                    "twice in the free queue"
                    if free[block] > 1
                    else "in the free queue and in a list"
                    if held
                    else "neither in the free queue nor in a list"
                )
                yield self._verdict(
                    "conservation", "allocate", f"block {block} is {where}", block=block
                )

    # ------------------------------------------------------------------ the worker's rows

    def _rows(self) -> Iterator[Verdict]:
        rows = self.now.rows
        if rows is None:
            return
        for request in self.now.requests:
            for group, row in enumerate(rows.rows.get(request.id, ())):
                yield from self._row_follows(request, group, row)
            if rows.accepted is not None and request.id in rows.accepted:
                yield from self._carried(request, rows.accepted[request.id], "allocate")

    def _row_follows(self, request: Scheduled, group: int, row: Row | None) -> Iterator[Verdict]:
        """Section 2, two views of a row: what the list holds, the row holds at the same column."""
        block_list = self.now.block_list(request.id, group)
        if row is None:
            return
        for column, block in enumerate(block_list or ()):
            found = row[column] if column < len(row) else None
            if block and found != block:
                what = "ends before it" if found is None else f"has block {found} there"
                yield self._verdict(
                    "worker row",
                    "allocate",
                    f"the list of {request.id} has block {block} at column {column}, its worker "
                    f"row {what}",
                    request=request.id,
                    group=group,
                    block=block,
                    column=column,
                    expected=str(block),
                    found="no column" if found is None else str(found),
                )
                return

    def _carried(self, request: Scheduled, count: int, phase: PhaseName) -> Iterator[Verdict]:
        """Section 2: an accepted count moves with its row; an admission starts with 1."""
        memory = self.memory[request.id]
        if not self.facts.num_spec:
            return
        expected, memory.accepted = memory.accepted, count
        if expected is not None and expected != count:
            yield self._verdict(
                "accepted count",
                phase,
                f"{request.id} enters the step with accepted count {count}, but its step before "
                f"left {expected}",
                request=request.id,
                expected=str(expected),
                found=str(count),
            )
        elif not 1 <= count <= 1 + self.facts.num_spec:
            yield self._verdict(
                "accepted range",
                phase,
                f"{request.id} enters the step with accepted count {count}, where 1 to "
                f"{1 + self.facts.num_spec} can be",
                request=request.id,
                expected=f"1 to {1 + self.facts.num_spec}",
                found=str(count),
            )

    # ------------------------------------------------------------------ pre-copy

    def _pre_copied(self) -> Iterator[Verdict]:
        line, facts = self.now.pre_copy, self.facts
        if facts.mode != "align" or facts.block_size is None:
            return
        yield from self._stale_entries()
        rows = {row.id: row for row in line.rows} if line is not None else {}
        copies: list[Copy] = []
        for request in self.now.requests:
            row = rows.get(request.id)
            memory = self.memory[request.id]
            if row is None:
                # Not seen: what the rules ask for is taken to have happened.
                row = CopyRow(id=request.id)
            if row.accepted is not None and not (self.now.rows and self.now.rows.accepted):
                yield from self._carried(request, row.accepted, "pre-copy")
            accepted = row.accepted if row.accepted is not None else memory.accepted
            source = memory.column  # NO_COLUMN: there is no state yet
            target = facts.last_column(request.end)
            yield from self._columns_of_copy(request, row, source, target, accepted)
            copies += self._copies(request, row, "migrate", (source, target, accepted))
            moved = row.copies if row.copies is not None else _moves(source, target)
            if row.accepted_out is not None:
                memory.accepted = row.accepted_out
            elif moved:
                memory.accepted = 1
            memory.column = row.column if row.column is not None else target
            yield from self._copy_targets(request, row, "pre-copy")
        self.ledger.copy(copies)

    def _stale_entries(self) -> Iterator[Verdict]:
        line, schedule = self.now.pre_copy, self.now.schedule
        if line is None or line.columns_before is None or schedule is None:
            return
        if self.head.settings.runner == "v2":
            return  # slots are taken anew, nothing is remembered by name
        resumed = {request.id for request in schedule.requests if request.kind != "running"}
        gone = {*(schedule.finished or ()), *(schedule.preempted or ()), *resumed}
        for name in sorted(gone & set(line.columns_before)):
            if line.forgotten is not None and name not in line.forgotten:
                yield self._verdict(
                    "stale entry",
                    "pre-copy",
                    f"{name} was finished, preempted or resumed, but its running column "
                    f"{line.columns_before[name]} is still remembered",
                    request=name,
                    column=line.columns_before[name],
                )

    def _columns_of_copy(
        self,
        request: Scheduled,
        row: CopyRow,
        source: int | None,
        target: int,
        accepted: int | None,
    ) -> Iterator[Verdict]:
        name = request.id
        if row.column is not None and row.column != target:
            yield self._verdict(
                "column",
                "pre-copy",
                f"{name} takes column {row.column} for its running one; with {request.computed} "
                f"computed and {request.scheduled} scheduled it is column {target}",
                request=name,
                column=row.column,
                expected=str(target),
                found=str(row.column),
            )
        if row.copies is not None and source is not None and row.copies != _moves(source, target):
            what = "nothing was copied" if not row.copies else "a copy was made"
            why = (
                f"the state lies at column {source}, the running one is {target}"
                if source != NO_COLUMN
                else "nothing is computed yet"
            )
            yield self._verdict(
                "copy", "pre-copy", f"{name}: {what}, but {why}", request=name, column=target
            )
        if not row.copies:
            return
        wanted_bias = accepted - 1 if accepted is not None else None
        checks: tuple[tuple[RuleName, int | None, int | None, str], ...] = (
            ("source", source, row.src_col, "copies from column"),
            ("destination", target, row.dst_col, "copies to column"),
            ("bias", wanted_bias, row.bias, "copies with bias"),
        )
        yield from self._compared(name, "pre-copy", checks)
        if row.accepted_out is not None and row.accepted_out != 1:
            yield self._verdict(
                "count reset",
                "pre-copy",
                f"{name}: the state moved into column {target}, but its accepted count stays "
                f"{row.accepted_out}",
                request=name,
                expected="1",
                found=str(row.accepted_out),
            )

    def _compared(
        self,
        name: str,
        phase: PhaseName,
        checks: Iterable[tuple[RuleName, int | None, int | None, str]],
    ) -> Iterator[Verdict]:
        for rule, expected, found, words in checks:
            if expected is not None and found is not None and expected != found:
                yield self._verdict(
                    rule,
                    phase,
                    f"{name} {words} {found}, by the rule it is {expected}",
                    request=name,
                    expected=str(expected),
                    found=str(found),
                )

    def _copies(
        self,
        request: Scheduled,
        row: CopyRow,
        kind: str,
        ruled: tuple[int | None, int | None, int | None],
    ) -> list[Copy]:
        """What a copy row moved, in every Mamba group: as recorded, else as the rules have it."""
        source, target, accepted = ruled
        if row.copies is False:
            return []
        fresh = kind == "migrate" and source is not None and not _moves(source, target)
        if row.copies is None and fresh:
            return []
        src = row.src_col if row.src_col is not None else source
        dst = row.dst_col if row.dst_col is not None else target
        bias = row.bias
        if bias is None and accepted is not None:
            bias = accepted - 1 if kind == "migrate" else accepted
        found = []
        for group in self.facts.mamba:
            ids = self.now.row(request.id, group)
            conv, temporal = self._pair(row, group, "conv"), self._pair(row, group, "temporal")
            if None in (src, dst, bias) or ids is None:
                conv, temporal = conv or (None, None), temporal or (None, None)
            else:
                assert src is not None
                assert dst is not None
                assert bias is not None
                conv = conv or (_at(ids, src), _at(ids, dst))
                temporal = temporal or (_at(ids, src + bias), _at(ids, dst))
            found.append(Copy(group, conv, temporal, bias or 0))
        return found

    def _pair(
        self, row: CopyRow, group: int, state: StateKind
    ) -> tuple[int | None, int | None] | None:
        for copied in row.blocks or ():
            if copied.group == group and copied.state in (None, state):
                return copied.src, copied.dst
        return None

    def _copy_targets(
        self, request: Scheduled, row: CopyRow, phase: PhaseName
    ) -> Iterator[Verdict]:
        """I4, I5 and I7 for the columns and blocks of a copy that was made."""
        if not row.copies or row.src_col is None or row.dst_col is None or row.bias is None:
            return
        for group in self.facts.mamba:
            ids = self.now.row(request.id, group)
            if ids is None:
                continue
            reads = {"conv": row.src_col, "temporal": row.src_col + row.bias}
            columns = [reads[s] for s in ("conv", "temporal") if s in self.facts.states]
            for column, what in (*((c, "from") for c in columns), (row.dst_col, "to")):
                block = _at(ids, column)
                if block is None:
                    yield self._verdict(
                        "columns",
                        phase,
                        f"{request.id} copies {what} column {column}, outside its row of "
                        f"{len(ids)} columns",
                        request=request.id,
                        group=group,
                        column=column,
                    )
                    break
                if block == 0:
                    yield self._verdict(
                        "null block",
                        phase,
                        f"{request.id} copies {what} column {column}, which is the null block",
                        request=request.id,
                        group=group,
                        block=0,
                        column=column,
                    )
                    break
            else:
                yield from self._owned(request.id, group, _at(ids, row.dst_col), row.dst_col, phase)

    def _owned(
        self, request: str, group: int, block: int | None, column: int | None, phase: PhaseName
    ) -> Iterator[Verdict]:
        """I5 for a block that is written: it stands in its request's list, and in no other."""
        block_list = self.now.block_list(request, group)
        if not block or block_list is None:
            return
        self.compared["I5"] += 1
        if block not in block_list:
            others = [name for name in self._holders_of(block) if name != request]
            where = (
                f"it is in the list of {' and '.join(others)}"
                if others
                else "no list holds it, it is free"
            )
            yield self._verdict(
                "freed block",
                phase,
                f"{request} writes block {block}, which its list does not hold; {where}",
                request=request,
                group=group,
                block=block,
                column=column,
            )
        elif self._holders[block] > 1 and len(self._holders_of(block)) > 1:
            yield self._verdict(
                "ownership",
                phase,
                f"{request} writes block {block}, which stands in the lists of "
                f"{' and '.join(self._holders_of(block))}",
                request=request,
                group=group,
                block=block,
                column=column,
            )

    # ------------------------------------------------------------------ metadata

    def _described(self) -> Iterator[Verdict]:
        facts, rows = self.facts, self.now.rows
        if rows is None or facts.mode is None or facts.block_size is None:
            return
        if facts.num_spec is None:
            return
        builder = BuilderFacts(
            facts.mode, facts.block_size, facts.num_spec, facts.chunk_size, facts.ring
        )
        requests = {request.id: request for request in self.now.requests}
        for built in self.now.metadata:
            batch = self._batch(rows.order, requests, built.group)
            if batch is None:
                continue
            fields = built_fields(built)
            inputs = built.inputs or {}
            given = inputs.get("num_accepted_tokens", True) is not None
            problems = batch_problems(
                builder, batch, self.now.index, built.group, fields, counts_given=given
            )
            for problem in problems:
                yield self._verdict(
                    "metadata",
                    "metadata",
                    problem.message,
                    request=problem.request,
                    group=built.group,
                    expected=problem.expected,
                    found=problem.found,
                )

    def _batch(
        self, order: Sequence[str], requests: Mapping[str, Scheduled], group: int
    ) -> list[BatchRow] | None:
        """The batch as the builder must have seen it; None where part of it is unknown."""
        batch = []
        for name in order:
            request, memory = requests.get(name), self.memory.get(name)
            ids = self.now.row(name, group)
            if request is None or memory is None or memory.base is None or ids is None:
                return None
            accepted = memory.accepted
            if accepted is None and self.facts.num_spec:
                return None
            batch.append(
                BatchRow(
                    name,
                    request.computed,
                    request.scheduled,
                    not self.is_decode(request, memory),
                    ids,
                    accepted or 1,
                    memory.base,
                )
            )
        return batch

    def is_decode(self, request: Scheduled, memory: Memory) -> bool:
        """Section 4.2: decodes and the short extends that count as such."""
        if memory.base is None:  # admitted before the recording began
            fits = request.known is None or request.computed == request.known - 1
            return bool(request.drafts) or (fits and request.scheduled == 1)
        if request.computed >= memory.base:
            return True
        return request.computed > 0 and (request.scheduled == 1 or request.padded_tail)

    # ------------------------------------------------------------------ forward

    def _forwarded(self) -> Iterator[Verdict]:
        """What the forward reads and writes (section 5.2), held against what blocks hold."""
        if self.facts.mode is None or self.facts.num_spec is None:
            self.ledger.forget()
            return
        for group in self.facts.mamba:
            view = _MetadataView.of(self.now, group)
            for request in self.now.requests:
                yield from self._forward_row(request, group, view)
        if self.facts.checkpoints:
            self._inner_checkpoints()
        for request in self.now.requests:
            memory = self.memory[request.id]
            full = request.scheduled == 1 + self.facts.num_spec
            last = self.facts.last_column(request.end)
            memory.previous = last if full else None

    def _inner_checkpoints(self) -> None:
        """A prefill may have written any boundary that its chunk passed: nothing is known there."""
        for request in self.now.requests:
            last = self.facts.last_column(request.end)
            for group in self.facts.mamba:
                row = self.now.row(request.id, group) or ()
                for block in row[self.facts.last_column(request.computed) : last]:
                    self.ledger.forget_place((group, block))

    def _forward_row(
        self, request: Scheduled, group: int, view: _MetadataView
    ) -> Iterator[Verdict]:
        memory, facts = self.memory[request.id], self.facts
        ids = self.now.row(request.id, group)
        slots = view.slots(request.id, ids, facts, request.end)
        if slots is None:
            if ids is None:
                self.ledger.forget()
            for block in ids or ():
                self.ledger.forget_place((group, block))
            return
        decode = view.is_decode(request.id)
        if decode is None:
            decode = self.is_decode(request, memory)
        row = _ForwardRow(request, group, slots, view, memory)
        if facts.mode == "all":
            reads, writes = self._all_mode(row, decode)
        else:
            reads, writes = self._one_block(row, decode)
        yield from self._reads(row, reads)
        yield from self._writes(row, writes)

    def _one_block(self, row: _ForwardRow, decode: bool) -> tuple[_Reads, list[_Write]]:
        """None and align mode: everything lies in the running block and its scratch."""
        request, facts = row.request, self.facts
        assert facts.num_spec is not None
        end = request.end
        if not decode:
            reads = _Reads(0, 0, 0)
            return reads, [_Write(0, Held(request.id, end), Held(request.id, end))]
        if not facts.num_spec:
            return _Reads(0, 0, 0), [_Write(0, Held(request.id, end), Held(request.id, end))]
        count = row.accepted
        reads = _Reads(0, count - 1 if count else None, count - 1 if count else None)
        return reads, self._draft_writes(request, 0)

    def _draft_writes(self, request: Scheduled, first: int) -> list[_Write]:
        start = request.computed + 1
        window = Held(request.id, start, request.scheduled)
        writes = [_Write(first, window, Held(request.id, start))]
        for token in range(1, request.scheduled):
            writes.append(_Write(first + token, None, Held(request.id, start + token)))
        return writes

    def _all_mode(self, row: _ForwardRow, decode: bool) -> tuple[_Reads, list[_Write]]:
        """All mode: a column for every block boundary (section 4.6)."""
        request, facts, view = row.request, self.facts, row.view
        assert facts.block_size is not None
        size, name = facts.block_size, request.id
        computed = view.number(
            "block_idx_last_computed_token", name, facts.last_column(request.computed)
        )
        last = view.number("block_idx_last_scheduled_token", name, facts.last_column(request.end))
        end = Held(name, request.end)
        if decode and facts.num_spec:
            previous = view.number(
                "block_idx_last_scheduled_token_prev_step", name, row.memory.previous
            )
            if previous is None:
                previous = max(0, (request.computed - 1) // size)
            count = row.accepted
            reads = _Reads(
                previous,
                count - 1 if count else None,
                previous + count - 1 if count else None,
            )
            return reads, self._draft_writes(request, last)
        writes = []
        if not decode:
            first = (request.computed + size) // size - 1
            for column in range(first, last):
                held = Held(name, (column + 1) * size)
                writes.append(_Write(column, held, held))
        return _Reads(computed, 0, computed), [*writes, _Write(last, end, end)]

    def _reads(self, row: _ForwardRow, reads: _Reads) -> Iterator[Verdict]:
        request, group = row.request, row.group
        if request.computed == 0:
            return
        places: list[tuple[StateKind, int | None]] = []
        if "conv" in self.facts.states:
            places.append(("conv", reads.conv))
        if "temporal" in self.facts.states:
            places.append(("temporal", reads.temporal))
        for state, column in places:
            if column is None:
                continue
            block = _at(row.slots, column)
            self.compared.update(("I2", "I4", "I7"))
            if block is None:
                yield self._verdict(
                    "columns",
                    "forward",
                    f"{request.id} is about to read its {state} state outside its row",
                    request=request.id,
                    group=group,
                    column=column,
                )
                return
            if block == 0:
                yield self._verdict(
                    "null block",
                    "forward",
                    f"{request.id} is about to read its {state} state from the null block",
                    request=request.id,
                    group=group,
                    block=0,
                )
                return
            if state == "temporal" and self.facts.ring:
                continue  # the ring holds what the state has not absorbed yet
            if state == "conv" and reads.row is None:
                continue
            offset = reads.row or 0
            found = self.ledger.disagrees(
                state, (group, block), request.id, request.computed, offset
            )
            if found is not None:
                yield self._verdict(
                    "running state",
                    "forward",
                    f"{request.id} is about to read block {block} as its {state} state after "
                    f"{request.computed} tokens; it holds {found.words}",
                    request=request.id,
                    group=group,
                    block=block,
                    expected=f"the state of {request.id} after {request.computed} tokens",
                    found=found.words,
                )
                return

    def _writes(self, row: _ForwardRow, writes: Sequence[_Write]) -> Iterator[Verdict]:
        request, group = row.request, row.group
        for number, write in enumerate(writes):
            block = _at(row.slots, write.column)
            if block is None or block == 0:
                if number == 0 and block == 0 and self.facts.mode != "all":
                    yield self._verdict(
                        "null block",
                        "forward",
                        f"{request.id} writes its state to the null block",
                        request=request.id,
                        group=group,
                        block=0,
                    )
                continue
            place = (group, block)
            if write.conv is not None:
                self.ledger.put("conv", place, write.conv)
            if self.facts.ring:
                self.ledger.temporal.pop(place, None)
                self.ledger.written.add(place)
            elif write.temporal is not None:
                self.ledger.put("temporal", place, write.temporal)
            yield from self._owned(request.id, group, block, None, "forward")

    # ------------------------------------------------------------------ accept, post-copy

    def _accepted(self) -> Iterator[Verdict]:
        line = self.now.accept
        for request in self.now.requests:
            memory = self.memory[request.id]
            count = line.counts.get(request.id) if line and line.counts else None
            sampled = line.sampled.get(request.id) if line and line.sampled else None
            if count is not None and not 1 <= count <= 1 + request.drafts:
                yield self._verdict(
                    "accepted range",
                    "accept",
                    f"{request.id}: accepted count {count} with {request.drafts} drafts, where 1 "
                    f"to {1 + request.drafts} can be",
                    request=request.id,
                    expected=f"1 to {1 + request.drafts}",
                    found=str(count),
                )
            elif count is not None and sampled and count != sampled and not request.padded_tail:
                yield self._verdict(
                    "accepted count",
                    "accept",
                    f"{request.id}: accepted count {count}, but {sampled} tokens came out",
                    request=request.id,
                    expected=str(sampled),
                    found=str(count),
                )
            if count is None:
                count = 1 if not request.drafts else sampled or None
            memory.accepted = count
            if count is None:
                memory.computed = None
                self._unknown_after(request)
            else:
                memory.computed = request.end - request.drafts + count - 1
                if request.drafts:
                    self.ledger.reject(request.id, memory.computed)

    def _unknown_after(self, request: Scheduled) -> None:
        for group in self.facts.mamba:
            for block in self.now.row(request.id, group) or ():
                self.ledger.forget_place((group, block))

    def _post_copied(self) -> Iterator[Verdict]:
        facts, line = self.facts, self.now.post_copy
        if facts.mode != "align" or not facts.num_spec or facts.block_size is None:
            return
        rows = {row.id: row for row in line.rows} if line is not None else {}
        copies: list[Copy] = []
        for request in self.now.requests:
            memory = self.memory[request.id]
            row = rows.get(request.id)
            if row is None and line is not None:
                continue
            row = row or CopyRow(id=request.id)
            yield from self._staged(request, row, memory)
            accepted = row.accepted if row.accepted is not None else memory.accepted
            column = row.column if row.column is not None else memory.column
            if accepted is None or column is None:
                self._unknown_after(request)
                memory.accepted = row.accepted_out
                continue
            running = request.end - request.drafts
            new = running + accepted - 1
            aligned = new // facts.block_size * facts.block_size
            reached = aligned >= running
            target = aligned // facts.block_size - 1
            bias = aligned - running
            copied = reached and not (column == target and bias == 0)
            after = 1 if reached and column == target else accepted
            yield from self._checkpoint(request, row, (copied, column, target, bias, after))
            ruled = (column, target, bias) if copied else (None, None, None)
            if copied or row.copies:
                copies += self._copies(request, row, "checkpoint", ruled)
            yield from self._copy_targets(request, row, "post-copy")
            memory.accepted = row.accepted_out if row.accepted_out is not None else after
        self.ledger.copy(copies)

    def _staged(self, request: Scheduled, row: CopyRow, memory: Memory) -> Iterator[Verdict]:
        advanced = memory.computed if row.new_computed is not None else None
        checks = (
            ("computed", row.computed, request.computed),
            ("scheduled", row.scheduled, request.scheduled),
            ("drafts", row.drafts, request.drafts),
            ("new computed", row.new_computed, advanced),
            ("accepted count", row.accepted, memory.accepted),
            ("running column", row.column, memory.column),
        )
        for what, found, expected in checks:
            if found is not None and expected is not None and found != expected:
                yield self._verdict(
                    "staged values",
                    "post-copy",
                    f"{request.id}: the postprocess is given {what} {found}, the step had "
                    f"{expected}",
                    request=request.id,
                    expected=str(expected),
                    found=str(found),
                )

    def _checkpoint(
        self, request: Scheduled, row: CopyRow, ruled: tuple[bool, int, int, int, int]
    ) -> Iterator[Verdict]:
        copied, column, target, bias, after = ruled
        name = request.id
        if row.copies is not None and row.copies != copied:
            what = "a checkpoint was made" if row.copies else "no checkpoint was made"
            why = (
                f"a boundary was reached at column {target}"
                if copied
                else "there is nothing to copy by the rule"
            )
            yield self._verdict("copy", "post-copy", f"{name}: {what}, but {why}", request=name)
        if row.copies and copied:
            checks: tuple[tuple[RuleName, int | None, int | None, str], ...] = (
                ("source", column, row.src_col, "checkpoints from column"),
                ("destination", target, row.dst_col, "checkpoints to column"),
                ("bias", bias, row.bias, "checkpoints with bias"),
            )
            yield from self._compared(name, "post-copy", checks)
        if row.accepted_out is not None and row.accepted_out != after:
            yield self._verdict(
                "count reset",
                "post-copy",
                f"{name} leaves the postprocess with accepted count {row.accepted_out}, by the "
                f"rule it is {after}",
                request=name,
                expected=str(after),
                found=str(row.accepted_out),
            )

    # ------------------------------------------------------------------ commit

    def _committed(self) -> Iterator[Verdict]:
        line = self.now.commit
        for request in self.now.requests:
            memory = self.memory[request.id]
            found = line.computed.get(request.id) if line and line.computed else None
            if found is None:
                continue
            expected, memory.computed = memory.computed, found
            if expected is not None and expected != found and not self.facts.asynchronous:
                yield self._verdict(
                    "computed tokens",
                    "commit",
                    f"{request.id} has {found} tokens computed after the step; {request.computed} "
                    f"before it, {request.scheduled} scheduled and what was accepted make "
                    f"{expected}",
                    request=request.id,
                    expected=str(expected),
                    found=str(found),
                )

    # ------------------------------------------------------------------ registered blocks

    def _registered(self) -> Iterator[Verdict]:
        blocks = self.now.blocks
        if blocks is None or blocks.registered is None:
            return
        written = {block for _, block in self.ledger.written}
        candidates = blocks.fresh | (written & blocks.registered.keys())
        if not candidates:
            return
        requests = {request.id: request for request in self.now.requests}
        for block in sorted(candidates):
            owner, _, length = blocks.registered[block].rpartition("@")
            group = self._group.get(block)
            if not length.isdigit() or group is None or group not in self.facts.mamba:
                continue
            yield from self._registered_block(block, group, owner, int(length), requests)

    def _registered_block(
        self,
        block: int,
        group: int,
        owner: str,
        tokens: int,
        requests: Mapping[str, Scheduled],
    ) -> Iterator[Verdict]:
        assert self.now.blocks is not None
        size = self.facts.block_size
        column = tokens // size - 1 if size else None
        holder = next(
            (
                requests[name]
                for name in self._holders_of(block)
                if name in requests and block in (self.now.block_list(name, group) or ())
            ),
            None,
        )
        if block in self.now.blocks.fresh and holder is not None and holder.known is not None:
            most = max(min(holder.end, holder.known), holder.computed)
            if tokens > most:
                yield self._verdict(
                    "registered prefix",
                    "allocate",
                    f"block {block} is registered for {tokens} tokens of {holder.id}, but only "
                    f"{most} are known and computed or scheduled",
                    request=holder.id,
                    group=group,
                    block=block,
                    column=column,
                    expected=f"at most {most}",
                    found=str(tokens),
                )
        for state in ("conv", "temporal"):
            kind: StateKind = "conv" if state == "conv" else "temporal"
            held = self.ledger.of(kind).get((group, block))
            if held is None or (kind == "temporal" and self.facts.ring):
                continue
            self.compared["I1"] += 1
            wrong = held.tokens != tokens or self.ledger.differ(held.request, owner, tokens)
            if wrong:
                yield self._verdict(
                    "boundary state",
                    "commit",
                    f"block {block} is registered for {owner or 'a prefix'}@{tokens}, but its "
                    f"{state} state is {held.words}",
                    request=holder.id if holder is not None else owner or None,
                    group=group,
                    block=block,
                    column=column,
                    expected=f"the state after {tokens} tokens",
                    found=held.words,
                )
                return

    # ------------------------------------------------------------------

    def _verdict(
        self,
        rule: RuleName,
        phase: PhaseName,
        message: str,
        *,
        request: str | None = None,
        group: int | None = None,
        block: int | None = None,
        column: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> Verdict:
        return Verdict(
            rule,
            self.now.index,
            phase,
            message,
            request,
            group,
            block,
            column,
            expected,
            found,
        )


@dataclass(frozen=True)
class _Reads:
    """Columns that a forward reads, and the row its window begins at; None: unknown."""

    conv: int | None
    row: int | None
    temporal: int | None


@dataclass(frozen=True)
class _Write:
    column: int
    conv: Held | None
    temporal: Held | None


@dataclass(frozen=True)
class _MetadataView:
    """One group's metadata, row by row; without it everything is as the rules have it."""

    order: tuple[str, ...]
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, step: RecordedStep, group: int) -> _MetadataView:
        order = step.rows.order if step.rows is not None else ()
        built = next((built for built in step.metadata if built.group == group), None)
        return cls(order, _plain(built_fields(built)) if built is not None else {})

    def is_decode(self, request: str) -> bool | None:
        decodes = self.fields.get("num_decodes")
        if not isinstance(decodes, int) or request not in self.order:
            return None
        return self.order.index(request) < decodes

    def accepted(self, request: str) -> int | None:
        return self.number("num_accepted_tokens", request, None)

    def number(self, name: str, request: str, otherwise: int | None) -> Any:
        """A field's entry for a request's row."""
        values = self.fields.get(name)
        if not isinstance(values, list) or request not in self.order:
            return otherwise
        row = self.order.index(request)
        found = values[row] if row < len(values) else None
        return found if isinstance(found, int) else otherwise

    def slots(self, request: str, ids: Row | None, facts: Facts, end: int) -> list[int] | None:
        """Blocks that the kernels find for a row; None where that is not known."""
        decode = self.is_decode(request)
        if decode is not None:
            name = f"state_indices_tensor_{'d' if decode else 'p'}"
            values = self.fields.get(name)
            row = self.order.index(request) - (0 if decode else self.fields["num_decodes"])
            if isinstance(values, list):
                if row >= len(values):
                    return None
                return values[row] if isinstance(values[row], list) else [values[row]]
            if name in self.fields:
                return None  # held in part only
        if ids is None:
            return None
        start = facts.last_column(end) if facts.mode == "align" else 0
        return list(ids[start:])


@dataclass(frozen=True)
class _ForwardRow:
    request: Scheduled
    group: int
    slots: list[int]
    view: _MetadataView
    memory: Memory

    @property
    def accepted(self) -> int | None:
        """The count that the forward reads at."""
        found = self.view.accepted(self.request.id)
        return self.memory.accepted if found is None else found


def _plain(fields: Sequence[MetadataField]) -> dict[str, Any]:
    """Fields whose values are there in full; a tensor held in part is None."""
    found: dict[str, Any] = {}
    for one in fields:
        value = one.value
        if isinstance(value, TensorRecord):
            values = value.values
            lengths = [len(values)] if isinstance(values, list) else []
            while isinstance(values, list) and values and isinstance(values[0], list):
                values = values[0]
                lengths.append(len(values))
            whole = lengths == value.shape[: len(lengths)]
            found[one.name] = value.values if whole else None
        else:
            found[one.name] = value
    return found


def _ids(rows: Iterable[Row | None]) -> list[int]:
    return [block for row in rows for block in row or () if block]


def _at(ids: Sequence[int], column: int) -> int | None:
    """The id at a column; None outside the row."""
    return ids[column] if 0 <= column < len(ids) else None


def _moves(source: int | None, target: int | None) -> bool:
    return source is not None and source != NO_COLUMN and source != target
