"""The engine's configuration in the words of the format; what cannot be read is left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

MAMBA_UTILS = "vllm.model_executor.layers.mamba.mamba_utils"
STATE_NAMES = ("conv", "temporal")


def read(root: object, path: str) -> Any:
    """``root.a.b.c``, or None where a part is missing."""
    for part in path.split("."):
        root = getattr(root, part, None)
        if root is None:
            return None
    return root


def group_kind(spec: object) -> str:
    """``mamba``, ``attention`` (every token keeps its place), or ``other``."""
    name = type(first_spec(spec)).__name__
    if name == "MambaSpec":
        return "mamba"
    return "attention" if name in ("FullAttentionSpec", "MLAAttentionSpec") else "other"


def first_spec(spec: object) -> Any:
    """The spec itself, or one of the many layers that share a group."""
    many = getattr(spec, "kv_cache_specs", None)
    return next(iter(many.values())) if many else spec


def groups_of(kv_cache_config: Any) -> list[dict[str, Any]]:
    """The head's ``groups``."""
    return [_group(group) for group in kv_cache_config.kv_cache_groups]


def _group(group: Any) -> dict[str, Any]:
    spec = first_spec(group.kv_cache_spec)
    entry: dict[str, Any] = {
        "kind": group_kind(spec),
        "block_size": int(spec.block_size),
        "layers": len(group.layer_names),
    }
    page = read(spec, "page_size_bytes")
    if page is not None:
        entry["page_bytes"] = int(page)
    if entry["kind"] == "mamba":
        entry["states"] = [
            {
                "state": STATE_NAMES[index] if index < len(STATE_NAMES) else f"state{index}",
                "shape": [int(extent) for extent in shape],
                "dtype": str(dtype).removeprefix("torch."),
            }
            for index, (shape, dtype) in enumerate(zip(spec.shapes, spec.dtypes, strict=True))
        ]
    return entry


def settings_of(
    vllm_config: Any, kv_cache_config: Any, scheduler: Any, runner: str | None
) -> dict[str, Any]:
    """The head's ``settings``; each value on its own, so that one surprise costs one key."""
    cache = read(vllm_config, "cache_config")
    limits = read(vllm_config, "scheduler_config")
    drafts = read(vllm_config, "speculative_config")
    mamba = next(
        (
            first_spec(group.kv_cache_spec)
            for group in kv_cache_config.kv_cache_groups
            if group_kind(group.kv_cache_spec) == "mamba"
        ),
        None,
    )
    found: dict[str, Callable[[], Any]] = {
        "mode": lambda: _word(read(mamba, "mamba_cache_mode"), ("none", "align", "all")),
        "runner": lambda: runner or _runner(vllm_config),
        "layout": _layout,
        "block_size": lambda: read(mamba, "block_size"),
        "hash_block_size": lambda: read(scheduler, "kv_cache_manager.block_pool.hash_block_size"),
        "num_spec": lambda: read(drafts, "num_speculative_tokens") or 0,
        "num_speculative_blocks": lambda: read(mamba, "num_speculative_blocks"),
        "prefill_checkpoint_blocks": lambda: read(mamba, "num_prefill_checkpoint_blocks"),
        "num_blocks": lambda: read(kv_cache_config, "num_blocks"),
        "max_num_seqs": lambda: read(limits, "max_num_seqs"),
        "max_num_batched_tokens": lambda: read(limits, "max_num_batched_tokens"),
        "max_model_len": lambda: read(vllm_config, "model_config.max_model_len"),
        "retention": lambda: _retention(cache),
        "admission_gate": lambda: read(limits, "scheduler_reserve_full_isl"),
        "drop_last_matched_block": lambda: read(scheduler, "use_eagle_block_drop"),
        "full_cuda_graphs": lambda: _called(
            vllm_config, "compilation_config.cudagraph_mode.has_full_cudagraphs"
        ),
        "async_scheduling": lambda: read(limits, "async_scheduling"),
        "prefix_caching": lambda: read(cache, "enable_prefix_caching"),
        "replayssm_buffer_len": lambda: (
            read(cache, "replayssm_buffer_len") if read(cache, "use_replayssm") else 0
        ),
        "chunk_size": lambda: _called(vllm_config, "model_config.get_mamba_chunk_size"),
        "parallel_drafting": lambda: read(drafts, "parallel_drafting"),
    }
    settings: dict[str, Any] = {}
    for name, value in found.items():
        try:
            answer = value()
        except Exception:  # noqa: BLE001  # absent means unknown
            continue
        if answer is not None:
            settings[name] = answer
    limit = read(limits, "long_prefill_token_threshold")
    if limit is not None:
        settings["prefill_chunk_limit"] = limit or None
    return settings


def _called(root: object, path: str) -> Any:
    method = read(root, path)
    return method() if callable(method) else None


def _word(value: Any, allowed: tuple[str, ...]) -> str | None:
    return value if value in allowed else None


def _runner(vllm_config: Any) -> str | None:
    """Which runner the configuration asks for, where none has been met yet."""
    second = read(vllm_config, "use_v2_model_runner")
    return None if second is None else ("v2" if second else "v1")


def _layout() -> str | None:
    """How conv states lie, asked of the engine itself."""
    dim_first = sys.modules[MAMBA_UTILS].is_conv_state_dim_first()
    return "DS" if dim_first else "SD"


def _retention(cache: Any) -> str | int | None:
    if not hasattr(cache, "prefix_cache_retention_interval"):
        return None
    interval = cache.prefix_cache_retention_interval
    return "dense" if interval is None else ("boundary" if interval == 0 else int(interval))


def process_of(vllm_config: Any, role: str, rank: int) -> tuple[dict[str, Any], str]:
    """The head's ``process``, and what the name of its file gets added."""
    replica = read(vllm_config, "parallel_config.data_parallel_rank") or 0
    parts = [f"dp{replica}"] if replica else []
    if role == "worker":
        parts.append(f"rank{rank}" if rank >= 0 else f"pid{os.getpid()}")
    return {"role": role, "rank": max(rank, 0)}, ".".join(parts)
