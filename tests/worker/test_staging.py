"""The ``stage_…`` functions (section 3.7): batch order, uploads, what is missing."""

from __future__ import annotations

import pytest

from mambaviz.worker import (
    stage_mamba_state_idx_to_gpu,
    stage_postprocess_inputs_to_gpu,
    stage_postprocess_metadata_to_gpu,
)
from tests.worker.world import World, make_buffer, schedule

ROWS = {"a": [[1]], "b": [[2]], "c": [[3]]}


def buffers() -> list:
    """Three buffers of three whose device halves hold 99: what is not uploaded shows."""
    made = [make_buffer(3) for _ in range(3)]
    for buffer in made:
        buffer.gpu.fill_(99)
    return made


def test_running_columns_go_up_in_batch_order() -> None:
    buffer = buffers()[0]
    staged = stage_mamba_state_idx_to_gpu({"a": 4, "b": 0, "x": 7}, ["b", "a", "c"], 2, buffer)
    assert staged.tolist() == [0, 4]
    assert buffer.gpu.tolist() == [0, 4, 99]  # only the first num_reqs


def test_a_request_without_a_running_column_is_named() -> None:
    with pytest.raises(ValueError, match=r"request b .*preprocess_mamba must run first"):
        stage_mamba_state_idx_to_gpu({"a": 4}, ["a", "b"], 2, buffers()[0])
    stage_mamba_state_idx_to_gpu({"a": 4}, ["a", "b"], 1, buffers()[0])  # b is not in the batch


def test_step_numbers_go_up_in_batch_order() -> None:
    world = World(ROWS).computed(a=5, b=6, c=7)
    output = schedule(a=1, b=3, c=2)
    output.scheduled_spec_decode_tokens = {"b": [8, 9], "c": [8]}
    scheduled, computed, drafts = buffers()
    stage_postprocess_metadata_to_gpu(
        output, ["c", "a", "b"], 2, world.requests, scheduled, computed, drafts
    )
    assert scheduled.gpu.tolist() == [2, 1, 99]
    assert computed.gpu.tolist() == [7, 5, 99]
    assert drafts.gpu.tolist() == [1, 0, 99]


def test_everything_goes_into_the_buffers_of_the_context() -> None:
    world = World(ROWS).computed(a=5, b=6, c=7)
    output = schedule(a=1, b=3, c=1)
    output.scheduled_spec_decode_tokens = {"b": [8, 9]}
    ctx = world.context()
    stage_postprocess_inputs_to_gpu(
        ctx, output, ["b", "c", "a"], 3, world.requests, {"a": 1, "b": 2, "c": 3}
    )
    assert ctx.mamba_state_idx_buf.gpu.tolist() == [2, 3, 1]
    assert ctx.num_scheduled_tokens_buf.gpu.tolist() == [3, 1, 1]
    assert ctx.num_computed_tokens_buf.gpu.tolist() == [6, 7, 5]
    assert ctx.num_draft_tokens_buf.gpu.tolist() == [2, 0, 0]


def test_a_missing_context_is_named() -> None:
    with pytest.raises(ValueError, match="postprocess_align"):
        stage_postprocess_inputs_to_gpu(None, schedule(), [], 0, {}, {})


def test_a_missing_buffer_is_named() -> None:
    with pytest.raises(ValueError, match="mamba_state_idx_buf"):
        stage_mamba_state_idx_to_gpu({}, [], 0, None)
    names = ["num_scheduled_tokens_buf", "num_computed_tokens_buf", "num_draft_tokens_buf"]
    for missing, name in enumerate(names):
        given = buffers()
        given[missing] = None
        with pytest.raises(ValueError, match=name):
            stage_postprocess_metadata_to_gpu(schedule(), [], 0, {}, *given)
