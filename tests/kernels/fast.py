"""The fast copy kernels in the place of the readable ones, so that the same tests run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import kernels
from kernels import KernelSet, reference
from kernels.launch import Kernel, ReferenceKernel
from kernels.pieces import NOT_OF_FAST_KERNELS, STATE_TENSORS, Pieces


@dataclass(frozen=True)
class InPlaceOf:
    """A fast kernel, launched with the arguments of the readable one that it stands for.

    The grid and the sizes are its own: pieces so small that even tiny states are shared out, and
    so few programs that each gets several. It has no launch in place, so where the output is None
    it gets a snapshot of the counts as its input.
    """

    twin: ReferenceKernel  # for the names of the arguments
    fast: Kernel
    programs: int = 3
    piece_bytes: int = 4096

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            names = list(self.twin.signature.parameters)[1:]
            given = {"num_blocks": 0, **dict(zip(names, args, strict=False)), **kwargs}
            geometries = reference.read_geometries(*(given[name] for name in STATE_TENSORS))
            pieces = Pieces.of(
                geometries,
                given["state_group_indices"].tolist(),
                given["CONV_STATE_DIM_FIRST"],
                given["state_base_addrs"].device,
                self.piece_bytes,
            )
            given = {name: v for name, v in given.items() if name not in NOT_OF_FAST_KERNELS}
            if given.get("num_accepted_tokens_out", 0) is None:
                given["num_accepted_tokens_out"] = given["num_accepted_tokens"]
                given["num_accepted_tokens"] = given["num_accepted_tokens"].clone()
            self.fast[(self.programs,)](**given, **pieces.arguments(grid[0]))

        return launch


def fast_kernel_set(**sizes: int) -> KernelSet:
    """The process's kernels with the fast ones as its 3.2 and 3.4; ``sizes`` as in `InPlaceOf`."""
    own = kernels.kernel_set()
    assert own.postprocess_mamba_pieces_kernel is not None
    assert own.precopy_mamba_align_pieces_kernel is not None
    return replace(
        own,
        postprocess_mamba_fused_kernel=InPlaceOf(
            reference.postprocess_mamba_fused_kernel,
            own.postprocess_mamba_pieces_kernel,
            **sizes,
        ),
        precopy_mamba_align_fused_kernel=InPlaceOf(
            reference.precopy_mamba_align_fused_kernel,
            own.precopy_mamba_align_pieces_kernel,
            **sizes,
        ),
    )
