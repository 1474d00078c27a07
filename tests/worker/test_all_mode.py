"""All mode with drafts: the column the step before wrote to (section 3.7)."""

from __future__ import annotations

import pytest

from mambaviz.worker import postprocess_mamba_all, preprocess_mamba_all_specdec
from tests.worker.world import CachedRequests, World, make_buffer, schedule

ROWS = {"a": [[1]], "b": [[2]], "c": [[3]], "d": [[4]]}


def test_full_queries_are_remembered_and_others_forgotten() -> None:
    world = World(ROWS).computed(a=5, b=6, c=7, d=9)
    state_idx = {"b": 0, "c": 1, "d": 5, "elsewhere": 3}
    # B = 4, 2 drafts: a ends at token 7 (column 1), b at 8 (column 2); c is a step without
    # drafts; d is behind num_reqs
    postprocess_mamba_all(
        schedule(a=3, b=3, c=1, d=3), world.config, world.batch, world.requests, state_idx, 2, 3
    )
    assert state_idx == {"a": 1, "b": 2, "d": 5, "elsewhere": 3}


def test_a_prefill_as_long_as_a_full_query_counts_as_one() -> None:
    world = World({"a": [[1]]}).computed(a=0)
    state_idx: dict[str, int] = {}
    postprocess_mamba_all(schedule(a=3), world.config, world.batch, world.requests, state_idx, 2, 1)
    assert state_idx == {"a": 0}


def test_remembered_columns_go_up_with_minus_one_elsewhere() -> None:
    world = World(ROWS)
    output = schedule(a=3, b=3)
    output.finished_req_ids = {"gone"}
    output.scheduled_cached_reqs = CachedRequests({"b"})
    buffer = make_buffer(5)
    buffer.np[:] = 77  # left over from a fuller step
    state_idx = {"a": 2, "b": 1, "d": 4, "gone": 6}
    uploaded = preprocess_mamba_all_specdec(output, world.batch, state_idx, 3, buffer)
    assert buffer.gpu.tolist() == [2, -1, -1, -1, -1]
    assert uploaded.tolist() == buffer.gpu.tolist()
    assert state_idx == {"a": 2, "d": 4}


def test_a_missing_buffer_is_named() -> None:
    with pytest.raises(ValueError, match="prev_last_scheduled_idx_buf"):
        preprocess_mamba_all_specdec(schedule(), World(ROWS).batch, {}, 0, None)
