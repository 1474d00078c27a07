"""The settings that rules need."""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.columns import last_column
from mambaviz.recording.lines import Head


@dataclass(frozen=True)
class Facts:
    """The settings that rules need; None: unknown, and what needs it is not judged."""

    mode: str | None
    runner: str | None
    block_size: int | None  # of the Mamba groups
    num_spec: int | None
    num_blocks: int | None
    ring: int
    checkpoints: bool  # whether one prefill saves boundaries inside its chunk
    chunk_size: int | None
    asynchronous: bool
    mamba: tuple[int, ...]  # cache groups
    states: frozenset[str]

    @classmethod
    def of(cls, head: Head) -> Facts:
        settings, groups = head.settings, head.groups
        mamba = [i for i, group in enumerate(groups or ()) if group.kind == "mamba"]
        size = groups[mamba[0]].block_size if groups and mamba else settings.block_size
        kinds = {shape.state for i in mamba for shape in (groups or [])[i].states}
        return cls(
            mode=settings.mode,
            runner=settings.runner,
            block_size=size,
            num_spec=settings.num_spec,
            num_blocks=settings.num_blocks,
            ring=settings.replayssm_buffer_len or 0,
            checkpoints=bool(settings.prefill_checkpoint_blocks),
            chunk_size=settings.chunk_size,
            asynchronous=bool(settings.async_scheduling),
            mamba=tuple(mamba) if groups is not None else (0,),
            states=frozenset(kinds or {"conv", "temporal"}),
        )

    def last_column(self, tokens: int) -> int:
        """Column of the last of some tokens; 0 for none of them, and in none mode."""
        if self.mode == "none" or self.block_size is None:
            return 0
        return last_column(tokens, self.block_size)
