"""A request on its way through the engine: its tokens, how far it is computed, its drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mambaviz.scenario import RequestPlan


class RequestStatus(Enum):
    WAITING = "waiting"  # never admitted
    RUNNING = "running"
    PREEMPTED = "preempted"  # waits for the second time; its blocks are gone
    FINISHED = "finished"


@dataclass(eq=False)
class Request:
    """One request (section 2).

    ``token_ids`` are the tokens known: the prompt and every output kept so far.
    ``num_computed_tokens`` counts those whose state is final. ``prefill_end`` is the number
    of tokens known when the request was last admitted or resumed: up to there its rows are
    prefill rows. ``draft_token_ids`` wait for the next step's verification;
    ``num_verified`` counts the verifications so far, which is what an accept plan runs over.
    """

    plan: RequestPlan
    prompt: tuple[int, ...]
    arrival_index: int  # position in the scenario; settles who arrived first in a step
    token_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    prefill_end: int = 0
    draft_token_ids: list[int] = field(default_factory=list)
    num_proposed: int = 0
    num_verified: int = 0
    status: RequestStatus = RequestStatus.WAITING

    def __post_init__(self) -> None:
        self.token_ids = list(self.prompt)

    @property
    def id(self) -> str:
        return self.plan.id

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def num_tokens(self) -> int:
        """Tokens known: prompt plus outputs kept, drafts left out."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def is_prefilling(self) -> bool:
        """Still computing tokens that were known at admission (a replay counts)."""
        return self.num_computed_tokens < self.prefill_end

    @property
    def arrival_order(self) -> tuple[int, int]:
        return self.plan.arrive, self.arrival_index
