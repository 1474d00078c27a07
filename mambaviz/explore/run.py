"""One run over symbols: the real scheduler and cache manager, the remembered worker, the checks.

    run = SymbolicRun.start(shape)
    while not run.is_over:
        output = run.schedule()
        step = run.finish(output, {"A": 1})      # drafts kept, for each request that verifies

Between `schedule` and `finish` a run can be frozen and thawed, once for each way the verification
can go: everything up to there is shared.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from mambaviz.acceptance import WRONG_TOKEN_OFFSET, planned_acceptance, true_token, verify
from mambaviz.cache.prefix import BlockHash
from mambaviz.explore.dataflow import Breach, Read, WorkerStep
from mambaviz.explore.symbols import Contents, Forward, Histories, Truth, Window, move, row_symbol
from mambaviz.explore.worker import NamedStep, Worker
from mambaviz.invariants import ownership_problems
from mambaviz.mistakes import scheduler_class
from mambaviz.request import Request
from mambaviz.runner.base import WorkerBooks
from mambaviz.scenario import EngineSettings, Event, RequestPlan, Scenario
from mambaviz.scheduler import Scheduler, SchedulerOutput
from mambaviz.trace import Invariant, PhaseName


@dataclass(frozen=True)
class SymbolicStep:
    """What a step did, as a query looks at it."""

    output: SchedulerOutput
    accepted: Mapping[str, int]  # counts, bonus token included
    worker: WorkerStep
    breaches: tuple[Breach, ...]
    block_size: int


class Stage:
    """What all runs of one scenario's requests share: the worker, and the truth about tokens.

    ``accepts[id]`` is the request's accept plan, a list that is filled in as a run goes on.
    """

    def __init__(self, scenario: Scenario, worker: Worker) -> None:
        self.accepts: dict[str, list[int]] = {}
        plans = []
        for index, plan in enumerate(scenario.requests):
            # One entry for each verification there can be: it never repeats itself.
            accept = [0] * max(1, plan.max_tokens)
            self.accepts[plan.id] = accept
            # A copy that is not validated keeps this very list.
            prompt = scenario.prompt_of(index)
            plans.append(plan.model_copy(update={"accept": accept, "prompt": prompt}))
        self._plans = {plan.id: plan for plan in scenario.requests}
        self.scenario = scenario.model_copy(update={"requests": plans})
        self.worker = worker
        self.histories = Histories()
        self.window_rows = scenario.layer.conv_kernel - 1
        self.truths: dict[str, Truth] = {}
        self.tokens: dict[str, list[int]] = {}
        for plan in plans:
            request = Request(plan, tuple(plan.prompt or ()))
            length = request.num_prompt_tokens + plan.max_tokens + scenario.engine.num_spec
            outputs = range(request.num_prompt_tokens, length)
            tokens = [*request.prompt, *(true_token(request, position) for position in outputs)]
            self.tokens[plan.id] = tokens
            self.truths[plan.id] = Truth.of(tokens, self.window_rows, self.histories)
        self.shared: list[object] = [self.scenario.engine, *plans, *scenario.events]
        self._prefixes: dict[BlockHash, tuple[Window, int]] = {}

    def planned(self, request: Request, drafts: int) -> int:
        """Drafts that the scenario's own plan keeps in the request's next verification."""
        asked = Request(self._plans[request.id], request.prompt, num_verified=request.num_verified)
        return planned_acceptance(asked, drafts)

    def prefix(self, link: BlockHash, run: SymbolicRun) -> tuple[Window, int]:
        """Window and state that a block registered for this prefix must hold."""
        if link not in self._prefixes:
            manager = run.scheduler.manager
            for name, request in run.scheduler.requests.items():
                for column, found in enumerate(manager.links_of(request)):
                    tokens = (column + 1) * manager.block_size
                    truth = self.truths[name]
                    self._prefixes[found] = truth.windows[tokens], truth.states[tokens]
        return self._prefixes[link]


@dataclass
class SymbolicRun:
    """A run on its way; block contents are symbols."""

    stage: Stage
    scheduler: Scheduler
    books: WorkerBooks
    contents: list[Contents]
    checked: dict[int, str]  # block -> the prefix it was last judged by
    step: int = 0
    structure: list[Breach] = field(default_factory=list)  # broken before the verification
    watch: Callable[[PhaseName, SymbolicRun], None] | None = None  # sees contents after a phase

    @classmethod
    def start(cls, stage: Stage) -> SymbolicRun:
        engine, layer = stage.scenario.engine, stage.scenario.layer
        rows = layer.conv_kernel - 1 + engine.num_spec
        return cls(
            stage,
            scheduler_class(stage.scenario)(stage.scenario),
            stage.worker.start,
            [Contents.zeros(engine.num_blocks, rows) for _ in range(engine.num_mamba_groups)],
            {},
        )

    @property
    def is_over(self) -> bool:
        return self.scheduler.is_done()

    def schedule(self) -> SchedulerOutput:
        """Open the next step, up to where its drafts are verified."""
        scheduler = self.scheduler
        scheduler.begin_step(self.step)
        output = scheduler.schedule(self.step)
        self.structure = self._conservation("allocate")
        return output

    def verifications(self, output: SchedulerOutput) -> dict[str, int]:
        """Drafts that each verifying request has in this step."""
        return {
            name: one.drafts
            for name, one in output.requests.items()
            if one.samples and one.drafts and not one.padded_tail
        }

    def finish(self, output: SchedulerOutput, kept: Mapping[str, int]) -> SymbolicStep:
        """The rest of the step: move, compute, accept, move, commit, check."""
        scheduler, stage = self.scheduler, self.stage
        for name, count in kept.items():
            stage.accepts[name][scheduler.requests[name].num_verified] = count
        verdict = verify(output, scheduler.requests)
        accepted = {name: verdict.accepted_drafts.get(name, 0) + 1 for name in output.order}
        found = stage.worker.step(self.books, output, accepted)
        self.books = found.books
        breaches = [*self.structure, *self._static(found)]
        before = [one.copy() for one in self.contents]

        move(self.contents, found.step.pre_copy, found.blocks, stage.histories)
        self._show("pre-copy")
        breaches += self._read(found)
        query = self._query(output, accepted)
        forward = Forward(self.contents, found.blocks, query, stage.window_rows, stage.histories)
        states = forward.run(found.step.forward)
        self._show("forward")
        move(self.contents, found.step.post_copy, found.blocks, stage.histories)
        self._show("post-copy")
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
        breaches += self._conservation("commit")
        breaches += self._outputs(output, accepted, states)
        breaches += self._caches(before)
        self.step += 1
        return SymbolicStep(
            output,
            accepted,
            found.step,
            tuple(dict.fromkeys(breaches)),
            scheduler.engine.block_size,
        )

    def _show(self, phase: PhaseName) -> None:
        if self.watch is not None:
            self.watch(phase, self)

    def planned(self, output: SchedulerOutput) -> dict[str, int]:
        """What `finish` wants to be told, by the accept plans of the scenario itself."""
        return {
            name: self.stage.planned(self.scheduler.requests[name], drafts)
            for name, drafts in self.verifications(output).items()
        }

    def _query(self, output: SchedulerOutput, accepted: Mapping[str, int]) -> list[int]:
        """The batch's query tokens. Drafts that are kept are true, the others wrong."""
        symbols = []
        for name in output.batch_order:
            one, tokens = output.requests[name], self.stage.tokens[name]
            first_draft = one.num_computed + one.num_scheduled - one.drafts
            for position in range(one.num_computed, one.num_computed + one.num_scheduled):
                if position < first_draft:
                    token = tokens[position]
                elif one.padded_tail:
                    token = one.token_ids[position - one.num_computed]
                else:
                    kept = position - first_draft < accepted[name] - 1
                    token = tokens[position] + (0 if kept else WRONG_TOKEN_OFFSET)
                symbols.append(row_symbol(position, token))
        return symbols

    # The invariants of section 1, on symbols.

    def _breach(
        self,
        invariant: Invariant,
        phase: PhaseName,
        request: str | None = None,
        group: int | None = None,
        state: str | None = None,
        block: int | None = None,
    ) -> Breach:
        return Breach(invariant, self.step, phase, request, group, state, block)

    def _conservation(self, phase: PhaseName) -> list[Breach]:
        problems = self.scheduler.manager.check_conservation()
        return [self._breach("I6", phase)] if problems else []

    def _static(self, found: NamedStep) -> Iterator[Breach]:
        for breach in found.step.breaches:
            block = breach.block
            real = found.blocks[block] if block is not None and block < len(found.blocks) else block
            yield replace(breach, step=self.step, block=real)

    def _read(self, found: NamedStep) -> Iterator[Breach]:
        """I2: the forward is about to read the state after the computed tokens."""
        for read in found.step.reads:
            contents, truth = self.contents[read.group], self.stage.truths[read.request]
            conv, temporal = found.blocks[read.conv_block], found.blocks[read.temporal_block]
            window = contents.window(conv, read.conv_row, self.stage.window_rows)
            if window != truth.windows[read.computed]:
                yield self._wrong(read, "conv", conv)
            if contents.temporal[temporal] != truth.states[read.state_tokens]:
                yield self._wrong(read, "temporal", temporal)

    def _wrong(self, read: Read, state: str, block: int) -> Breach:
        return self._breach("I2", "forward", read.request, read.group, state, block)

    def _outputs(
        self,
        output: SchedulerOutput,
        accepted: Mapping[str, int],
        states: list[list[int | None]],
    ) -> Iterator[Breach]:
        """I3: outputs of kept positions were made from true states."""
        first = 0
        for name in output.batch_order:
            one, truth = output.requests[name], self.stage.truths[name]
            kept = one.num_scheduled - one.drafts + accepted[name] - 1
            kept = min(kept, self.scheduler.requests[name].num_tokens - one.num_computed)
            true = truth.states[one.num_computed + 1 : one.num_computed + 1 + kept]
            for group, found in enumerate(states):
                if found[first : first + kept] != true:
                    yield self._breach("I3", "forward", name, group)
            first += one.num_scheduled

    def _caches(self, before: list[Contents]) -> Iterator[Breach]:
        """I1 for boundary blocks that are new or were written, I4 and I5 for what was written."""
        manager, stage = self.scheduler.manager, self.stage
        written = set()
        for group, contents in enumerate(self.contents):
            written |= contents.written_since(before[group])
        if 0 in written:
            yield self._breach("I4", "forward", block=0)
        keys, registered = manager.pool.index.keys(), self.scheduler.registered_prefixes()
        for block, name in registered.items():
            if block not in written and self.checked.get(block) == name:
                continue
            key = keys[block]
            if key.group >= len(self.contents):
                continue  # an attention block holds no Mamba state
            contents = self.contents[key.group]
            window, state = stage.prefix(key.block_hash, self)
            owner = name.rpartition("@")[0]
            if contents.window(block, 0, stage.window_rows) != window:
                yield self._breach("I1", "commit", owner, key.group, "conv", block)
            if contents.temporal[block] != state:
                yield self._breach("I1", "commit", owner, key.group, "temporal", block)
        self.checked = registered
        if len(self.scheduler.running) > 1:
            places = manager.places()
            for block, _ in ownership_problems(manager, places, written):
                first = min(place.request for place in places[block])
                yield self._breach("I5", "commit", first, places[block][0].group, block=block)

    # Several futures of one step.

    def freeze(self) -> bytes:
        """The run as bytes; what never changes is left out."""
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=5)
        pickler.dispatch_table = _table_for(self.stage)
        pickler.dump((self.scheduler, self.checked))
        return buffer.getvalue()

    def thaw(self, frozen: bytes) -> SymbolicRun:
        """Another run from the same point; its scheduler is its own."""
        _Shared.stage = self.stage
        scheduler, checked = pickle.loads(frozen)
        run = SymbolicRun(
            self.stage,
            scheduler,
            self.books,
            [one.copy() for one in self.contents],
            checked,
            self.step,
        )
        run.structure = self.structure
        return run


class _Shared:
    """Where unpickling finds the objects that all runs of a stage have in common."""

    stage: Stage


def _shared(index: int) -> object:
    return _Shared.stage.shared[index]


def _table_for(stage: Stage) -> dict[type, Any]:
    numbers = {id(one): number for number, one in enumerate(stage.shared)}

    def by_number(one: object) -> tuple[Any, tuple[int]]:
        return _shared, (numbers[id(one)],)

    table = dict(copyreg.dispatch_table)
    table.update({EngineSettings: by_number, RequestPlan: by_number, Event: by_number})
    return table


def ways(verifications: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Every way the verifications of a step can go: drafts kept, by request."""
    for counts in product(*(range(drafts + 1) for drafts in verifications.values())):
        yield dict(zip(verifications, counts, strict=True))
