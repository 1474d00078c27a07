"""How far an exploration has come; free of torch, so that a page can read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far an exploration has come. ``seconds_left`` is for this depth, None at its start."""

    depth: int
    last_depth: int
    done: int  # tasks of this depth
    tasks: int
    runs: int  # scenarios of this depth
    hits: int
    rate: float  # scenarios a second, of this session
    seconds_left: float | None
    replaying: bool = False
