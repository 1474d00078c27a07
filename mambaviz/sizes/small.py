"""The same shape small enough to watch: a scenario whose ratios are those of the model.

Kept: drafts a step, conv kernel, layout, mode, acceptance; prompt, prefill budget and chunk in
blocks; heads, head dim and state size to each other; recurrent layers for each layer with
attention; padding for each byte of state. Scaled: all of these by one factor each. Where a ratio
does not fit the limits of a scenario, the nearest that does is taken, and the story says so.
"""

from __future__ import annotations

from mambaviz.columns import cdiv
from mambaviz.limits import MOST_DRAFTS, MOST_LAYERS, MOST_PADDING
from mambaviz.scenario import AcceptanceRate, AcceptPlan, Scenario, build
from mambaviz.sizes.report import Report

LEAST_BLOCK = 4
LARGEST_SIDE = 4  # of the small temporal state
LONGEST_PROMPT = 40
BLOCKS_TO_GENERATE = 3
NUMBER_BYTES = 4  # the small caches are float32


def small_scenario(report: Report) -> Scenario:
    """A scenario for the Watch page. Raises ScenarioError where none can be."""
    settings, drafts = report.settings, min(report.drafts, MOST_DRAFTS)
    block = max(LEAST_BLOCK, 1 + drafts)
    scale = max(report.block / block, 1.0)
    prompt = min(max(1, round(settings.prompt / scale)), LONGEST_PROMPT)
    new_tokens = BLOCKS_TO_GENERATE * block + 1
    longest = prompt + new_tokens + drafts + 1
    budget = max(1 + drafts, round(settings.prefill_budget / scale))
    tokens = [1000 + position for position in range(prompt)]
    prefill_steps = cdiv(prompt, min(budget, block))
    accept = _accept(settings.acceptance)
    layer = _layer(report, block, scale, drafts)
    return build(
        {
            "name": f"{report.model.name} small",
            "story": _story(report, block, scale, prompt, budget),
            "engine": {
                "mode": settings.mode,
                "layout": settings.layout,
                "block_size": block,
                "num_spec": drafts,
                "num_blocks": 4 * (cdiv(longest, block) + 1 + drafts),
                "max_num_batched_tokens": min(budget, 65_536),
                "max_model_len": longest,
                "attention_group": report.model.attention_layers > 0,
            },
            "layer": layer,
            "requests": [
                {"id": "A", "prompt": tokens, "max_tokens": new_tokens, "accept": accept},
                {
                    "id": "B",
                    "prompt": tokens,
                    "arrive": prefill_steps + 2,
                    "max_tokens": block,
                    "accept": accept,
                },
            ],
        }
    )


def _accept(chance: float) -> AcceptPlan:
    if chance in (0, 1):
        return "all" if chance else "none"
    return AcceptanceRate(rate=chance)


def _layer(report: Report, block: int, scale: float, drafts: int) -> dict[str, object]:
    shapes = report.page.shapes
    heads, head_dim, state = _sides(shapes.temporal)
    kernel = min(max(shapes.conv[0] - drafts + 1, 2), 4) if shapes.conv else 4
    states = "temporal" if shapes.conv is None else "conv" if shapes.temporal is None else "both"
    layer = {
        "num_layers": _layers(report),
        "num_heads": heads,
        "head_dim": head_dim,
        "d_state": state,
        "conv_kernel": kernel,
        "chunk_size": _chunk(report, block, scale),
        "states": states,
    }
    percent = report.alignment.padding_percent if report.alignment else 0.0
    numbers = heads * head_dim * state
    padding = round(numbers * percent / 100) * NUMBER_BYTES
    return {**layer, "page_padding_bytes": min(padding, MOST_PADDING)}


def _sides(temporal: tuple[int, ...] | None) -> tuple[int, int, int]:
    """heads, head dim and state size in their proportions, the largest as small as it may be.

    A mamba1 state has channels and no heads: every channel is a head of its own.
    """
    sides = temporal or (1, 1, 1)
    heads, head_dim, state = (sides[0], 1, sides[1]) if len(sides) == 2 else sides
    factor = max(heads, head_dim, state) / LARGEST_SIDE
    small = [max(1, round(side / factor)) for side in (heads, head_dim, state)]
    return small[0], small[1], small[2]


def _layers(report: Report) -> int:
    attention = report.model.attention_layers
    if not attention:
        return 2
    return min(max(1, round(report.model.mamba_layers / attention)), MOST_LAYERS)


def _chunk(report: Report, block: int, scale: float) -> int:
    """The chunk in blocks as in the model. In all mode it has to divide the block."""
    wanted = max(1, round((report.model.chunk_size or report.block) / scale))
    if report.settings.mode != "all":
        return wanted
    return max(size for size in range(1, block + 1) if block % size == 0 and size <= wanted)


def _story(report: Report, block: int, scale: float, prompt: int, budget: int) -> str:
    settings, model = report.settings, report.model
    parts = [
        f"One token here stands for {scale:,.4g} of {model.name}: a block of {block} for "
        f"{report.block:,}, a prompt of {prompt} for {settings.prompt:,}, a budget of {budget} for "
        f"{settings.prefill_budget:,}."
    ]
    if model.attention_layers:
        parts.append(
            f"{_layers(report)} recurrent layers beside one group of attention stand for "
            f"{model.mamba_layers} and {model.attention_layers}."
        )
    if round(settings.prompt / scale) > LONGEST_PROMPT:
        parts.append(f"The prompt is cut to {LONGEST_PROMPT} tokens.")
    parts.append("B asks with A’s prompt: what does it find again?")
    return " ".join(parts)
