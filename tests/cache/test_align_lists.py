"""Section 2, "Blocks per request", align: what stands in a list after each allocation."""

from __future__ import annotations

from tests.scheduler.stepping import WorkerRows, run, scenario, steps


def lists_of(request: str, spec: dict, **engine: object) -> list[list[int]]:
    """Its list after the allocation of every step that ran it."""
    stepped = steps(scenario(spec, **engine))
    return [step.lists[request][0] for step in stepped if request in step.output.order]


def test_worked_example() -> None:
    """B=4, S=2, a prompt of 3 and 2 drafts: n = 6, four columns, column 1 running."""
    prefill, decode = lists_of("a", {"prompt_len": 3, "max_tokens": 4}, num_spec=2)
    assert prefill == [1, 2, 3]
    assert decode == [1, 2, 3, 4]


def test_first_allocation_leaves_columns_before_the_running_one_null() -> None:
    (first, *_) = lists_of(
        "a", {"prompt_len": 12, "max_tokens": 1}, num_spec=1, stop_before_last_token=False
    )
    assert first == [0, 0, 1, 2]


def test_a_short_row_is_never_null_padded_beyond_the_running_column() -> None:
    (first, *_) = lists_of("a", {"prompt_len": 1, "max_tokens": 1}, num_spec=3)
    assert first == [1, 2, 3, 4]


def test_growth_takes_one_new_block_and_moves_scratch_that_lies_before_the_running_column() -> None:
    """Chunks of 8 tokens, B=4: two columns a step, the first of them from the old scratch."""
    first, second, third, *_ = lists_of(
        "a", {"prompt_len": 25, "max_tokens": 1}, num_spec=2, max_num_batched_tokens=8
    )
    assert first == [0, 1, 2, 3]
    assert second == [0, 1, 0, 3, 2, 4]  # 2 moved behind column 3, which was scratch as well
    assert third == [0, 0, 0, 3, 0, 4, 2, 5]


def test_a_chunk_longer_than_the_scratch_leaves_nulls_between() -> None:
    first, second, *_ = lists_of(
        "a", {"prompt_len": 40, "max_tokens": 1}, num_spec=1, max_num_batched_tokens=16
    )
    assert first == [0, 0, 0, 1, 2]
    assert second == [0, 0, 0, 1, 0, 0, 0, 2, 3]


def test_all_scratch_moves_in_its_order_when_the_running_column_jumps_over_it() -> None:
    first, second, *_ = lists_of(
        "a", {"prompt_len": 40, "max_tokens": 1}, num_spec=2, max_num_batched_tokens=16
    )
    assert first == [0, 0, 0, 1, 2, 3]
    assert second == [0, 0, 0, 1, 0, 0, 0, 2, 3, 4]


def test_the_worker_is_handed_what_lies_beyond_the_old_length() -> None:
    workers, rows = WorkerRows(), []
    for step in steps(
        scenario({"prompt_len": 25, "max_tokens": 1}, num_spec=2, max_num_batched_tokens=8)
    ):
        workers.follow(step.output)
        rows.append(list(workers.rows["a"][0]))
    assert rows[1] == [0, 1, 2, 3, 2, 4]  # the moved block stands there twice
    assert rows[2] == [0, 1, 2, 3, 2, 4, 2, 5]


def test_previous_running_block_keeps_its_column_for_one_allocation() -> None:
    """Two block columns a chunk: only the remembered column can be what is let go."""
    stepped = steps(
        scenario(
            {"prompt_len": 24, "max_tokens": 1}, max_num_batched_tokens=8, retention="boundary"
        )
    )
    seen = [
        (step.lists["a"][0], step.output.requests["a"].last_state_block_idx) for step in stepped
    ]
    assert seen[0] == ([0, 1], None)
    assert seen[1] == ([0, 1, 0, 2], 1)
    # Let go before new blocks are taken, unregistered: first in the queue, and back at once.
    assert seen[2] == ([0, 0, 0, 2, 1], 3)
    assert seen[3] == ([0, 0, 0, 0, 1, 2], 4)


def test_nothing_is_allocated_while_the_row_is_long_enough_and_running_can_move_back() -> None:
    """B=4, S=2, c=2: n=5 makes column 1 running; no draft kept, none proposed, n=4: column 0."""
    request = {"prompt_len": 2, "max_tokens": 4, "drafts": [2, 0], "accept": [0]}
    stepped = [
        (step.output.requests["a"], step.lists["a"][0])
        for step in steps(scenario(request, num_spec=2))
    ]
    ends = [row.num_computed + row.num_scheduled for row, _ in stepped]
    assert ends == [2, 5, 4, 7]
    assert [blocks for _, blocks in stepped] == [
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 3, 4],
        [1, 2, 3, 4],
    ]


def test_columns_before_the_last_computed_token_s_are_retired() -> None:
    (*_, last) = lists_of("a", {"prompt_len": 6, "max_tokens": 9})
    assert last[:2] == [0, 0]
    scheduler, _ = run(scenario({"prompt_len": 6, "max_tokens": 9}))
    assert scheduler.registered_prefixes() == {1: "a@4", 2: "a@8", 3: "a@12"}  # still reusable


def test_a_prefix_hit_is_one_block_behind_nulls() -> None:
    stepped = list(
        steps(
            scenario(
                {"prompt_len": 14, "max_tokens": 2},
                {"prompt": [*range(1000, 1014), 5, 5, 5], "arrive": 4},
            )
        )
    )
    step = next(step for step in stepped if "b" in step.output.order)
    row = step.output.requests["b"]
    assert (row.event, row.num_computed) == ("new", 12)
    (new,) = step.output.scheduled_new_reqs
    assert new.block_ids[0][:3] == (0, 0, 1)
    assert row.last_state_block_idx == 2  # the hit block is the copy source of this step


def test_unsound_scratch_meets_the_checkpoint_column() -> None:
    """B=2, S=3: the worker's row names a block that has become scratch elsewhere."""
    workers = WorkerRows()
    for step in steps(
        scenario({"prompt_len": 2, "max_tokens": 5}, block_size=2, num_spec=3, allow_unsound=True)
    ):
        workers.follow(step.output)
        if step.output.requests["a"].drafts:
            break
    assert step.lists["a"][0] == [1, 0, 3, 4, 2, 5]
    assert workers.rows["a"][0] == [1, 2, 3, 4, 2, 5]


def test_free_blocks_of_a_finished_request_last_column_first() -> None:
    scheduler, _ = run(scenario({"prompt_len": 3, "max_tokens": 4}, num_spec=2, num_blocks=7))
    assert scheduler.manager.free_queue() == [4, 3, 2, 5, 6, 1]  # 1 is registered


def test_registration_counts_known_tokens_only() -> None:
    """A block that drafts may fill is registered once its tokens are known: a step later."""
    request = {"prompt_len": 2, "max_tokens": 6, "accept": [1]}
    stepped = list(steps(scenario(request, num_spec=2)))[:3]
    assert [step.output.requests["a"].num_tokens for step in stepped] == [2, 3, 5]
    # Column 0 filled in the second step, by a draft that was accepted.
    assert [step.hashed["a"] for step in stepped] == [[[]], [[]], [[0]]]


def test_a_column_let_go_before_its_tokens_were_known_is_never_registered() -> None:
    request = {"prompt_len": 2, "max_tokens": 6, "accept": "all"}
    stepped = list(steps(scenario(request, num_spec=2)))
    assert stepped[2].output.requests["a"].num_computed == 5  # past column 0 in one step
    assert [step.hashed["a"] for step in stepped] == [[[]], [[]], [[]]]
