"""Watching a run from the inside: launches, bytes that changed, ids that moved.

A `RunObserver` stands between the runner's launches and the trace. It never touches what it
watches: it copies inputs to the host before a launch, pages after it, and asks
`mambaviz.explain` what the launch decided.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch

from kernels.reference import StateGeometry
from mambaviz.cache.tensors import StateCache, state_kinds
from mambaviz.explain import (
    CopyScene,
    Explanation,
    bytes_unexplained,
    explain_postprocess,
    explain_precopy,
    plan_row,
)
from mambaviz.runner.base import ModelRunner
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import BlockChange, Decision, KernelLaunch, StateSpec, TensorRecord
from mambaviz.worker.launch import KernelInput, Launch

Pages = list[np.ndarray]

# Inputs that are memory addresses: they differ from run to run and say nothing on a screen.
ADDRESSES = frozenset({"block_table_ptrs", "state_base_addrs", "src_ptrs", "dst_ptrs"})
LARGEST_RECORDED_INPUT = 64  # entries: index data fits, caches do not


def tensor_record(tensor: torch.Tensor) -> TensorRecord:
    """A small tensor's values. A 1-D tail of equal entries is folded into ``fill``."""
    host = tensor.detach().cpu()
    values = host.tolist()
    dtype = str(host.dtype).removeprefix("torch.")
    fill = None
    if host.dim() == 1 and len(values) > LARGEST_RECORDED_INPUT:
        fill = values[-1]
        keep = len(values)
        while keep and values[keep - 1] == fill:
            keep -= 1
        values = values[:keep]
    return TensorRecord(dtype=dtype, shape=list(host.shape), values=values, fill=fill)


@dataclass
class RunObserver:
    """Collects a phase's launches and keeps the caches as they were last seen.

    Bound to its runner after the runner exists (`bind`), since the runner needs the observer
    to be built.
    """

    launches: list[KernelLaunch] = field(default_factory=list)
    pages: Pages = field(default_factory=list)  # as last seen
    explanation: Explanation | None = None  # of this phase's copies

    def bind(self, runner: ModelRunner, specs: Sequence[StateSpec]) -> None:
        self.runner = runner
        self.specs = {(spec.layer, spec.state): spec for spec in specs}
        self.states = sorted(specs, key=lambda spec: spec.index)
        self.geometries = [_geometry(runner.cache, spec, runner) for spec in self.states]
        self.pages = runner.cache.snapshot()

    def begin_step(self, output: SchedulerOutput) -> None:
        self.output = output
        self.accepted_before = [
            self.runner.accepted_count(req_id) for req_id in self.runner.batch.req_ids
        ]

    # The seam the worker functions offer.

    def __call__(self, when: Literal["before", "after"], launch: Launch) -> None:
        if when == "before":
            self._inputs = {name: _host(value) for name, value in launch.inputs.items()}
            return
        self.launches.append(
            KernelLaunch(
                kernel=launch.kernel,
                grid=list(launch.grid),
                inputs={
                    name: tensor_record(value) if isinstance(value, torch.Tensor) else value
                    for name, value in self._inputs.items()
                    if name not in ADDRESSES and _is_index_data(value)
                },
            )
        )
        if launch.kernel == "postprocess_mamba_fused_kernel":
            self.explanation = explain_postprocess(self._inputs, self._scene())
        elif launch.kernel == "precopy_mamba_align_fused_kernel":
            scene = self._scene()
            lengths = [self.output.requests[req_id].num_scheduled for req_id in scene.req_ids]
            self.explanation = explain_precopy(self._inputs, scene, self.accepted_before, lengths)

    def decided_on_cpu(self, decisions: list[Decision]) -> None:
        """The V1 runner's pre-copy decisions and the copies that follow from them.

        They stand in for the explanation of a launch: the copy list says only addresses, and
        where nothing is copied there is no launch at all. The list is made from the worker's
        own rows, a fused launch from the block table, which is padded with null.
        """
        scene = self._scene()
        if self.runner.engine.layout == "SD":
            rows = [self.runner.requests[req_id].block_ids for req_id in scene.req_ids]
            tables = [[row[gid] for row in rows] for gid in self.runner.group_ids]
            scene = replace(scene, tables=tables)
        copies = [
            copy
            for decision in decisions
            if decision.copies
            for copy in plan_row(
                "migrate", decision.request, decision.row, _move_of(decision), scene
            )
        ]
        self.explanation = Explanation(decisions, copies)

    def _scene(self) -> CopyScene:
        batch = self.runner.batch
        return CopyScene(
            req_ids=batch.req_ids,
            computed=[self.output.requests[req_id].num_computed for req_id in batch.req_ids],
            tables=[
                batch.block_table[gid].get_device_tensor(len(batch.req_ids)).cpu().tolist()
                for gid in self.runner.group_ids
            ],
            geometries=self.geometries,
            states=self.states,
            conv_state_dim_first=self.runner.engine.layout == "DS",
            num_blocks=self.runner.engine.num_blocks,
        )

    # Phases.

    def begin_phase(self) -> None:
        self.launches = []
        self.explanation = None
        self.phase_start = self.pages

    def end_phase(self) -> list[BlockChange]:
        """What changed since `begin_phase`, block by block; the caches are looked at afresh."""
        self.pages = self.runner.cache.snapshot()
        return list(changes_between(self.phase_start, self.pages, self.specs.values()))

    def bytes_unexplained(self) -> int | None:
        """How far the phase's copies are from explaining its bytes; None without any."""
        if self.explanation is None:
            return None
        return bytes_unexplained(self.phase_start, self.pages, self.explanation.copies, self.specs)


def changes_between(
    before: Pages, after: Pages, specs: Iterable[StateSpec]
) -> Iterable[BlockChange]:
    """Every state of every block whose natural bytes differ, with the new bytes."""
    for spec in specs:
        span = slice(spec.offset, spec.offset + spec.num_bytes)
        old, new = before[spec.layer][:, span], after[spec.layer][:, span]
        for block in np.flatnonzero((old != new).any(axis=1)):
            yield BlockChange(
                layer=spec.layer,
                state=spec.state,
                block=int(block),
                data=base64.b64encode(new[block].tobytes()).decode(),
            )


def _move_of(decision: Decision) -> tuple[int, int, int]:
    assert decision.src_col is not None
    assert decision.dst_col is not None
    assert decision.bias is not None
    return decision.src_col, decision.dst_col, decision.bias


def _geometry(cache: StateCache, spec: StateSpec, runner: ModelRunner) -> StateGeometry:
    """Where a state lies, as the copy kernels see it (section 3.1); its own small derivation."""
    number = state_kinds(runner.scenario).index(spec.state)
    tensor = cache.layers[spec.layer].states[number]
    size = tensor.element_size()
    block_stride = tensor.stride(0) * size
    if spec.state == "temporal":
        return StateGeometry(
            tensor.data_ptr(), block_stride, size, tensor[0].numel(), 0, spec.group
        )
    if runner.engine.layout == "SD":
        return StateGeometry(
            tensor.data_ptr(), block_stride, size, tensor.stride(1), tensor.shape[1], spec.group
        )
    return StateGeometry(
        tensor.data_ptr(),
        block_stride,
        size,
        1,
        tensor.shape[2],
        spec.group,
        tensor.shape[1],
        tensor.stride(1) * size,
    )


def _host(value: KernelInput) -> KernelInput:
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value


def _is_index_data(value: KernelInput) -> bool:
    """Numbers that a kernel decides by; states, activations and weights are not among them."""
    if not isinstance(value, torch.Tensor):
        return True
    return not value.is_floating_point() and value.numel() <= LARGEST_RECORDED_INPUT
