"""What the interpreter accepts, the compiler must accept too, also where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kernels
from kernels.backend import INTERPRET_VARIABLE, child_environment
from tests.kernels.compile_for_gpu import variants

# Without these barriers an in-place shift, or a count that is reset, is a race between warps:
# one in each of the two loops of the copy, one before the reset, one after the loads of 3.3. In
# the fast kernels one for each width by which a window moves (sums over the lanes need more).
BARRIERS = {
    "precopy_mamba_align_fused_kernel": 2,
    "postprocess_mamba_fused_kernel": 3,
    "preprocess_mamba_align_fused_kernel": 1,
    "batch_memcpy_kernel": 2,
    "precopy_mamba_align_pieces_kernel": 3,
    "postprocess_mamba_pieces_kernel": 3,
}


@pytest.mark.skipif(kernels.BACKEND == "reference", reason="needs triton")
@pytest.mark.slow
def test_every_variant_compiles_for_a_gpu_and_keeps_its_barriers() -> None:
    environment = child_environment("cuda")
    assert INTERPRET_VARIABLE not in environment
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_for_gpu"],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == [name for name, _ in variants()]
    for (name, constants), (_, _, barriers) in zip(variants(), lines, strict=True):
        # With num_blocks folded to 1 no id is in range, and the compiler drops the whole copy.
        expected = 1 if constants.get("num_blocks") == 1 else BARRIERS[name]
        assert int(barriers) >= expected, f"{name} {constants}"
