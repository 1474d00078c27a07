"""Section 2, "Blocks per request": none, all, attention, several groups, retention."""

from __future__ import annotations

import pytest

from mambaviz.cache.manager import BlockPlace
from tests.scheduler.stepping import run, scenario, steps


def hashed_after_first_step(prompt_len: int, **engine: object) -> list[list[int]]:
    (first, *_) = steps(scenario({"prompt_len": prompt_len, "max_tokens": 1}, **engine))
    return first.hashed["a"]


# -- none --------------------------------------------------------------------------------


def test_none_takes_one_block_and_its_scratch_once() -> None:
    for step in steps(scenario({"prompt_len": 9, "max_tokens": 20}, mode="none", num_spec=2)):
        assert step.lists["a"] == [[1, 2, 3]]
        assert step.hashed["a"] == [[]]


def test_none_has_no_prefix_hits() -> None:
    request = {"prompt_len": 9, "max_tokens": 2}
    resent = {"prompt": list(range(1000, 1009)), "arrive": 4}
    scheduler, outputs = run(scenario(request, resent, mode="none", max_model_len=16))
    first = next(output for output in outputs if "b" in output.order)
    assert first.requests["b"].num_computed == 0
    assert scheduler.registered_prefixes() == {}


# -- all ---------------------------------------------------------------------------------


def test_all_has_a_real_block_for_every_column_and_scratch_behind() -> None:
    """cdiv(n + S*B, B) columns."""
    (first, *_) = steps(scenario({"prompt_len": 9, "max_tokens": 1}, mode="all", num_spec=2))
    assert first.lists["a"] == [[1, 2, 3, 4, 5]]


def test_all_retires_leftwards_up_to_the_first_null() -> None:
    stepped = steps(scenario({"prompt_len": 9, "max_tokens": 6}, mode="all"))
    lists = [step.lists["a"][0] for step in stepped]
    assert lists[0] == [1, 2, 3]
    assert lists[1] == [0, 0, 3]  # c = 9: columns 1 and 0
    assert lists[-2] == [0, 0, 3, 4]  # c = 12: column 2 holds the last computed token
    assert lists[-1] == [0, 0, 0, 4]  # c = 13
    (scheduler, _) = run(scenario({"prompt_len": 9, "max_tokens": 6}, mode="all"))
    assert scheduler.manager.free_queue()[-3:] == [2, 1, 3]


def test_all_hit_starts_with_nulls() -> None:
    stepped = steps(
        scenario(
            {"prompt_len": 9, "max_tokens": 2},
            {"prompt": list(range(1000, 1009)), "arrive": 3, "max_tokens": 1},
            mode="all",
        )
    )
    (step,) = [step for step in stepped if "b" in step.output.order]
    assert step.output.requests["b"].num_computed == 8
    assert step.lists["b"][0][:2] == [0, 2]


@pytest.mark.parametrize(("knob", "expected"), [(False, {1: "a@4"}), (True, {1: "a@4", 2: "a@8"})])
def test_all_registers_draft_filled_blocks_only_if_asked_to(
    knob: bool, expected: dict[int, str]
) -> None:
    """Column 1 fills inside a query of three; its boundary state went to another column."""
    request = {"prompt_len": 6, "max_tokens": 4, "accept": [1]}
    scheduler, _ = run(scenario(request, mode="all", num_spec=2, register_draft_filled_blocks=knob))
    assert scheduler.registered_prefixes() == expected


def test_all_does_not_register_a_block_that_a_known_token_finishes_inside_a_draft_query() -> None:
    """c=7, q=3: the query's first token, known already, ends column 1, yet writes column 2."""
    request = {"prompt_len": 7, "max_tokens": 4, "accept": "none"}
    scheduler, outputs = run(scenario(request, mode="all", num_spec=2))
    assert outputs[1].requests["a"].num_computed == 7
    assert scheduler.registered_prefixes() == {1: "a@4"}


def test_all_registers_a_block_that_a_query_of_one_token_finishes() -> None:
    request = {"prompt_len": 7, "max_tokens": 3, "drafts": 0}
    scheduler, _ = run(scenario(request, mode="all", num_spec=2))
    assert scheduler.registered_prefixes() == {1: "a@4", 2: "a@8"}


def test_all_does_not_register_a_block_that_a_draft_finished_a_step_before() -> None:
    """c = 6 → 8 with a draft; only then is column 1 known, in a step without drafts."""
    request = {"prompt_len": 6, "max_tokens": 5, "drafts": [2, 0], "accept": [1]}
    scheduler, outputs = run(scenario(request, mode="all", num_spec=2))
    assert [output.requests["a"].num_computed for output in outputs[1:3]] == [6, 8]
    assert outputs[2].requests["a"].drafts == 0
    assert scheduler.registered_prefixes() == {1: "a@4"}


# -- attention ---------------------------------------------------------------------------


def test_attention_rows_are_real_registered_and_never_retired() -> None:
    (*_, last) = steps(scenario({"prompt_len": 9, "max_tokens": 6}, attention_group=True))
    mamba, attention = last.lists["a"]
    assert mamba[:2] == [0, 0]
    assert 0 not in attention
    assert len(attention) == 4  # cdiv(14, 4), no scratch
    assert last.hashed["a"][1] == [0, 1, 2]


def test_attention_has_no_scratch_columns() -> None:
    (first, *_) = steps(
        scenario({"prompt_len": 3, "max_tokens": 1}, attention_group=True, num_spec=2)
    )
    assert first.lists["a"] == [[1, 2, 3], [4]]


def test_groups_are_released_one_after_the_other() -> None:
    """Unregistered blocks of the later group end up in front; registered ones at the back."""
    (scheduler, _) = run(
        scenario({"prompt_len": 6, "max_tokens": 1}, attention_group=True, num_blocks=9)
    )
    # Mamba group [1, 4]: 1 is registered. Attention group [2, 5 or 3]: its full column is.
    queue = scheduler.manager.free_queue()
    assert scheduler.registered_prefixes() == {1: "a@4", 2: "a@4"}
    assert queue == [4, 3, 5, 6, 7, 8, 1, 2]


def test_a_hit_is_the_longest_that_all_groups_have() -> None:
    """The Mamba group has kept 8 tokens, attention has lost its second block: no hit there."""
    scheduler, _ = run(
        scenario({"prompt_len": 10, "max_tokens": 1}, attention_group=True, mode="all")
    )
    manager, request = scheduler.manager, scheduler.requests["a"]
    assert manager.find_hit(request).num_tokens == 8
    second = next(
        block
        for block, key in manager.pool.index.keys().items()
        if key.group == 1 and key.block_hash == manager.links_of(request)[1]
    )
    manager.pool.index.unregister(second)
    hit = manager.find_hit(request)
    assert hit.num_tokens == 4
    assert [len(row) for row in hit.lists] == [1, 1]
    assert all(row[0] != 0 for row in hit.lists)


# -- several Mamba groups ----------------------------------------------------------------


def test_every_mamba_group_has_blocks_of_its_own() -> None:
    scheduler, _ = run(
        scenario({"prompt_len": 6, "max_tokens": 2}, num_mamba_groups=3, num_spec=1), 1
    )
    assert scheduler.manager.block_lists("a") == [[1, 2], [3, 4], [5, 6]]
    assert scheduler.manager.places()[3] == [BlockPlace("a", 1, 0)]


def test_a_hit_needs_the_state_of_every_mamba_group() -> None:
    scheduler, _ = run(scenario({"prompt_len": 10, "max_tokens": 1}, num_mamba_groups=2))
    manager, request = scheduler.manager, scheduler.requests["a"]
    hit = manager.find_hit(request)
    assert hit.num_tokens == 8
    manager.pool.index.unregister(hit.lists[1][-1])
    assert manager.find_hit(request).num_tokens == 0


def test_never_a_partial_allocation() -> None:
    """The first group's block would fit, both groups' blocks do not: nothing is taken."""
    both = scenario({"prompt_len": 3, "max_tokens": 3}, {"prompt_len": 3}, num_mamba_groups=2)
    tight = both.model_copy(update={"engine": both.engine.model_copy(update={"num_blocks": 4})})
    scheduler, outputs = run(tight, 1)
    assert outputs[0].order == ("a",)
    assert outputs[0].waiting == ("b",)
    assert scheduler.manager.block_lists("b") == [[], []]
    assert scheduler.manager.free_queue() == [3]


def test_a_hit_block_that_nobody_holds_counts_as_taken() -> None:
    """S=1: a hit takes the hit block and two new ones, all three from the free queue."""
    first = {"prompt_len": 5, "max_tokens": 1}
    resent = {"prompt": list(range(1000, 1005)), "arrive": 3, "max_tokens": 1}
    _, outputs = run(scenario(first, resent, num_spec=1, num_blocks=4))
    assert outputs[3].requests["b"].num_computed == 4
    tight, _ = run(scenario(first, num_spec=1, num_blocks=4), 2)
    tight.manager.pool.take(1)
    request = tight.requests["a"]
    assert tight.manager.pool.num_free == 2
    assert not tight.manager.can_admit(request, tight.manager.find_hit(request))


def test_a_hit_block_that_another_request_holds_takes_nothing_from_the_free_ones() -> None:
    """Blocks 1 and 2 are a's, 3 is free: b hits 1 and needs one block."""
    _, outputs = run(
        scenario(
            {"prompt_len": 9, "max_tokens": 4},
            {"prompt": list(range(1000, 1009)), "arrive": 1, "max_tokens": 1},
            num_blocks=4,
        ),
        2,
    )
    assert outputs[1].requests["b"].num_computed == 8
    assert outputs[1].free_queue_after_alloc == ()


# -- retention ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "columns"),
    [
        ("dense", [0, 1, 2, 3, 4]),
        ("boundary", [4]),  # (21 - 1) // 4 * 4 = 20
        (8, [1, 3, 4]),  # 8, 16, and the boundary
        (6, [1, 2, 4]),  # the first boundaries at or after 6, 12 and 18
        (1, [0, 1, 2, 3, 4]),
    ],
)
def test_retention_keeps_the_last_boundary_of_the_prompt_and_one_column_an_interval(
    retention: str | int, columns: list[int]
) -> None:
    assert hashed_after_first_step(21, mode="all", retention=retention) == [columns]


def test_retention_leaves_attention_alone() -> None:
    hashed = hashed_after_first_step(21, mode="all", retention="boundary", attention_group=True)
    assert hashed == [[4], [0, 1, 2, 3, 4]]


def test_the_boundary_of_a_prompt_that_is_a_multiple_lies_a_block_before_its_end() -> None:
    assert hashed_after_first_step(20, mode="all", retention="boundary") == [[3]]


# -- the draft model that drops the last matched block ------------------------------------


@pytest.mark.parametrize(("knob", "tokens"), [(False, 12), (True, 8)])
@pytest.mark.parametrize("attention", [False, True])
def test_drop_last_matched_block_shortens_a_hit(knob: bool, tokens: int, attention: bool) -> None:
    scheduler, _ = run(
        scenario(
            {"prompt_len": 13, "max_tokens": 1},
            mode="all",
            attention_group=attention,
            drop_last_matched_block=knob,
        )
    )
    assert scheduler.manager.find_hit(scheduler.requests["a"]).num_tokens == tokens


def test_what_is_dropped_is_the_last_block_that_attention_matched() -> None:
    """b goes on after 13 tokens of a's: three blocks match, not the five that it knows."""
    _, outputs = run(
        scenario(
            {"prompt_len": 13, "max_tokens": 1},
            {"prompt": [*range(1000, 1013), *range(50, 60)], "arrive": 3, "max_tokens": 1},
            mode="all",
            attention_group=True,
            drop_last_matched_block=True,
        )
    )
    assert outputs[3].requests["b"].num_computed == 8


def test_one_token_is_always_computed() -> None:
    scheduler, _ = run(scenario({"prompt_len": 12, "max_tokens": 1}, mode="all"))
    hit = scheduler.manager.find_hit(scheduler.requests["a"])
    assert hit.num_tokens == 12  # 13 tokens known by now
    again = scenario(
        {"prompt_len": 12, "max_tokens": 1},
        {"prompt": list(range(1000, 1012)), "arrive": 3, "max_tokens": 1},
        mode="all",
    )
    _, outputs = run(again)
    assert outputs[3].requests["b"].num_computed == 8


def test_salt_keeps_equal_prompts_apart() -> None:
    prompt = list(range(1000, 1009))
    _, outputs = run(
        scenario(
            {"prompt": prompt, "max_tokens": 1},
            {"prompt": prompt, "max_tokens": 1, "arrive": 3, "salt": "mine"},
            {"prompt": prompt, "max_tokens": 1, "arrive": 6, "salt": "mine"},
        )
    )
    first = {
        name: row.num_computed
        for output in reversed(outputs)
        for name, row in output.requests.items()
    }
    assert first == {"a": 0, "b": 0, "c": 8}
