"""Public bug reports about chunks, lists and tables: the right numbers, and the fault's.

As in `test_reports`, each test names its report, and a fault is shown by a stand-in for the code
that had it. Three of the reports are about one rule, `split_below_the_cacheable_position`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mambaviz.scheduler
from mambaviz.attention.state_indices import mamba_get_block_table_tensor
from mambaviz.cache.prefix import PrefixKey
from mambaviz.cache.tensors import mamba_spec
from mambaviz.request import Request
from mambaviz.scenario import EngineSettings
from mambaviz.trace import tokens_absorbed
from mambaviz.worker.input_batch import BlockTable
from tests.engine.reports import ONE_CHUNK, Play, Pre, broken, is_sound, scenario


def split_below_the_cacheable_position(
    engine: EngineSettings, request: Request, start: int, num_tokens: int
) -> int:
    """The chunk rule that three faults came from; arguments as of `split_at_boundaries`.

    Aligned are only chunks that end before the last position whose state a hit could use, which
    for a draft model is one block earlier, and 0 for a prompt of less than two blocks.
    """
    B, end = engine.block_size, start + num_tokens
    cacheable = request.num_tokens // B * B
    if engine.drop_last_matched_block:
        cacheable = max(0, cacheable - B)
    if end < cacheable:
        return end // B * B - start
    if start < cacheable < end:
        return cacheable - start
    return num_tokens


@pytest.fixture
def old_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mambaviz.scheduler, "split_at_boundaries", split_below_the_cacheable_position
    )


# ------------------------------------------------------------------------------ S08


def a_turn_and_its_follow_up() -> Play:
    """F takes 20 of a budget of 25, so 5 are left for A; B is A's 33 tokens and 7 more."""
    conversation = [2000 + position for position in range(20 + 13)]
    question = [7000 + position for position in range(7)]
    return Play(
        scenario(
            {"id": "F", "prompt_len": 20, "max_tokens": 1},
            {"id": "A", "prompt": conversation[:20], "max_tokens": 13, "accept": "none"},
            {"id": "B", "prompt": conversation + question, "max_tokens": 2, "arrive": 20},
            block_size=16,
            num_spec=2,
            max_num_batched_tokens=25,
            attention_group=True,
            **ONE_CHUNK,
        )
    )


def attention_match(play: Play) -> int:
    """Blocks of B that the attention group would match, before the last is dropped."""
    manager = play.engine.scheduler.manager
    request = play.engine.scheduler.requests["B"]
    assert manager.attention_group is not None
    return manager.attention_group.longest_match(manager.links_of(request)[: (40 - 1) // 16])


def test_s08_a_chunk_waits_rather_than_end_inside_a_block() -> None:
    """https://github.com/vllm-project/vllm/pull/51113

    B = 16, S = 2. The hit under EAGLE was worked out again, and agrees: attention matches 2
    blocks, the last is dropped, and for the 16 tokens that are left there is no Mamba state, since
    column 0 is null. So A rejects its drafts here, or its second block would not be registered
    before it ends: only tokens that are known when a step begins are.
    """
    play = a_turn_and_its_follow_up().run(20)
    play.engine.scheduler.begin_step(20)  # B arrives
    assert attention_match(play) == 2
    play = a_turn_and_its_follow_up().run()
    assert "A" not in play.trace.steps[0].order
    assert play.trace.steps[0].waiting == ["A"]
    assert play.chunk_ends("A") == [20]
    assert play.pre(1, "A") == Pre(prev=-1, curr=1, num_blocks=4, accepted_after=1)
    assert play.block_list(1, "A")[0] == 0
    assert play.hit("B") == 0
    assert is_sound(play.trace)


@pytest.mark.usefixtures("old_split")
def test_s08_five_tokens_are_hashed_as_sixteen() -> None:
    """https://github.com/vllm-project/vllm/pull/51113

    A gets the 5 tokens. Its next chunk registers column 0 as 16 tokens, and B resumes h(5).
    """
    play = a_turn_and_its_follow_up().run()
    assert play.chunk_ends("A") == [5, 20]
    assert play.pre(1, "A") == Pre(
        prev=0, curr=1, num_blocks=4, bias=0, conv=(0, 0, 1), temporal=(0, 1), accepted_after=1
    )
    block = play.worker_row(1, "A")[0]
    assert play.trace.tables_after(1, "commit").registered[block] == "A@16"
    assert tokens_absorbed(play.state(1, "commit", "temporal", block)) == 5
    assert play.hit("B") == 16
    assert {("I1", 1), ("I2", 20)} <= broken(play.trace)


# ------------------------------------------------------------------------------ S09


def repeated(prompt_len: int, stop: bool = True) -> Play:
    """A prompt, and once it is done the same again."""
    prompt = list(range(1000, 1000 + prompt_len))
    return Play(
        scenario(
            {"id": "A", "prompt": prompt, "max_tokens": 1},
            {"id": "B", "prompt": prompt, "max_tokens": 1, "arrive": 5},
            block_size=16,
            num_spec=0,
            stop_before_last_token=stop,
        )
    ).run()


HITS = pytest.mark.parametrize(
    ("prompt_len", "hit", "hit_without_stop"),
    [(31, 16, 16), (32, 16, 0), (33, 32, 32), (48, 32, 0)],
)


@HITS
def test_s09_an_exact_multiple_stops_where_a_hit_can_use_it(
    prompt_len: int, hit: int, hit_without_stop: int
) -> None:
    """https://github.com/vllm-project/vllm/pull/50409

    B = 16. A hit covers at most all tokens but one. The knob `stop_before_last_token` is the
    report's fix; without it, what older engines do is the fault.
    """
    assert repeated(prompt_len).hit("B") == hit
    assert repeated(prompt_len, stop=False).hit("B") == hit_without_stop
    assert is_sound(repeated(prompt_len).trace)


@pytest.mark.parametrize(("stop", "ends"), [(True, [16, 32]), (False, [32])])
def test_s09_the_one_state_is_a_token_too_deep(stop: bool, ends: list[int]) -> None:
    """https://github.com/vllm-project/vllm/pull/50409"""
    play = repeated(32, stop)
    assert play.chunk_ends("A") == ends
    cached = play.trace.tables_after(len(ends) - 1, "commit").registered
    assert sorted(cached.values()) == [f"A@{end}" for end in ends]
    usable_limit = 32 - 1
    assert any(end <= usable_limit for end in ends) == stop


@pytest.mark.usefixtures("old_split")
@HITS
def test_s09_the_old_rule_hits_the_same(prompt_len: int, hit: int, hit_without_stop: int) -> None:
    """https://github.com/vllm-project/vllm/pull/50409

    The rule of S08 again: a chunk that ends at the cacheable position is not cut.
    """
    assert repeated(prompt_len).hit("B") == hit_without_stop


# ------------------------------------------------------------------------------ S32


def prompt_of_eleven(mtp: bool, **later: object) -> Play:
    prompt = list(range(1000, 1011))
    requests = [{"id": "A", "prompt": prompt, "max_tokens": 1}]
    if later:
        requests.append({"id": "B", "prompt": [*prompt, 7000, 7001], "max_tokens": 1, **later})
    return Play(scenario(*requests, num_spec=1, drop_last_matched_block=mtp))


@pytest.mark.parametrize(("mtp", "ends"), [(True, [4, 11]), (False, [8, 11])])
def test_s32_a_draft_model_stops_one_block_earlier(mtp: bool, ends: list[int]) -> None:
    """https://github.com/LMCache/LMCache/pull/5004"""
    assert prompt_of_eleven(mtp).run().chunk_ends("A") == ends


def test_s32_a_moved_scratch_block_stands_twice_in_the_worker_s_row() -> None:
    """https://github.com/LMCache/LMCache/pull/5004

    B = 4, S = 1. Recomputed from the allocation rules of section 2: every number agrees. The
    worker's row says of column 1 what was true a step ago; only the list knows that it is empty.
    """
    play = prompt_of_eleven(mtp=True).run()
    assert (play.block_list(0, "A"), play.worker_row(0, "A")) == ([1, 2], [1, 2])
    assert (play.block_list(1, "A"), play.worker_row(1, "A")) == ([1, 0, 2, 3], [1, 2, 2, 3])
    absorbed = {
        column: tokens_absorbed(play.state(1, "forward", "temporal", block))
        for column, block in ((0, 1), (2, 2))
    }
    assert absorbed == {0: 4, 2: 11}
    assert play.trace.tables_after(1, "forward").rows["A"].hashed_cols == [[0]]
    assert is_sound(play.trace)


def test_s32_a_tracker_that_sees_appended_ids_only_stores_what_was_never_there() -> None:
    """https://github.com/LMCache/LMCache/pull/5004

    The tracker's row is the worker's. By it, column 1 is block 2 and full, so it is offered for 8
    tokens; here to the prefix index, where B finds it. The report speaks of scratch bytes, and
    until step 1 no step had written the block. But by the time B resumes from it, it has been the
    running block of column 2 and holds h(11): a real state, of other tokens.
    """
    play = prompt_of_eleven(mtp=True, arrive=2).run(2)
    tracker = play.worker_row(1, "A")
    assert tracker == [1, 2, 2, 3]
    manager, request = play.engine.scheduler.manager, play.engine.scheduler.requests["A"]
    manager.pool.register(tracker[1], PrefixKey(0, manager.links_of(request)[1]))
    assert (0, "temporal", 2) not in play.trace.contents_after(0, "commit")
    assert tokens_absorbed(play.state(1, "commit", "temporal", tracker[1])) == 11
    play.run()
    assert play.hit("B") == 8
    assert ("I2", 2) in broken(play.trace)


# ------------------------------------------------------------------------------ S33


def test_s33_a_mamba_table_is_as_wide_as_the_model_is_long() -> None:
    """https://github.com/vllm-project/vllm/pull/50287

    B = 16, model length 512, V2. A batch of context-parallel ranks (DCP) is outside our scope, so
    the width of 16 is given by hand. The report names `none` too; there a block is as wide as the
    model length, and a row has 1 + S columns whatever the request's length.
    """
    play = Play(
        scenario(
            {"id": "A", "prompt_len": 257, "max_tokens": 1},
            runner="v2",
            block_size=16,
            num_spec=0,
            max_model_len=512,
            max_num_batched_tokens=512,
        )
    ).run()
    last = len(play.trace.steps) - 1
    table = play.v2.batch.block_table[0].device_tensor
    assert table.shape[1] == 32
    row = play.worker_row(last, "A")
    assert len(row) == 17
    assert play.pre(last, "A").curr == 16
    assert is_sound(play.trace)

    with pytest.raises(ValueError, match="batch row 0 has 17 columns, the block table only 16"):
        BlockTable(2, 16, torch.device("cpu")).fill([row])
    with pytest.raises(ValueError, match="columns up to 16, but the table has 16"):
        mamba_get_block_table_tensor(
            torch.zeros(1, 16, dtype=torch.int32),
            torch.tensor([257], dtype=torch.int32),
            mamba_spec(play.trace.scenario),
            "align",
        )
    flat = np.zeros(2 * 16, dtype=np.int32)  # a copy that trusts the length of the row
    flat[: len(row)] = row
    assert flat.reshape(2, 16)[1, 0] == row[16] != 0  # column 16 is the next request's column 0


# ------------------------------------------------------------------------------ S37


def block_wider_than_the_budget() -> Play:
    request = {"id": "A", "prompt_len": 20, "max_tokens": 1}
    return Play(scenario(request, block_size=16, num_spec=0, max_num_batched_tokens=8)).run()


def test_s37_a_block_wider_than_the_budget_is_filled_in_steps() -> None:
    """https://github.com/vllm-project/vllm/pull/34445

    B = 16, budget 8. Of the report's two answers ours is the second: no error at the start.
    """
    play = block_wider_than_the_budget()
    assert play.chunk_ends("A") == [8, 16, 20]
    assert is_sound(play.trace)


@pytest.mark.usefixtures("old_split")
def test_s37_a_floor_of_nothing_is_noticed() -> None:
    """https://github.com/vllm-project/vllm/pull/34445

    8 tokens rounded down to a boundary are none, in every step. The run ends as stuck.
    """
    play = block_wider_than_the_budget()
    assert [(step.order, step.waiting) for step in play.trace.steps] == [([], ["A"])] * 3
    assert [step.stuck for step in play.trace.steps] == [False, False, True]
