"""Which cache groups hold Mamba state, and the tensors that a copy goes over (section 3.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mambaviz.config import KVCacheConfig, MambaSpec
from mambaviz.worker.copy_specs import CopyFunc, StateKind, state_kind
from mambaviz.worker.protocols import ForwardContext


def get_mamba_groups(kv_cache_config: KVCacheConfig) -> tuple[list[int], MambaSpec]:
    """Indices of the Mamba groups among ``kv_cache_groups``, and their common spec.

    ValueError when there is none, or when two groups' specs differ: one running column per
    request, one block size and one set of copy functions serve all of them. Section 3.7.
    """
    specs = {
        gid: group.kv_cache_spec
        for gid, group in enumerate(kv_cache_config.kv_cache_groups)
        if isinstance(group.kv_cache_spec, MambaSpec)
    }
    if not specs:
        raise ValueError(
            f"no Mamba group among the {len(kv_cache_config.kv_cache_groups)} cache groups: "
            "at least one must have a MambaSpec"
        )
    first, *others = specs
    for gid in others:
        if specs[gid] != specs[first]:
            raise ValueError(
                f"all Mamba groups must share one spec, but group {first} has {specs[first]} "
                f"and group {gid} has {specs[gid]}"
            )
    return list(specs), specs[first]


def num_mamba_layers(kv_cache_config: KVCacheConfig, group_ids: Sequence[int]) -> int:
    return sum(len(kv_cache_config.kv_cache_groups[gid].layer_names) for gid in group_ids)


@dataclass(frozen=True)
class StateTensor:
    """One state tensor ``[num_blocks, ...]`` that copies go over, and how it is copied."""

    group: int  # cache group, an index into kv_cache_groups
    layer_name: str
    index: int  # which of the layer's state tensors
    kind: StateKind
    copy_func: CopyFunc
    tensor: torch.Tensor

    @property
    def name(self) -> str:
        return f"{self.kind} state {self.index} of layer {self.layer_name}"


def iter_state_tensors(
    kv_cache_config: KVCacheConfig,
    group_ids: Sequence[int],
    forward_context: ForwardContext,
    copy_funcs: Sequence[CopyFunc],
) -> Iterator[StateTensor]:
    """The tensors to copy: per group, per layer, one for each copy function, in this order.

    A ReplaySSM layer holds more tensors than there are copy functions; those behind them
    (its input rings) stay where they are. ValueError for a layer without a context, a layer
    with fewer tensors than copy functions, or an unknown copy function.
    """
    for gid in group_ids:
        for layer_name in kv_cache_config.kv_cache_groups[gid].layer_names:
            if layer_name not in forward_context:
                raise ValueError(f"the forward context has no layer {layer_name} (group {gid})")
            tensors = forward_context[layer_name].kv_cache
            if len(tensors) < len(copy_funcs):
                raise ValueError(
                    f"layer {layer_name} holds {len(tensors)} state tensors, "
                    f"fewer than the {len(copy_funcs)} copy functions"
                )
            # Not strict: the rings of a ReplaySSM layer have no copy function.
            for index, (func, tensor) in enumerate(zip(copy_funcs, tensors, strict=False)):
                yield StateTensor(gid, layer_name, index, state_kind(func), func, tensor)
