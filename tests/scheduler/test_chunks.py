"""Section 2, "Scheduler": how many tokens a step computes for a request, and where it stops."""

from __future__ import annotations

import pytest

from mambaviz.chunks import split_at_boundaries
from mambaviz.request import Request
from tests.scheduler.stepping import run, scenario


def chunks(prompt_len: int, **engine: object) -> list[int]:
    """Query tokens of a lone request, one after the other, until its prompt is computed."""
    scheduler, outputs = run(scenario({"prompt_len": prompt_len, "max_tokens": 1}, **engine))
    assert not scheduler.stuck
    return [output.num_scheduled_tokens["a"] for output in outputs]


def test_a_chunk_is_cut_back_to_a_block_boundary() -> None:
    assert chunks(19, max_num_batched_tokens=7) == [4, 4, 4, 4, 3]


def test_a_block_wider_than_the_largest_chunk_is_filled_in_several_steps() -> None:
    """B=8, limit 6: cut to 2 at the boundary, or 12 tokens would register after 6 as after 8."""
    assert chunks(12, block_size=8, prefill_chunk_limit=6) == [6, 2, 4]
    assert chunks(12, block_size=8, max_num_batched_tokens=6) == [6, 2, 4]


def test_the_last_boundary_is_a_stop() -> None:
    assert chunks(11) == [8, 3]
    assert chunks(3) == [3]


@pytest.mark.parametrize(("knob", "expected"), [(True, [8, 4]), (False, [12])])
def test_stop_before_last_token(knob: bool, expected: list[int]) -> None:
    """A resent prompt of 12 can hit 8 tokens at most."""
    assert chunks(12, stop_before_last_token=knob) == expected


def test_dropping_the_last_matched_block_moves_the_stop_one_block_back() -> None:
    assert chunks(13, drop_last_matched_block=True) == [8, 5]
    assert chunks(6, drop_last_matched_block=True) == [6]  # 0 is no stop


def test_other_modes_do_not_split_at_boundaries() -> None:
    assert chunks(11, mode="all", max_num_batched_tokens=6) == [6, 5]
    assert chunks(11, mode="none", max_num_batched_tokens=6) == [6, 5]


def test_a_replay_counts_outputs_as_prefill() -> None:
    """15 tokens known, 14 of them before the last: chunks end at 12, then the rest."""
    _, outputs = run(
        scenario(
            {"prompt_len": 6, "max_tokens": 20},
            events=[(10, "reset_running")],
        ),
        13,
    )
    resumed = outputs[10].requests["a"]
    assert (resumed.event, resumed.num_tokens, resumed.prefill_end) == ("resumed", 15, 15)
    assert [output.num_scheduled_tokens["a"] for output in outputs[10:]] == [12, 3, 1]


def split(prompt: int, outputs: int, start: int, num_tokens: int, **engine: object) -> int:
    """What becomes of ``num_tokens`` from ``start`` on, after a preemption if there are outputs."""
    made = scenario({"prompt_len": prompt}, **engine)
    request = Request(made.requests[0], tuple(made.prompt_of(0)))
    request.token_ids += [9] * outputs
    return split_at_boundaries(made.engine, request, start, num_tokens)


def test_a_chunk_that_ends_before_the_prefill_s_end_waits_for_a_boundary() -> None:
    """Prompt 13, B=5: from 10 on, two tokens reach no boundary."""
    assert split(13, 0, 10, 2, block_size=5) == 0
    assert split(13, 0, 10, 3, block_size=5) == 3


def test_a_replay_may_stop_one_token_short_of_its_end() -> None:
    """12 prompt tokens and one output: the prefill's end is 12, so 12 is no place to cut back."""
    assert split(12, 1, 10, 2, block_size=5) == 2
    assert split(10, 3, 10, 2, block_size=5) == 2
    assert split(10, 4, 10, 2, block_size=5) == 0


def test_what_is_left_of_a_block_ends_at_its_boundary() -> None:
    """Inside a block already, with the last boundary moved away by the draft model."""
    assert split(12, 0, 6, 6, block_size=8, prefill_chunk_limit=6) == 2
    chunk = {"block_size": 8, "prefill_chunk_limit": 6, "drop_last_matched_block": True}
    assert split(12, 0, 6, 6, **chunk) == 2


def test_the_last_known_token_of_a_replay_is_not_split() -> None:
    """One token and placeholders behind it: no prefill any more, whatever boundary follows."""
    assert split(2, 2, 3, 3) == 3
    assert split(4, 0, 3, 3) == 1


def test_a_running_chunk_cut_to_nothing_is_skipped_but_admission_goes_on() -> None:
    """B=8, budget 11: next to a decode of 4, 7 tokens do not reach a boundary."""
    _, outputs = run(
        scenario(
            {"prompt_len": 3, "max_tokens": 12, "accept": "none"},
            {"prompt_len": 24},
            {"prompt_len": 2, "arrive": 1},
            block_size=8,
            num_spec=3,
            max_num_batched_tokens=11,
        ),
        2,
    )
    assert outputs[0].num_scheduled_tokens == {"a": 3, "b": 8}
    assert outputs[1].num_scheduled_tokens == {"a": 4, "c": 2}


def test_a_waiting_chunk_cut_to_nothing_ends_admission() -> None:
    _, outputs = run(
        scenario(
            {"prompt_len": 3, "max_tokens": 12},
            {"prompt_len": 20, "arrive": 1},
            {"prompt_len": 2, "arrive": 1},
            block_size=8,
            max_num_batched_tokens=8,
        ),
        2,
    )
    assert outputs[1].num_scheduled_tokens == {"a": 1}
    assert outputs[1].waiting == ("b", "c")


def test_the_budget_is_shared_first_come_first_served() -> None:
    _, outputs = run(
        scenario({"prompt_len": 4}, {"prompt_len": 6}, mode="none", max_num_batched_tokens=7), 2
    )
    assert outputs[0].num_scheduled_tokens == {"a": 4, "b": 3}
    assert outputs[1].num_scheduled_tokens == {"a": 1, "b": 3}


def test_the_chunk_limit_is_for_each_request() -> None:
    _, outputs = run(
        scenario({"prompt_len": 9}, {"prompt_len": 6}, mode="none", prefill_chunk_limit=5), 1
    )
    assert outputs[0].num_scheduled_tokens == {"a": 5, "b": 5}


def test_the_chunk_limit_leaves_drafts_alone() -> None:
    _, outputs = run(scenario({"prompt_len": 2}, num_spec=3, prefill_chunk_limit=2), 2)
    assert outputs[1].num_scheduled_tokens == {"a": 4}


def test_max_model_len_cuts_drafts() -> None:
    """max_model_len 10: at c = 7 there is room for 2 tokens, at c = 8 for one."""
    _, outputs = run(
        scenario(
            {"prompt_len": 6, "accept": "none", "max_tokens": 20}, num_spec=3, max_model_len=10
        )
    )
    rows = [output.requests["a"] for output in outputs]
    assert [(row.num_computed, row.num_scheduled, row.drafts) for row in rows] == [
        (0, 4, 0),
        (4, 2, 0),
        (6, 3, 2),
        (7, 2, 1),
        (8, 1, 0),
    ]
