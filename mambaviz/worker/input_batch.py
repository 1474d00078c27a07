"""The worker's own books: requests it knows, their append-only rows, the batch of this step.

The scheduler's list changes in place; the worker's row only grows (section 2, "two views of
a row"). Here is the worker's side: it appends what it is handed and never forgets an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from mambaviz.attention import NULL_BLOCK_ID


@dataclass
class CachedRequest:
    """A request as the worker knows it; ``block_ids[gid]`` is its append-only row."""

    req_id: str
    num_computed_tokens: int
    block_ids: list[list[int]]
    num_accepted_tokens: int = 1  # of its last verification, bonus token included

    def append(self, new_block_ids: Sequence[Sequence[int]]) -> None:
        for row, new in zip(self.block_ids, new_block_ids, strict=True):
            row.extend(new)


class BlockTable:
    """One cache group's table on the device, int32 ``[max_num_reqs, max_cols]``, batch order."""

    def __init__(self, max_num_reqs: int, max_cols: int, device: torch.device) -> None:
        self.host = np.full((max_num_reqs, max_cols), NULL_BLOCK_ID, dtype=np.int32)
        self.device_tensor = torch.zeros(max_num_reqs, max_cols, dtype=torch.int32, device=device)

    def fill(self, rows: Iterable[Sequence[int]]) -> None:
        """Lay the rows of this step's batch; whatever lies behind them is null.

        ValueError for a row wider than the table.
        """
        self.host.fill(NULL_BLOCK_ID)
        for index, row in enumerate(rows):
            if len(row) > self.host.shape[1]:
                raise ValueError(
                    f"batch row {index} has {len(row)} columns, the block table only "
                    f"{self.host.shape[1]}"
                )
            self.host[index, : len(row)] = row
        self.device_tensor.copy_(torch.from_numpy(self.host))

    def get_device_tensor(self, num_reqs: int) -> torch.Tensor:
        return self.device_tensor[:num_reqs]


@dataclass
class InputBatch:
    """This step's batch: decodes first, then short extends, then prefills (section 2)."""

    block_table: Mapping[int, BlockTable]
    num_accepted_tokens_cpu: np.ndarray  # int32 [max_num_reqs], by batch row
    req_ids: list[str] = field(default_factory=list)

    @classmethod
    def create(
        cls, max_num_reqs: int, max_cols: Mapping[int, int], device: torch.device
    ) -> InputBatch:
        """``max_cols`` gives each Mamba group's table its width."""
        return cls(
            block_table={
                gid: BlockTable(max_num_reqs, columns, device) for gid, columns in max_cols.items()
            },
            num_accepted_tokens_cpu=np.ones(max_num_reqs, dtype=np.int32),
        )

    def lay_out(self, req_ids: Sequence[str], requests: Mapping[str, CachedRequest]) -> None:
        """Put the requests into rows in this order; counts and table rows move with them."""
        self.req_ids = list(req_ids)
        members = [requests[req_id] for req_id in req_ids]
        for gid, table in self.block_table.items():
            table.fill(member.block_ids[gid] for member in members)
        self.num_accepted_tokens_cpu.fill(1)
        for row, member in enumerate(members):
            self.num_accepted_tokens_cpu[row] = member.num_accepted_tokens
