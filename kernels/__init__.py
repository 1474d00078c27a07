"""Triton kernels that move Mamba state between cache blocks, and their plain twins (section 3)."""

from kernels.backend import BACKEND, BackendError, BackendName, device, launch_lock

__all__ = ["BACKEND", "BackendError", "BackendName", "device", "launch_lock"]
