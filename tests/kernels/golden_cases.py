"""State memory for launches, and the recorded launches of tests/golden/kernels.json.

``StateMemory`` lays state tensors out as the golden vectors do (tests/golden/README.md), with the
metadata tensors of section 3.1; ``launch_*`` launch a kernel as the worker does. Tests of their
own cases, and benchmarks, build on the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kernels
from kernels import KernelSet

GOLDEN = Path(__file__).parents[1] / "golden" / "kernels.json"

COPY_BLOCK_SIZE = 1024
PREPROCESS_LANES = 4


def backends() -> list[kernels.BackendName]:
    """What this process can run: its own back end, and the reference."""
    return list(dict.fromkeys((kernels.BACKEND, "reference")))


def device_of(ks: KernelSet) -> torch.device:
    return torch.device("cpu") if ks.backend == "reference" else kernels.device()


# ---------------------------------------------------------------------------------- state memory


@dataclass(frozen=True)
class StateSpec:
    """One state tensor. ``shape`` of one block: conv (width, dim), whatever the layout."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    conv: bool
    group: int = 0

    @property
    def elem_size(self) -> int:
        return self.dtype.itemsize

    @property
    def natural_bytes(self) -> int:
        return prod(self.shape) * self.elem_size


class StateMemory:
    """Byte buffers that hold the blocks of some states, and their metadata tensors.

    ``page_padding`` bytes lie behind each block; ``misalign`` bytes before the first.
    Buffer ``k`` is filled with the golden vectors' bytes for ``salt + k``.
    """

    def __init__(
        self,
        specs: Sequence[StateSpec],
        num_blocks: int,
        device: torch.device,
        *,
        dim_first: bool = False,
        page_padding: int = 0,
        misalign: int = 0,
        salt: int = 0,
    ) -> None:
        self.specs = tuple(specs)
        self.num_blocks = num_blocks
        self.device = device
        self.dim_first = dim_first
        self.misalign = misalign
        self.pages = [spec.natural_bytes + page_padding for spec in specs]
        self.start = [
            golden_bytes(misalign + num_blocks * page, salt + k)
            for k, page in enumerate(self.pages)
        ]
        self.buffers = [torch.from_numpy(b.copy()).to(device) for b in self.start]
        self.base_addrs = [b.data_ptr() + misalign for b in self.buffers]
        self.block_strides = list(self.pages)

    def bytes(self, k: int) -> np.ndarray:
        """uint8 of buffer k as it is now, from its first block on."""
        return self.buffers[k].cpu().numpy()[self.misalign :]

    def start_bytes(self, k: int) -> np.ndarray:
        """uint8 of buffer k as it was at the start; the caller may change it."""
        return self.start[k][self.misalign :].copy()

    def view(self, k: int) -> torch.Tensor:
        """Buffer k as the state tensor [num_blocks, ...] that a layer would hold."""
        spec = self.specs[k]
        shape = spec.shape[::-1] if spec.conv and self.dim_first else spec.shape
        inner = [prod(shape[i + 1 :]) for i in range(len(shape))]
        typed = self.buffers[k].view(spec.dtype)
        stride = (self.pages[k] // spec.elem_size, *inner)
        offset = self.misalign // spec.elem_size
        return typed.as_strided((self.num_blocks, *shape), stride, offset)

    def metadata(self) -> tuple[torch.Tensor, ...]:
        """The eight tensors of section 3.1, in the kernels' order."""
        conv_ds = [spec.conv and self.dim_first for spec in self.specs]
        inner = [
            1 if ds else spec.shape[1] if spec.conv else prod(spec.shape)
            for spec, ds in zip(self.specs, conv_ds, strict=True)
        ]
        widths = [spec.shape[0] if spec.conv else 0 for spec in self.specs]
        rows = [spec.shape[1] if ds else 0 for spec, ds in zip(self.specs, conv_ds, strict=True)]
        row_strides = [
            spec.shape[0] * spec.elem_size if ds else 0
            for spec, ds in zip(self.specs, conv_ds, strict=True)
        ]
        return (
            self._tensor([as_int64(a) for a in self.base_addrs], torch.int64),
            self._tensor(self.block_strides, torch.int64),
            self._tensor([spec.elem_size for spec in self.specs], torch.int32),
            self._tensor(inner, torch.int64),
            self._tensor(widths, torch.int32),
            self._tensor([spec.group for spec in self.specs], torch.int32),
            self._tensor(rows, torch.int32),
            self._tensor(row_strides, torch.int64),
        )

    def _tensor(self, values: list[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def copied(self, data: np.ndarray, k: int, src: int, dst: int, bias: int) -> np.ndarray:
        """``data`` (the bytes of buffer k) after one copy of section 3.1, by numpy slices.

        ``src`` and ``dst`` are block ids; for a temporal state ``bias`` plays no part here.
        """
        spec, page = self.specs[k], self.pages[k]
        out = data.copy()
        source = data[src * page : src * page + spec.natural_bytes].copy()
        target = out[dst * page : dst * page + spec.natural_bytes]
        if not spec.conv:
            target[:] = source
            return out
        width, dim = spec.shape
        shape = (dim, width, -1) if self.dim_first else (width, dim, -1)
        token_axis = 1 if self.dim_first else 0
        old, new = (np.moveaxis(side.reshape(shape), token_axis, 0) for side in (source, target))
        if bias < width:
            new[: width - bias] = old[bias:]
        return out


def golden_bytes(n: int, salt: int) -> np.ndarray:
    """uint8 [n]: the start bytes that tests/golden/README.md gives for ``salt + k``."""
    i = np.arange(n, dtype=np.uint64)
    mixed = (i * 2654435761 + salt * 97531) % 2**32
    return (mixed >> np.uint64(24)).astype(np.uint8)


def as_int64(address: int) -> int:
    """An address as the int64 with the same bits."""
    return (address + 2**63) % 2**64 - 2**63


# --------------------------------------------------------------------------------------- launches


@dataclass(frozen=True)
class Tables:
    """Block tables on the device, one int32 [num_reqs, num_cols] per group."""

    tensors: tuple[torch.Tensor, ...]
    addresses: torch.Tensor  # int64 [num_groups]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Sequence[int]]], device: torch.device) -> Tables:
        tensors = tuple(torch.tensor(t, dtype=torch.int32, device=device) for t in rows)
        addresses = torch.tensor([as_int64(t.data_ptr()) for t in tensors], dtype=torch.int64)
        return cls(tensors, addresses.to(device))

    @property
    def stride_req(self) -> int:
        return self.tensors[0].stride(0)

    @property
    def num_reqs(self) -> int:
        return self.tensors[0].shape[0]


def ints(values: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


def launch_precopy(
    ks: KernelSet,
    memory: StateMemory,
    tables: Tables,
    src_col: Sequence[int],
    dst_col: Sequence[int],
    bias: Sequence[int],
    *,
    idx_mapping: Sequence[int] | None = None,
    num_reqs: int | None = None,
    tiles: int = 1,
    block: int = COPY_BLOCK_SIZE,
    num_blocks: int = 0,
    **options: Any,
) -> None:
    """Section 3.4 over all states of ``memory``; without a mapping, batch order is slot order."""
    device = memory.device
    n = tables.num_reqs if num_reqs is None else num_reqs
    ks.precopy_mamba_align_fused_kernel[(tables.num_reqs, len(memory.specs), tiles)](
        ints(dst_col, device),
        ints(src_col, device),
        ints(bias, device),
        tables.addresses,
        tables.stride_req,
        *memory.metadata(),
        None if idx_mapping is None else ints(idx_mapping, device),
        n,
        COPY_BLOCK_SIZE=block,
        CONV_STATE_DIM_FIRST=memory.dim_first,
        HAS_IDX_MAPPING=idx_mapping is not None,
        num_blocks=num_blocks,
        **options,
    )


def launch_postprocess(
    ks: KernelSet,
    memory: StateMemory,
    tables: Tables,
    counts: torch.Tensor,
    counts_out: torch.Tensor | None,
    state_idx: Sequence[int],
    computed: Sequence[int],
    scheduled: Sequence[int] | None = None,
    drafts: Sequence[int] | None = None,
    *,
    block_size: int,
    idx_mapping: Sequence[int] | None = None,
    num_reqs: int | None = None,
    tiles: int = 1,
    num_blocks: int = 0,
    **options: Any,
) -> None:
    """Section 3.2 over all states of ``memory``; ``computed`` is the advanced count if there is
    no ``scheduled``."""
    device = memory.device
    n = tables.num_reqs if num_reqs is None else num_reqs
    ks.postprocess_mamba_fused_kernel[(tables.num_reqs, len(memory.specs), tiles)](
        counts,
        ints(state_idx, device),
        None if scheduled is None else ints(scheduled, device),
        ints(computed, device),
        None if drafts is None else ints(drafts, device),
        tables.addresses,
        tables.stride_req,
        *memory.metadata(),
        counts_out,
        None if idx_mapping is None else ints(idx_mapping, device),
        n,
        block_size=block_size,
        COPY_BLOCK_SIZE=COPY_BLOCK_SIZE,
        CONV_STATE_DIM_FIRST=memory.dim_first,
        HAS_IDX_MAPPING=idx_mapping is not None,
        PRECOMPUTED_NEW_COMPUTED=scheduled is None,
        num_blocks=num_blocks,
        **options,
    )


# ----------------------------------------------------------------------------------- golden cases


@dataclass(frozen=True)
class GoldenCase:
    """One recorded launch; ``inputs`` and ``expected`` as in tests/golden/README.md."""

    id: str
    op: str
    geometry: dict[str, Any]
    block_tables: list[list[list[int]]]
    inputs: dict[str, list[int]]
    expected: dict[str, Any]

    @cached_property
    def specs(self) -> list[StateSpec]:
        """For each group, for each layer: conv state, then temporal state."""
        g = self.geometry
        conv = (g["conv_width"], g["dim"]), getattr(torch, g["conv_dtype"]), True
        ssm = tuple(g["ssm_shape"]), getattr(torch, g["ssm_dtype"]), False
        return [
            StateSpec(f"g{group}.l{layer}.{name}", *state, group)
            for group, num_layers in enumerate(g["layers_per_group"])
            for layer in range(num_layers)
            for name, state in (("conv", conv), ("ssm", ssm))
        ]

    def memory(self, device: torch.device) -> StateMemory:
        g = self.geometry
        return StateMemory(
            self.specs,
            g["num_blocks"],
            device,
            dim_first=g["layout"] == "DS",
            page_padding=g["page_padding_bytes"],
            salt=g["salt"],
        )

    def expected_bytes(self, memory: StateMemory, k: int) -> np.ndarray:
        """Buffer k after the recorded launch."""
        out = memory.start_bytes(k)
        for offset, run in self.expected["changed_bytes"].get(memory.specs[k].name, []):
            new = np.frombuffer(bytes.fromhex(run), dtype=np.uint8)
            out[offset : offset + len(new)] = new
        return out


def load_cases() -> list[GoldenCase]:
    return [GoldenCase(**case) for case in json.loads(GOLDEN.read_text())]


def run_case(
    ks: KernelSet, case: GoldenCase, memory: StateMemory, **options: Any
) -> dict[str, list[int]]:
    """Launch the case as its wrapper does; the integer results, named as in ``expected``."""
    device, inputs, geometry = memory.device, case.inputs, case.geometry
    if case.op == "preprocess_v2":
        return _run_preprocess(ks, case, device)

    tables = Tables.of(case.block_tables, device)
    if case.op == "precopy":
        launch_precopy(
            ks,
            memory,
            tables,
            inputs["src_col"],
            inputs["mamba_state_idx"],
            inputs["token_bias"],
            idx_mapping=inputs["idx_mapping"],
            **options,
        )
        return {}

    # The wrappers' part of section 3.2: a copy of the counts keeps input and output apart.
    counts = ints(inputs["num_accepted_tokens"], device)
    copy = counts.clone()
    common: dict[str, Any] = {"block_size": geometry["block_size"], **options}
    state_idx = inputs["mamba_state_idx"]
    if case.op == "postprocess_v1":
        history = [inputs[f"num_{name}_tokens"] for name in ("computed", "scheduled", "draft")]
        launch_postprocess(ks, memory, tables, counts, copy, state_idx, *history, **common)
        return {"num_accepted_tokens_out": copy.tolist()[: geometry["num_reqs"]]}
    launch_postprocess(
        ks,
        memory,
        tables,
        copy,
        counts,
        state_idx,
        inputs["new_num_computed_tokens"],
        idx_mapping=inputs["idx_mapping"],
        **common,
    )
    return {"num_accepted_tokens": counts.tolist()}


def _run_preprocess(ks: KernelSet, case: GoldenCase, device: torch.device) -> dict[str, list[int]]:
    inputs, num_reqs = case.inputs, case.geometry["num_reqs"]
    state_idx = ints(inputs["mamba_state_idx"], device)
    counts = ints(inputs["num_accepted_tokens"], device)
    untouched = [case.expected["untouched_value"]] * case.geometry["max_reqs"]
    src_col, src_off = ints(untouched, device), ints(untouched, device)
    ks.preprocess_mamba_align_fused_kernel[(-(-num_reqs // PREPROCESS_LANES),)](
        ints(inputs["idx_mapping"], device),
        state_idx,
        ints(inputs["num_computed_tokens"], device),
        ints(inputs["query_start_loc"], device),
        counts,
        src_col,
        src_off,
        num_reqs,
        BLOCK_SIZE=PREPROCESS_LANES,
        MAMBA_BLOCK_SIZE=case.geometry["block_size"],
    )
    return {
        "mamba_state_idx": state_idx.tolist(),
        "num_accepted_tokens": counts.tolist(),
        "src_col": src_col.tolist(),
        "src_off": src_off.tolist(),
    }
