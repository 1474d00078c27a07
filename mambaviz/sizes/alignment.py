"""One pool, one page size: how the block of both kinds of layer comes about.

A state page is as large as the states, whatever the number of tokens. An attention page grows
with the tokens of its block. So the attention block is raised until its page covers the state,
and the state page is padded with what is then left over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mambaviz.columns import cdiv
from mambaviz.sizes.families import BYTES_OF, Dtype, SizesError, StateShapes, state_shapes
from mambaviz.sizes.model import Heads, Latent, Model
from mambaviz.sizes.settings import Settings

DEFAULT_BLOCK = 16  # tokens, where nothing is configured
KERNEL_BLOCK = 16  # smallest block of the usual attention backends
LATENT_KERNEL_BLOCK = 128  # of those for MLA
GDN_PREFILL_BLOCK = 64  # what the FlashInfer prefill of gated delta nets works in
CHUNK_WITHOUT_ONE = 2048  # all mode, where the config names no chunk


@dataclass(frozen=True)
class StatePage:
    """The states of one layer in one block, in bytes and per rank."""

    shapes: StateShapes
    conv_dtype: Dtype | None
    temporal_dtype: Dtype | None
    drafts: int  # as far as the family takes them

    @property
    def conv_bytes(self) -> int:
        return self.shapes.conv_elements * BYTES_OF[self.conv_dtype] if self.conv_dtype else 0

    @property
    def temporal_bytes(self) -> int:
        dtype = self.temporal_dtype
        return self.shapes.temporal_elements * BYTES_OF[dtype] if dtype else 0

    @property
    def bytes(self) -> int:
        return self.conv_bytes + self.temporal_bytes

    @property
    def conv_row_bytes(self) -> int:
        """One token's row of the conv state."""
        if self.shapes.conv is None or self.conv_dtype is None:
            return 0
        return self.shapes.conv[1] * BYTES_OF[self.conv_dtype]


@dataclass(frozen=True)
class AttentionToken:
    """What one token takes in one attention layer, per rank."""

    bytes: int
    dtype: Dtype
    formula: str


@dataclass(frozen=True)
class Alignment:
    """Block and pages of a model with both kinds of layer. ``unit`` is what the block is a
    multiple of: the grain, in all mode its least common multiple with the chunk."""

    configured: int
    kernel_block: int
    grain: int
    grain_formula: str
    unit: int
    unit_formula: str
    tokens_to_cover: int
    block: int
    attention_page: int
    padding: int
    padding_percent: float

    @property
    def raised(self) -> bool:
        return self.block > self.configured


def state_page(model: Model, settings: Settings, drafts: int) -> StatePage:
    """Shapes and dtypes of a layer's states. ``auto``: conv as the model, temporal as conv
    unless the model's family says otherwise. Raises SizesError for a split that cannot be."""
    shapes = state_shapes(model.recurrence, settings.tp, drafts)
    conv: Dtype = model.dtype if settings.conv_dtype == "auto" else settings.conv_dtype
    temporal: Dtype = model.state_dtype or conv
    if settings.temporal_dtype != "auto":
        temporal = settings.temporal_dtype
    return StatePage(
        shapes, conv if shapes.conv else None, temporal if shapes.temporal else None, drafts
    )


def attention_token(model: Model, settings: Settings) -> AttentionToken | None:
    """Bytes per token and layer; None for a model without attention.

    K and V of the rank's KV heads, at least one: below one a rank the heads are replicated. MLA:
    one latent vector, the same on every rank.
    """
    attention = model.attention
    if attention is None:
        return None
    dtype: Dtype = model.dtype if settings.kv_dtype == "auto" else settings.kv_dtype
    size = BYTES_OF[dtype]
    if isinstance(attention, Latent):
        rank, rope = attention.kv_lora_rank, attention.qk_rope_head_dim
        formula = f"(kv_lora_rank + rope) × bytes = ({rank} + {rope}) × {size}"
        return AttentionToken((rank + rope) * size, dtype, formula)
    heads = _kv_heads_a_rank(attention, settings.tp)
    formula = (
        f"2 × max(1, kv_heads / T) × head_dim × bytes = 2 × {heads} × {attention.head_dim} × {size}"
    )
    return AttentionToken(2 * heads * attention.head_dim * size, dtype, formula)


def _kv_heads_a_rank(attention: Heads, tp: int) -> int:
    heads = attention.num_key_value_heads
    if heads % tp and tp % heads:
        raise SizesError(
            f"tp = {tp}: {heads} KV heads can neither be split over {tp} ranks nor be repeated "
            "evenly; choose a divisor or a multiple"
        )
    return max(1, heads // tp)


def align(model: Model, settings: Settings, page: StatePage, token: AttentionToken) -> Alignment:
    """Raise the block until the attention page covers the state page, then pad the state page."""
    configured = settings.block_size or DEFAULT_BLOCK
    kernel = settings.kernel_block or (
        LATENT_KERNEL_BLOCK if isinstance(model.attention, Latent) else KERNEL_BLOCK
    )
    grain, grain_formula = _grain(model, settings, kernel, configured)
    unit, unit_formula = _unit(model, settings, grain)
    needed = unit * cdiv(page.bytes, unit * token.bytes)
    block = max(configured, kernel * cdiv(needed, kernel))
    attention_page = block * token.bytes
    padding = attention_page - page.bytes
    return Alignment(
        configured=configured,
        kernel_block=kernel,
        grain=grain,
        grain_formula=grain_formula,
        unit=unit,
        unit_formula=unit_formula,
        tokens_to_cover=cdiv(page.bytes, token.bytes),
        block=block,
        attention_page=attention_page,
        padding=padding,
        padding_percent=100 * padding / page.bytes,
    )


def _grain(model: Model, settings: Settings, kernel: int, configured: int) -> tuple[int, str]:
    grain = max(kernel, configured)
    formula = f"max(kernel block, configured block) = max({kernel}, {configured}) = {grain}"
    if settings.flashinfer_gdn and settings.mode == "align" and model.recurrence.family == "gdn":
        wider = math.lcm(grain, GDN_PREFILL_BLOCK)
        formula += f"; lcm({grain}, {GDN_PREFILL_BLOCK}) = {wider} for the FlashInfer prefill"
        grain = wider
    return grain, formula


def _unit(model: Model, settings: Settings, grain: int) -> tuple[int, str]:
    if settings.mode != "all":
        return grain, f"the grain, {grain}"
    chunk = model.chunk_size or CHUNK_WITHOUT_ONE
    unit = math.lcm(chunk, grain)
    return unit, f"lcm(chunk, grain) = lcm({chunk}, {grain}) = {unit}"
