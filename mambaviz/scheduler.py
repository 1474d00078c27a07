"""Which requests run in a step, with how many tokens, on which blocks (section 2, "Scheduler")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mambaviz.request import Request
from mambaviz.scenario import Scenario

PLACEHOLDER_TOKEN_ID = -1  # the drafts of a padded prompt tail: no token stands there
RequestEvent = Literal["new", "resumed", "running"]
RowClass = Literal["decode", "short extend", "prefill"]


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

    ``finished_req_ids`` and ``preempted_req_ids`` are what the worker has to forget before
    this step: requests that ended since the last announcement, requests preempted since
    then (planned, forced, or for want of blocks).
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
    preempted_req_ids: frozenset[str]
    preempted: tuple[str, ...]  # by this schedule alone, in that order: what a trace shows
    waiting: tuple[str, ...]  # ids, front of the queue first
    stuck: bool
    free_queue_after_alloc: tuple[int, ...]

    @property
    def free_count(self) -> int:
        """Free blocks once everything was allocated."""
        return len(self.free_queue_after_alloc)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


class Scheduler:
    """First come, first served, under a token budget, over one cache manager (section 2).

    A step is ``begin_step`` (arrivals, planned events; called by ``schedule`` if the caller
    did not), ``schedule`` (who runs, and their blocks), and ``update`` once the worker has
    verified the drafts. The scheduler's lists can be read at any point through ``manager``.
    """

    def __init__(self, scenario: Scenario) -> None:
        raise NotImplementedError

    requests: dict[str, Request]  # everything that has arrived, by id; finished ones stay

    def begin_step(self, step: int) -> None:
        """Arrivals and planned events of ``step``. Steps come in order, from 0."""
        raise NotImplementedError

    def schedule(self, step: int) -> SchedulerOutput:
        """Choose and allocate. Every step before must have been updated."""
        raise NotImplementedError

    def update(
        self,
        output: SchedulerOutput,
        sampled: Mapping[str, Sequence[int]],
        accepted_drafts: Mapping[str, int],
    ) -> list[str]:
        """Commit the step: computed counts, new tokens, next drafts. Returns who finished.

        ``sampled[id]`` are accepted drafts plus the bonus token; ids without a sample are
        absent or empty. Blocks of a finished request are free on return.
        """
        raise NotImplementedError

    def is_done(self) -> bool:
        """Nothing will ever be scheduled again: all finished, or stuck for good."""
        raise NotImplementedError

    def registered_prefixes(self) -> dict[int, str]:
        """Block id -> ``request@tokens`` for every block registered for reuse."""
        raise NotImplementedError

    def check_conservation(self) -> list[str]:
        """What breaks I6, one sentence each; empty when all is well."""
        raise NotImplementedError
