"""How the fast copy kernels share out their work: the states of a request, cut into pieces.

Plain torch; ``fast_copy.py`` has the kernels, and says what a piece is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch

PIECE_BYTES = 8192  # what a program has in flight at a time
PROGRAMS_PER_MULTIPROCESSOR = {"SD": 4, "DS": 5}
COMPILE_OPTIONS = {"num_warps": 4, "maxnreg": 96}  # with which as many programs fit
FEW_REQUESTS = 32  # as many lanes decide within a warp, without a barrier

STATE_TENSORS = (  # of section 3.1, in its order
    "state_base_addrs",
    "state_block_strides",
    "state_elem_sizes",
    "state_inner_sizes",
    "state_conv_widths",
    "state_group_indices",
    "state_dim_row_count",
    "state_dim_row_stride",
)
NOT_OF_FAST_KERNELS = ("COPY_BLOCK_SIZE", *STATE_TENSORS)  # the records of the pieces say it all


class Geometry(Protocol):
    """Where the bytes of a state lie: a part of section 3.1's table, in its units."""

    @property
    def base_addr(self) -> int: ...
    @property
    def block_stride(self) -> int: ...
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
class Records:
    """What is known of each piece whichever request it is moved for; all ``[num_pieces]``.

    A column is a byte, of a conv state in the DS layout a channel.
    """

    piece_addrs: torch.Tensor  # int64: of its first column in block 0; >= 2**63 wraps
    piece_block_strides: torch.Tensor  # int64, bytes
    piece_counts: torch.Tensor  # int32, columns
    piece_widths: torch.Tensor  # int32: tokens of the conv window; temporal 0
    piece_token_bytes: torch.Tensor  # int32: conv, from one token to the next
    piece_channel_bytes: torch.Tensor  # int32: conv DS, from one channel to the next
    piece_groups: torch.Tensor  # int32: whose block table


@dataclass(frozen=True)
class Pieces:
    """How the states of one request are cut up; the same for every request, made at binding.

    ``counter`` int32 [1] is 0 between launches: how many pieces a launch has given out.
    """

    records: Records
    counter: torch.Tensor
    num_groups: int
    piece_bytes: int
    conv_rows: int  # SD: tokens of the largest conv window, as a power of two; else 1
    unit: int  # bytes by which all addresses and lengths of a flat copy are divisible: 16, 4, 1
    channel_unit: int  # the same for the rows of a channel (conv DS): 4, 2, 1
    channels_packed: bool  # conv DS: no gap from one channel to the next

    @classmethod
    def of(
        cls,
        geometries: Sequence[Geometry],
        groups: Sequence[int],
        conv_state_dim_first: bool,
        device: torch.device | str,
        piece_bytes: int = PIECE_BYTES,
    ) -> Pieces:
        """Cut the states of ``geometries``, whose block tables are those of ``groups``.

        ``piece_bytes``: a power of two. ValueError for what `can_be_cut` denies.
        """
        if not can_be_cut(geometries, conv_state_dim_first, piece_bytes):
            raise ValueError(
                f"blocks of 2 GiB, or conv windows of more than {piece_bytes // 64} rows, are "
                f"beyond the fast copy kernels; use the readable ones for {geometries}"
            )
        channels = [g for g in geometries if conv_state_dim_first and g.conv_width]
        unit = min(_unit(g) for g in geometries)
        if unit == 1:
            piece_bytes //= 4  # as many lanes, of a byte each
        tallest = max(g.conv_width for g in geometries)
        rows = 1 if conv_state_dim_first else next_power_of_2(max(tallest, 1))
        records = [
            record
            for geometry, group in zip(geometries, groups, strict=True)
            for record in _cut(geometry, group, conv_state_dim_first, piece_bytes, rows)
        ]
        dtypes = [torch.int64, torch.int64, *[torch.int32] * (len(fields(Records)) - 2)]
        columns = [
            torch.tensor(column, dtype=dtype, device=device)
            for column, dtype in zip(zip(*records, strict=True), dtypes, strict=True)
        ]
        return cls(
            Records(*columns),
            torch.zeros(1, dtype=torch.int32, device=device),
            max(groups) + 1,
            piece_bytes,
            rows,
            unit,
            min((_unit_of_channels(g) for g in channels), default=1),
            unit >= 4 and all(g.dim_row_stride == g.conv_width * g.elem_size for g in channels),
        )

    def arguments(self, num_reqs: int) -> dict[str, torch.Tensor | int | bool]:
        """What the fast kernels are given in place of the states of the readable ones."""
        return {
            **vars(self.records),
            "num_pieces": len(self.records.piece_addrs),
            "counter": self.counter,
            "num_groups": self.num_groups,
            "MAX_REQS": max(next_power_of_2(num_reqs), FEW_REQUESTS),
            "MAX_GROUPS": next_power_of_2(self.num_groups),
            "PIECE_BYTES": self.piece_bytes,
            "CONV_ROWS": self.conv_rows,
            "UNIT_BYTES": self.unit,
            "CHANNEL_UNIT_BYTES": self.channel_unit,
            "CHANNELS_PACKED": self.channels_packed,
        }


def _cut(
    geometry: Geometry, group: int, conv_state_dim_first: bool, piece_bytes: int, rows: int
) -> Iterator[tuple[int, ...]]:
    """The records of one state's pieces, each in the order of `Records`."""
    width, column_bytes, channel_bytes = geometry.conv_width, 1, 0
    token_bytes = geometry.inner_size * geometry.elem_size
    num_columns, step = token_bytes, piece_bytes
    if width and conv_state_dim_first:
        num_columns, channel_bytes = geometry.dim_row_count, geometry.dim_row_stride
        column_bytes = channel_bytes
        step = piece_bytes // (width * geometry.elem_size) // 16 * 16
    elif width:
        step = piece_bytes // rows
    for first in range(0, num_columns, step):
        yield (
            geometry.base_addr + first * column_bytes,
            geometry.block_stride,
            min(step, num_columns - first),
            width,
            token_bytes if width else 0,
            channel_bytes,
            group,
        )


def can_be_cut(
    geometries: Sequence[Geometry], conv_state_dim_first: bool, piece_bytes: int = PIECE_BYTES
) -> bool:
    """Whether numbers within a block fit in 32 bits, and every conv window in a piece."""
    spans = [max(_span(g), g.dim_row_count * g.dim_row_stride) for g in geometries]
    rows = [g.conv_width * (g.elem_size if conv_state_dim_first else 1) for g in geometries]
    return bool(spans) and max(spans) < 2**31 and next_power_of_2(max(rows)) * 64 <= piece_bytes


def _span(geometry: Geometry) -> int:
    """Bytes of all rows (temporal: of the block)."""
    return max(geometry.conv_width, 1) * geometry.inner_size * geometry.elem_size


def _unit(geometry: Geometry) -> int:
    row_bytes = geometry.inner_size * geometry.elem_size
    if geometry.dim_row_count:  # DS: what counts is where the channels end
        row_bytes = geometry.dim_row_count * geometry.dim_row_stride
    return _divisor(geometry.base_addr | geometry.block_stride | row_bytes, (16, 4, 1))


def _unit_of_channels(geometry: Geometry) -> int:
    bits = geometry.base_addr | geometry.block_stride | geometry.dim_row_stride
    return _divisor(bits | geometry.elem_size, (4, 2, 1))


def _divisor(bits: int, units: tuple[int, ...]) -> int:
    """The largest of the ``units`` that divides all numbers whose bits these are."""
    return next(unit for unit in units if bits % unit == 0)


def next_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def num_programs(device: torch.device, conv_state_dim_first: bool) -> int:
    """Programs of a launch: few for each multiprocessor, however much there is to do."""
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    return multiprocessors * PROGRAMS_PER_MULTIPROCESSOR["DS" if conv_state_dim_first else "SD"]
