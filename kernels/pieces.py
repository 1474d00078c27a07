"""How the fast copy kernels share out their work: the states of a request, cut into pieces.

Plain torch; ``fast_copy.py`` has the kernels, and says what a piece is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

PIECE_BYTES = 16384  # what a program takes at a time
TILE_BYTES = 16384  # of that, what it has in flight at a time
PROGRAMS_PER_MULTIPROCESSOR = 4
COMPILE_OPTIONS = {"num_warps": 8, "maxnreg": 64}  # with which as many programs fit
SHORTEST_WINDOW = 4  # rows for which a tile of a conv window has room, at least


class Geometry(Protocol):
    """What the cut of a state hangs on: a part of section 3.1's table, in its units."""

    @property
    def elem_size(self) -> int: ...
    @property
    def inner_size(self) -> int: ...
    @property
    def conv_width(self) -> int: ...
    @property
    def dim_row_count(self) -> int: ...
    @property
    def dim_row_stride(self) -> int: ...


@dataclass(frozen=True)
class Pieces:
    """How the states of one request are cut up; the same for every request, made at binding.

    ``states`` int32 [num_pieces]: whose piece it is. ``firsts`` int32 [num_pieces]: its first
    column; it ends where the next one begins or the columns do.
    """

    states: torch.Tensor
    firsts: torch.Tensor
    max_conv_rows: int  # rows of the tallest conv window, rounded up to a power of two
    piece_bytes: int
    tile_bytes: int

    @classmethod
    def of(
        cls,
        geometries: Sequence[Geometry],
        conv_state_dim_first: bool,
        device: torch.device | str,
        piece_bytes: int = PIECE_BYTES,
        tile_bytes: int = TILE_BYTES,
    ) -> Pieces:
        """Cut the states of ``geometries`` (one each, in state order).

        ``piece_bytes`` >= ``tile_bytes``: powers of two. ValueError for what `can_be_cut` denies.
        """
        if not can_be_cut(geometries, conv_state_dim_first, tile_bytes):
            raise ValueError(
                f"blocks of 2 GiB, or conv windows of more than {tile_bytes // 16} rows, are "
                f"beyond the fast copy kernels; use the readable ones for {geometries}"
            )
        max_conv_rows = _max_conv_rows(geometries, conv_state_dim_first)
        states, firsts = [], []
        for state, geometry in enumerate(geometries):
            by_channel = conv_state_dim_first and geometry.conv_width > 0
            row_bytes = geometry.inner_size * geometry.elem_size
            num_columns = geometry.dim_row_count if by_channel else row_bytes
            step = piece_bytes // max_conv_rows if geometry.conv_width else piece_bytes
            starts = range(0, num_columns, step)
            states += [state] * len(starts)
            firsts += list(starts)
        return cls(
            torch.tensor(states, dtype=torch.int32, device=device),
            torch.tensor(firsts, dtype=torch.int32, device=device),
            max_conv_rows,
            piece_bytes,
            tile_bytes,
        )

    def arguments(self, num_reqs: int) -> dict[str, torch.Tensor | int]:
        """What the fast kernels are given beyond the arguments of the readable ones."""
        return {
            "piece_states": self.states,
            "piece_firsts": self.firsts,
            "num_pieces": len(self.states),
            "MAX_REQS": next_power_of_2(num_reqs),
            "PIECE_BYTES": self.piece_bytes,
            "TILE_BYTES": self.tile_bytes,
            "MAX_CONV_ROWS": self.max_conv_rows,
        }


def can_be_cut(
    geometries: Sequence[Geometry], conv_state_dim_first: bool, tile_bytes: int = TILE_BYTES
) -> bool:
    """Whether numbers within a block fit in 32 bits, and every conv window in a tile."""
    spans = [
        max(
            max(g.conv_width, 1) * g.inner_size * g.elem_size,
            g.dim_row_count * g.dim_row_stride,
        )
        for g in geometries
    ]
    tallest = _max_conv_rows(geometries, conv_state_dim_first)
    return max(spans, default=0) < 2**31 and tallest * 16 <= tile_bytes


def _max_conv_rows(geometries: Sequence[Geometry], conv_state_dim_first: bool) -> int:
    rows = [g.conv_width * (g.elem_size if conv_state_dim_first else 1) for g in geometries]
    return next_power_of_2(max([*rows, SHORTEST_WINDOW]))


def next_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def num_programs(device: torch.device) -> int:
    """Programs of a launch: as many as the GPU holds at once, however much there is to do."""
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    return multiprocessors * PROGRAMS_PER_MULTIPROCESSOR
