"""Seeded random scenarios: small, valid, and crowded with the cases that are easy to get wrong.

Tests and proofs of the engine draw from here. Block sizes are small, so boundaries are
everywhere; prompts are often exact multiples of a block or share a prefix with another one;
pools are often just large enough for one request at its longest, so that requests get in each
other's way and are preempted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from mambaviz.scenario import (
    AcceptanceRate,
    AcceptPlan,
    DraftPlan,
    EngineSettings,
    Event,
    LayerSettings,
    RequestPlan,
    Scenario,
    blocks_to_admit,
)

Mode = Literal["none", "align", "all"]
Runner = Literal["v1", "v2"]
Layout = Literal["SD", "DS"]
CacheDtype = Literal["float32", "float16", "bfloat16"]
States = Literal["both", "conv", "temporal"]
EventKind = Literal["preempt", "abort", "reset", "reset_running"]
EVENT_KINDS: tuple[EventKind, ...] = ("preempt", "preempt", "abort", "reset", "reset_running")

MAX_BLOCK_SIZE = 8
LONGEST_PROMPT = 22
MOST_NEW_TOKENS = 12
LAST_ARRIVAL = 10
LAST_EVENT = 16
RESENT_SHARE = 0.3


def random_scenario(
    rng: random.Random,
    *,
    modes: Sequence[Mode] = ("align",),
    runners: Sequence[Runner] = ("v1",),
    layouts: Sequence[Layout] = ("SD",),
    conv_kernels: Sequence[int] = (4,),
    cache_dtypes: Sequence[CacheDtype] = ("float32",),
    chunk_sizes: Sequence[int] = (4,),
    page_paddings: Sequence[int] = (0,),
    mamba_groups: Sequence[int] = (1,),
    attention: Sequence[bool] = (False,),
    max_num_spec: int = 3,
    max_requests: int = 4,
    events: bool = False,
    replayssm: bool = False,
    full_cuda_graphs: Sequence[bool] = (False,),
    drop_last_matched_block: Sequence[bool] = (False,),
    states: Sequence[States] = ("both",),
    sufficient: bool = True,
) -> Scenario:
    """A valid scenario; the same ``rng`` state gives the same one.

    The sequences list what to choose from. With ``sufficient`` every request can run to its
    end in the pool when it is alone there, so the run never gets stuck; without it the pool
    may be smaller and every request is only sure to be accepted by the scenario's
    validation. Raises ValueError if ``modes`` and ``runners`` leave no combination.
    """
    mode = rng.choice(modes)
    engine = {
        "mode": mode,
        "runner": _runner(rng, mode, runners),
        "layout": rng.choice(layouts),
        "num_mamba_groups": rng.choice(mamba_groups),
        "attention_group": rng.choice(attention),
        "full_cuda_graphs": rng.choice(full_cuda_graphs),
        "drop_last_matched_block": rng.choice(drop_last_matched_block),
        **_sizes(rng, mode, max_num_spec),
        **_knobs(rng),
    }
    if replayssm and mode != "all" and engine["runner"] == "v1" and engine["num_spec"] == 0:
        engine["replayssm_buffer_len"] = rng.choice([0, 2, 3, 4])
    settings = EngineSettings.model_validate(engine)
    requests = _requests(rng, settings, rng.randint(1, max_requests))
    longest = max(plan.num_prompt_tokens + plan.max_tokens for plan in requests)
    settings = _fit_lengths(rng, settings, requests)
    settings = _fit_pool(rng, settings, min(longest, settings.max_model_len), sufficient, requests)
    return Scenario(
        name="random",
        engine=settings,
        layer=_layer(rng, settings, conv_kernels, cache_dtypes, chunk_sizes, page_paddings, states),
        requests=requests,
        events=_events(rng, requests) if events else [],
    )


def blocks_to_finish(engine: EngineSettings, num_tokens: int) -> int:
    """Blocks with which a request that is alone reaches ``num_tokens``, replays included.

    align: the running block, its scratch, and the block before that the pre-copy reads (or
    the hit). all and attention: every column.
    """
    scratch = engine.num_spec
    columns = -(-(num_tokens + scratch) // engine.effective_block_size)
    per_group = {"none": 1 + scratch, "align": 1 + scratch + 1, "all": columns + scratch}
    attention = columns if engine.attention_group else 0
    return per_group[engine.mode] * engine.num_mamba_groups + attention


def _runner(rng: random.Random, mode: Mode, runners: Sequence[Runner]) -> Runner:
    possible = [runner for runner in runners if not (mode == "all" and runner == "v2")]
    if not possible:
        raise ValueError("all mode runs on the v1 runner only: add 'v1' to runners")
    return rng.choice(possible)


def _sizes(rng: random.Random, mode: Mode, max_num_spec: int) -> dict[str, int | None]:
    block_size = rng.randint(1, MAX_BLOCK_SIZE)
    if mode == "align":  # 1 + num_spec > block_size is unsound there
        max_num_spec = min(max_num_spec, block_size - 1)
    budgets = [block_size, block_size + 1, 2 * block_size + 1, 5, 16, 64, 64]
    limits = [None, None, None, 1, max(1, block_size - 1), block_size + 2]
    return {
        "block_size": block_size,
        "num_spec": rng.randint(0, max_num_spec),
        "max_num_batched_tokens": rng.choice(budgets),
        "prefill_chunk_limit": rng.choice(limits),
        "max_num_seqs": rng.choice([1, 2, 3, 8, 8]),
    }


def _knobs(rng: random.Random) -> dict[str, object]:
    return {
        "retention": rng.choice(["dense", "dense", "dense", "boundary", 3, 8]),
        "admission_gate": rng.random() < 0.75,
        "stop_before_last_token": rng.random() < 0.5,
    }


def _requests(rng: random.Random, engine: EngineSettings, count: int) -> list[RequestPlan]:
    plans: list[RequestPlan] = []
    for index in range(count):
        arrive = rng.choice([0, rng.randint(0, LAST_ARRIVAL)])
        prompt = _prompt(rng, engine.block_size, index)
        if plans and rng.random() < RESENT_SHARE:
            prompt, arrive = _resend(rng, engine.block_size, rng.choice(plans))
        plans.append(
            RequestPlan(
                id="abcdefghijklmnop"[index],
                prompt=prompt,
                arrive=arrive,
                max_tokens=rng.randint(1, MOST_NEW_TOKENS),
                drafts=_drafts(rng, engine.num_spec),
                accept=_accept(rng, engine.num_spec),
                salt=rng.choice([None] * 15 + ["salt"]),
            )
        )
    return plans


def _resend(rng: random.Random, block_size: int, plan: RequestPlan) -> tuple[list[int], int]:
    """An earlier prompt some steps later, cut to one token past a boundary: the longest hit."""
    assert plan.prompt is not None
    length = max(len(plan.prompt) - 1, 0) // block_size * block_size + 1
    return plan.prompt[:length], plan.arrive + rng.randint(1, 8)


def _prompt(rng: random.Random, block_size: int, index: int) -> list[int]:
    """Token ids of a family of its own, or of the first request's, or one and then the other."""
    length = rng.choice(
        [
            rng.randint(1, LONGEST_PROMPT),
            block_size * rng.randint(1, LONGEST_PROMPT // block_size),
            block_size * rng.randint(0, (LONGEST_PROMPT - 1) // block_size) + 1,
        ]
    )
    own, first = 1000 * (index + 1), 1000
    shared = rng.choice([0, length, length, length, rng.randint(0, length)])
    return [(first if position < shared else own) + position for position in range(length)]


def _drafts(rng: random.Random, num_spec: int) -> DraftPlan | None:
    counts = [rng.randint(0, num_spec) for _ in range(rng.randint(1, 4))]
    return rng.choice([None, None, None, counts[0], counts])


def _accept(rng: random.Random, num_spec: int) -> AcceptPlan:
    counts = [rng.randint(0, num_spec) for _ in range(rng.randint(1, 4))]
    rate = AcceptanceRate(rate=rng.choice([0.3, 0.6, 0.9]), seed=rng.randint(0, 99))
    choices: list[AcceptPlan] = ["all", "none", counts, counts, rate]
    return rng.choice(choices)


def _fit_lengths(
    rng: random.Random, engine: EngineSettings, requests: list[RequestPlan]
) -> EngineSettings:
    """Sometimes a model length that ends requests before ``max_tokens`` does."""
    longest = max(plan.num_prompt_tokens for plan in requests)
    limit = rng.choice([64, 64, 64, longest + 1, longest + rng.randint(2, 8)])
    return engine.model_copy(update={"max_model_len": max(2, limit)})


def _fit_pool(
    rng: random.Random,
    engine: EngineSettings,
    longest: int,
    sufficient: bool,
    requests: list[RequestPlan],
) -> EngineSettings:
    # The scenario's own check looks at prompts alone, but is stricter in places.
    unsized = Scenario.model_construct(engine=engine, requests=requests)
    accepted = max(blocks_to_admit(unsized, plan.num_prompt_tokens) for plan in requests)
    enough = max(blocks_to_finish(engine, longest), accepted)
    free = rng.choice([enough, enough, enough + 1, enough + rng.randint(2, 6), 4 * enough])
    if not sufficient and rng.random() < 0.5:
        free = rng.randint(accepted, enough)
    return engine.model_copy(update={"num_blocks": free + 1})  # and the null block


def _layer(
    rng: random.Random,
    engine: EngineSettings,
    conv_kernels: Sequence[int],
    cache_dtypes: Sequence[CacheDtype],
    chunk_sizes: Sequence[int],
    page_paddings: Sequence[int],
    states: Sequence[States],
) -> LayerSettings:
    if engine.mode == "all":  # states exist at chunk ends only
        chunk_sizes = [size for size in chunk_sizes if engine.block_size % size == 0]
    return LayerSettings(
        num_layers=max(engine.num_mamba_groups, rng.randint(1, 2)),
        conv_kernel=rng.choice(conv_kernels),
        states="both" if engine.replayssm_buffer_len else rng.choice(states),
        cache_dtype=rng.choice(cache_dtypes),
        chunk_size=rng.choice(chunk_sizes or [engine.block_size]),
        page_padding_bytes=rng.choice(page_paddings),
        seed=rng.randint(0, 2**16),
    )


def _events(rng: random.Random, requests: list[RequestPlan]) -> list[Event]:
    planned = []
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(EVENT_KINDS)
        name = rng.choice(requests).id if kind in ("preempt", "abort") else None
        planned.append(Event(step=rng.randint(1, LAST_EVENT), kind=kind, request=name))
    return planned
