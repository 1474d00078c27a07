"""Scenarios made from a run: what if verification had kept another number of drafts?

Pure data in, pure data out; the engine then runs the new scenario like any other, and the
pages show it against the original.
"""

from __future__ import annotations

from mambaviz.scenario import Edit, Scenario, ScenarioError, build, name_with
from mambaviz.trace import Trace


def rewind(trace: Trace, step: int, request: str, accepted_drafts: int) -> Scenario:
    """The scenario in which ``request`` keeps ``accepted_drafts`` drafts at ``step``.

    Everything before that verification stays as it was; everything after it is decided anew
    by the request's own accept plan. Raises ScenarioError where the request verified no
    drafts in that step, or was not given so many.
    """
    if not 0 <= step < len(trace.steps):
        raise ScenarioError(f"step {step}: this run has steps 0 to {len(trace.steps) - 1}")
    if _kept(trace, step, request) is None:
        raise ScenarioError(f"step {step}: {request} verified no drafts there")
    verified = trace.steps[step].requests[request]
    if not 0 <= accepted_drafts <= verified.drafts:
        raise ScenarioError(
            f"accepted drafts = {accepted_drafts}: {request} had {verified.drafts} drafts at step "
            f"{step}; allowed 0 to {verified.drafts}"
        )
    counts = [_kept(trace, at, request) for at in range(len(trace.steps))]
    happened = [count for count in counts if count is not None]
    position = sum(count is not None for count in counts[:step])
    plan = [*happened[:position], accepted_drafts, *happened[position + 1 :]]
    # A run that goes on longer than before repeats its last verification: a list is cyclic, so
    # it is made long enough for one token a step.
    longest = max(plan_.max_tokens for plan_ in trace.scenario.requests)
    plan += plan[-1:] * longest
    data = trace.scenario.model_dump(mode="json")
    for entry in data["requests"]:
        if entry["id"] == request:
            entry["accept"] = plan
    words = f"{request} keeps {accepted_drafts} at step {step}"
    data["name"] = name_with(trace.scenario.name, words)
    return build(data)


def with_edit(scenario: Scenario, edit: Edit) -> Scenario:
    """The scenario with one more number overwritten by hand. Raises ScenarioError."""
    data = scenario.model_dump(mode="json")
    data["edits"].append(edit.model_dump(mode="json"))
    return build(data)


def _kept(trace: Trace, step: int, request: str) -> int | None:
    """Drafts kept by the request's verification in a step; None without one."""
    found = trace.steps[step].requests.get(request)
    if found is None or not found.drafts or found.padded_tail:
        return None
    return found.accepted_drafts
