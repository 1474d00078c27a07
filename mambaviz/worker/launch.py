"""Where an observer can watch the worker launch a kernel.

A trace that is to explain a launch needs what the kernel was given, and the caches just
before and just after. An observer gets exactly those two moments; it must change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

KernelInput = torch.Tensor | int | None


@dataclass(frozen=True)
class Launch:
    """A kernel by its name in `kernels`, the grid, and every argument by its parameter name.

    Tensors are the live ones: whoever keeps them clones them.
    """

    kernel: str
    grid: tuple[int, ...]
    inputs: Mapping[str, KernelInput]


class LaunchObserver(Protocol):
    def __call__(self, when: Literal["before", "after"], launch: Launch, /) -> None: ...


@contextmanager
def observed(observer: LaunchObserver | None, launch: Launch) -> Iterator[None]:
    """Around a launch: tells the observer, if there is one, right before and right after."""
    if observer is not None:
        observer("before", launch)
    yield
    if observer is not None:
        observer("after", launch)
