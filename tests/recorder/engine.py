"""Small stand-ins with the names of vLLM's seams: enough to be hooked, nothing of what they do.

`modules()` builds the module objects; a test puts them into ``sys.modules`` under their names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


@dataclass
class Block:
    block_id: int
    ref_cnt: int = 1
    is_null: bool = False
    block_hash: bytes | None = None
    block_hash_num_tokens: int | None = None


class BlockPool:
    def __init__(self, num_blocks: int) -> None:
        self.hash_block_size = 4
        self.blocks = [Block(i, is_null=i == 0) for i in range(num_blocks)]
        self.free_block_queue = SimpleNamespace(get_all_free_blocks=lambda: self.blocks[3:])

    def cache_full_blocks(
        self, request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id
    ) -> None:
        for column in range(num_cached_blocks, num_full_blocks):
            blocks[column].block_hash = request.block_hashes[column]
            blocks[column].block_hash_num_tokens = (column + 1) * block_size

    def get_new_blocks(self, num_blocks: int) -> list[Block]:
        taken = self.blocks[1 : 1 + num_blocks]
        for block in taken:
            block.block_hash = None
        return taken

    def evict_blocks(self, block_ids) -> None: ...

    def reset_prefix_cache(self) -> bool:
        for block in self.blocks:
            block.block_hash = None
        return True

    def get_num_free_blocks(self) -> int:
        return len(self.blocks) - 3


class MambaSpec:
    block_size = 4
    shapes = ((3, 8), (2, 2, 4))
    dtypes = ("torch.float32", "torch.float32")
    page_size_bytes = 256
    mamba_cache_mode = "align"
    num_speculative_blocks = 0


def kv_cache_config() -> Any:
    group = SimpleNamespace(kv_cache_spec=MambaSpec(), layer_names=["secret.layer.0"])
    return SimpleNamespace(num_blocks=8, kv_cache_groups=[group])


def vllm_config() -> Any:
    return SimpleNamespace(
        cache_config=SimpleNamespace(
            mamba_cache_mode="align",
            enable_prefix_caching=True,
            prefix_cache_retention_interval=None,
        ),
        scheduler_config=SimpleNamespace(
            max_num_seqs=4, max_num_batched_tokens=16, long_prefill_token_threshold=0
        ),
        model_config=SimpleNamespace(max_model_len=64, model="secret-model"),
        speculative_config=None,
    )


@dataclass
class Request:
    request_id: str
    prompt_token_ids: list[int]
    block_hashes: list[bytes] = field(default_factory=list)
    num_computed_tokens: int = 0
    max_tokens: int = 5
    over: bool = False
    cache_salt: str | None = None

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def all_token_ids(self) -> list[int]:
        return self.prompt_token_ids

    def is_finished(self) -> bool:
        return self.over


class Scheduler:
    """Schedules what the test lays into ``next_output``."""

    def __init__(self, vllm_config, kv_cache_config) -> None:
        self.vllm_config = vllm_config
        self.kv_cache_config = kv_cache_config
        self.requests: dict[str, Request] = {}
        self.waiting: list[Request] = []
        pool = BlockPool(8)
        self.manager = SimpleNamespace(req_to_blocks={}, last_state_block_idx={})
        coordinator = SimpleNamespace(single_type_managers=[self.manager])
        self.kv_cache_manager = SimpleNamespace(block_pool=pool, coordinator=coordinator)
        self.next_output: Any = None

    def add_request(self, request) -> None:
        self.requests[request.request_id] = request

    def finish_requests(self, request_ids, finished_status) -> None:
        for name in request_ids:
            self.requests.pop(name).over = True

    def reset_prefix_cache(self, reset_running_requests=False) -> bool:
        return self.kv_cache_manager.block_pool.reset_prefix_cache()

    def shutdown(self) -> None: ...

    def schedule(self) -> Any:
        return self.next_output

    def update_from_output(self, scheduler_output, model_runner_output) -> dict[str, Any]:
        for name, count in scheduler_output.num_scheduled_tokens.items():
            self.requests[name].num_computed_tokens += count
        return {}


def output(scheduled: dict[str, int], new: tuple[str, ...] = (), **more: Any) -> Any:
    """A scheduler's output with just what the recorder reads."""
    running = [name for name in scheduled if name not in new]
    cached = SimpleNamespace(
        req_ids=running,
        num_computed_tokens=[more.get("computed", {}).get(name, 0) for name in running],
        resumed_req_ids=set(),
    )
    return SimpleNamespace(
        num_scheduled_tokens=scheduled,
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=0) for name in new],
        scheduled_cached_reqs=cached,
        scheduled_spec_decode_tokens=more.get("drafts", {}),
        finished_req_ids=more.get("finished", set()),
        preempted_req_ids=None,
    )


class Table:
    use_hybrid_blocks = False

    def __init__(self, rows: list[list[int]]) -> None:
        width = max(map(len, rows))
        padded = [row + [0] * (width - len(row)) for row in rows]
        self.block_table = SimpleNamespace(np=np.array(padded, dtype=np.int32))
        self.num_blocks_per_row = np.array([len(row) for row in rows], dtype=np.int32)


class GPUModelRunner:
    def __init__(self, order: list[str], rows: list[list[int]]) -> None:
        self.kv_cache_config = kv_cache_config()
        self.attn_groups = [[SimpleNamespace(metadata_builders=[Builder()])]]
        self.cache_config = SimpleNamespace(mamba_cache_mode="align")
        self.requests = {name: SimpleNamespace(num_computed_tokens=0) for name in order}
        self.input_batch = SimpleNamespace(
            req_ids=order,
            block_table=SimpleNamespace(block_tables=[Table(rows)]),
            num_accepted_tokens_cpu=np.ones(len(order), dtype=np.int64),
        )
        self.mamba_state_idx: dict[str, int] = {}

    def initialize_metadata_builders(self) -> None: ...

    def _prepare_inputs(self, scheduler_output) -> None: ...

    def _update_states_after_model_execute(self, output_token_ids) -> None: ...


@dataclass
class Metadata:
    num_prefills: int
    state_indices_tensor_p: np.ndarray
    bc_pre_scratch: np.ndarray
    nums_dict: dict[int, Any]


class Builder:
    def build(self, common_attn_metadata, num_accepted_tokens=None) -> Metadata:
        return Metadata(1, np.array([2], dtype=np.int32), np.zeros((2, 2), np.float32), {8: {}})


def preprocess_mamba(scheduler_output, mamba_state_idx, input_batch, requests) -> str:
    for name in input_batch.req_ids:
        mamba_state_idx[name] = 1
    return "done"


def modules() -> dict[str, ModuleType]:
    """Fresh module objects under the engine's names; classes are copies that a test may wrap."""
    parts: dict[str, dict[str, Any]] = {
        "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
        "vllm.v1.core.block_pool": {"BlockPool": BlockPool},
        "vllm.v1.worker.gpu_model_runner": {"GPUModelRunner": GPUModelRunner},
        "vllm.v1.worker.mamba_utils": {"preprocess_mamba": preprocess_mamba},
    }
    made = {}
    for name, content in parts.items():
        made[name] = ModuleType(name)
        for key, value in content.items():
            setattr(made[name], key, value)
    return made
