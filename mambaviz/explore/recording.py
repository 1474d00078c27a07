"""Stand-ins for the mixer kernels that write down what they would read and write.

They are launched by the real forward with the real metadata, and find rows, columns and blocks
with the same functions as the plain twins (``kernels/mixer_reference.py``); only the arithmetic
is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kernels import KernelSet, kernel_set
from kernels.mixer_reference import (
    chunks_scanned,
    live_block,
    row_column,
    row_offset,
    row_query,
    windows_left,
)
from mambaviz.explore.dataflow import Convolve, Operation, Replay, Scan


@dataclass
class Recorder:
    """Collects the operations of one layer's launches; ``first_prefill`` shifts prefill tokens."""

    group: int = 0
    first_prefill: int = 0
    operations: list[Operation] = field(default_factory=list)

    def kernels(self) -> KernelSet:
        """The plain twins for everything that copies, recorders for everything that computes."""
        return replace(
            kernel_set("reference"),
            causal_conv1d_decode_kernel=_Kernel(self._convolve_decodes),
            causal_conv1d_prefill_kernel=_Kernel(self._convolve_prefills),
            selective_state_decode_kernel=_Kernel(self._scan_decodes),
            selective_state_prefill_kernel=_Kernel(self._scan_prefills),
            replay_state_decode_kernel=_Kernel(self._replay),
        )

    def _convolve_decodes(self, grid: tuple[int, ...], a: dict[str, Any]) -> None:
        for row in range(grid[0]):
            start, length = row_query(a["query_start_loc"], row, a["num_tokens"])
            length = min(length, a["STATE_LEN"] - a["K"] + 2)
            source = _block(a, row, row_column(a["read_columns"], row))
            if length == 0 or source == 0:
                continue
            target = _block(a, row, row_column(a["write_columns"], row))
            offset = row_offset(a["num_accepted_tokens"], row)
            targets = ((length, target),) if target else ()
            self.operations.append(
                Convolve(self.group, start, length, source, offset, targets, whole=True)
            )

    def _convolve_prefills(self, grid: tuple[int, ...], a: dict[str, Any]) -> None:
        for program in range(grid[0]):
            prefill, tile = int(a["batch_ptr"][program]), int(a["token_chunk_offset_ptr"][program])
            if not 0 <= prefill < a["num_prefills"] or tile != 0:
                continue
            start, length, source = _prefill(a, prefill)
            if length == 0 or source is None:
                continue
            left = windows_left(
                prefill,
                length,
                a["num_columns"],
                a["first_columns"],
                a["last_columns"],
                a["num_computed_tokens"],
                a["block_size"],
            )
            places = [(absorbed, _block(a, prefill, column)) for absorbed, column in left]
            self.operations.append(
                Convolve(
                    self.group,
                    self.first_prefill + start,
                    length,
                    source,
                    0,
                    tuple(place for place in places if place[1]),
                    whole=False,
                )
            )

    def _scan_decodes(self, grid: tuple[int, ...], a: dict[str, Any]) -> None:
        for row in range(grid[0]):
            start, length = row_query(a["query_start_loc"], row, a["num_tokens"])
            read = row_column(a["read_columns"], row) + row_offset(a["num_accepted_tokens"], row)
            source = _block(a, row, read)
            if length == 0 or source == 0:
                continue
            first = row_column(a["write_columns"], row)
            pieces = tuple(
                (start + i, start + i + 1, _block(a, row, first + i)) for i in range(length)
            )
            self.operations.append(Scan(self.group, source, pieces))

    def _scan_prefills(self, grid: tuple[int, ...], a: dict[str, Any]) -> None:
        for prefill in range(grid[0]):
            start, length, source = _prefill(a, prefill)
            if length == 0 or source is None:
                continue
            chunks = chunks_scanned(
                prefill,
                start,
                length,
                a["first_columns"],
                a["last_columns"],
                a["num_computed_tokens"],
                a["cu_chunk_seqlen"],
                a["seq_idx"],
                a["last_chunk_indices"],
                a["num_chunks"],
                a["block_size"],
            )
            shift = self.first_prefill
            pieces = tuple(
                (shift + first, shift + end, 0 if column is None else _block(a, prefill, column))
                for first, end, column in chunks
            )
            self.operations.append(Scan(self.group, source, pieces))

    def _replay(self, grid: tuple[int, ...], a: dict[str, Any]) -> None:
        for row in range(min(grid[0], a["num_tokens"])):
            block = live_block(a["state_indices"], row, 0, 1, a["num_blocks"])
            position = int(a["write_pos"][row])
            if block == 0 or not 0 <= position < a["RING"]:
                continue
            self.operations.append(
                Replay(self.group, row, block, position, bool(a["is_flush"][row]))
            )


@dataclass(frozen=True)
class _Kernel:
    """Launched like a kernel: ``kernel[grid](...)``."""

    record: Callable[[tuple[int, ...], dict[str, Any]], None]

    def __getitem__(self, grid: Any, /) -> Callable[..., Any]:
        return lambda **arguments: self.record(grid, arguments)


def _prefill(a: dict[str, Any], prefill: int) -> tuple[int, int, int | None]:
    """First token and length of a prefill's query, and the block that it goes on from.

    0: it starts from nothing. None: it has no block to go on from.
    """
    start, length = row_query(a["query_start_loc"], prefill, a["num_tokens"])
    has_initial = bool(a["has_initial_states"][prefill])
    source = _block(a, prefill, row_column(a["read_columns"], prefill))
    is_fresh = a["read_columns"] is not None and not has_initial
    if not (source or is_fresh):
        return start, length, None
    return start, length, source if has_initial else 0


def _block(a: dict[str, Any], row: int, column: int) -> int:
    return live_block(a["state_indices"], row, column, a["num_columns"], a["num_blocks"])
