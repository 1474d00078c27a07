"""The V2 runner's side of a recording, on stand-ins: by slot, and only what was appended."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.recorder import engine, v2_engine


@pytest.fixture
def second(record, monkeypatch):
    for name, module in v2_engine.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return record()


def stepped(
    scheduler: engine.Scheduler,
    runner: v2_engine.GPUModelRunner,
    scheduled: dict[str, int],
    sampled: list[int],
    **more: Any,
) -> None:
    """One step as the V2 runner takes it: schedule, prepare, pre-copy, verify, update."""
    scheduler.next_output = engine.output(scheduled, **more)
    output = scheduler.schedule()
    batch = runner.prepare_inputs(output, None, None)
    computed = np.zeros(len(runner.rows) + 2, dtype=np.int32)
    for name, count in more.get("computed", {}).items():
        computed[runner.req_states.req_id_to_index[name]] = count
    state = runner.model_state
    state.preprocess_state(batch, runner.gathered(batch), runner.kv_cache_config, computed)
    runner.attn_groups[0][0].metadata_builders[0].build({"anything": 1})
    computed[batch.idx_mapping] += np.array(sampled, dtype=np.int32)
    state.postprocess_state(batch.idx_mapping, np.array(sampled, dtype=np.int32), computed)
    scheduler.update_from_output(output, None)


def arrived(scheduler: engine.Scheduler, *names: str) -> None:
    for name in names:
        scheduler.add_request(engine.Request(name, [7] * 9))


def test_a_step_by_slot(scheduler, second):
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[1, 2]], "cmpl-b": [[3]]})
    runner.initialize_kv_cache(None)
    arrived(scheduler, "cmpl-a", "cmpl-b")
    runner.model_state.num_accepted_tokens_gpu[:] = [9, 1, 3, 9]
    runner.model_state._mamba_state_idx_gpu[:] = [9, -1, 0, 9]
    scheduled, computed = {"cmpl-b": 3, "cmpl-a": 8}, {"cmpl-b": 4}
    stepped(scheduler, runner, scheduled, [2, 0], computed=computed)
    lines = {line["event"]: line for line in second.lines()}
    assert lines["head"]["settings"]["runner"] == "v2"
    assert lines["rows"] == {
        "event": "rows",
        "step": 0,
        "order": ["r1", "r0"],
        "rows": {"r1": [{"ids": [3]}], "r0": [{"ids": [1, 2]}]},
        "computed": {"r1": 4, "r0": 0},
        "slots": {"r1": 2, "r0": 1},
        "accepted": {"r1": 3, "r0": 1},
    }
    assert lines["pre_copy"]["columns_before"] == {"r0": -1, "r1": 0}
    moved = {"src_col": 0, "dst_col": 1, "bias": 2}
    assert lines["pre_copy"]["rows"] == [
        {"id": "r1", "column": 1, "accepted": 3, "accepted_out": 1, "copies": True} | moved,
        {"id": "r0", "column": 1, "accepted": 1, "accepted_out": 1, "copies": False},
    ]
    assert lines["metadata"]["fields"]["num_prefills"] == 1
    assert lines["accept"]["counts"] == {"r1": 2, "r0": 1}
    assert lines["accept"]["sampled"] == {"r1": 2, "r0": 0}
    assert lines["post_copy"]["rows"] == [
        {"id": "r1", "accepted": 2, "accepted_out": 1, "column": 1, "new_computed": 6},
        {"id": "r0", "accepted": 1, "accepted_out": 1, "column": 1, "new_computed": 0},
    ]


def test_only_appended_columns_are_read(scheduler, second):
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[1, 2]]})
    arrived(scheduler, "cmpl-a")
    stepped(scheduler, runner, {"cmpl-a": 8}, [0], new=("cmpl-a",))
    stepped(scheduler, runner, {"cmpl-a": 1}, [1], computed={"cmpl-a": 8})
    runner.rows["cmpl-a"][0].append(5)
    stepped(scheduler, runner, {"cmpl-a": 1}, [1], computed={"cmpl-a": 9})
    runner.rows["cmpl-a"][0][:] = [6, 7, 8]  # resumed: the output lists it as new
    stepped(scheduler, runner, {"cmpl-a": 1}, [1], new=("cmpl-a",))
    rows = [line["rows"] for line in second.of("rows")]
    assert rows == [
        {"r0": [{"ids": [1, 2]}]},
        {},
        {"r0": [{"start": 2, "ids": [5]}]},
        {"r0": [{"ids": [6, 7, 8]}]},
    ]


def test_a_split_block_is_one_block(scheduler, second):
    """Older engines keep an attention block as several smaller ones."""
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[4], [10, 11, 6, 7]]}, split=[1, 2])
    arrived(scheduler, "cmpl-a")
    stepped(scheduler, runner, {"cmpl-a": 8}, [0])
    (rows,) = second.of("rows")
    assert rows["rows"] == {"r0": [{"ids": [4]}, {"ids": [5, 3]}]}


def test_outside_align_mode_nothing_is_copied(scheduler, second):
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[4]]})
    runner.model_state = v2_engine.MambaHybridModelState(3, align=False)
    arrived(scheduler, "cmpl-a")
    stepped(scheduler, runner, {"cmpl-a": 8}, [1])
    lines = {line["event"]: line for line in second.lines()}
    assert "pre_copy" not in lines
    assert "post_copy" not in lines
    assert lines["accept"]["counts"] == {"r0": 1}
    assert "note" not in lines


def test_the_head_rules_the_other_runner_out(scheduler, second):
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[4]]})
    runner.initialize_kv_cache(None)
    stepped_before = scheduler.next_output = engine.output({})
    assert scheduler.schedule() is stepped_before
    hooks = {hook["where"]: hook for hook in second.lines()[0]["hooks"]}
    assert hooks["vllm.v1.worker.mamba_utils.preprocess_mamba"]["why"] == (
        "the engine uses its V2 runner"
    )
    state = "vllm.v1.worker.gpu.model_states.mamba_hybrid.MambaHybridModelState"
    assert hooks[f"{state}.preprocess_state"]["hooked"]
    assert hooks[f"{state}.postprocess_state"]["hooked"]


def test_a_verification_of_an_earlier_batch_is_left_out(scheduler, second):
    """A rank of a pipeline hears of it steps later: its order is not the last batch's."""
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[4]]})
    arrived(scheduler, "cmpl-a")
    stepped(scheduler, runner, {"cmpl-a": 8}, [0])
    runner.model_state.postprocess_state(np.array([1]), np.array([3], dtype=np.int32), None)
    assert len(second.of("accept")) == 1


def test_a_step_from_before_the_recording_is_nobodys(scheduler, second):
    """With asynchronous scheduling an output may come whose schedule was not seen."""
    arrived(scheduler, "cmpl-a")
    earlier = engine.output({"cmpl-a": 4})
    scheduler.next_output = engine.output({"cmpl-a": 1})
    output = scheduler.schedule()
    scheduler.update_from_output(earlier, None)
    scheduler.update_from_output(output, None)
    assert [line["step"] for line in second.of("commit")] == [0]


def test_steps_that_overlap_get_one_accept_line_each(scheduler, second):
    """The worker has said what step 1 kept before the scheduler hears of step 0."""
    runner = v2_engine.GPUModelRunner({"cmpl-a": [[4]]})
    arrived(scheduler, "cmpl-a")
    first = engine.output({"cmpl-a": 4})
    update, kept = scheduler.update_from_output, []
    scheduler.update_from_output = lambda *args: kept.append(args)
    scheduler.next_output = first
    stepped(scheduler, runner, {"cmpl-a": 4}, [0])
    stepped(scheduler, runner, {"cmpl-a": 1}, [1])
    model_output = engine.SimpleNamespace(req_ids=["cmpl-a"], sampled_token_ids=[[5]])
    for output, _ in kept:
        update(output, model_output)
    assert [line["step"] for line in second.of("accept")] == [0, 1]
