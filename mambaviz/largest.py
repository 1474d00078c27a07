"""The largest run that the pages promise to show without jank, as a scenario.

Eight requests, 24 columns, three layers, 200 steps, block ids and token numbers of three
digits; drafts, arrivals, a shared prefix, preemptions. Larger scenarios run too: the stage then
says what it sums up (`mambaviz.viz.payload`).
"""

from __future__ import annotations

from mambaviz.scenario import EngineSettings, Event, LayerSettings, RequestPlan, Scenario

NUM_REQUESTS = 8
NUM_COLUMNS = 24
NUM_LAYERS = 3
NUM_STEPS = 200

BLOCK_SIZE, NUM_SPEC = 8, 2
LONGEST = (NUM_COLUMNS - NUM_SPEC) * BLOCK_SIZE  # tokens; the scratch columns stand behind them


def largest_scenario() -> Scenario:
    """The same scenario every time. It decodes nearly all the way: prompts are short."""
    shared = [7000 + position for position in range(4 * BLOCK_SIZE)]
    return Scenario(
        name="the largest size",
        story="Eight requests through 24 columns: as much as the stage shows one by one.",
        engine=EngineSettings(
            block_size=BLOCK_SIZE,
            num_spec=NUM_SPEC,
            num_blocks=260,
            max_model_len=LONGEST,
        ),
        layer=LayerSettings(num_layers=NUM_LAYERS),
        requests=[_request(index, shared) for index in range(NUM_REQUESTS)],
        events=[
            Event(step=40, kind="preempt", request="C"),
            Event(step=120, kind="preempt", request="F"),
        ],
    )


def _request(index: int, shared: list[int]) -> RequestPlan:
    """Every second request starts with the shared tokens; each accepts in a rhythm of its own."""
    own = [1000 * (index + 1) + position for position in range(7 + index % 2 * (index - 7))]
    prompt = shared + own if index % 2 else own
    return RequestPlan(
        id="ABCDEFGH"[index],
        prompt=prompt,
        arrive=13 * index + index % 2,
        max_tokens=LONGEST - len(prompt),
        accept=[index % 3, 0, 1, 0, (index + 1) % 3],
    )
