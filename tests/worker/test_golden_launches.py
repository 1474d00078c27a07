"""The recorded launches of ``golden/kernels.json``, made through the GPU context.

The context works out the metadata itself, from strided tensors over padded pages; the bytes
that change must be those of the recording. All of them run on the plain twins, and a few of
each kind on the process's own back end (whose kernels have their own tests).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernels import device
from mambaviz.config import KVCacheConfig, KVCacheGroupSpec, MambaSpec
from mambaviz.worker import CpuGpuBuffer, MambaSpecDecodeGPUContext
from tests.worker.world import BOTH, REFERENCE, Layer

GOLDEN = Path(__file__).parents[1] / "golden" / "kernels.json"
OPS = ("postprocess_v1", "postprocess_v2", "precopy")


@cache
def cases() -> dict[str, dict[str, Any]]:
    return {c["id"]: c for c in json.loads(GOLDEN.read_text()) if c["op"] in OPS}


def some_of_each_kind(per_kind: int) -> list[str]:
    """Ids spread over operations and layouts, the ones that change something first."""
    chosen = []
    for op in OPS:
        for layout in ("SD", "DS"):
            kind = [
                (not case["expected"]["changed_bytes"], name)
                for name, case in cases().items()
                if case["op"] == op and case["geometry"]["layout"] == layout
            ]
            chosen += [name for _, name in sorted(kind)[:per_kind]]
    return chosen


class Caches:
    """The state tensors of one case, and the buffers that hold their bytes."""

    def __init__(self, case: dict[str, Any], device: torch.device) -> None:
        g = case["geometry"]
        conv = (g["conv_width"], g["dim"]) if g["layout"] == "SD" else (g["dim"], g["conv_width"])
        parts = {
            "conv": (conv, getattr(torch, g["conv_dtype"])),
            "ssm": (tuple(g["ssm_shape"]), getattr(torch, g["ssm_dtype"])),
        }
        spec = MambaSpec(
            g["block_size"],
            tuple(shape for shape, _ in parts.values()),
            tuple(dtype for _, dtype in parts.values()),
            "align",
            g["num_spec"],
        )
        groups = [
            KVCacheGroupSpec([f"g{i}.l{n}" for n in range(layers)], spec)
            for i, layers in enumerate(g["layers_per_group"])
        ]
        self.config = KVCacheConfig(g["num_blocks"], groups)
        self.start: dict[str, np.ndarray] = {}
        self.raw: dict[str, torch.Tensor] = {}
        self.layers: dict[str, Layer] = {}
        for name in (name for group in groups for name in group.layer_names):
            states = []
            for part, (shape, dtype) in parts.items():
                natural = torch.Size(shape).numel() * dtype.itemsize
                page = natural + g["page_padding_bytes"]
                start = pattern(g["num_blocks"] * page, g["salt"] + len(self.raw))
                raw = torch.from_numpy(start.copy()).to(device)
                self.start[f"{name}.{part}"], self.raw[f"{name}.{part}"] = start, raw
                rows = raw.view(dtype).view(g["num_blocks"], page // dtype.itemsize)
                states.append(rows[:, : natural // dtype.itemsize].unflatten(1, shape))
            self.layers[name] = Layer(states)

    def changed_bytes(self) -> dict[str, list[list[Any]]]:
        """Per buffer, the maximal runs of changed bytes as ``[offset, hex]``."""
        changed = {}
        for name, raw in self.raw.items():
            now = raw.cpu().numpy()
            where = np.flatnonzero(now != self.start[name])
            runs = np.split(where, np.flatnonzero(np.diff(where) > 1) + 1)
            if len(where):
                changed[name] = [[int(run[0]), now[run].tobytes().hex()] for run in runs]
        return changed


def pattern(n: int, salt: int) -> np.ndarray:
    values = np.arange(n, dtype=np.uint64) * 2654435761 + np.uint64(salt * 97531)
    return ((values % 2**32) >> np.uint64(24)).astype(np.uint8)


def replay(case: dict[str, Any], kernels, device: torch.device) -> None:
    geometry, expected = case["geometry"], case["expected"]
    caches = Caches(case, device)
    given = {
        name: torch.tensor(values, dtype=torch.int32, device=device)
        for name, values in case["inputs"].items()
    }
    ctx = MambaSpecDecodeGPUContext.create(
        geometry["max_reqs"],
        caches.config,
        2,
        device,
        lambda n, *, dtype: CpuGpuBuffer(n, dtype, device),
        geometry["layout"] == "DS",
        kernels=kernels,
    )
    tables = [
        torch.tensor(table, dtype=torch.int32, device=device) for table in case["block_tables"]
    ]
    ctx.initialize_from_forward_context(caches.config, caches.layers, BOTH, tables)
    num_reqs = geometry["num_reqs"]
    if case["op"] == "postprocess_v1":
        ctx.run_fused_postprocess(
            num_reqs,
            given["num_accepted_tokens"],
            given["mamba_state_idx"],
            given["num_scheduled_tokens"],
            given["num_computed_tokens"],
            given["num_draft_tokens"],
        )
        counts = ctx.num_accepted_tokens_out[:num_reqs].tolist()
        assert counts == expected["num_accepted_tokens_out"]
    elif case["op"] == "postprocess_v2":
        ctx.run_fused_postprocess_align(
            num_reqs,
            given["num_accepted_tokens"],
            given["mamba_state_idx"],
            given["new_num_computed_tokens"],
            given["idx_mapping"],
        )
        assert given["num_accepted_tokens"].tolist() == expected["num_accepted_tokens"]
    else:
        ctx.run_fused_precopy(
            num_reqs,
            given["mamba_state_idx"],
            given["src_col"],
            given["token_bias"],
            given["idx_mapping"],
        )
    assert caches.changed_bytes() == expected["changed_bytes"]


@pytest.mark.parametrize("name", cases())
def test_recorded_launches(name: str) -> None:
    replay(cases()[name], REFERENCE, torch.device("cpu"))


@pytest.mark.parametrize("name", some_of_each_kind(2))
def test_recorded_launches_on_the_own_back_end(name: str) -> None:
    assert cases()[name]["expected"]["changed_bytes"]
    replay(cases()[name], None, device())
