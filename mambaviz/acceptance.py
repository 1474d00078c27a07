"""What the scenario says about sampling: next tokens, drafts proposed, drafts accepted.

There is no language model in here. The token at a position is a fixed function of the
request, and an accept plan says how many drafts each verification keeps. So the drafts that
will be kept are the true continuation, and the others are wrong tokens that go through the
forward and have to leave no trace (section 2, "Scheduler").
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mambaviz.request import Request
from mambaviz.scenario import AcceptanceRate

if TYPE_CHECKING:
    from mambaviz.scheduler import SchedulerOutput

WRONG_TOKEN_OFFSET = 500  # a rejected draft is its true token plus this


@dataclass(frozen=True)
class Verdict:
    """Result of a step's sampling: tokens that came out, drafts that were kept.

    ``accepted_drafts`` has an entry for every request whose step ends with a sample
    (0 without drafts); ``sampled[id]`` holds ``accepted_drafts[id] + 1`` ids.
    """

    sampled: dict[str, list[int]]
    accepted_drafts: dict[str, int]


def true_token(request: Request, position: int) -> int:
    """The token at an output position: scripted, or ``1000 * (last prompt token // 1000) + p``."""
    output = position - request.num_prompt_tokens
    script = request.plan.outputs
    if script is not None and output < len(script):
        return script[output]
    return 1000 * (request.prompt[-1] // 1000) + position


def propose(request: Request, num_spec: int) -> list[int]:
    """Drafts for the next step, proposed after a step that sampled.

    As many as the plan says; those that the next verification will keep are true.
    """
    plan = request.plan.drafts
    if isinstance(plan, list):
        count = plan[request.num_proposed % len(plan)]
    else:
        count = num_spec if plan is None else plan
    kept = planned_acceptance(request, count)
    return [
        true_token(request, request.num_tokens + draft)
        + (0 if draft < kept else WRONG_TOKEN_OFFSET)
        for draft in range(count)
    ]


def planned_acceptance(request: Request, num_drafts: int) -> int:
    """Drafts that the request's next verification keeps, if it is given ``num_drafts``."""
    plan = request.plan.accept
    if plan == "all":
        return num_drafts
    if plan == "none":
        return 0
    if isinstance(plan, AcceptanceRate):
        return _draw(plan, request, num_drafts)
    return min(plan[request.num_verified % len(plan)], num_drafts)


def _draw(plan: AcceptanceRate, request: Request, num_drafts: int) -> int:
    # One stream per verification: fewer drafts see the same draws, only fewer of them.
    stream = random.Random(f"{plan.seed}/{request.id}/{request.num_verified}")
    for draft in range(num_drafts):
        if stream.random() >= plan.rate:
            return draft
    return num_drafts


def verify(output: SchedulerOutput, requests: Mapping[str, Request]) -> Verdict:
    """Follow each request's accept plan for the requests of this step that sample."""
    sampled: dict[str, list[int]] = {}
    accepted: dict[str, int] = {}
    for name in output.order:
        scheduled, request = output.requests[name], requests[name]
        if not scheduled.samples:
            continue
        # The placeholders of a padded tail are no drafts of anybody: none is ever kept.
        drafts = 0 if scheduled.padded_tail else scheduled.drafts
        accepted[name] = planned_acceptance(request, drafts)
        sampled[name] = [
            true_token(request, request.num_tokens + index) for index in range(accepted[name] + 1)
        ]
    return Verdict(sampled, accepted)
