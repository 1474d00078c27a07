"""What lies in a page, in numbers alone (sections 1, 4.8, 5.1). Importing it costs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mambaviz.scenario import Scenario
from mambaviz.trace import StateKind

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class PagePart:
    """One tensor of a layer's state in one block; its shape leaves out the block dimension."""

    shape: tuple[int, ...]
    dtype: str  # as in the scenario's ``cache_dtype``

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]


def state_kinds(scenario: Scenario) -> tuple[StateKind, ...]:
    """The states of a layer that copies move, in kernel order (section 3.1)."""
    kinds: tuple[StateKind, ...] = ("conv", "temporal")
    states = scenario.layer.states
    return kinds if states == "both" else tuple(kind for kind in kinds if kind == states)


def page_parts(scenario: Scenario) -> tuple[PagePart, ...]:
    """The tensors of a page, in their order."""
    engine, layer = scenario.engine, scenario.layer
    dim = layer.num_heads * layer.head_dim
    state_len = layer.conv_kernel - 1 + engine.num_spec
    conv = (state_len, dim) if engine.layout == "SD" else (dim, state_len)
    temporal = (layer.num_heads, layer.head_dim, layer.d_state)
    shape_of = {"conv": conv, "temporal": temporal}
    dtype = layer.cache_dtype
    parts = tuple(PagePart(shape_of[kind], dtype) for kind in state_kinds(scenario))
    if length := engine.replayssm_buffer_len:
        parts += (
            PagePart((layer.num_heads, length, layer.head_dim), dtype),  # x ring
            PagePart((layer.num_heads, length), "float32"),  # dt ring
            # B ring; every head is a group of its own
            PagePart((layer.num_heads, length, layer.d_state), dtype),
        )
    return parts


def page_bytes(scenario: Scenario) -> int:
    """Bytes from one block of a layer to the next, padding included."""
    parts = page_parts(scenario)
    sizes = [part.item_bytes for part in parts]
    natural = offsets([part.shape for part in parts], sizes)[-1]
    return round_up(natural + scenario.layer.page_padding_bytes, max(sizes))


def offsets(shapes: Sequence[tuple[int, ...]], item_bytes: Sequence[int]) -> list[int]:
    """First byte of each tensor in the page, then the last one's end; each aligned to its dtype."""
    found, end = [], 0
    for shape, size in zip(shapes, item_bytes, strict=True):
        start = round_up(end, size)
        found.append(start)
        end = start + prod(shape) * size
    return [*found, end]


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
