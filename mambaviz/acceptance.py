"""What the scenario says about sampling: next tokens, drafts proposed, drafts accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mambaviz.request import Request
from mambaviz.scheduler import SchedulerOutput


@dataclass(frozen=True)
class Verdict:
    """Result of a step's sampling: tokens that came out, drafts that were kept.

    ``accepted_drafts`` has an entry for every request whose step ends with a sample
    (0 without drafts); ``sampled[id]`` holds ``accepted_drafts[id] + 1`` ids.
    """

    sampled: dict[str, list[int]]
    accepted_drafts: dict[str, int]


def verify(output: SchedulerOutput, requests: Mapping[str, Request]) -> Verdict:
    """Follow each request's accept plan for the requests of this step that sample."""
    raise NotImplementedError
