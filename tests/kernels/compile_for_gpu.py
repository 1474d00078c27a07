"""Compile the kernels of section 3 for a GPU, on a machine that has none.

``python -m tests.kernels.compile_for_gpu`` prints one line per variant. The interpreter runs
kernels as ordinary Python and so accepts what the compiler refuses. A process of its own, since
this one must be told that there is a GPU before the kernels are defined.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

INT64_POINTERS = (
    "block_table_ptrs",
    "state_base_addrs",
    "state_block_strides",
    "state_inner_sizes",
    "state_dim_row_stride",
    "piece_addrs",
    "piece_block_strides",
)
UINT64_POINTERS = ("src_ptrs", "dst_ptrs")
INTEGERS = (
    "block_table_stride_req",
    "num_reqs",
    "num_blocks",
    "num_pieces",
    "num_groups",
    "block_size",
)
FOLDED = INTEGERS[:3]


def compile_kernel(kernel: Any, constants: dict[str, Any]) -> str:
    """The PTX of one variant for compute capability 9.0.

    ``constants`` are the constexprs, and the arguments that Triton would fold into the code:
    None, and integers equal to 1.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name in INTEGERS:
            return "i32"
        if name in INT64_POINTERS:
            return "*i64"
        return "*u64" if name in UINT64_POINTERS else "*i32"

    signature = {name: kind(name) for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def variants() -> list[tuple[str, dict[str, Any]]]:
    """Kernel name and constants: layouts, with and without mapping, arguments folded or not."""
    from kernels.pieces import PIECE_BYTES

    found: list[tuple[str, dict[str, Any]]] = []
    ones = dict.fromkeys(FOLDED, 1)
    for dim_first, mapped in product((False, True), repeat=2):
        common = {
            "COPY_BLOCK_SIZE": 1024,
            "CONV_STATE_DIM_FIRST": dim_first,
            "HAS_IDX_MAPPING": mapped,
            **({} if mapped else {"idx_mapping": None}),
        }
        found.append(("precopy_mamba_align_fused_kernel", common))
        v1 = {**common, "block_size": 4, "PRECOMPUTED_NEW_COMPUTED": False}
        v2 = {
            **common,
            "block_size": 1,
            "PRECOMPUTED_NEW_COMPUTED": True,
            "num_scheduled_tokens": None,
            "num_draft_tokens": None,
            "num_accepted_tokens_out": None,
        }
        found += [("postprocess_mamba_fused_kernel", v) for v in (v1, v2, {**v1, **ones})]
        pieces = {
            "MAX_REQS": 64 if mapped else 32,
            "MAX_GROUPS": 2 if mapped else 1,
            "PIECE_BYTES": PIECE_BYTES,
            "CONV_ROWS": 1 if dim_first else 16,
            "UNIT_BYTES": 16 if mapped else 4,
            "CHANNEL_UNIT_BYTES": 2,
            "CHANNELS_PACKED": mapped,
            **{name: value for name, value in common.items() if name != "COPY_BLOCK_SIZE"},
        }
        found.append(("precopy_mamba_align_pieces_kernel", pieces))
        advanced = {"num_scheduled_tokens": None, "num_draft_tokens": None}
        found += [
            ("postprocess_mamba_pieces_kernel", {**pieces, "PRECOMPUTED_NEW_COMPUTED": False}),
            (
                "postprocess_mamba_pieces_kernel",
                {**pieces, **advanced, "PRECOMPUTED_NEW_COMPUTED": True},
            ),
        ]
    lanes = {"BLOCK_SIZE": 4, "MAMBA_BLOCK_SIZE": 4}
    found.append(("preprocess_mamba_align_fused_kernel", lanes))
    found.append(("preprocess_mamba_align_fused_kernel", {**lanes, "num_reqs": 1}))
    found.append(("batch_memcpy_kernel", {"BLOCK_SIZE": 1024}))
    return found


def main() -> None:
    torch.cuda.is_available = lambda: True  # kernels are then defined for the compiler
    import kernels

    assert kernels.BACKEND == "cuda"
    for name, constants in variants():
        ptx = compile_kernel(getattr(kernels, name), constants)
        print(name, "barriers", ptx.count("bar.sync"))


if __name__ == "__main__":
    main()
