"""Choices that make prefix caching inert, or a setting without effect: one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.columns import cdiv
from mambaviz.sizes.families import TAKES_DRAFTS
from mambaviz.sizes.model import Model
from mambaviz.sizes.report import Report
from mambaviz.sizes.settings import Settings


def warnings(report: Report) -> Iterator[str]:
    """What to mind about these settings."""
    model, settings, block = report.model, report.settings, report.mamba_block
    family = model.recurrence.family
    if settings.num_spec and family not in TAKES_DRAFTS:
        yield (
            f"{family} layers take no draft tokens: the {settings.num_spec} asked for are left "
            "out of every size."
        )
    if settings.flashinfer_gdn and (family != "gdn" or settings.mode != "align"):
        yield "The FlashInfer prefill matters to gated delta nets in align mode only."
    if block is None:
        yield "Prefix caching is off: none mode keeps no state at a boundary to be found again."
        return
    if settings.prompt <= block:
        yield (
            f"Prefix caching is inert for such prompts: {settings.prompt:,} tokens do not pass one "
            f"block of {block:,}, and at least one token is always computed."
        )
    if block > settings.prefill_budget:
        yield (
            f"A block of {block:,} tokens is wider than the prefill budget of "
            f"{settings.prefill_budget:,}: no chunk covers one. An engine that does not stop a "
            "chunk at the next boundary never has a boundary’s state, and prefix caching is inert; "
            f"with that stop a block takes {cdiv(block, settings.prefill_budget)} chunks."
        )
    yield from _chunk_warning(model, settings, block)
    if 1 + settings.num_spec > block and family in TAKES_DRAFTS:
        yield (
            f"A step of 1 + {settings.num_spec} tokens does not fit a block of {block}: in align "
            "mode the checkpoint column can then name a live scratch block (section 2)."
        )
    if report.alignment is None:
        yield (
            "Without attention there is no page to align with: the block is the configured one, "
            "which sources do not settle for such models."
        )


def _chunk_warning(model: Model, settings: Settings, block: int) -> Iterator[str]:
    chunk = model.chunk_size
    if chunk is None or block % chunk == 0:
        return
    if settings.mode == "all":
        yield (
            f"Prefix caching is inert: a block of {block:,} tokens is no multiple of the chunk of "
            f"{chunk}, and all mode has states at chunk ends only."
        )
    else:
        yield (
            f"A block of {block:,} tokens is no multiple of the model’s chunk of {chunk}: a "
            "prefill can only leave a state at a boundary by ending there, never in passing."
        )
