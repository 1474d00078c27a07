"""Runs a plan in an engine's own environment and writes what the engine itself holds.

    PYTHON drive.py PLAN.json OUT_FOLDER

Beside every recording NAME.jsonl stands NAME.own.json: lists, rows and counts as asked of the
engine's objects after each step, by another way than the recorder's. This file runs where
nothing of the project but `mambaviz.recorder` is installed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "TRITON_INTERPRET": "1",
    "OMP_NUM_THREADS": "1",
}


def start(plan: dict[str, Any], folder: Path) -> Any:
    """An engine with a model of random weights. The kernels of its worker are interpreted."""
    os.environ.update(ENVIRONMENT)
    second = plan["runner"] == "v2"
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(second))
    import triton
    import triton.language
    import vllm.triton_utils

    # On a CPU the engine has no Triton; its worker's kernels are the very thing to watch.
    vllm.triton_utils.triton, vllm.triton_utils.tl = triton, triton.language
    if second:  # it asks whether there is a Triton, and takes its device functions too
        import triton.language.extra.libdevice

        vllm.triton_utils.HAS_TRITON = True
        vllm.triton_utils.tldevice = triton.language.extra.libdevice
        if "speculative_config" in plan["engine"]:
            _draft_for_the_second_runner()
    if plan["asynchronous"]:
        _schedule_asynchronously()
    if plan["engine"]["mamba_cache_mode"] == "all":
        _pass_the_forward_by()
    from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2
    from vllm.v1.worker import mamba_utils

    if hasattr(mamba_utils, "_TEMPORAL_TILES"):
        mamba_utils._TEMPORAL_TILES = 1  # an interpreter runs tiles one after another
    # 0.32's forward on a CPU cannot export a state from its inside: have prefills cut instead.
    if "get_kv_cache_spec" in vars(MambaMixer2):
        MambaMixer2.get_kv_cache_spec = MambaMixer2.__mro__[1].get_kv_cache_spec
    home = folder / "model"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(json.dumps(plan["model"]))
    from vllm import LLM

    return LLM(
        model=str(home),
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        **plan["engine"],
    )


def _schedule_asynchronously() -> None:
    """The CPU platform switches it off, whatever is asked for: switch it on behind that."""
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def asked_for(cls: Any, vllm_config: Any) -> None:
        original(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = classmethod(asked_for)


def _pass_the_forward_by() -> None:
    """No kernel of the CPU writes a state at every boundary: in all mode the layers do nothing.

    Everything that a recording holds is made before them.
    """
    from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2

    def nothing(_self: Any, *_args: Any, output: Any, **_more: Any) -> None:
        output.zero_()

    MambaMixer2.conv_ssm_forward = nothing


def _draft_for_the_second_runner() -> None:
    """The V2 runner refuses n-gram drafts: a stand-in looks for them."""
    from vllm.config import VllmConfig
    from vllm.v1.worker.gpu import model_runner

    VllmConfig._get_v2_model_runner_unsupported_features = lambda _self: []
    model_runner.init_speculator = SaidBefore


class SaidBefore:
    """Drafts what followed a request's last token when it stood there before."""

    supports_mm_inputs = False
    draft_logits = None

    def __init__(self, vllm_config: Any, *_args: Any) -> None:
        self.count = vllm_config.num_speculative_tokens
        self.requests: Any = None  # the runner's, once there is one

    def init_cudagraph_manager(self, _mode: Any) -> None: ...

    def propose(self, input_batch: Any, *_args: Any, **_more: Any) -> Any:
        import torch

        return torch.tensor([self._drafts(int(slot)) for slot in input_batch.idx_mapping_np])

    def _drafts(self, slot: int) -> list[int]:
        length = int(self.requests.total_len.gpu[slot])
        tokens = self.requests.all_token_ids.gpu[slot, :length].tolist()
        last = tokens.pop()
        earlier = len(tokens) - 1 - tokens[::-1].index(last) if last in tokens else len(tokens)
        return [*tokens[earlier + 1 :][: self.count], *[last] * self.count][: self.count]


class Driven:
    """An engine, stepped by hand."""

    def __init__(self, llm: Any) -> None:
        self.engine = llm.llm_engine
        core = self.engine.engine_core.engine_core
        self.scheduler = core.scheduler
        executor = core.model_executor
        self.runner = executor.driver_worker.worker.model_runner
        self.second = hasattr(self.runner, "req_states")
        if isinstance(getattr(self.runner, "speculator", None), SaidBefore):
            self.runner.speculator.requests = self.runner.req_states
        self.allocated: list[dict[str, Any]] = []  # a step each, until somebody looks

        def looked_at(*args: Any, **kwargs: Any) -> Any:  # around the recorder, which comes later
            output = type(self.scheduler).schedule(self.scheduler, *args, **kwargs)
            self.allocated.append(self._allocated())
            return output

        self.scheduler.schedule = looked_at
        self.serial = 0

    def run(self, plan: dict[str, Any]) -> dict[str, Any]:
        """One run from its first request to an idle engine; what the engine holds, a step each.

        ``planted`` is the number of the first step that a fault can show in; ``died`` says with
        what the engine gave up, as it may when it is broken on purpose.
        """
        asks = plan["asks"]
        names: dict[int, str] = {}
        held: list[dict[str, Any]] = []
        own: dict[str, Any] = {"steps": held, "first": self.serial + 1}
        step = 0
        with ExitStack() as planted:
            while step < 2000:
                if plan["fault"] and step == plan["fault_step"]:
                    planted.enter_context(FAULTS[plan["fault"]](self))
                    own["planted"] = len(held)
                for index, ask in enumerate(asks):
                    if ask["arrive"] == step:
                        names[index] = self._add(ask)
                for at, action, index in plan["actions"]:
                    if at == step:
                        self._act(action, names.get(index))
                waiting = any(ask["arrive"] > step for ask in asks)
                if not self.engine.has_unfinished_requests():
                    if not waiting:
                        break
                    step += 1  # an engine without work makes no step
                    continue
                self.allocated.clear()
                try:
                    self.engine.step()
                except Exception as error:
                    if not plan["fault"]:
                        raise
                    return own | {"died": type(error).__name__}
                held += [allocated | self._worked() for allocated in self.allocated]
                step += 1
        return own

    def _add(self, ask: dict[str, Any]) -> str:
        from vllm import SamplingParams

        self.serial += 1
        sampling = SamplingParams(
            max_tokens=ask["max_tokens"],
            temperature=ask["temperature"],
            ignore_eos=True,
            detokenize=False,
        )
        name = f"ask-{self.serial}"
        self.engine.add_request(name, {"prompt_token_ids": ask["prompt"]}, sampling)
        return name

    def _act(self, action: str, name: str | None) -> None:
        if action == "abort":
            self.engine.abort_request([name])
        else:
            self.engine.reset_prefix_cache(reset_running_requests=action == "reset_running")

    def _allocated(self) -> dict[str, Any]:
        """Lists, registrations and free blocks, straight from the engine's objects."""
        manager = self.scheduler.kv_cache_manager
        pool = manager.block_pool
        return {
            "lists": {
                request.request_id: list(map(list, manager.get_block_ids(request.request_id)))
                for request in self.scheduler.running
            },
            "registered": [block.block_id for block in pool.blocks if block.block_hash],
            "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
        }

    def _worked(self) -> dict[str, Any]:
        """What the worker holds after the step; its order of rows where it keeps one."""
        rows, columns = self._rows_of_v2() if self.second else self._rows_of_v1()
        return {
            "rows": rows,
            "order": None if self.second else list(rows),
            "state_idx": columns,
            "computed": {r.request_id: r.num_computed_tokens for r in self.scheduler.running},
        }

    def _rows_of_v1(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The rows of the batch, and every running column that is remembered."""
        batch = self.runner.input_batch
        rows = {}
        for index, request in enumerate(batch.req_ids):
            rows[request] = [
                table.block_table.np[index, : table.num_blocks_per_row[index]].tolist()
                for table in batch.block_table.block_tables
                if not getattr(table, "use_hybrid_blocks", False)
            ]
        return rows, dict(self.runner.mamba_state_idx)

    def _rows_of_v2(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The same of every slot in use."""
        tables = self.runner.block_tables
        split = getattr(tables, "blocks_per_kv_block", None) or [1] * len(tables.block_tables)
        rows, columns = {}, {}
        for request, slot in self.runner.req_states.req_id_to_index.items():
            rows[request] = [
                [block // parts for block in table.gpu[slot, :length].tolist()[::parts]]
                for table, length, parts in zip(
                    tables.block_tables, tables.num_blocks.np[:, slot], split, strict=True
                )
            ]
            if self.runner.model_state._align_mode:
                columns[request] = int(self.runner.model_state._mamba_state_idx_gpu[slot])
        return rows, columns


# ------------------------------------------------------------------------------- faults


@contextmanager
def _replaced(owner: Any, name: str, other: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def cleanup_skipped(_driven: Driven) -> Iterator[None]:
    """The worker keeps the running column of requests that are over or were preempted."""
    from vllm.v1.worker import mamba_utils

    with _replaced(mamba_utils, "cleanup_mamba_state_idx", lambda *_args, **_kwargs: None):
        yield


@contextmanager
def column_off_by_one(_driven: Driven) -> Iterator[None]:
    """The source column of a copy before the forward is one too low."""
    from vllm.v1.worker import mamba_utils

    original = mamba_utils.collect_mamba_copy_meta

    def off(bufs, config, funcs, groups, source, *rest):  # type: ignore[no-untyped-def]
        return original(bufs, config, funcs, groups, max(source - 1, 0), *rest)

    with _replaced(mamba_utils, "collect_mamba_copy_meta", off):
        yield


@contextmanager
def counts_swapped(driven: Driven) -> Iterator[None]:
    """The accepted counts of the first and the last row change places before a step."""
    runner: Any = type(driven.runner).__mro__[1]
    original = runner._prepare_inputs

    def swapped(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        counts = self.input_batch.num_accepted_tokens_cpu
        last = self.input_batch.num_reqs - 1
        counts[0], counts[last] = int(counts[last]), int(counts[0])
        return original(self, *args, **kwargs)

    with _replaced(runner, "_prepare_inputs", swapped):
        yield


@contextmanager
def chunk_ends_inside(driven: Driven) -> Iterator[None]:
    """Prefills are cut at a limit inside a block, and the block is registered all the same."""
    scheduler = driven.scheduler

    def unaligned(_request: Any, num_new_tokens: int, *_rest: Any, **_more: Any) -> int:
        return min(num_new_tokens, 6)

    with _replaced(scheduler, "_mamba_block_aligned_split", unaligned):
        yield


@contextmanager
def count_left_in_slot(driven: Driven) -> Iterator[None]:
    """With the V2 runner a request takes over the accepted count of whoever had its slot."""
    state = type(driven.runner.model_state)
    original = state.add_request

    def kept(self, slot, request):  # type: ignore[no-untyped-def]
        count = int(self.num_accepted_tokens_gpu[slot])
        original(self, slot, request)
        self.num_accepted_tokens_gpu[slot] = count

    with _replaced(state, "add_request", kept):
        yield


FAULTS: dict[str, Callable[[Driven], Any]] = {
    fault.__name__: fault
    for fault in (
        cleanup_skipped,
        column_off_by_one,
        counts_swapped,
        chunk_ends_inside,
        count_left_in_slot,
    )
}


def main(plan_file: str, out: str) -> None:
    plan = json.loads(Path(plan_file).read_text())
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    driven = None
    for run in plan["runs"]:
        by_plugin = driven is None and "MAMBAVIZ_RECORD" in os.environ
        if driven is None:
            driven = Driven(start(plan, folder))
        from mambaviz import recorder

        path = folder / f"{run['name']}.jsonl"
        if run["recorded"] and not by_plugin:
            recorder.install(recorder.Options(path, states=run["states"]))
        began = time.perf_counter(), time.thread_time(), time.process_time()
        own = driven.run(run)
        own["seconds"] = time.perf_counter() - began[0]
        own["thread_seconds"] = time.thread_time() - began[1]
        own["process_seconds"] = time.process_time() - began[2]
        recorder.stop()
        path.with_suffix(".own.json").write_text(json.dumps(own))
        print(run["name"], len(own["steps"]), "steps", f"{own['seconds']:.2f} s", flush=True)
        if "died" in own:
            break
        driven.engine.reset_prefix_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
