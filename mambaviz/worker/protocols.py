"""What the worker functions read from the engine around them (end of section 3.7).

Protocols, not classes: any object with these attributes will do, so the functions run under
the engine of this project, under a test's three-line fakes, or inside another engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch


class CachedRequestsView(Protocol):
    """Scheduled requests that the worker has met before."""

    @property
    def resumed_req_ids(self) -> Collection[str]: ...


class SchedulerOutputView(Protocol):
    """One step as the scheduler announces it.

    ``num_scheduled_tokens`` counts a request's query tokens, drafts included;
    ``scheduled_spec_decode_tokens`` holds the draft ids of the requests that have any.
    """

    @property
    def finished_req_ids(self) -> Collection[str]: ...
    @property
    def preempted_req_ids(self) -> Collection[str] | None: ...
    @property
    def scheduled_cached_reqs(self) -> CachedRequestsView: ...
    @property
    def num_scheduled_tokens(self) -> Mapping[str, int]: ...
    @property
    def scheduled_spec_decode_tokens(self) -> Mapping[str, Sequence[int]]: ...


class BlockTableView(Protocol):
    """One cache group's block table on the device."""

    def get_device_tensor(self, num_reqs: int, /) -> torch.Tensor:
        """int32 ``[num_reqs, max_cols]``, a view of the persistent table, batch order."""
        ...


class InputBatchView(Protocol):
    """The worker's batch: row ``i`` is request ``req_ids[i]``."""

    @property
    def req_ids(self) -> Sequence[str]: ...
    @property
    def num_accepted_tokens_cpu(self) -> np.ndarray: ...  # int [>= num_reqs], by row
    @property
    def block_table(self) -> Sequence[BlockTableView] | Mapping[int, BlockTableView]: ...


class RequestView(Protocol):
    """A request as the worker knows it.

    ``block_ids[gid]`` is the worker's append-only row of cache group ``gid`` (section 2, "two
    views of a row"), never the scheduler's list.
    """

    @property
    def num_computed_tokens(self) -> int: ...
    @property
    def block_ids(self) -> Sequence[Sequence[int]]: ...


class LayerView(Protocol):
    """A layer's state tensors ``[num_blocks, ...]``: conv before temporal, then ReplaySSM's."""

    @property
    def kv_cache(self) -> Sequence[torch.Tensor]: ...


ForwardContext = Mapping[str, LayerView]  # by layer name
