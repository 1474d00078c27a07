"""How a kernel is launched: ``kernel[grid](...)``, the same way in every back end (section 5.4)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from kernels.backend import BACKEND, launch_lock

Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]

# Options of a Triton launch that say how to compile; without a compiler they mean nothing.
COMPILE_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})


class Kernel(Protocol):
    """Anything launched as ``kernel[grid](...)``: compiled, interpreted, or a plain twin."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]: ...


class InterpretedKernel:
    """A Triton kernel under the interpreter, launched while holding the launch lock."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.__name__ = kernel.__name__
        self.__doc__ = kernel.fn.__doc__

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            require_cpu(self.__name__, args, kwargs)
            with launch_lock:
                self.kernel[grid](*args, **kwargs)

        return launch


class ReferenceKernel:
    """A plain twin dressed as a kernel: ``twin(grid, *kernel arguments)``."""

    def __init__(self, twin: Callable[..., None]) -> None:
        self.twin = twin
        self.__name__ = twin.__name__
        self.__doc__ = twin.__doc__
        self.signature = inspect.signature(twin)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            require_cpu(self.__name__, args, kwargs)
            kwargs = {k: v for k, v in kwargs.items() if k not in COMPILE_OPTIONS}
            bound = self.signature.bind(None, *args, **kwargs)
            bound.apply_defaults()
            size = grid(bound.arguments) if callable(grid) else grid
            self.twin(tuple(size), *bound.args[1:])

        return launch


def one_launch_at_a_time(kernel: Any) -> Any:
    """Decorator above ``@triton.jit``: takes the launch lock where launches must not overlap."""
    return InterpretedKernel(kernel) if BACKEND == "interpreter" else kernel


def device_function(function: Callable[..., Any]) -> Any:
    """Decorator for a function that Triton kernels call, in place of ``@triton.jit``.

    Interpreted, a kernel is ordinary Python by the time it calls one, and so may the function be:
    through Triton each call would patch the whole language anew, a millisecond or more.
    """
    if BACKEND == "interpreter":
        return function
    import triton  # not there in the back end ``reference``, which has no kernels either

    return triton.jit(function)


def require_cpu(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """ValueError for a tensor that lives elsewhere: its address means nothing to the CPU."""
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, torch.Tensor) and arg.device.type != "cpu":
            raise ValueError(
                f"{name}: a tensor on {arg.device} was passed to a launch that runs on the CPU; "
                "create the tensors on kernels.device()"
            )


def check_memcpy_lengths(
    src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor
) -> int:
    """The number of copies n; ValueError if the three arrays do not all have n entries."""
    lengths = (len(src_ptrs), len(dst_ptrs), len(sizes))
    if len(set(lengths)) != 1:
        raise ValueError(
            "batch_memcpy: src_ptrs, dst_ptrs and sizes must have one entry per copy, "
            f"but have {lengths[0]}, {lengths[1]} and {lengths[2]} entries"
        )
    return lengths[0]
