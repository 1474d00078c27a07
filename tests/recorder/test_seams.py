"""What is read where, on stand-ins: docs/recording.md says what each line must hold."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from mambaviz.recorder import plugin
from mambaviz.recorder.late import AfterImport
from tests.recorder import engine

HASHES = [b"first four", b"first eight"]


def arrived(scheduler: engine.Scheduler, name: str = "cmpl-secret-1", **more) -> engine.Request:
    request = engine.Request(name, [7] * 9, HASHES, **more)
    scheduler.add_request(request)
    return request


def step(scheduler: engine.Scheduler, scheduled: dict[str, int], **more) -> object:
    """One schedule and one update, as an engine does them."""
    scheduler.next_output = engine.output(scheduled, **more)
    found = scheduler.schedule()
    scheduler.update_from_output(found, None)
    return found


def begun(scheduler: engine.Scheduler) -> None:
    """A step without requests, so that the file has its head."""
    step(scheduler, {})


def test_the_head_says_what_is_known_and_what_is_not(record, scheduler):
    recording = record()
    begun(scheduler)
    head = recording.lines()[0]
    assert head["event"] == "head"
    assert head["settings"]["mode"] == "align"
    assert head["settings"]["retention"] == "dense"
    assert head["settings"]["prefill_chunk_limit"] is None
    assert "layout" not in head["settings"]  # nothing here could tell
    assert head["groups"] == [
        {
            "kind": "mamba",
            "block_size": 4,
            "layers": 1,
            "page_bytes": 256,
            "states": [
                {"state": "conv", "shape": [3, 8], "dtype": "float32"},
                {"state": "temporal", "shape": [2, 2, 4], "dtype": "float32"},
            ],
        }
    ]
    hooks = {hook["where"].rpartition(".")[2]: hook for hook in head["hooks"]}
    assert hooks["schedule"]["hooked"]
    assert "has no" in hooks["cleanup_mamba_state_idx"]["why"] or (
        "not there" in hooks["cleanup_mamba_state_idx"]["why"]
    )
    assert hooks["initialize_kv_cache"]["why"] == "never imported"  # the V2 runner's module


def test_a_request_its_schedule_and_its_end(record, scheduler):
    recording = record()
    begun(scheduler)
    request = arrived(scheduler, cache_salt="salt")
    scheduler.manager.req_to_blocks[request.request_id] = (
        scheduler.kv_cache_manager.block_pool.blocks[1:3]
    )
    step(scheduler, {request.request_id: 8}, new=(request.request_id,))
    lines = recording.lines()
    came = next(line for line in lines if line["event"] == "request")
    assert (came["id"], came["prompt"], came["salted"]) == ("r0", 9, True)
    assert len(set(came["prefix"])) == 2
    schedule = [line for line in lines if line["event"] == "schedule"][1]
    assert schedule["requests"] == [
        {"id": "r0", "kind": "new", "computed": 0, "scheduled": 8, "known": 9, "prompt": 9}
    ]
    blocks = [line for line in lines if line["event"] == "blocks"][1]
    assert blocks["lists"] == {"r0": [{"ids": [1, 2]}]}
    commit = next(line for line in lines if line["event"] == "commit")
    assert commit["computed"] == {"r0": 8}
    assert lines[-1]["event"] == "end"
    assert lines[-1]["why"] == "stopped"


def test_requests_from_before_the_head_are_in_it(record, scheduler):
    """The recorder came late: one request was there already, another came before a step."""
    early = engine.Request("cmpl-early", [7] * 5, HASHES[:1])
    scheduler.add_request(early)
    pool = scheduler.kv_cache_manager.block_pool
    scheduler.manager.req_to_blocks["cmpl-early"] = [pool.blocks[1]]
    pool.cache_full_blocks(early, pool.blocks[1:3], 0, 1, 4, kv_cache_group_id=0)
    pool.blocks[5].block_hash, pool.blocks[5].block_hash_num_tokens = b"nobody's", 8
    recording = record()
    arrived(scheduler)
    begun(scheduler)
    lines = recording.lines()
    assert [line["event"] for line in lines[:4]] == ["head", "request", "request", "schedule"]
    assert {line["prompt"] for line in lines[1:3]} == {5, 9}
    (blocks,) = (line for line in lines if line["event"] == "blocks")
    assert blocks["registered"] == {"1": "r0@4", "5": "@8"}


def test_lists_are_cut_and_the_gone_are_named(record, scheduler):
    recording = record()
    begun(scheduler)
    request = arrived(scheduler)
    name, blocks = request.request_id, scheduler.kv_cache_manager.block_pool.blocks
    scheduler.manager.req_to_blocks[name] = [blocks[1], blocks[2]]
    step(scheduler, {name: 8}, new=(name,))
    scheduler.manager.req_to_blocks[name] = [blocks[1], blocks[2], blocks[3]]
    step(scheduler, {name: 1})
    step(scheduler, {name: 1})
    scheduler.manager.req_to_blocks.pop(name)
    step(scheduler, {})
    lists = recording.of("blocks")[1:]
    assert lists[1]["lists"] == {"r0": [{"start": 2, "ids": [3]}]}
    assert lists[2]["lists"] == {}
    assert lists[3]["gone"] == ["r0"]


def test_registrations_come_and_go(record, scheduler):
    recording = record()
    begun(scheduler)
    pool = scheduler.kv_cache_manager.block_pool
    first, second = arrived(scheduler), arrived(scheduler, "cmpl-secret-2")
    pool.cache_full_blocks(first, pool.blocks[1:3], 0, 2, 4, kv_cache_group_id=0)
    pool.cache_full_blocks(second, pool.blocks[3:5], 0, 2, 4, kv_cache_group_id=0)
    begun(scheduler)
    pool.get_new_blocks(2)
    begun(scheduler)
    pool.reset_prefix_cache()
    begun(scheduler)
    registered = [line.get("registered") for line in recording.of("blocks")]
    assert registered[1] == {"1": "r0@4", "2": "r0@8", "3": "r0@4", "4": "r0@8"}
    assert registered[2] == {"1": None, "2": None}
    assert registered[3] == {"3": None, "4": None}


def test_actions_from_outside(record, scheduler):
    recording = record()
    begun(scheduler)
    arrived(scheduler)
    scheduler.finish_requests(["cmpl-secret-1", "never there"][:1], "aborted")
    scheduler.reset_prefix_cache()
    scheduler.reset_prefix_cache(reset_running_requests=True)
    kinds = [(line["kind"], line.get("request")) for line in recording.of("action")]
    assert kinds == [("abort", "r0"), ("reset", None), ("reset_running", None)]


def test_the_workers_side(record, scheduler):
    recording = record()
    begun(scheduler)
    request = arrived(scheduler)
    runner = engine.GPUModelRunner([request.request_id], [[1, 2]])
    scheduler.next_output = engine.output({request.request_id: 8}, new=(request.request_id,))
    output = scheduler.schedule()
    runner._prepare_inputs(output)
    utils = sys.modules["vllm.v1.worker.mamba_utils"]
    assert (
        utils.preprocess_mamba(output, runner.mamba_state_idx, runner.input_batch, runner.requests)
        == "done"
    )
    builder = runner.attn_groups[0][0].metadata_builders[0]
    builder.build({"anything": 1})
    lines = {line["event"]: line for line in recording.lines()}
    assert lines["rows"]["order"] == ["r0"]
    assert lines["rows"]["rows"] == {"r0": [{"ids": [1, 2]}]}
    assert "accepted" not in lines["rows"]  # without drafts the array means nothing
    assert lines["pre_copy"]["rows"] == [{"id": "r0", "column": 1, "copies": False}]
    assert lines["pre_copy"]["columns_before"] == {}
    fields = lines["metadata"]["fields"]
    assert fields["num_prefills"] == 1
    assert fields["state_indices_tensor_p"] == {"dtype": "int32", "shape": [1], "values": [2]}
    assert fields["bc_pre_scratch"] == {"dtype": "float32", "shape": [2, 2]}  # no numbers of it
    assert "nums_dict" not in fields
    assert lines["metadata"]["inputs"]["num_accepted_tokens"] is None  # was not passed


def test_a_failing_hook_is_noted_once_and_the_engine_goes_on(record, scheduler):
    recording = record()
    begun(scheduler)
    request = arrived(scheduler)
    scheduler.manager.req_to_blocks = None  # not as the recorder expects it
    for _ in range(3):
        found = step(scheduler, {request.request_id: 1})
    assert found is scheduler.next_output
    assert request.num_computed_tokens == 3
    (note,) = recording.of("note")
    assert note["seam"] == "schedule"
    assert "AttributeError" in note["what"]
    assert "secret" not in str(note)


def test_an_exception_of_the_engine_passes_through(record, scheduler):
    record()
    with pytest.raises(KeyError, match="never came"):
        scheduler.finish_requests(["never came"], "aborted")


def test_other_parameters_are_left_alone(record, monkeypatch):
    def finish_requests(self, names):
        return names

    monkeypatch.setattr(engine.Scheduler, "finish_requests", finish_requests)
    recording = record()
    assert engine.Scheduler.finish_requests is finish_requests
    (hook,) = (h for h in recording.session.hooks if h["where"].endswith("finish_requests"))
    assert not hook["hooked"]
    assert hook["why"].endswith("takes no request_ids")


def test_stopping_leaves_nothing_behind(record):
    before = engine.Scheduler.schedule
    record()
    assert engine.Scheduler.schedule is not before
    plugin.stop()
    assert engine.Scheduler.schedule is before
    assert not any(isinstance(finder, AfterImport) for finder in sys.meta_path)


def test_a_module_that_comes_later_is_hooked_when_it_comes(tmp_path, monkeypatch):
    (tmp_path / "late_engine.py").write_text("answer = 41\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    finder = AfterImport({"late_engine": lambda module: seen.append(module.answer)})
    finder.install()
    try:
        late_engine = importlib.import_module("late_engine")
    finally:
        finder.remove()
        sys.modules.pop("late_engine", None)
    assert seen == [41]
    assert late_engine.__file__.endswith("late_engine.py")


@pytest.mark.parametrize(("version", "said"), [("0.30.0", 0), ("0.27.1", 1), ("unknown", 1)])
def test_versions_outside_the_range_are_said(monkeypatch, record, version, said):
    monkeypatch.setattr(plugin, "engine_version", lambda: version)
    recording = record()
    entries = [hook for hook in recording.session.hooks if hook["seam"] == "version"]
    assert len(entries) == said
    assert all("0.28 to 0.33" in entry["why"] for entry in entries)


def test_unknown_ids_of_the_cleanup_get_no_engine_name(record, scheduler):
    """A running column of a request that nobody announced still shows, under an alias."""
    recording = record()
    begun(scheduler)
    runner = engine.GPUModelRunner(["a-secret"], [[1]])
    output = engine.output({"a-secret": 1}, new=("a-secret",))
    runner._prepare_inputs(output)
    utils = sys.modules["vllm.v1.worker.mamba_utils"]
    utils.preprocess_mamba(output, {"b-secret": 3}, runner.input_batch, {})
    text = "\n".join(map(str, recording.lines()))
    assert "secret" not in text.replace("vllm.", "")
    assert np.all(runner.input_batch.num_accepted_tokens_cpu == 1)


def test_the_engines_shutdown_ends_the_file(record, scheduler):
    recording = record()
    begun(scheduler)
    scheduler.shutdown()
    begun(scheduler)  # recorded no more
    lines = recording.lines()
    assert lines[-1] == {"event": "end", "why": "exit", "steps": 1, "lines": 3}
