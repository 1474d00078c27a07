"""What a request holds, in pages: one page a layer and block (section 2, "Blocks per request")."""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.columns import cdiv
from mambaviz.sizes.settings import Mode

GIB = 2**30


@dataclass(frozen=True)
class Layout:
    """Everything that the memory of a request depends on. ``block`` in tokens, ``page`` in bytes;
    ``scratch`` blocks hold the states of draft positions."""

    mamba_layers: int
    attention_layers: int
    block: int
    page: int
    scratch: int
    prefill_checkpoints: bool = False


def state_blocks(layout: Layout, mode: Mode, tokens: int) -> int:
    """Blocks of one recurrent layer that a request of so many tokens holds at most.

    none: one, and the scratch. align: the running block, the one before it while a step moves on,
    and the scratch, whatever the length. all: a block for every column. A state that only waits
    to be found again is not counted: its block is free to be taken.
    """
    if mode == "none":
        return 1 + layout.scratch
    if mode == "align":
        return 2 + layout.scratch + layout.prefill_checkpoints
    return cdiv(tokens, layout.block) + layout.scratch


def attention_blocks(layout: Layout, tokens: int) -> int:
    """Blocks of one attention layer: every column is real, in every mode."""
    return cdiv(tokens, layout.block) if layout.attention_layers else 0


def state_bytes(layout: Layout, mode: Mode, tokens: int) -> int:
    return layout.mamba_layers * state_blocks(layout, mode, tokens) * layout.page


def attention_bytes(layout: Layout, tokens: int) -> int:
    return layout.attention_layers * attention_blocks(layout, tokens) * layout.page


def request_bytes(layout: Layout, mode: Mode, tokens: int) -> int:
    """Bytes that a request of so many tokens holds at most, per rank, all layers."""
    return state_bytes(layout, mode, tokens) + attention_bytes(layout, tokens)


def requests_that_fit(layout: Layout, mode: Mode, tokens: int, memory_gib: float) -> int:
    """Whole requests of that length in so much cache memory. Whole pages count."""
    pages = int(memory_gib * GIB) // layout.page
    return pages // (request_bytes(layout, mode, tokens) // layout.page)
