"""A small array with one half on the CPU and one on the device (section 3.7)."""

from __future__ import annotations

from typing import Protocol

import torch


class CpuGpuBuffer:
    """``n`` zeros twice: written through ``np`` on the CPU, read by kernels from ``gpu``.

    ``np`` is a numpy view of ``cpu``. The CPU half is pinned where CUDA exists, so that an
    upload need not wait for it. On a machine without CUDA the device half is still a tensor
    of its own: an upload forgotten there is just as wrong, and just as visible, as on a GPU.
    """

    def __init__(
        self, n: int, dtype: torch.dtype = torch.int32, device: torch.device | str = "cpu"
    ) -> None:
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=torch.cuda.is_available())
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(n, dtype=dtype, device=device)

    def copy_to_gpu(self, n: int | None = None) -> torch.Tensor:
        """Upload the first ``n`` entries (None: all) and return that part of ``gpu``.

        Non-blocking: do not overwrite the CPU half before the device has passed this point.
        """
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class MakeBuffer(Protocol):
    """Makes a `CpuGpuBuffer` of ``n`` entries on the engine's device."""

    def __call__(self, n: int, /, *, dtype: torch.dtype) -> CpuGpuBuffer: ...
