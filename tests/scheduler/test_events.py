"""Section 2: events a scenario plans, and what the worker is told about them."""

from __future__ import annotations

from mambaviz.request import RequestStatus
from tests.scheduler.stepping import run, scenario

LONG = {"prompt_len": 9, "max_tokens": 20}


def test_a_preempted_request_loses_its_blocks_and_is_next_in_line() -> None:
    scheduler, _ = run(
        scenario(
            LONG, LONG, {"prompt_len": 3, "arrive": 3}, events=[(3, "preempt", "b")], max_num_seqs=2
        ),
        3,
    )
    scheduler.begin_step(3)
    assert scheduler.manager.block_lists("b") == [[]]
    assert scheduler.requests["b"].num_computed_tokens == 0
    assert [request.id for request in scheduler.waiting] == ["b", "c"]
    output = scheduler.schedule(3)
    assert output.actions == ("preempt b",)
    assert output.preempted_req_ids == {"b"}
    assert output.order == ("a", "b")
    assert output.requests["b"].event == "resumed"


def test_an_aborted_request_is_reported_as_finished_and_its_blocks_are_free() -> None:
    scheduler, outputs = run(scenario(LONG, LONG, events=[(4, "abort", "a")]), 5)
    assert outputs[4].actions == ("abort a",)
    assert outputs[4].finished_req_ids == {"a"}
    assert outputs[4].order == ("b",)
    assert scheduler.manager.block_lists("a") == [[]]
    assert scheduler.requests["a"].status is RequestStatus.FINISHED


def test_a_waiting_request_can_be_aborted() -> None:
    _, outputs = run(scenario(LONG, LONG, max_num_seqs=1, events=[(2, "abort", "b")]))
    assert outputs[2].finished_req_ids == {"b"}
    assert outputs[2].waiting == ()
    assert all("b" not in output.order for output in outputs)


def test_what_cannot_be_done_is_said() -> None:
    events = [(0, "preempt", "b"), (0, "abort", "c"), (3, "preempt", "a"), (3, "abort", "a")]
    _, outputs = run(
        scenario(
            {"prompt_len": 2, "max_tokens": 1},
            {"prompt_len": 2, "max_tokens": 8},
            {"prompt_len": 2, "arrive": 2},
            events=events,
        ),
        4,
    )
    assert outputs[0].actions == (
        "preempt b: refused, it is not running",
        "abort c: refused, it has not arrived",
    )
    assert outputs[3].actions == (
        "preempt a: refused, it has ended",
        "abort a: refused, it has ended",
    )


def test_a_reset_is_refused_while_requests_run() -> None:
    scheduler, outputs = run(scenario(LONG, events=[(3, "reset")]), 4)
    assert outputs[3].actions == ("reset of the prefix cache: refused, requests are running",)
    assert scheduler.registered_prefixes() == {1: "a@8"}


def test_a_reset_while_idle_drops_the_prefixes() -> None:
    prompt = list(range(1000, 1009))
    _, outputs = run(
        scenario(
            {"prompt": prompt, "max_tokens": 1},
            {"prompt": prompt, "max_tokens": 1, "arrive": 4},
            events=[(3, "reset")],
        )
    )
    assert outputs[3].actions == ("reset of the prefix cache",)
    assert outputs[4].requests["b"].num_computed == 0


def test_reset_running_preempts_everything_and_drops_the_prefixes() -> None:
    _, outputs = run(scenario(LONG, LONG, events=[(3, "reset_running")]), 4)
    assert outputs[3].actions == ("everything running preempted (a, b), prefix cache reset",)
    assert outputs[3].preempted == ("b", "a")
    assert outputs[3].order == ("a", "b")  # admitted again at once, from nothing
    assert [row.num_computed for row in outputs[3].requests.values()] == [0, 0]
    assert outputs[2].requests["a"].last_state_block_idx == 1
    assert outputs[3].requests["a"].last_state_block_idx is None
    assert outputs[3].scheduled_cached_reqs.resumed_req_ids == {"a", "b"}


def test_arrivals_come_before_events_of_their_step() -> None:
    _, outputs = run(scenario(LONG, {"prompt_len": 2, "arrive": 2}, events=[(2, "abort", "b")]), 3)
    assert outputs[2].arrivals == ("b",)
    assert outputs[2].actions == ("abort b",)


def test_finished_requests_are_reported_once_with_the_next_output() -> None:
    _, outputs = run(
        scenario({"prompt_len": 2, "max_tokens": 2}, {"prompt_len": 2, "max_tokens": 5})
    )
    assert [set(output.finished_req_ids) for output in outputs] == [
        set(),
        set(),
        {"a"},
        set(),
        set(),
    ]


def test_registered_blocks_keep_the_name_of_the_first_request_with_that_prefix() -> None:
    """b produces a's prefix again after a reset: the block is b's, the name a's."""
    prompt = list(range(1000, 1009))
    scheduler, _ = run(
        scenario(
            {"prompt": prompt, "max_tokens": 1},
            {"prompt": prompt, "max_tokens": 1, "arrive": 4},
            events=[(3, "reset")],
        )
    )
    assert set(scheduler.registered_prefixes().values()) == {"a@8"}
