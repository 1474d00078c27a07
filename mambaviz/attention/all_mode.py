"""Where the state of a row is read and written in all mode (section 4.6).

All mode keeps a state at every block boundary, so a kernel needs columns: the one it reads, the
first and the last it writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mambaviz.attention.common import IntArray


@dataclass(frozen=True, eq=False)
class BlockColumns:
    """Block-table columns of each row; int32 device tensors ``[R]``."""

    last_computed: torch.Tensor
    first_scheduled: torch.Tensor
    last_scheduled: torch.Tensor


def block_columns(num_computed: torch.Tensor, seq_lens: torch.Tensor, B: int) -> BlockColumns:
    """The columns of the last computed, first scheduled and last scheduled token (4.6).

    ``num_computed``, ``seq_lens``: int32 device tensors ``[R]``; ``B`` the block size.
    A row without tokens gets column 0.
    """
    return BlockColumns(
        last_computed=_last_column(num_computed, B),
        first_scheduled=(num_computed + B) // B - 1,
        last_scheduled=_last_column(seq_lens, B),
    )


def last_scheduled_of_previous_step(
    recorded: torch.Tensor, num_computed: torch.Tensor, B: int
) -> torch.Tensor:
    """Column the step before wrote to, ``[R]``: as recorded, else (-1) the last computed token's.

    The record matters after a rejection: the drafts of the step before may have reached a column
    further than the tokens that were kept (4.6).
    """
    from_computed = ((num_computed - 1) // B).clamp(min=0)
    return torch.where(recorded >= 0, recorded, from_computed)


def count_state_writes(num_computed: IntArray, seq_lens: IntArray, B: int) -> int:
    """States the prefill rows write before their last column, from CPU lengths (4.6)."""
    per_row = -(-seq_lens // B) - (num_computed + B) // B
    return int(np.maximum(per_row, 0).sum())


def _last_column(tokens: torch.Tensor, B: int) -> torch.Tensor:
    """Column of the last of ``tokens`` tokens: ``max(0, cdiv(tokens, B) - 1)``."""
    return ((tokens + B - 1) // B - 1).clamp(min=0)
