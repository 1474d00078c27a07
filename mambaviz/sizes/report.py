"""All sizes of one model under given settings, as numbers; `explained` puts them into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mambaviz.sizes import memory
from mambaviz.sizes.alignment import (
    DEFAULT_BLOCK,
    Alignment,
    AttentionToken,
    StatePage,
    align,
    attention_token,
    state_page,
)
from mambaviz.sizes.copy_rates import CopyRate, nearest
from mambaviz.sizes.crossings import (
    CrossingBytes,
    Kept,
    crossing_bytes,
    crossings_per_step,
    kept_tokens,
)
from mambaviz.sizes.families import TAKES_DRAFTS
from mambaviz.sizes.memory import Layout
from mambaviz.sizes.model import Model
from mambaviz.sizes.settings import Mode, Settings

STEPS = 1000  # decode steps that the rate of crossings is told for
CURVE_POINTS = 65
MOST_CURVE_STEPS = 400
WIDEST_SMALL = 1024  # tokens to which the curve of crossings goes at least


@dataclass(frozen=True)
class Report:
    """What follows from a model and settings. Without attention ``token`` and ``alignment`` are
    None, in none mode ``mamba_block`` is (one block covers everything)."""

    model: Model
    settings: Settings
    page: StatePage
    token: AttentionToken | None
    alignment: Alignment | None
    rates: tuple[CopyRate, ...] = ()

    @property
    def drafts(self) -> int:
        return self.page.drafts

    @property
    def page_bytes(self) -> int:
        """One page of the pool, padding included."""
        return self.alignment.attention_page if self.alignment else self.page.bytes

    @property
    def block(self) -> int:
        """Tokens a column covers in align and all mode."""
        if self.alignment:
            return self.alignment.block
        return self.settings.block_size or DEFAULT_BLOCK

    @property
    def mamba_block(self) -> int | None:
        return None if self.settings.mode == "none" else self.block

    @property
    def layout(self) -> Layout:
        return Layout(
            mamba_layers=self.model.mamba_layers,
            attention_layers=self.model.attention_layers,
            block=self.block,
            page=self.page_bytes,
            scratch=self.drafts,
            prefill_checkpoints=self.settings.prefill_checkpoints,
        )

    @property
    def kept(self) -> Kept:
        return kept_tokens(self.drafts, self.settings.acceptance)

    @property
    def copies(self) -> CrossingBytes:
        return crossing_bytes(self.page, self.model.mamba_layers, self.kept)

    @property
    def crossings(self) -> float | None:
        """Per thousand decode steps; None where a step does not fit the block."""
        if self.block < 1 + self.drafts:
            return None
        return STEPS * crossings_per_step(self.block, self.kept)

    @property
    def copies_states(self) -> bool:
        """Only align mode copies: the other two write where the state is wanted."""
        return self.settings.mode == "align"

    def rate_of(self, copied: float) -> CopyRate | None:
        """The measured launch that says how long a copy of so many bytes takes; None without."""
        return nearest(self.rates, copied, self.settings.layout)

    def layout_in(self, mode: Mode) -> Layout:
        """The layout under another mode: all mode can have another block."""
        if mode == self.settings.mode or self.token is None:
            return self.layout
        changed = self.settings.model_copy(update={"mode": mode})
        return size(self.model, changed).layout

    # What the figures draw.

    def memory_curve(self, mode: Mode) -> list[tuple[int, int]]:
        """Points (tokens, bytes of a request) up to twice the chosen length: wherever a block
        begins, or evenly where that is too often to be seen."""
        layout, most = self.layout_in(mode), 2 * self.settings.sequence
        stride = max(layout.block, most // MOST_CURVE_STEPS)
        stops = [*range(1, most, stride), most]
        return [(tokens, memory.request_bytes(layout, mode, tokens)) for tokens in stops]

    def crossing_curve(self, drafts: int) -> list[tuple[int, float]]:
        """Points (block size, crossings per thousand steps) for another number of drafts."""
        kept = kept_tokens(drafts, self.settings.acceptance)
        first = max(DEFAULT_BLOCK, 1 + drafts)
        last = max(WIDEST_SMALL, self.block * 4)
        ratio = (last / first) ** (1 / (CURVE_POINTS - 1))
        blocks = sorted({round(first * ratio**i) for i in range(CURVE_POINTS)} | {self.block})
        return [
            (block, STEPS * crossings_per_step(block, kept)) for block in blocks if block > drafts
        ]


def size(model: Model, settings: Settings, rates: Sequence[CopyRate] = ()) -> Report:
    """The report. Raises SizesError for a split over ranks that cannot be."""
    drafts = settings.num_spec if model.recurrence.family in TAKES_DRAFTS else 0
    page = state_page(model, settings, drafts)
    token = attention_token(model, settings)
    alignment = align(model, settings, page, token) if token else None
    return Report(model, settings, page, token, alignment, tuple(rates))
