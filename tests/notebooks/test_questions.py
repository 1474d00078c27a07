"""Generated questions: the same for the same seed, one right choice, judged by the engine."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.questions import TOPICS, question
from mambaviz.trace import PHASES, tokens_absorbed

SEEDS = range(4)
every = pytest.mark.parametrize("topic", TOPICS)


@every
def test_a_seed_is_a_question(topic: str):
    asked = [question(topic, seed) for seed in SEEDS]
    assert asked[0] == question(topic, 0)
    assert len({one.text for one in asked}) == len(asked)


@every
def test_a_question_is_whole(topic: str):
    for seed in SEEDS:
        asked = question(topic, seed)
        assert 3 <= len(asked.choices) <= 4
        assert len(set(asked.choices)) == len(asked.choices)
        assert asked.choices[asked.answer] == asked.right
        assert asked.text.endswith("?") or asked.text.endswith("?)")
        assert len(asked.why) > 40
        assert asked.request in {plan.id for plan in asked.scenario.requests}
        assert PHASES.index(asked.before) <= PHASES.index(asked.phase)


@every
def test_the_right_choice_is_not_always_at_the_same_place(topic: str):
    assert len({question(topic, seed).answer for seed in range(8)}) > 1


def test_an_unknown_topic_is_named():
    with pytest.raises(KeyError, match="no topic 'weather'"):
        question("weather", 0)


# The answers once more, from the trace alone and by another way than the questions take.


@pytest.mark.parametrize("seed", SEEDS)
def test_the_block_that_the_forward_writes(seed: int):
    asked = question("forward", seed)
    trace = engine.run(asked.scenario, "reference")
    wanted = int(asked.text.partition("h(")[2].partition(")")[0])
    spec = trace.spec_of[0, "temporal"]
    contents = trace.contents_after(asked.step, "forward")
    held = {
        block: tokens_absorbed(spec.decode(contents[0, "temporal", block]))
        for block in trace.tables_after(asked.step, "forward").rows[asked.request].worker_row[0]
        if (0, "temporal", block) in contents
    }
    assert held[int(asked.right.removeprefix("block "))] == wanted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("topic", ["bias", "counts"])
def test_numbers_of_a_decision(topic: str, seed: int):
    asked = question(topic, seed)
    trace = engine.run(asked.scenario, "reference")
    step = trace.steps[asked.step]
    found = step.requests[asked.request]
    accepted = (found.accepted_drafts or 0) + 1
    if asked.phase == "pre-copy":
        before = trace.tables_after(asked.step, "schedule").rows[asked.request]
        assert int(asked.right) == before.num_accepted - 1
        return
    size = asked.scenario.engine.block_size
    running = found.num_computed + found.num_scheduled - found.drafts
    new = running + accepted - 1
    if topic == "bias":
        assert int(asked.right) == new // size * size - running
        return
    after = trace.tables_after(asked.step, "commit").rows.get(asked.request)
    if after is not None:
        assert int(asked.right) == after.num_accepted


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_copy_writes_changes(seed: int):
    """A block that a copy is said to write holds something else afterwards, or the same state."""
    asked = question("blocks", seed)
    trace = engine.run(asked.scenario, "reference")
    copies = [
        copy
        for copy in trace.steps[asked.step].phase(asked.phase).copies
        if copy.request == asked.request
    ]
    if asked.right.startswith("none"):
        assert copies == []
    else:
        block = int(asked.right.removeprefix("block "))
        assert block in {copy.dst_block for copy in copies} | {copy.src_block for copy in copies}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hit_is_what_the_scheduler_took(seed: int):
    asked = question("hits", seed)
    trace = engine.run(asked.scenario, "reference")
    assert int(asked.right) == trace.steps[asked.step].requests[asked.request].num_computed


def test_the_kernels_give_the_same_answer_as_their_twins():
    assert question("bias", 0, "auto") == question("bias", 0, "reference")
