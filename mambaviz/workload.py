"""How much work a scenario is, reckoned before anything runs, and whether that is too much.

    within(scenario, USUAL)   the scenario, or a sentence: what to shrink, and to what

The numbers come from the requests alone, so they are exact for most runs and right to a few for
the rest: preemptions that a small pool forces are not foreseen. Importing this costs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mambaviz.cache.layout import page_bytes
from mambaviz.limits import Bounds
from mambaviz.scenario import (
    AcceptanceRate,
    RequestPlan,
    Scenario,
    ScenarioError,
    blocks_to_admit,
)

# --------------------------------------------------------------------------------------
# Steps
# --------------------------------------------------------------------------------------


def expected_steps(scenario: Scenario) -> int:
    """About how many steps a run will have; exact for none, right to a few for most."""
    alone = max(plan.arrive + _steps_alone(scenario, plan) for plan in scenario.requests)
    queued = math.ceil(
        sum(_steps_alone(scenario, plan) for plan in scenario.requests) / _at_once(scenario)
    )
    return max(alone, queued, 1)


def _at_once(scenario: Scenario) -> int:
    """Most requests of one step."""
    return min(scenario.engine.max_num_seqs, len(scenario.requests))


def _steps_alone(scenario: Scenario, plan: RequestPlan) -> int:
    engine = scenario.engine
    prefill = math.ceil(plan.num_prompt_tokens / engine.largest_chunk)
    outputs = _num_outputs(scenario, plan)
    return prefill + math.ceil((outputs - 1) / (1 + accepted_on_average(plan, engine.num_spec)))


def _num_outputs(scenario: Scenario, plan: RequestPlan) -> int:
    return min(plan.max_tokens, scenario.engine.max_model_len - plan.num_prompt_tokens)


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


# --------------------------------------------------------------------------------------
# Work
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """What a run comes to; the same names as in `mambaviz.limits.Bounds`."""

    state_bytes: int
    steps: int
    rows: int
    recurrences: int
    truth_bytes: int
    watched_bytes: int
    table_entries: int

    @classmethod
    def of(cls, scenario: Scenario) -> Workload:
        engine, layer = scenario.engine, scenario.layer
        page = page_bytes(scenario)
        state_bytes = engine.num_blocks * page * layer.num_layers
        lengths = [
            plan.num_prompt_tokens + _num_outputs(scenario, plan) for plan in scenario.requests
        ]
        again, steps_again = _computed_again(scenario, lengths)
        decodes = sum(_steps_alone(scenario, plan) for plan in scenario.requests)
        tokens = sum(lengths) + decodes * engine.num_spec + again
        # A small budget of tokens spreads them over more steps than the requests alone need.
        spread = math.ceil(tokens / engine.max_num_batched_tokens)
        steps = max(expected_steps(scenario), spread) + steps_again
        at_once = _at_once(scenario)
        columns = math.ceil(max(lengths) / engine.effective_block_size) + engine.num_spec
        groups = engine.num_mamba_groups + engine.attention_group
        return cls(
            state_bytes=state_bytes,
            steps=steps,
            rows=steps * at_once * layer.num_layers,
            recurrences=tokens * layer.num_layers * layer.num_heads,
            truth_bytes=sum(lengths) * layer.num_layers * _truth_bytes(scenario),
            watched_bytes=steps * state_bytes,
            table_entries=steps * (engine.num_blocks + at_once * columns * groups),
        )


def _computed_again(scenario: Scenario, lengths: Sequence[int]) -> tuple[int, int]:
    """Tokens and steps that planned preemptions repeat, at worst."""
    kinds = [event.kind for event in scenario.events]
    one, every = kinds.count("preempt"), kinds.count("reset_running")
    tokens = one * max(lengths) + every * sum(lengths)
    return tokens, math.ceil(tokens / scenario.engine.largest_chunk)


def _truth_bytes(scenario: Scenario) -> int:
    """A layer's state after one token, in double precision."""
    layer = scenario.layer
    dim = layer.num_heads * layer.head_dim
    return 8 * dim * (layer.conv_kernel - 1 + layer.d_state + 1)


# --------------------------------------------------------------------------------------
# Too much work, and what to do about it
# --------------------------------------------------------------------------------------

# What each number is, in a sentence that says that it is too large.
WORDS = {
    "state_bytes": "bytes of state",
    "steps": "steps",
    "rows": "request rows of all steps and layers",
    "recurrences": "tokens times layers times heads",
    "truth_bytes": "bytes of states for the oracle to remember",
    "watched_bytes": "cache bytes to look at, over all steps",
    "table_entries": "block ids to write down, over all steps",
}


def within(scenario: Scenario, bounds: Bounds) -> Scenario:
    """The scenario. Raises ScenarioError where it is too much work: what to shrink, to what."""
    found = Workload.of(scenario)
    for one in fields(Bounds):
        most = getattr(bounds, one.name)
        if getattr(found, one.name) > most:
            raise ScenarioError(_too_much(scenario, one.name, most))
    return scenario


def guarded(
    bounds: Bounds, progress: Callable[[int, str], None] | None = None
) -> Callable[[int, str], None]:
    """``progress`` of a run that ends it with a ScenarioError after the last step allowed: a small
    pool can preempt more often than anybody reckons."""

    def report(done: int, words: str) -> None:
        if progress is not None:
            progress(done, words)
        if done > bounds.steps:
            raise ScenarioError(
                f"the run was ended after {bounds.steps:,} steps, the most there can be: requests "
                "that preempt each other compute their tokens again and again; raise "
                "engine.num_blocks or lower engine.max_num_seqs"
            )

    return report


@dataclass(frozen=True)
class Knob:
    """A number of a scenario that can be lowered: where, now, at least, how, and of what."""

    path: str
    value: int
    least: int
    lowered: Callable[[int], Scenario]
    unit: str = ""

    def written(self, value: int) -> str:
        return f"{value} {self.unit}".rstrip()


def _too_much(scenario: Scenario, name: str, most: int) -> str:
    def amount(other: Scenario) -> int:
        return int(getattr(Workload.of(other), name))

    found = f"the run would come to {amount(scenario):,} {WORDS[name]}, allowed are {most:,}"
    knobs = [knob for knob in _knobs(scenario) if knob.value > knob.least]
    # Whichever has to be lowered least, by its share.
    fitting = [(fit / knob.value, knob.path, knob, fit) for knob, fit in _fits(knobs, amount, most)]
    if fitting:
        *_, knob, fit = max(fitting, key=lambda one: one[:2])
        now, then = knob.written(knob.value), knob.written(fit)
        return f"{knob.path} = {now}: {found}; {knob.path} can be {then} at most here"
    helping = sorted(knobs, key=lambda knob: amount(knob.lowered(knob.least)))[:2]
    first = helping[0]
    shown = " and ".join(f"{knob.path} ({knob.written(knob.value)})" for knob in helping)
    return f"{first.path} = {first.written(first.value)}: {found}; lower {shown}"


def _fits(
    knobs: Sequence[Knob], amount: Callable[[Scenario], int], most: int
) -> Iterator[tuple[Knob, int]]:
    """Knobs that alone bring the amount down to ``most``, each with its largest value for that."""
    for knob in knobs:
        if amount(knob.lowered(knob.least)) > most:
            continue
        fit, beyond = knob.least, knob.value
        while beyond - fit > 1:
            middle = (fit + beyond) // 2
            if amount(knob.lowered(middle)) <= most:
                fit = middle
            else:
                beyond = middle
        yield knob, fit


MOST_NAMED = 3  # requests whose own numbers are tried, the longest


def _knobs(scenario: Scenario) -> list[Knob]:
    prompts = [plan.num_prompt_tokens for plan in scenario.requests]
    needed = max(blocks_to_admit(scenario, prompt) for prompt in prompts) + 1
    engine = {"num_blocks": needed, "max_model_len": max(prompts) + 1, "replayssm_buffer_len": 0}
    layer = {
        "num_layers": scenario.engine.num_mamba_groups,
        "num_heads": 1,
        "head_dim": 1,
        "d_state": 1,
        "page_padding_bytes": 0,
    }
    knobs = [_setting(scenario, "engine", name, least) for name, least in engine.items()]
    knobs += [_setting(scenario, "layer", name, least) for name, least in layer.items()]
    by_length = sorted(range(len(prompts)), key=lambda index: -_length(scenario, index))
    for index in by_length[:MOST_NAMED]:
        knobs += _of_request(scenario, index)
    lists = (("requests", 1), ("events", 0))
    return [*knobs, *(_entries(scenario, name, least) for name, least in lists)]


def _length(scenario: Scenario, index: int) -> int:
    plan = scenario.requests[index]
    return plan.num_prompt_tokens + _num_outputs(scenario, plan)


def _setting(scenario: Scenario, section: str, name: str, least: int) -> Knob:
    settings = getattr(scenario, section)

    def lowered(value: int) -> Scenario:
        return scenario.model_copy(update={section: settings.model_copy(update={name: value})})

    return Knob(f"{section}.{name}", getattr(settings, name), least, lowered)


def _of_request(scenario: Scenario, index: int) -> list[Knob]:
    plan = scenario.requests[index]

    def changed(**values: Any) -> Scenario:
        requests = list(scenario.requests)
        requests[index] = plan.model_copy(update=values)
        return scenario.model_copy(update={"requests": requests})

    where = f"requests[{index}]"
    found = [
        Knob(f"{where}.max_tokens", plan.max_tokens, 1, lambda n: changed(max_tokens=n)),
        Knob(f"{where}.arrive", plan.arrive, 0, lambda n: changed(arrive=n)),
    ]
    if plan.prompt is None:
        given = plan.num_prompt_tokens
        found.append(Knob(f"{where}.prompt_len", given, 1, lambda n: changed(prompt_len=n)))
    else:
        prompt = plan.prompt
        found.append(
            Knob(f"{where}.prompt", len(prompt), 1, lambda n: changed(prompt=prompt[:n]), "tokens")
        )
    return found


def _entries(scenario: Scenario, name: str, least: int) -> Knob:
    entries = getattr(scenario, name)

    def lowered(count: int) -> Scenario:
        return scenario.model_copy(update={name: entries[:count]})

    return Knob(name, len(entries), least, lowered, "entries")
