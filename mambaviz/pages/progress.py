"""How far a run is: steps done of about how many, and about how long it will take.

How many steps a scenario has is known only when it has run; `expected_steps` reckons it from
the requests, so that a page can say "step 45 of about 200".
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from mambaviz.scenario import AcceptanceRate, RequestPlan, Scenario

SAY_AFTER = 1.5  # seconds of work from which on the rest can be foretold


@dataclass(frozen=True)
class Progress:
    """Where a job stands in one of its two tasks. ``since`` is a `time.monotonic` of its start."""

    task: str  # "Computing" or "Drawing"
    done: int
    total: int
    exact: bool  # whether ``total`` is known or reckoned
    since: float

    def sentence(self, now: float | None = None) -> str:
        """``Computing step 45 of about 200, 12 s left``."""
        if not self.done:
            return self.task
        about = "" if self.exact else "about "
        total = max(self.total, self.done)
        text = f"{self.task} step {self.done} of {about}{total}"
        left = self.seconds_left(time.monotonic() if now is None else now)
        return text if left is None else f"{text}, about {left} s left"

    def seconds_left(self, now: float) -> int | None:
        """None while too little is done to tell, and where more steps come than expected."""
        spent = now - self.since
        if spent < SAY_AFTER or not self.done or self.done >= self.total:
            return None
        return max(1, round(spent / self.done * (self.total - self.done)))


def expected_steps(scenario: Scenario) -> int:
    """About how many steps a run will have; exact for none, right to a few for most."""
    alone = max(plan.arrive + _steps_alone(scenario, plan) for plan in scenario.requests)
    at_once = min(scenario.engine.max_num_seqs, len(scenario.requests))
    queued = math.ceil(sum(_steps_alone(scenario, plan) for plan in scenario.requests) / at_once)
    return max(alone, queued, 1)


def _steps_alone(scenario: Scenario, plan: RequestPlan) -> int:
    engine = scenario.engine
    prefill = math.ceil(plan.num_prompt_tokens / engine.largest_chunk)
    outputs = min(plan.max_tokens, engine.max_model_len - plan.num_prompt_tokens)
    return prefill + math.ceil((outputs - 1) / (1 + accepted_on_average(plan, engine.num_spec)))


def accepted_on_average(plan: RequestPlan, num_spec: int) -> float:
    """Accepted drafts of a decode, as the plan has it."""
    counts = plan.drafts if isinstance(plan.drafts, list) else [plan.drafts]
    drafts = sum(num_spec if count is None else count for count in counts) / len(counts)
    match plan.accept:
        case "all":
            return drafts
        case "none":
            return 0
        case AcceptanceRate(rate=rate):
            return sum(rate**place for place in range(1, round(drafts) + 1))
        case accepted:
            return min(drafts, sum(accepted) / len(accepted))
