"""Which requests run in a step, with how many tokens, on which blocks (section 2, "Scheduler")."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mambaviz.acceptance import propose
from mambaviz.cache.groups import Chunk
from mambaviz.cache.manager import BlockIds, CacheManager, PrefixHit
from mambaviz.chunks import split_at_boundaries
from mambaviz.request import Request, RequestStatus
from mambaviz.scenario import Event, Scenario

PLACEHOLDER_TOKEN_ID = -1  # the drafts of a padded prompt tail: no token stands there
STUCK_AFTER = 3  # steps running with nothing scheduled although requests are waiting
RequestEvent = Literal["new", "resumed", "running"]
RowClass = Literal["decode", "short extend", "prefill"]
StepPhase = Literal["begun", "scheduled", "updated"]
BATCH_ORDER: tuple[RowClass, ...] = ("decode", "short extend", "prefill")


@dataclass(frozen=True)
class ScheduledRequest:
    """What one request does in a step, as it stood when it was scheduled.

    ``token_ids`` are the query: ``num_scheduled`` ids from position ``num_computed`` on,
    drafts last. ``drafts`` counts those (placeholders of a padded tail included);
    ``prefill_end`` is the number of tokens known at the last admission or resumption, which
    is also the ReplaySSM base of section 4.8. ``last_state_block_idx`` is the manager's
    remembered running column after allocation (align; else None).
    """

    event: RequestEvent
    num_computed: int
    num_scheduled: int
    num_tokens: int
    num_prompt_tokens: int
    prefill_end: int
    token_ids: tuple[int, ...]
    drafts: int
    padded_tail: bool
    row_class: RowClass
    class_rule: str  # why the row has that class, in words
    samples: bool  # the step ends with a sampled token for this request
    last_state_block_idx: int | None

    @property
    def is_prefilling(self) -> bool:
        return self.num_computed < self.prefill_end


@dataclass(frozen=True)
class NewRequestData:
    """A request that the worker meets for the first time: a fresh row.

    ``block_ids[group]`` is the whole row.
    """

    req_id: str
    token_ids: tuple[int, ...]  # known tokens
    num_computed_tokens: int
    block_ids: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class CachedRequestsData:
    """Requests that the worker has met before, in scheduler order.

    ``new_block_ids[req_id][group]`` is what the worker appends to its row; for an id in
    ``resumed_req_ids`` it is the whole row and replaces the old one. ``token_ids`` are given
    for resumed requests only: all known tokens.
    """

    req_ids: tuple[str, ...] = ()
    resumed_req_ids: frozenset[str] = frozenset()
    new_block_ids: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    num_computed_tokens: Mapping[str, int] = field(default_factory=dict)
    token_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulerOutput:
    """One step as the scheduler announces it; the worker functions of section 3.7 read it.

    ``finished_req_ids`` and ``preempted`` are what the worker has to forget before this
    step: requests that ended since the last announcement, and requests preempted since then
    (planned, forced, or for want of blocks; one of them may be resumed in this very step).
    """

    step: int
    arrivals: tuple[str, ...]
    actions: tuple[str, ...]  # planned events that happened, in words
    order: tuple[str, ...]  # as scheduled: running ones first, then admissions
    batch_order: tuple[str, ...]  # decodes, short extends, prefills
    requests: Mapping[str, ScheduledRequest]
    scheduled_new_reqs: tuple[NewRequestData, ...]
    scheduled_cached_reqs: CachedRequestsData
    num_scheduled_tokens: Mapping[str, int]
    scheduled_spec_decode_tokens: Mapping[str, Sequence[int]]
    padded_tail_req_ids: frozenset[str]
    finished_req_ids: frozenset[str]
    preempted: tuple[str, ...]  # in the order of preemption
    waiting: tuple[str, ...]  # ids, front of the queue first
    stuck: bool
    free_queue_after_alloc: tuple[int, ...]

    @property
    def preempted_req_ids(self) -> frozenset[str]:
        return frozenset(self.preempted)

    @property
    def free_count(self) -> int:
        """Free blocks once everything was allocated."""
        return len(self.free_queue_after_alloc)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


@dataclass
class _Batch:
    """A step's batch while it is put together."""

    budget: int
    requests: dict[str, ScheduledRequest] = field(default_factory=dict)
    new_blocks: dict[str, BlockIds] = field(default_factory=dict)
    drafts: dict[str, list[int]] = field(default_factory=dict)

    def add(
        self, name: str, scheduled: ScheduledRequest, drafts: list[int], blocks: BlockIds
    ) -> None:
        self.requests[name] = scheduled
        self.new_blocks[name] = blocks
        self.budget -= scheduled.num_scheduled
        if drafts:
            self.drafts[name] = drafts


class Scheduler:
    """First come, first served, under a token budget, over one cache manager (section 2).

    A step is ``begin_step`` (arrivals, planned events; called by ``schedule`` if the caller
    did not), ``schedule`` (who runs, and on which blocks), and ``update`` once the worker has
    verified the drafts. The scheduler's lists can be read at any point through ``manager``.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.engine = scenario.engine
        self.manager = self._make_manager()
        self.requests: dict[str, Request] = {}  # all that arrived, in that order, ended or not
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.stuck = False
        self._events = scenario.events
        self._arrivals = deque(
            sorted(
                (
                    Request(plan, tuple(scenario.prompt_of(index)))
                    for index, plan in enumerate(scenario.requests)
                ),
                key=lambda request: request.plan.arrive,
            )
        )
        self._step = -1
        self._phase: StepPhase = "updated"
        self._idle_steps = 0
        self._situations: set[object] = set()  # since the last new token
        self._arrived: list[str] = []
        self._actions: list[str] = []
        # What the worker has not been told yet.
        self._finished: set[str] = set()
        self._preempted: list[str] = []

    def _make_manager(self) -> CacheManager:
        return CacheManager(self.engine)

    # -- arrivals and planned events -----------------------------------------------------

    def begin_step(self, step: int) -> None:
        """Arrivals and planned events of ``step``. Steps come in order, from 0."""
        if step != self._step + 1 or self._phase != "updated":
            raise ValueError(
                f"step {step} cannot begin: the last step is {self._step}, and it is {self._phase}"
            )
        self._step, self._phase = step, "begun"
        self._arrived, self._actions = [], []
        while self._arrivals and self._arrivals[0].plan.arrive <= step:
            request = self._arrivals.popleft()
            self.requests[request.id] = request
            self.waiting.append(request)
            self._arrived.append(request.id)
        for event in self._events:
            if event.step == step:
                self._actions.append(self._apply(event))

    def _apply(self, event: Event) -> str:
        """Do what a scenario planned; returns what came of it, in words."""
        if event.kind == "reset":
            return self._reset()
        if event.kind == "reset_running":
            return self._reset_running()
        assert event.request is not None  # the scenario's validation saw to it
        request = self.requests.get(event.request)
        if request is None:
            return f"{event.kind} {event.request}: refused, it has not arrived"
        if request.status is RequestStatus.FINISHED:
            return f"{event.kind} {request.id}: refused, it has ended"
        if event.kind == "abort":
            self._leave(request)
            return f"abort {request.id}"
        if request.status is not RequestStatus.RUNNING:
            return f"preempt {request.id}: refused, it is not running"
        self.running.remove(request)
        self._preempt(request)
        return f"preempt {request.id}"

    def _reset(self) -> str:
        if self.running:
            return "reset of the prefix cache: refused, requests are running"
        self.manager.drop_prefixes()
        return "reset of the prefix cache"

    def _reset_running(self) -> str:
        names = [request.id for request in self.running]
        while self.running:
            self._preempt(self.running.pop())
        self.manager.drop_prefixes()
        who = f" ({', '.join(names)})" if names else ""
        return f"everything running preempted{who}, prefix cache reset"

    def _preempt(self, request: Request) -> None:
        """Take the blocks of a request that has left ``running``; it is next in line."""
        self.manager.free(request)
        request.lose_blocks()
        self.waiting.appendleft(request)
        self._preempted.append(request.id)

    def _leave(self, request: Request) -> None:
        """The request ends: finished or aborted."""
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        self.manager.free(request)
        request.status = RequestStatus.FINISHED
        request.draft_token_ids = []
        self._finished.add(request.id)

    # -- schedule ------------------------------------------------------------------------

    def schedule(self, step: int) -> SchedulerOutput:
        """Choose and allocate. Raises ValueError if steps are left out or not updated."""
        if self._phase != "begun" or step != self._step:
            self.begin_step(step)
        self._phase = "scheduled"
        repeats = self._repeats_itself()
        self.manager.start_step()
        batch = _Batch(self.engine.max_num_batched_tokens)
        rows_prefill = any(request.is_prefilling for request in self.running)
        if self._schedule_running(batch):
            self._admit(batch, rows_prefill)
        self.stuck = repeats or self._idles(batch)
        return self._announce(batch)

    def _schedule_running(self, batch: _Batch) -> bool:
        """Give the running requests their next chunk. False once one had to be preempted."""
        preempted_before, index = len(self._preempted), 0
        while index < len(self.running) and batch.budget > 0:
            request = self.running[index]
            index += 1
            num_tokens, drafts = self._next_chunk(request, batch.budget)
            if num_tokens == 0:
                continue
            blocks = self._allocate_or_preempt(
                request, self._chunk(request, num_tokens, bool(drafts))
            )
            if blocks is not None:
                self._add(batch, request, "running", num_tokens, drafts, blocks)
        return len(self._preempted) == preempted_before

    def _allocate_or_preempt(self, request: Request, chunk: Chunk) -> BlockIds | None:
        """Blocks for a running request, at the cost of the last running ones if need be.

        None: it was the last one itself.
        """
        while (blocks := self.manager.allocate(request, chunk)) is None:
            victim = self.running.pop()
            self._preempt(victim)
            if victim is request:
                return None
        return blocks

    def _next_chunk(self, request: Request, budget: int) -> tuple[int, list[int]]:
        """Query tokens of a running request (0 = none this step) and the drafts among them."""
        start = request.num_computed_tokens
        known = request.num_tokens - start
        room = min(budget, self.engine.max_model_len - start - 1)
        if request.is_prefilling:
            return self._prefill_chunk(request, start, min(known, room)), []
        drafts = request.draft_token_ids[: max(0, room - known)]
        if self.engine.mode == "all" and len(drafts) < self.engine.num_spec:
            drafts = []  # all or none (section 5.2)
        return min(known, room) + len(drafts), drafts

    def _prefill_chunk(self, request: Request, start: int, num_tokens: int) -> int:
        num_tokens = min(num_tokens, self.engine.largest_chunk)
        if self.engine.mode != "align":
            return num_tokens
        return self._split(request, start, num_tokens)

    def _split(self, request: Request, start: int, num_tokens: int) -> int:
        return split_at_boundaries(self.engine, request, start, num_tokens)

    def _admit(self, batch: _Batch, rows_prefill: bool) -> None:
        """Admit waiting requests from the front, as long as budget, rows and blocks last."""
        passed_over: list[Request] = []
        while self.waiting and batch.budget > 0 and len(self.running) < self.engine.max_num_seqs:
            request = self.waiting[0]
            hit = self.manager.find_hit(request)
            if self.manager.is_produced_this_step(hit):
                passed_over.append(self.waiting.popleft())
                continue
            if not self._try_to_admit(batch, request, hit, rows_prefill):
                break
        self.waiting.extendleft(reversed(passed_over))

    def _try_to_admit(
        self, batch: _Batch, request: Request, hit: PrefixHit, rows_prefill: bool
    ) -> bool:
        start = hit.num_tokens
        drafts: list[int] = []
        if not rows_prefill and self._pads_tail(batch, request, start):
            drafts = [PLACEHOLDER_TOKEN_ID] * self.engine.num_spec
        num_tokens = min(request.num_tokens - start + len(drafts), batch.budget)
        num_tokens = self._prefill_chunk(request, start, num_tokens)
        if num_tokens == 0:
            return False
        drafts = drafts[: num_tokens - 1]
        if self.engine.admission_gate and not self.manager.can_admit(request, hit):
            return False
        chunk = self._chunk(request, num_tokens, bool(drafts), start)
        blocks = self.manager.allocate(request, chunk, hit)
        if blocks is None:
            return False
        self.waiting.popleft()
        self.running.append(request)
        resumed = request.status is RequestStatus.PREEMPTED
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = start
        request.prefill_end = request.num_tokens
        self._add(batch, request, "resumed" if resumed else "new", num_tokens, drafts, blocks)
        return True

    def _pads_tail(self, batch: _Batch, request: Request, start: int) -> bool:
        """One prefill token left: fill its query up to the length of a decode with drafts.

        So the batch can stay uniform. That is pointless for a query that has to be cut, so
        there must be room for all of it.
        """
        length = 1 + self.engine.num_spec
        room = min(batch.budget, self.engine.largest_chunk, self.engine.max_model_len - start - 1)
        return (
            length > 1
            and request.num_tokens - start == 1
            and (bool(batch.requests) or start > 0)
            and length <= room
        )

    def _chunk(
        self, request: Request, num_tokens: int, drafts: bool, start: int | None = None
    ) -> Chunk:
        return Chunk(
            computed=request.num_computed_tokens if start is None else start,
            scheduled=num_tokens,
            known=request.num_tokens,
            num_prompt_tokens=request.num_prompt_tokens,
            several_decoded=drafts,
        )

    def _add(
        self,
        batch: _Batch,
        request: Request,
        event: RequestEvent,
        num_tokens: int,
        drafts: list[int],
        blocks: BlockIds,
    ) -> None:
        start, padded = request.num_computed_tokens, request.is_prefilling and bool(drafts)
        known = request.token_ids[start : start + num_tokens - len(drafts)]
        row_class, rule = _classify(request, num_tokens, padded)
        scheduled = ScheduledRequest(
            event=event,
            num_computed=start,
            num_scheduled=num_tokens,
            num_tokens=request.num_tokens,
            num_prompt_tokens=request.num_prompt_tokens,
            prefill_end=request.prefill_end,
            token_ids=(*known, *drafts),
            drafts=len(drafts),
            padded_tail=padded,
            row_class=row_class,
            class_rule=rule,
            samples=start + num_tokens >= request.num_tokens,
            last_state_block_idx=self.manager.last_state_block_idx(request.id),
        )
        batch.add(request.id, scheduled, drafts, blocks)

    # -- runs that would never end -------------------------------------------------------

    def _idles(self, batch: _Batch) -> bool:
        """Nothing scheduled for several steps running, although somebody waits."""
        idle = not batch.requests and bool(self.running or self.waiting)
        self._idle_steps = self._idle_steps + 1 if idle else 0
        return self._idle_steps >= STUCK_AFTER

    def _repeats_itself(self) -> bool:
        """The very situation of an earlier step, and nothing planned that could change it.

        A request that fits the pool at admission but not while it grows preempts itself, is
        admitted again, and so on for ever.
        """
        planned = bool(self._arrivals) or any(event.step > self._step for event in self._events)
        if planned or self._idle_steps:
            return False
        situation = (
            tuple((request.id, request.num_computed_tokens) for request in self.running),
            tuple(request.id for request in self.waiting),
            self.manager.fingerprint(),
        )
        repeats = situation in self._situations
        self._situations.add(situation)
        return repeats and bool(self.running or self.waiting)

    # -- announce ------------------------------------------------------------------------

    def _announce(self, batch: _Batch) -> SchedulerOutput:
        order = tuple(batch.requests)
        output = SchedulerOutput(
            step=self._step,
            arrivals=tuple(self._arrived),
            actions=tuple(self._actions),
            order=order,
            batch_order=tuple(
                sorted(order, key=lambda name: BATCH_ORDER.index(batch.requests[name].row_class))
            ),
            requests=batch.requests,
            scheduled_new_reqs=self._new_requests(batch),
            scheduled_cached_reqs=self._cached_requests(batch),
            num_scheduled_tokens={
                name: scheduled.num_scheduled for name, scheduled in batch.requests.items()
            },
            scheduled_spec_decode_tokens=batch.drafts,
            padded_tail_req_ids=frozenset(
                name for name, scheduled in batch.requests.items() if scheduled.padded_tail
            ),
            finished_req_ids=frozenset(self._finished),
            preempted=tuple(self._preempted),
            waiting=tuple(request.id for request in self.waiting),
            stuck=self.stuck,
            free_queue_after_alloc=tuple(self.manager.free_queue()),
        )
        self._finished, self._preempted = set(), []
        return output

    def _new_requests(self, batch: _Batch) -> tuple[NewRequestData, ...]:
        return tuple(
            NewRequestData(
                req_id=name,
                token_ids=tuple(self.requests[name].token_ids),
                num_computed_tokens=scheduled.num_computed,
                block_ids=batch.new_blocks[name],
            )
            for name, scheduled in batch.requests.items()
            if scheduled.event == "new"
        )

    def _cached_requests(self, batch: _Batch) -> CachedRequestsData:
        known = {
            name: scheduled
            for name, scheduled in batch.requests.items()
            if scheduled.event != "new"
        }
        resumed = [name for name, scheduled in known.items() if scheduled.event == "resumed"]
        return CachedRequestsData(
            req_ids=tuple(known),
            resumed_req_ids=frozenset(resumed),
            new_block_ids={name: batch.new_blocks[name] for name in known},
            num_computed_tokens={name: row.num_computed for name, row in known.items()},
            token_ids={name: tuple(self.requests[name].token_ids) for name in resumed},
        )

    # -- commit --------------------------------------------------------------------------

    def update(
        self,
        output: SchedulerOutput,
        sampled: Mapping[str, Sequence[int]],
        accepted_drafts: Mapping[str, int],
    ) -> list[str]:
        """Commit the step: computed counts, new tokens, next drafts. Returns who finished.

        ``sampled[id]`` are the accepted drafts and the bonus token; a request whose prefill
        goes on has none. What lies beyond ``max_tokens`` or ``max_model_len`` is dropped.
        Blocks of a finished request are free on return. Raises ValueError for counts that
        cannot be.
        """
        if self._phase != "scheduled" or output.step != self._step:
            raise ValueError(
                f"step {output.step} cannot be updated: the last step is {self._step}, "
                f"and it is {self._phase}"
            )
        finished = []
        for name in output.order:
            tokens = list(sampled.get(name, ()))
            accepted = accepted_drafts.get(name, 0)
            scheduled = output.requests[name]
            _check_counts(name, scheduled, len(tokens), accepted)
            if self._commit(self.requests[name], scheduled, tokens, accepted):
                finished.append(name)
        self._phase = "updated"
        return finished

    def _commit(
        self, request: Request, scheduled: ScheduledRequest, tokens: list[int], accepted: int
    ) -> bool:
        """One request's part of `update`; True if it has finished."""
        rejected = scheduled.drafts - accepted
        request.num_computed_tokens += scheduled.num_scheduled - rejected
        request.draft_token_ids = []
        if scheduled.drafts and not scheduled.padded_tail:
            request.num_verified += 1
        if not scheduled.samples:
            return False
        self._situations.clear()
        if request.keep(tokens, self.engine.max_model_len):
            self._leave(request)
            return True
        request.draft_token_ids = propose(request, self.engine.num_spec)
        request.num_proposed += 1
        return False

    def is_done(self) -> bool:
        """Nothing is left to do, or nothing can be done (``stuck``)."""
        return self.stuck or not (self._arrivals or self.waiting or self.running)

    # -- what a trace reads --------------------------------------------------------------

    def registered_prefixes(self) -> dict[int, str]:
        """Block id -> ``request@tokens`` for every block registered for reuse."""
        return self.manager.registered_prefixes(self.requests.values())

    def check_conservation(self) -> list[str]:
        """What breaks I6, one sentence each; empty when all is well."""
        return self.manager.check_conservation()


def _classify(request: Request, num_tokens: int, padded: bool) -> tuple[RowClass, str]:
    """A row's class in the batch and why, as the metadata builder tells them apart (4.2)."""
    if not request.is_prefilling:
        return "decode", "all tokens known at admission are computed"
    if request.num_computed_tokens == 0:
        return "prefill", "still prefilling, and there is no state to extend yet"
    if num_tokens == 1:
        return "short extend", "still prefilling, but one token onto a state that exists"
    if padded:
        return "short extend", "one prompt token onto a state that exists, padded with placeholders"
    return "prefill", "still prefilling, several tokens at once"


def _check_counts(name: str, scheduled: ScheduledRequest, sampled: int, accepted: int) -> None:
    expected = 1 + accepted if scheduled.samples else 0
    if sampled != expected:
        raise ValueError(
            f"{name}: {sampled} sampled tokens with {accepted} accepted drafts; "
            f"the step needs {expected}"
        )
    if not 0 <= accepted <= scheduled.drafts:
        raise ValueError(f"{name}: {accepted} accepted of {scheduled.drafts} drafts")
