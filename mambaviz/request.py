"""A request on its way through the engine: its tokens, how far it is computed, its drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mambaviz.scenario import RequestPlan


class RequestStatus(Enum):
    WAITING = "waiting"  # never admitted
    RUNNING = "running"
    PREEMPTED = "preempted"  # waits again; its blocks are gone
    FINISHED = "finished"


@dataclass(eq=False)
class Request:
    """One request (section 2).

    ``token_ids`` are the tokens known: the prompt and every output kept so far.
    ``num_computed_tokens`` counts those whose state is final. ``prefill_end`` is the number
    of tokens known when the request was last admitted or resumed: up to there its rows are
    prefill rows. ``draft_token_ids`` wait for the next step's verification. ``num_proposed``
    and ``num_verified`` say how far its draft plan and its accept plan have run.
    """

    plan: RequestPlan
    prompt: tuple[int, ...]
    token_ids: list[int] = field(init=False)
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

    def lose_blocks(self) -> None:
        """Preempted: nothing is computed any more, drafts are forgotten; the tokens stay."""
        self.status = RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        self.draft_token_ids = []

    def keep(self, sampled: list[int], max_model_len: int) -> bool:
        """Append sampled tokens one by one; True once the request has all it may have."""
        for token in sampled:
            self.token_ids.append(token)
            if self.num_output_tokens == self.plan.max_tokens or self.num_tokens == max_model_len:
                return True
        return False
