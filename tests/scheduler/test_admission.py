"""Section 2, "Scheduler": who is admitted, who is preempted, and in which order."""

from __future__ import annotations

import pytest

from mambaviz.request import RequestStatus
from mambaviz.scheduler import Scheduler
from tests.scheduler.stepping import run, scenario


def test_first_come_first_served_also_within_a_step() -> None:
    _, outputs = run(
        scenario({"prompt_len": 3, "arrive": 1}, {"prompt_len": 3}, {"prompt_len": 3, "arrive": 1}),
        2,
    )
    assert outputs[0].order == ("b",)
    assert outputs[1].arrivals == ("a", "c")
    assert outputs[1].order == ("b", "a", "c")


def test_no_more_rows_than_max_num_seqs() -> None:
    _, outputs = run(scenario(*[{"prompt_len": 3, "max_tokens": 2}] * 3, max_num_seqs=2))
    assert outputs[0].order == ("a", "b")
    assert outputs[0].waiting == ("c",)
    assert outputs[2].order == ("c",)


def test_a_waiting_request_that_does_not_fit_ends_admission() -> None:
    """all mode, 6 blocks: b needs 4 of the 3 left, c would fit."""
    _, outputs = run(
        scenario(
            {"prompt_len": 9}, {"prompt_len": 14}, {"prompt_len": 2}, mode="all", num_blocks=7
        ),
        1,
    )
    assert outputs[0].order == ("a",)
    assert outputs[0].waiting == ("b", "c")


@pytest.mark.parametrize(("gate", "order"), [(True, ("a",)), (False, ("a", "b"))])
def test_admission_gate_asks_for_the_whole_sequence(gate: bool, order: tuple[str, ...]) -> None:
    """One column of b would fit beside a; its four columns do not."""
    _, outputs = run(
        scenario(
            {"prompt_len": 8},
            {"prompt_len": 16},
            mode="all",
            num_blocks=6,
            max_num_batched_tokens=12,
            admission_gate=gate,
        ),
        1,
    )
    assert outputs[0].order == order


def test_a_running_request_preempts_the_last_one_and_nothing_is_admitted_then() -> None:
    """none of the 6 blocks is free when a grows: c goes back to the front, d is not admitted."""
    scheduler, outputs = run(
        scenario(
            {"prompt_len": 4, "max_tokens": 9},
            {"prompt_len": 3, "max_tokens": 9},
            {"prompt_len": 3, "max_tokens": 9},
            {"prompt_len": 1, "arrive": 1},
            mode="all",
            num_blocks=4,
            max_num_seqs=4,
        ),
        2,
    )
    assert outputs[0].order == ("a", "b", "c")
    assert outputs[1].preempted == ("c",)
    assert outputs[1].preempted_req_ids == {"c"}
    assert outputs[1].order == ("a", "b")
    assert outputs[1].waiting == ("c", "d")
    assert scheduler.requests["c"].status is RequestStatus.PREEMPTED


def test_a_request_may_have_to_preempt_itself() -> None:
    scheduler, outputs = run(
        scenario({"prompt_len": 4, "max_tokens": 9}, mode="all", num_blocks=2), 2
    )
    assert outputs[1].order == ()
    assert outputs[1].preempted == ("a",)
    assert scheduler.manager.free_queue() == [1]


def test_several_preempted_keep_their_order_in_the_queue() -> None:
    scheduler, _ = run(
        scenario(*[{"prompt_len": 3, "max_tokens": 9}] * 3, events=[(2, "reset_running")]), 2
    )
    scheduler.begin_step(2)
    assert [request.id for request in scheduler.waiting] == ["a", "b", "c"]


def test_a_resumed_request_starts_from_its_prefix_hit() -> None:
    _, outputs = run(scenario({"prompt_len": 9, "max_tokens": 20}, events=[(3, "preempt", "a")]), 5)
    resumed = outputs[3].requests["a"]
    assert (resumed.event, resumed.num_computed, resumed.num_tokens) == ("resumed", 8, 11)
    assert resumed.is_prefilling
    assert outputs[3].preempted == ("a",)
    cached = outputs[3].scheduled_cached_reqs
    assert cached.resumed_req_ids == {"a"}
    assert cached.new_block_ids["a"][0][:2] == (0, 1)  # the whole row, hit included
    assert len(cached.token_ids["a"]) == 11
    assert not outputs[4].requests["a"].is_prefilling


def test_a_hit_on_blocks_of_this_very_step_waits_and_admission_goes_on() -> None:
    prompt = list(range(1000, 1009))
    same = {"prompt": prompt}
    _, outputs = run(scenario(same, same, same, {"prompt_len": 3}), 2)
    assert outputs[0].order == ("a", "d")
    assert outputs[0].waiting == ("b", "c")
    assert outputs[1].order == ("a", "d", "b", "c")
    assert outputs[1].requests["b"].num_computed == 8


def test_a_decode_s_block_of_this_very_step_waits_as_well() -> None:
    """a registers its 8 tokens in the step in which b arrives with the same ones."""
    _, outputs = run(
        scenario(
            {"prompt_len": 7, "max_tokens": 6},
            {"prompt": [*range(1000, 1009)], "arrive": 2},
            stop_before_last_token=False,
        ),
        5,
    )
    admitted = next(output for output in outputs if "b" in output.order)
    registering = next(output for output in outputs if output.requests["a"].num_computed == 7)
    assert registering.step == 2
    assert admitted.step == 3
    assert admitted.requests["b"].num_computed == 8


def test_batch_order_is_decodes_short_extends_prefills() -> None:
    """b decodes before a has finished its prompt; c's last prompt token extends a state."""
    _, outputs = run(
        scenario(
            {"prompt_len": 20},
            {"prompt_len": 5},
            {"prompt_len": 3},
            block_size=4,
            prefill_chunk_limit=4,
        ),
        2,
    )
    step = outputs[1]
    assert step.order == ("a", "b", "c")
    assert [step.requests[name].row_class for name in step.order] == [
        "prefill",
        "short extend",
        "decode",
    ]
    assert step.batch_order == ("c", "b", "a")


def test_the_very_first_token_is_a_prefill_even_alone() -> None:
    _, outputs = run(scenario({"prompt_len": 1}), 1)
    assert outputs[0].requests["a"].row_class == "prefill"


def test_a_step_that_can_never_be_scheduled_ends_as_stuck_after_three() -> None:
    scheduler, outputs = run(
        scenario({"prompt_len": 9}, num_spec=2, num_blocks=3, allow_unsound=True)
    )
    assert [output.stuck for output in outputs] == [False, False, True]
    assert scheduler.is_done()


def test_idle_steps_before_an_arrival_are_not_stuck() -> None:
    scheduler, outputs = run(scenario({"prompt_len": 2, "arrive": 5, "max_tokens": 1}))
    assert [output.order for output in outputs] == [()] * 5 + [("a",)]
    assert not scheduler.stuck


# Without the gate the first chunk fits, the second never: preempted, admitted, preempted, …
ROUND_AND_ROUND = {
    "attention_group": True,
    "num_blocks": 5,
    "max_num_batched_tokens": 8,
    "admission_gate": False,
    "allow_unsound": True,
    "retention": "boundary",
}


def test_a_run_that_goes_round_for_ever_ends_as_stuck() -> None:
    scheduler, outputs = run(scenario({"prompt_len": 20}, **ROUND_AND_ROUND))
    assert scheduler.stuck
    assert outputs[-1].stuck
    assert {output.order for output in outputs} == {("a",), ()}
    assert len(outputs) < 10


def test_a_planned_event_can_end_going_round() -> None:
    scheduler, outputs = run(
        scenario(
            {"prompt_len": 20},
            {"prompt_len": 3, "max_tokens": 2},
            events=[(20, "abort", "a")],
            max_num_seqs=1,
            **ROUND_AND_ROUND,
        )
    )
    assert len(outputs) > 20
    assert not scheduler.stuck
    assert scheduler.requests["b"].num_output_tokens == 2


def test_steps_come_in_order_and_are_updated() -> None:
    scheduler = Scheduler(scenario({"prompt_len": 2}))
    with pytest.raises(ValueError, match="step 1 cannot begin: the last step is -1"):
        scheduler.schedule(1)
    output = scheduler.schedule(0)
    with pytest.raises(ValueError, match="step 1 cannot begin: the last step is 0, and it is sche"):
        scheduler.schedule(1)
    scheduler.update(output, {"a": [7]}, {})
    with pytest.raises(ValueError, match="step 0 cannot be updated"):
        scheduler.update(output, {"a": [7]}, {})


def test_begin_step_shows_the_lists_before_anything_is_allocated() -> None:
    scheduler, _ = run(scenario({"prompt_len": 4, "max_tokens": 9}), 1)
    before = scheduler.manager.block_lists("a")
    scheduler.begin_step(1)
    assert scheduler.manager.block_lists("a") == before
    scheduler.schedule(1)
    assert scheduler.manager.block_lists("a") != before


@pytest.mark.parametrize(
    ("sampled", "accepted", "message"),
    [
        ({}, {}, "a: 0 sampled tokens with 0 accepted drafts; the step needs 1"),
        ({"a": [1, 2]}, {"a": 0}, "a: 2 sampled tokens with 0 accepted drafts; the step needs 1"),
        ({"a": [1, 2, 3, 4]}, {"a": 3}, "a: 3 accepted of 2 drafts"),
    ],
)
def test_update_refuses_counts_that_cannot_be(
    sampled: dict[str, list[int]], accepted: dict[str, int], message: str
) -> None:
    scheduler, _ = run(scenario({"prompt_len": 2}, num_spec=2), 1)
    output = scheduler.schedule(1)
    with pytest.raises(ValueError, match=message):
        scheduler.update(output, sampled, accepted)
