"""The worker functions under the scheduler of a real engine (``golden/engine.json``).

Each step hands our functions what the recording says the engine's worker was handed (worker
rows, computed and scheduled tokens, drafts, accepted drafts) and compares everything the worker
then decided: running columns, accepted counts, copies with their bytes, kernel inputs and
outputs, changed blocks. Between steps nothing but our own results is carried over.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernels import device
from mambaviz.config import AttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from mambaviz.worker import (
    CpuGpuBuffer,
    Launch,
    MambaBuffers,
    StateMove,
    postprocess_mamba_align_gpu,
    postprocess_mamba_all,
    preprocess_mamba,
    preprocess_mamba_all_specdec,
    stage_postprocess_inputs_to_gpu,
)
from tests.worker.world import (
    BOTH,
    REFERENCE,
    WITH_PREFIX_CACHE,
    Batch,
    CachedRequests,
    Layer,
    Request,
    SchedulerOutput,
    Table,
    block_bytes,
    random_pages,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "engine.json"
MAX_REQS, MAX_COLS = 4, 24
DTYPES = {"torch.bfloat16": torch.bfloat16, "torch.float32": torch.float32}


@cache
def recordings(mode: str) -> dict[str, dict[str, Any]]:
    """Recordings that ran through a worker, by id."""
    return {
        trace["id"]: trace
        for trace in json.loads(GOLDEN.read_text())
        if trace["how"] != "scheduler-only" and trace["config"]["mode"] == mode
    }


class Worker:
    """A worker without a model: caches of random bytes, tables, and what it remembers."""

    def __init__(self, trace: dict[str, Any], kernels, device: torch.device) -> None:
        config = trace["config"]
        self.trace, self.device = trace, device
        self.num_spec = config["S"]
        self.generator = torch.Generator().manual_seed(len(trace["id"]))
        self.config = self._cache_config(config)
        self.layers = self._layers(config)
        self.state_idx: dict[str, int] = {}
        self.accepted: dict[str, int] = {}  # the rows' counts, by request
        self.tables = [
            Table(torch.zeros(MAX_REQS, MAX_COLS, dtype=torch.int32, device=device))
            for _ in self.config.kv_cache_groups
        ]
        self.launches: list[Launch] = []
        self.bufs = MambaBuffers.create(
            MAX_REQS,
            self.config,
            BOTH,
            self.make_buffer,
            device,
            with_postprocess_align=config["mode"] == "align" and self.num_spec > 0,
            on_launch=lambda when, launch: self.launches.append(launch) if when == "after" else 0,
            kernels=kernels,
        )

    def _cache_config(self, config: dict[str, Any]) -> KVCacheConfig:
        states = config["states"]
        by_layer = [list(group) for _, group in groupby(states, key=lambda s: s["layer"])]
        block_size = config["effective"]["mamba_block_size"]
        spec = MambaSpec(
            block_size,
            tuple(tuple(state["shape"]) for state in by_layer[0]),
            tuple(DTYPES[state["dtype"]] for state in by_layer[0]),
            config["mode"],
            config["S"],
            page_size_padded=states[0]["block_stride_bytes"],
        )
        kinds = config["effective"]["managers"]
        groups = [
            KVCacheGroupSpec([layer[0]["layer"] for layer in by_layer], spec)
            if kind == "MambaManager"
            else KVCacheGroupSpec(["attention"], AttentionSpec(block_size))
            for kind in kinds
        ]
        return KVCacheConfig(config["num_blocks"], groups)

    def _layers(self, config: dict[str, Any]) -> dict[str, Layer]:
        group = self.config.kv_cache_groups[config["states"][0]["group"]]
        spec = group.kv_cache_spec
        return {
            name: Layer(
                random_pages(
                    spec.shapes,
                    spec.dtypes,
                    self.config.num_blocks,
                    spec.page_size_bytes,
                    self.generator,
                    self.device,
                )
            )
            for name in group.layer_names
        }

    def make_buffer(self, n: int, *, dtype: torch.dtype) -> CpuGpuBuffer:
        return CpuGpuBuffer(n, dtype, self.device)

    # ------------------------------------------------------------------ one step

    def scheduled(self, step: dict[str, Any]) -> None:
        """Take over what the scheduler decided: requests, tables, counts of new rows."""
        reqs, order = step["reqs"], step["batch_order"]
        self.launches.clear()
        self.output = SchedulerOutput(
            {req: r["num_scheduled"] for req, r in reqs.items()},
            {req: [-1] * r["drafts"] for req, r in reqs.items() if r.get("drafts")},
            set(step.get("finished_reported", [])),
            set(step["preempted"]) if "preempted" in step else None,
            CachedRequests({req for req, r in reqs.items() if r["event"] == "resumed"}),
        )
        self.requests = {
            req: Request(r["num_computed"], r["worker_row"]) for req, r in reqs.items()
        }
        self.accepted = {
            req: 1 if reqs[req]["event"] != "running" else self.accepted[req] for req in order
        }
        counts = np.array([self.accepted[req] for req in order], dtype=np.int32)
        self.batch = Batch(order, counts, self.tables)
        for gid, table in enumerate(self.tables):
            table.tensor.zero_()
            for row, req in enumerate(order):
                ids = self.requests[req].block_ids[gid]
                table.tensor[row, : len(ids)] = torch.tensor(ids, dtype=torch.int32)

    def before_forward(self) -> list[StateMove]:
        moves = preprocess_mamba(
            self.output,
            self.config,
            WITH_PREFIX_CACHE,
            self.state_idx,
            self.batch,
            self.requests,
            self.layers,
            BOTH,
            self.bufs.preprocess,
            self.bufs.postprocess_align,
        )
        self._remember_counts()
        return moves

    def after_acceptance(self, step: dict[str, Any]) -> None:
        order = self.batch.req_ids
        drafts_kept = [step["reqs"][req].get("accepted_drafts", 0) for req in order]
        accepted = torch.tensor(drafts_kept, dtype=torch.int32, device=self.device) + 1
        counts = torch.from_numpy(self.batch.num_accepted_tokens_cpu)
        if self.bufs.postprocess_align is None:
            counts.copy_(accepted)
        else:
            stage_postprocess_inputs_to_gpu(
                self.bufs.postprocess_align,
                self.output,
                order,
                len(order),
                self.requests,
                self.state_idx,
            )
            postprocess_mamba_align_gpu(
                bufs=self.bufs,
                num_reqs=len(order),
                num_accepted_tokens_gpu=accepted,
                num_accepted_tokens_cpu_tensor=counts,
                input_batch=self.batch,
                kv_cache_config=self.config,
                forward_context=self.layers,
                mamba_state_copy_funcs=BOTH,
            )
        self._remember_counts()

    def _remember_counts(self) -> None:
        counts = self.batch.num_accepted_tokens_cpu.tolist()
        self.accepted = dict(zip(self.batch.req_ids, counts, strict=True))

    # ------------------------------------------------------------------ in the recording's words

    def states(self) -> list[tuple[str, int, torch.Tensor]]:
        return [
            (name, index, state)
            for name, layer in self.layers.items()
            for index, state in enumerate(layer.kv_cache)
        ]

    def blocks(self) -> dict[tuple[str, int], list[bytes]]:
        return {(name, index): block_bytes(state) for name, index, state in self.states()}

    def listed_copies(self) -> list[dict[str, Any]]:
        """The launched copy list, addresses translated back to blocks and offsets."""
        copies = []
        for launch in self.launches:
            assert launch.kernel == "batch_memcpy_kernel"
            src_ptrs, dst_ptrs, sizes = (tensor.cpu().numpy() for tensor in launch.inputs.values())
            for src, dst, size in zip(src_ptrs, dst_ptrs, sizes, strict=True):
                name, index, state = self._state_with_block_at(int(dst))
                page = state.stride(0) * state.element_size()
                src_block, src_byte_offset = divmod(int(src) - state.data_ptr(), page)
                copies.append(
                    {
                        "layer": name,
                        "state": index,
                        "src_block": src_block,
                        "src_byte_offset": src_byte_offset,
                        "dst_block": (int(dst) - state.data_ptr()) // page,
                        "bytes": int(size),
                    }
                )
        return copies

    def _state_with_block_at(self, address: int) -> tuple[str, int, torch.Tensor]:
        (found,) = (
            item for item in self.states() if address in {block.data_ptr() for block in item[2]}
        )
        return found

    def inputs_by_request(self, launch: Launch, **names: str) -> dict[str, dict[str, int]]:
        """Inputs of a launch per request, under the recording's names."""
        columns = {name: launch.inputs[given].tolist() for name, given in names.items()}
        return {
            req: {name: values[row] for name, values in columns.items()}
            for row, req in enumerate(self.batch.req_ids)
        }


# ------------------------------------------------------------------------ align mode


def check_listed_copies(worker: Worker, moves: list[StateMove], step, before) -> None:
    """Without drafts: the copy list, and every byte it moved."""
    recorded = step.get("precopy", [])
    assert [m for m in moves if m.src_col != -1] == [
        StateMove(r["req"], r["src_col"], r["dst_col"], r["bias"]) for r in recorded
    ]
    copies = [copy for r in recorded for copy in r["copies"]]
    assert worker.listed_copies() == copies
    expected = {key: list(blocks) for key, blocks in before.items()}
    for copy in copies:
        key, n = (copy["layer"], copy["state"]), copy["bytes"]
        start, dst = copy["src_byte_offset"], copy["dst_block"]
        source = before[key][copy["src_block"]][start : start + n]
        expected[key][dst] = source + before[key][dst][n:]
    assert worker.blocks() == expected


def check_fused_precopy(worker: Worker, step, before) -> None:
    """With drafts: what the kernel was given, and every byte it moved."""
    (launch,) = worker.launches
    assert launch.kernel == "precopy_mamba_align_fused_kernel"
    assert step["fused_precopy"] == worker.inputs_by_request(
        launch, src_col="src_col", dst_col="mamba_state_idx", bias="token_bias"
    )
    expected = {key: list(blocks) for key, blocks in before.items()}
    for req, move in step["fused_precopy"].items():
        row, bias = step["reqs"][req]["worker_row"][0], move["bias"]
        dst = row[move["dst_col"]]
        if move["src_col"] == -1:
            continue
        for name, index, state in worker.states():
            old = before[name, index]
            if index == 1:  # temporal
                new = old[row[move["src_col"] + bias]]
            else:  # the window slides: its last rows keep what was there
                row_bytes = state.stride(1) * state.element_size()
                new = old[row[move["src_col"]]][bias * row_bytes :]
                new += old[dst][len(new) :]
            expected[name, index][dst] = new
    assert worker.blocks() == expected


def check_fused_postprocess(worker: Worker, step, before) -> None:
    (launch,) = worker.launches
    assert launch.kernel == "postprocess_mamba_fused_kernel"
    assert step["fused_postprocess"] == worker.inputs_by_request(
        launch,
        accepted_in="num_accepted_tokens",
        accepted_out="num_accepted_tokens_out",
        state_idx="mamba_state_idx",
        scheduled="num_scheduled_tokens",
        computed="num_computed_tokens",
        drafts="num_draft_tokens",
    )
    changed = []
    for (name, index), blocks in worker.blocks().items():
        old = before[name, index]
        differ = [block for block, now in enumerate(blocks) if now != old[block]]
        if differ:
            changed.append({"layer": name, "state": index, "changed_blocks": differ})
    assert step["postprocess_changed"] == changed


def replay_align(trace: dict[str, Any], kernels, device: torch.device) -> None:
    worker = Worker(trace, kernels, device)
    for step in trace["steps"]:
        assert worker.state_idx == step["mamba_state_idx_before"]
        if not step["batch_order"]:  # the engine does not call its worker for nothing
            continue
        worker.scheduled(step)
        assert worker.accepted == step["accepted_count_before_precopy"]
        before = worker.blocks()
        moves = worker.before_forward()
        assert worker.state_idx == step["mamba_state_idx"]
        assert worker.accepted == step["accepted_count_after_precopy"]
        if "fused_precopy" in step:
            check_fused_precopy(worker, step, before)
        else:
            check_listed_copies(worker, moves, step, before)

        # The recorded layers were stubs: no forward has written a block in between.
        worker.launches.clear()
        before = worker.blocks()
        worker.after_acceptance(step)
        if "fused_postprocess" in step:
            check_fused_postprocess(worker, step, before)
        assert worker.accepted == step["accepted_count_end"]


@pytest.mark.parametrize("name", recordings("align"))
def test_align_recordings(name: str) -> None:
    replay_align(recordings("align")[name], REFERENCE, torch.device("cpu"))


@pytest.mark.parametrize(
    "name", ["0.30.0-en-02-B4-chunks-two", "0.30.0-es-05-S2-B4-move-back", "0.30.0-es-06-S2-B4-two"]
)
def test_align_recordings_on_the_own_back_end(name: str) -> None:
    replay_align(recordings("align")[name], None, device())


def test_the_recordings_hold_what_these_tests_are_for() -> None:
    steps = [step for trace in recordings("align").values() for step in trace["steps"]]
    moves = [m for step in steps for m in step.get("fused_precopy", {}).values()]
    assert any(m["src_col"] > m["dst_col"] for m in moves)  # a move back
    assert any(m["bias"] == 2 for m in moves)
    assert sum(len(step.get("precopy", [])) for step in steps) > 10
    assert sum(bool(step.get("postprocess_changed")) for step in steps) > 10


# -------------------------------------------------------------------------- all mode


def test_all_mode_recording_with_drafts() -> None:
    trace = recordings("all")["0.30.0-ea-02-all-B8-S2"]
    worker = Worker(trace, REFERENCE, torch.device("cpu"))
    buffer = worker.make_buffer(MAX_REQS, dtype=torch.int32)
    for step in trace["steps"]:
        assert worker.state_idx == step["mamba_state_idx_before"]
        if not step["batch_order"]:
            continue
        worker.scheduled(step)
        order = worker.batch.req_ids
        preprocess_mamba_all_specdec(
            worker.output, worker.batch, worker.state_idx, len(order), buffer
        )
        known = step["mamba_state_idx_before"]
        columns = [known.get(req, -1) for req in order]
        assert buffer.gpu.tolist() == columns + [-1] * (MAX_REQS - len(order))
        postprocess_mamba_all(
            worker.output,
            worker.config,
            worker.batch,
            worker.requests,
            worker.state_idx,
            worker.num_spec,
            len(order),
        )
        worker.after_acceptance(step)
        assert worker.accepted == step["accepted_count_end"]
