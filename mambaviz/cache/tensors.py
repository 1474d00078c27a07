"""The state tensors: one page per block and layer, conv state first, temporal state behind it.

As in a serving engine, all state tensors of a layer share that layer's pages: the tensors
handed to the kernels are strided views, and the stride from block to block is the page,
padding included.

    page of one block   | conv | temporal | ReplaySSM rings, if any | padding |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from mambaviz.cache.layout import offsets, page_bytes, page_parts, state_kinds
from mambaviz.config import AttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from mambaviz.scenario import Scenario
from mambaviz.trace import StateSpec

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def layer_name(layer: int) -> str:
    return f"layers.{layer}.mixer"


def mamba_spec(scenario: Scenario) -> MambaSpec:
    """Shapes and dtypes of one layer's state in one block (sections 1, 4.8, 5.1)."""
    engine, parts = scenario.engine, page_parts(scenario)
    return MambaSpec(
        block_size=engine.effective_block_size,
        shapes=tuple(part.shape for part in parts),
        dtypes=tuple(DTYPES[part.dtype] for part in parts),
        mamba_cache_mode=engine.mode,
        num_speculative_blocks=engine.num_spec,
        page_size_padded=page_bytes(scenario),
    )


def kv_cache_config(scenario: Scenario) -> KVCacheConfig:
    """Layers dealt out to the Mamba groups in turn; an attention group stands last (section 2)."""
    engine = scenario.engine
    spec = mamba_spec(scenario)
    groups = [
        KVCacheGroupSpec(
            layer_names=[
                layer_name(layer)
                for layer in range(group, scenario.layer.num_layers, engine.num_mamba_groups)
            ],
            kv_cache_spec=spec,
        )
        for group in range(engine.num_mamba_groups)
    ]
    if engine.attention_group:
        groups.append(KVCacheGroupSpec(["attention"], AttentionSpec(engine.block_size)))
    return KVCacheConfig(num_blocks=engine.num_blocks, kv_cache_groups=groups)


@dataclass(frozen=True)
class LayerCache:
    """One layer's pages and the state tensors that lie in them.

    ``pages`` is uint8 ``[num_blocks, page_bytes]``; ``states[i]`` is a view
    ``[num_blocks, *spec.shapes[i]]`` into it.
    """

    layer: int
    group: int
    pages: torch.Tensor
    states: list[torch.Tensor]
    spans: list[tuple[int, int]]  # per state: first byte and end in the page


class StateCache:
    """All layers' caches of one run, zero at the start."""

    def __init__(self, scenario: Scenario, device: torch.device) -> None:
        self.spec = mamba_spec(scenario)
        self.layers = [
            self._allocate(layer, layer % scenario.engine.num_mamba_groups, scenario, device)
            for layer in range(scenario.layer.num_layers)
        ]

    def _allocate(
        self, layer: int, group: int, scenario: Scenario, device: torch.device
    ) -> LayerCache:
        num_blocks, page = scenario.engine.num_blocks, self.spec.page_size_bytes
        pages = torch.zeros(num_blocks, page, dtype=torch.uint8, device=device)
        places = offsets(self.spec.shapes, [dtype.itemsize for dtype in self.spec.dtypes])
        states, spans = [], []
        for shape, dtype, offset in zip(
            self.spec.shapes, self.spec.dtypes, places[:-1], strict=True
        ):
            flat = pages.view(-1).view(dtype)
            natural_strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
            states.append(
                flat.as_strided(
                    (num_blocks, *shape),
                    (page // dtype.itemsize, *natural_strides),
                    offset // dtype.itemsize,
                )
            )
            spans.append((offset, offset + prod(shape) * dtype.itemsize))
        return LayerCache(layer, group, pages, states, spans)

    def snapshot(self) -> list[np.ndarray]:
        """Every layer's pages as uint8 ``[num_blocks, page_bytes]`` on the host, copied."""
        return [cache.pages.cpu().numpy().copy() for cache in self.layers]

    def state_specs(self, scenario: Scenario) -> list[StateSpec]:
        """What the trace needs to know to read bytes: the copied states of every layer.

        ``index`` is the position in the copy kernels' metadata tensors: by group, then layer,
        then conv before temporal (section 3.1).
        """
        kinds = state_kinds(scenario)
        by_group = sorted(self.layers, key=lambda cache: (cache.group, cache.layer))
        specs = [
            StateSpec(
                layer=cache.layer,
                layer_name=layer_name(cache.layer),
                group=cache.group,
                state=kind,
                index=position * len(kinds) + number,
                shape=list(self.spec.shapes[number]),
                dtype=scenario.layer.cache_dtype,
                offset=cache.spans[number][0],
                page_bytes=self.spec.page_size_bytes,
            )
            for position, cache in enumerate(by_group)
            for number, kind in enumerate(kinds)
        ]
        return specs
