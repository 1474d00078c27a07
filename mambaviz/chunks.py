"""Where a prefill chunk ends in align mode (section 2, "align prefill split").

A state is kept only where a step ends, so chunks are made to end where one is worth keeping.
"""

from __future__ import annotations

from mambaviz.request import Request
from mambaviz.scenario import EngineSettings


def split_at_boundaries(
    engine: EngineSettings, request: Request, start: int, num_tokens: int
) -> int:
    """Tokens to compute from ``start`` on, of at most ``num_tokens``; 0 = wait for more budget."""
    B, known = engine.block_size, request.num_tokens
    prefill_end = max(request.num_prompt_tokens, known - 1)
    if start >= prefill_end:
        return num_tokens
    end = start + num_tokens
    if end < prefill_end:
        boundary = end // B * B
        if boundary > start:
            end = boundary
        elif engine.largest_chunk >= B:
            return 0
        # else no chunk can ever reach from boundary to boundary: advance inside the block
    inside = [stop for stop in _stops(engine, start, known) if start < stop < end]
    return min(inside, default=end) - start


def _stops(engine: EngineSettings, start: int, known: int) -> list[int]:
    """Positions that a chunk must not run past, since a state is wanted there."""
    B = engine.block_size
    last = known - known % B
    if engine.drop_last_matched_block:
        last -= B  # a hit will fall one block short of what matches
    stops = [last]
    if start % B:
        stops.append(start // B * B + B)
    if engine.stop_before_last_token and known % B == 0:
        stops.append((known - 1) // B * B)  # a hit always leaves one token to compute
    return stops
