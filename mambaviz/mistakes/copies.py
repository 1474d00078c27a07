"""Mistakes of the copy launches (sections 3.1 to 3.4): kernels wrapped in what was done wrong.

An observer is told of the launch that should have been. So a trace shows the right decision, and
bytes that it does not explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernels.launch import Kernel
from kernels.pieces import STATE_TENSORS
from kernels.reference import Outcome, decide_postprocess, decide_postprocess_advanced
from mambaviz.runner import ModelRunner

Inputs = dict[str, Any]  # a launch's arguments by name
Spoil = Callable[[Kernel, tuple[int, ...], Inputs], None]


class SpoiledKernel:
    """A kernel whose launches go by way of ``spoil(kernel, grid, inputs)``."""

    def __init__(self, kernel: Kernel, spoil: Spoil) -> None:
        self.kernel = kernel
        self.spoil = spoil

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(**inputs: Any) -> None:
            self.spoil(self.kernel, grid, inputs)

        return launch


def never_launched(*_args: object, **_kwargs: object) -> None:
    """Decisions as ever, but the copies never go out."""


def reset_in_place_by_the_first(kernel: Kernel, grid: tuple[int, ...], inputs: Inputs) -> None:
    """One state after the other, all from the live counts: the first resets, the others read that.

    On a GPU this is one outcome of a race; here it is certain.
    """
    live = inputs["num_accepted_tokens_out"]
    in_place = {**inputs, "num_accepted_tokens": live, "num_accepted_tokens_out": None}
    for state in range(grid[1]):
        own = {name: inputs[name][state : state + 1] for name in STATE_TENSORS}
        kernel[(grid[0], 1, *grid[2:])](**{**in_place, **own})


def arrays_by_batch_row(kernel: Kernel, grid: tuple[int, ...], inputs: Inputs) -> None:
    """Every request's slot is taken to be its batch row."""
    mapping = inputs["idx_mapping"]
    rows = torch.arange(len(mapping), dtype=mapping.dtype, device=mapping.device)
    kernel[grid](**{**inputs, "idx_mapping": torch.where(mapping < 0, mapping, rows)})


def table_by_slot(runner: ModelRunner) -> Spoil:
    """Each batch row's table row is the one at the request's slot, for as long as a launch runs."""

    def spoil(kernel: Kernel, grid: tuple[int, ...], inputs: Inputs) -> None:
        mapping = inputs["idx_mapping"].long()
        slots = mapping[mapping >= 0]  # batch rows come first
        tables = [table.device_tensor for table in runner.batch.block_table.values()]
        by_row = [table.clone() for table in tables]
        for table, rows in zip(tables, by_row, strict=True):
            table[: len(slots)] = rows[slots]
        kernel[grid](**inputs)
        for table, rows in zip(tables, by_row, strict=True):
            table.copy_(rows)

    return spoil


# ----------------------------------------------------------------- copies that are made once more


@dataclass(frozen=True)
class Move:
    """One request's copy: its batch row, the columns, and how many tokens on."""

    row: int
    src_col: int
    dst_col: int
    bias: int


@dataclass(frozen=True)
class WrongCopies:
    """Redoes copies as a mistake makes them, from the bytes before the right ones were made."""

    runner: ModelRunner
    unordered: bool = False  # a window that slides in place, last row first
    without_bias: bool = False  # temporal states from the source column itself

    @contextmanager
    def instead(self, moves: Callable[[], Sequence[Move]]) -> Iterator[None]:
        """Around a launch; ``moves`` are asked for once it is done."""
        layers = self.runner.cache.layers
        before = [[state.clone() for state in layer.states] for layer in layers]
        yield
        for move in moves():
            for layer, states in zip(layers, before, strict=True):
                gid = self.runner.group_ids[layer.group]
                row = self.runner.batch.block_table[gid].host[move.row].tolist()
                for kind, state, old in zip(
                    self.runner.state_kinds, layer.states, states, strict=False
                ):
                    if kind == "conv" and self.unordered:
                        self._slide_last_row_first(state, old, row, move)
                    if kind == "temporal" and self.without_bias:
                        self._copy_from_the_column(state, old, row, move)

    def after_decisions(self, kernel: Kernel, grid: tuple[int, ...], inputs: Inputs) -> None:
        """As `Spoil`, for the kernel of section 3.2."""
        known = {k: _host(v) for k, v in inputs.items()}
        with self.instead(lambda: list(_checkpoints(known, grid[0]))):
            kernel[grid](**inputs)

    def after_columns(self, kernel: Kernel, grid: tuple[int, ...], inputs: Inputs) -> None:
        """As `Spoil`, for the kernel of section 3.4."""
        known = {k: _host(v) for k, v in inputs.items()}
        with self.instead(lambda: list(_migrations(known, grid[0]))):
            kernel[grid](**inputs)

    def _slide_last_row_first(
        self, state: torch.Tensor, old: torch.Tensor, row: Sequence[int], move: Move
    ) -> None:
        block = row[move.dst_col]
        if move.bias == 0 or row[move.src_col] != block:
            return  # another block: no order can harm
        window = old[block].clone()
        rows = window.T if self.runner.engine.layout == "DS" else window  # [state_len, dim]
        for index in reversed(range(len(rows) - move.bias)):
            rows[index] = rows[index + move.bias].clone()
        state[block] = window

    def _copy_from_the_column(
        self, state: torch.Tensor, old: torch.Tensor, row: Sequence[int], move: Move
    ) -> None:
        if row[move.src_col] and row[move.dst_col]:
            state[row[move.dst_col]] = old[row[move.src_col]]


def _checkpoints(inputs: Inputs, num_reqs: int) -> Iterator[Move]:
    for row in range(num_reqs):
        slot = _slot(inputs, row)
        if slot < 0:
            continue
        accepted = int(inputs["num_accepted_tokens"][slot])
        column = int(inputs["mamba_state_idx"][slot])
        computed = int(inputs["num_computed_tokens"][slot])
        B = inputs["block_size"]
        if inputs["PRECOMPUTED_NEW_COMPUTED"]:
            found = decide_postprocess_advanced(slot, accepted, column, computed, B)
        else:
            scheduled = int(inputs["num_scheduled_tokens"][slot])
            drafts = int(inputs["num_draft_tokens"][slot])
            found = decide_postprocess(slot, accepted, column, computed, scheduled, drafts, B)
        if found.outcome is Outcome.COPIED:
            assert found.src_col is not None
            assert found.dst_col is not None
            assert found.bias is not None
            yield Move(row, found.src_col, found.dst_col, found.bias)


def _migrations(inputs: Inputs, num_reqs: int) -> Iterator[Move]:
    for row in range(num_reqs):
        slot = _slot(inputs, row)
        if slot < 0:
            continue
        src_col, dst_col = int(inputs["src_col"][slot]), int(inputs["mamba_state_idx"][slot])
        if src_col >= 0 and src_col != dst_col:
            yield Move(row, src_col, dst_col, int(inputs["token_bias"][slot]))


def _slot(inputs: Inputs, row: int) -> int:
    mapping = inputs["idx_mapping"]
    return row if mapping is None else int(mapping[row])


def _host(value: object) -> object:
    """As it was before the launch."""
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
