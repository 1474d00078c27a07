"""Section 2, "Scheduler": drafts, acceptance, padded prompt tails; section 5.2 for all mode."""

from __future__ import annotations

import pytest

from mambaviz.acceptance import WRONG_TOKEN_OFFSET, planned_acceptance, propose, true_token, verify
from mambaviz.request import Request, RequestStatus
from mambaviz.scenario import RequestPlan
from mambaviz.scheduler import PLACEHOLDER_TOKEN_ID, Scheduler
from tests.scheduler.stepping import run, scenario


def request(**plan: object) -> Request:
    made = RequestPlan.model_validate({"id": "a", "prompt": [7, 3004]} | plan)
    assert made.prompt is not None
    return Request(made, tuple(made.prompt))


# -- tokens ------------------------------------------------------------------------------


def test_the_default_token_depends_on_the_last_prompt_token_and_the_position() -> None:
    assert [true_token(request(), position) for position in (2, 9)] == [3002, 3009]


def test_scripted_outputs_come_first() -> None:
    made = request(outputs=[11, 12])
    assert [true_token(made, position) for position in (2, 3, 4)] == [11, 12, 3004]


def test_accepted_drafts_are_the_true_continuation_and_the_others_are_wrong() -> None:
    drafts = propose(request(accept=[1]), num_spec=3)
    assert drafts == [3002, 3003 + WRONG_TOKEN_OFFSET, 3004 + WRONG_TOKEN_OFFSET]
    assert propose(request(accept="all"), num_spec=2) == [3002, 3003]
    assert propose(request(accept="none", drafts=1), num_spec=2) == [3002 + WRONG_TOKEN_OFFSET]


def test_accepted_tokens_are_what_was_proposed() -> None:
    """Whatever the plan, the kept drafts and the tokens that came out are the same ids."""
    scheduler = Scheduler(
        scenario({"prompt_len": 3, "accept": [1, 2, 0], "max_tokens": 12}, num_spec=2)
    )
    kept = 0
    for step in range(5):
        output = scheduler.schedule(step)
        verdict = verify(output, scheduler.requests)
        accepted = verdict.accepted_drafts["a"]
        drafts = list(output.scheduled_spec_decode_tokens.get("a", []))
        assert verdict.sampled["a"][:-1] == drafts[:accepted]
        if accepted < len(drafts):
            assert verdict.sampled["a"][-1] != drafts[accepted]
        kept += accepted
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
    assert kept == 4


# -- accept plans ------------------------------------------------------------------------


def accepted(plan: object, verifications: int, drafts: int = 3) -> list[int]:
    made = request(accept=plan)
    counts = []
    for made.num_verified in range(verifications):
        counts.append(planned_acceptance(made, drafts))
    return counts


def test_a_list_is_cyclic_and_capped() -> None:
    assert accepted([2, 0, 3], 4, drafts=2) == [2, 0, 2, 2]


def test_a_rate_is_seeded() -> None:
    plan = {"rate": 0.6, "seed": 5}
    assert accepted(plan, 50) == accepted(plan, 50)
    assert accepted(plan, 50) != accepted(plan | {"seed": 6}, 50)
    assert accepted({"rate": 0.0}, 20) == [0] * 20
    assert accepted({"rate": 1.0}, 20) == [3] * 20


def test_a_rate_does_not_depend_on_how_many_drafts_there_are() -> None:
    plan = {"rate": 0.7, "seed": 1}
    three, two = accepted(plan, 60, drafts=3), accepted(plan, 60, drafts=2)
    assert [min(count, 2) for count in three] == two


def test_the_rate_is_that_of_each_draft() -> None:
    first = [count > 0 for count in accepted({"rate": 0.3, "seed": 0}, 2000)]
    assert sum(first) / len(first) == pytest.approx(0.3, abs=0.04)


def test_only_verifications_use_up_the_accept_list() -> None:
    """Proposals 2, 0, 1: the step without drafts verifies nothing."""
    _, outputs = run(
        scenario(
            {"prompt_len": 2, "drafts": [2, 0, 1], "accept": [1, 0], "max_tokens": 30}, num_spec=2
        ),
        5,
    )
    rows = [output.requests["a"] for output in outputs]
    assert [row.drafts for row in rows] == [0, 2, 0, 1, 2]
    assert [row.num_computed for row in rows] == [0, 2, 4, 5, 6]


# -- drafts in a step --------------------------------------------------------------------


def test_no_drafts_before_the_whole_prefill_is_computed() -> None:
    _, outputs = run(scenario({"prompt_len": 9}, num_spec=2), 3)
    assert [output.requests["a"].drafts for output in outputs] == [0, 0, 2]
    assert outputs[2].requests["a"].token_ids == (1009, 1010, 1011)
    assert outputs[2].scheduled_spec_decode_tokens == {"a": [1010, 1011]}


def test_num_computed_after_a_verification() -> None:
    """+= scheduled - drafts + accepted count - 1."""
    scheduler, _ = run(scenario({"prompt_len": 2, "accept": [1]}, num_spec=3), 2)
    assert scheduler.requests["a"].num_computed_tokens == 2 + 4 - 3 + 2 - 1


def test_the_budget_cuts_drafts() -> None:
    _, outputs = run(
        scenario({"prompt_len": 2}, {"prompt_len": 2}, num_spec=3, max_num_batched_tokens=6), 2
    )
    assert outputs[1].num_scheduled_tokens == {"a": 4, "b": 2}
    assert len(outputs[1].scheduled_spec_decode_tokens["b"]) == 1


def test_all_mode_gives_a_row_all_drafts_or_none() -> None:
    _, outputs = run(
        scenario(
            {"prompt_len": 2},
            {"prompt_len": 2},
            mode="all",
            num_spec=3,
            max_num_batched_tokens=6,
        ),
        2,
    )
    assert outputs[1].num_scheduled_tokens == {"a": 4, "b": 1}
    assert "b" not in outputs[1].scheduled_spec_decode_tokens
    _, outputs = run(scenario({"prompt_len": 2, "drafts": 1}, mode="all", num_spec=2), 3)
    assert [output.requests["a"].drafts for output in outputs] == [0, 0, 0]


def test_tokens_beyond_the_end_are_dropped() -> None:
    scheduler, outputs = run(scenario({"prompt_len": 2, "max_tokens": 3}, num_spec=3))
    assert len(outputs) == 2
    assert scheduler.requests["a"].token_ids == [1000, 1001, 1002, 1003, 1004]
    scheduler, _ = run(scenario({"prompt_len": 2, "max_tokens": 30}, num_spec=3, max_model_len=9))
    assert scheduler.requests["a"].num_tokens == 9
    assert scheduler.requests["a"].status is RequestStatus.FINISHED


def test_preemption_forgets_drafts() -> None:
    _, outputs = run(
        scenario({"prompt_len": 3, "max_tokens": 9}, num_spec=2, events=[(1, "preempt", "a")]), 2
    )
    assert outputs[1].requests["a"].drafts == 0
    assert outputs[1].requests["a"].num_scheduled == 4


# -- padded prompt tails -----------------------------------------------------------------

PROMPT = list(range(1000, 1009))  # two blocks of four and one token


def tail_of(*, others: tuple[dict, ...] = (), **engine: object) -> tuple[bool, int]:
    """Whether b's last prompt token was padded, and its query, after a has left two blocks."""
    first = {"prompt": PROMPT, "max_tokens": 1}
    resent = {"id": "b", "prompt": PROMPT, "arrive": 6}
    engine = {"num_spec": 2} | engine
    _, outputs = run(scenario(first, resent, *others, **engine), 7)
    row = outputs[6].requests["b"]
    assert ("b" in outputs[6].padded_tail_req_ids) == row.padded_tail
    return row.padded_tail, row.num_scheduled


def test_a_hit_that_leaves_one_token_is_padded() -> None:
    assert tail_of() == (True, 3)


def test_no_padding_without_drafts_configured() -> None:
    assert tail_of(num_spec=0) == (False, 1)


def test_no_padding_while_a_running_row_prefills() -> None:
    long = {"id": "c", "prompt_len": 60, "arrive": 5}
    assert tail_of(others=(long,)) == (False, 1)


def test_no_padding_where_it_does_not_fit() -> None:
    assert tail_of(max_num_batched_tokens=2, block_size=4)[0] is False


def test_padding_is_made_of_placeholders_that_are_never_kept() -> None:
    scheduler, outputs = run(
        scenario(
            {"prompt": PROMPT, "max_tokens": 1},
            {"prompt": PROMPT, "arrive": 3, "accept": [2, 0]},
            num_spec=2,
        ),
        5,
    )
    row = outputs[3].requests["b"]
    assert row.token_ids == (1008, PLACEHOLDER_TOKEN_ID, PLACEHOLDER_TOKEN_ID)
    assert row.row_class == "short extend"
    assert outputs[3].scheduled_spec_decode_tokens["b"] == [PLACEHOLDER_TOKEN_ID] * 2
    assert outputs[4].requests["b"].num_computed == 9
    # The accept list was not used up: its first entry is for the first real drafts.
    assert outputs[4].requests["b"].token_ids == (1009, 1010, 1011)
    assert scheduler.requests["b"].num_computed_tokens == 12


def test_a_prompt_of_one_token_is_padded_only_beside_a_running_row() -> None:
    _, outputs = run(scenario({"prompt_len": 1}, num_spec=2), 1)
    assert not outputs[0].requests["a"].padded_tail
    beside = scenario(
        {"prompt_len": 3, "max_tokens": 9}, {"prompt_len": 1, "arrive": 2}, num_spec=2
    )
    _, outputs = run(beside, 3)
    assert outputs[2].requests["b"].padded_tail
    assert outputs[2].requests["b"].row_class == "prefill"  # there is no state to extend


def test_running_rows_that_prefill_are_judged_before_admissions() -> None:
    """c begins a long prompt in the very step in which b is admitted behind it."""
    _, outputs = run(
        scenario(
            {"prompt": PROMPT, "max_tokens": 1},
            {"id": "c", "prompt_len": 11, "arrive": 4},
            {"id": "b", "prompt": PROMPT, "arrive": 4},
            num_spec=2,
        ),
        5,
    )
    assert outputs[4].order == ("c", "b")
    assert outputs[4].requests["b"].padded_tail
