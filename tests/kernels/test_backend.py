"""The choice of the back end, and launches that take turns (section 5.4)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import kernels
from kernels.backend import BackendError, BackendName, child_environment, choose_backend
from kernels.launch import InterpretedKernel
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    launch_precopy,
)

ROOT = Path(__file__).parents[2]
HAS_TRITON = kernels.BACKEND != "reference"


@pytest.mark.parametrize(
    ("environment", "has_cuda", "has_triton", "expected"),
    [
        ({}, True, True, "cuda"),
        ({}, False, True, "interpreter"),
        ({}, False, False, "reference"),
        ({}, True, False, "reference"),
        ({"TRITON_INTERPRET": "1"}, True, True, "interpreter"),
        ({"TRITON_INTERPRET": "0"}, True, True, "cuda"),
        ({"TRITON_INTERPRET": "0"}, False, True, "interpreter"),
        ({"MAMBAVIZ_BACKEND": ""}, True, True, "cuda"),
        ({"MAMBAVIZ_BACKEND": "cuda"}, True, True, "cuda"),
        ({"MAMBAVIZ_BACKEND": "interpreter"}, True, True, "interpreter"),
        ({"MAMBAVIZ_BACKEND": "reference"}, True, True, "reference"),
        ({"MAMBAVIZ_BACKEND": "reference", "TRITON_INTERPRET": "1"}, True, True, "reference"),
    ],
)
def test_choice(
    environment: dict[str, str], has_cuda: bool, has_triton: bool, expected: BackendName
) -> None:
    assert choose_backend(environment, has_cuda=has_cuda, has_triton=has_triton) == expected


@pytest.mark.parametrize(
    ("environment", "has_cuda", "has_triton", "message"),
    [
        ({"MAMBAVIZ_BACKEND": "gpu"}, True, True, "must be one of cuda, interpreter, reference"),
        ({"MAMBAVIZ_BACKEND": "cuda"}, False, True, "torch sees none"),
        ({"MAMBAVIZ_BACKEND": "cuda"}, True, False, "not installed"),
        ({"MAMBAVIZ_BACKEND": "interpreter"}, True, False, "not installed"),
        ({"MAMBAVIZ_BACKEND": "cuda", "TRITON_INTERPRET": "1"}, True, True, "contradicts"),
    ],
)
def test_impossible_choice(
    environment: dict[str, str], has_cuda: bool, has_triton: bool, message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        choose_backend(environment, has_cuda=has_cuda, has_triton=has_triton)


# One copy and one reduction, launched as a fresh process would.
COPY_SOMETHING = """
import torch, kernels
device = kernels.device()
a, b = torch.arange(8, device=device), torch.zeros(8, dtype=torch.int64, device=device)
lists = [torch.tensor([t.data_ptr()], dtype=torch.uint64, device=device) for t in (a, b)]
kernels.batch_memcpy(*lists, torch.tensor([64], dtype=torch.int32, device=device))
assert torch.equal(a, b)
print(kernels.BACKEND, device.type, "triton" in sys.modules)
"""


def run_process(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys\n" + code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("backend", ["interpreter", "reference"])
def test_forced_in_a_process_of_its_own(backend: BackendName) -> None:
    """Also on a GPU machine; and the reference gets by without Triton."""
    if backend == "interpreter" and not HAS_TRITON:
        pytest.skip("the interpreter needs triton")
    done = run_process(COPY_SOMETHING, child_environment(backend))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [backend, "cpu", str(backend == "interpreter")]


def test_unknown_name_stops_the_import() -> None:
    done = run_process("import kernels", {**os.environ, "MAMBAVIZ_BACKEND": "gpu"})
    assert done.returncode != 0
    assert "MAMBAVIZ_BACKEND='gpu' is no back end" in done.stderr


def test_triton_imported_first_is_interpreted_all_the_same() -> None:
    """Its library functions (tl.sum, tl.cdiv) were defined for the compiler by then."""
    if not HAS_TRITON:
        pytest.skip("needs triton")
    environment = child_environment("interpreter")
    done = run_process("import triton\n" + COPY_SOMETHING, environment)
    assert done.returncode == 0, done.stderr
    done = run_process(
        "import triton.language as tl, kernels\n"
        "from triton.runtime.interpreter import InterpretedFunction\n"
        "assert all(isinstance(f, InterpretedFunction) for f in (tl.sum, tl.cdiv, tl.sigmoid))",
        environment,
    )
    assert done.returncode == 0, done.stderr


def test_child_does_not_inherit_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    environment = child_environment("cuda")
    assert "TRITON_INTERPRET" not in environment
    assert choose_backend(environment, has_cuda=True, has_triton=True) == "cuda"


def test_kernel_sets() -> None:
    own = kernels.kernel_set()
    assert own.backend == kernels.BACKEND
    assert own == kernels.kernel_set(kernels.BACKEND)
    assert own.batch_memcpy is kernels.batch_memcpy
    assert own.postprocess_mamba_fused_kernel is kernels.postprocess_mamba_fused_kernel
    assert kernels.kernel_set("reference").backend == "reference"


def test_kernel_set_of_another_process() -> None:
    other: BackendName = "interpreter" if kernels.BACKEND == "cuda" else "cuda"
    with pytest.raises(BackendError, match="start another process"):
        kernels.kernel_set(other)
    with pytest.raises(BackendError, match="must be one of"):
        kernels.kernel_set("metal")  # type: ignore[arg-type]


@pytest.mark.gpu
def test_reference_refuses_device_tensors() -> None:
    tensor = torch.zeros(1, dtype=torch.int32, device="cuda")
    with pytest.raises(ValueError, match="runs on the CPU"):
        kernels.kernel_set("reference").batch_memcpy(tensor, tensor, tensor)


def test_interpreted_launch_holds_the_lock() -> None:
    seen: list[bool] = []

    class Probe:
        """Looks, from another thread, whether the lock is free during the launch."""

        __name__ = "probe"
        fn = None

        def __getitem__(self, grid: tuple[int, ...]) -> Probe:
            return self

        def __call__(self) -> None:
            def look() -> None:
                free = kernels.launch_lock.acquire(blocking=False)
                if free:
                    kernels.launch_lock.release()
                seen.append(free)

            other = threading.Thread(target=look)
            other.start()
            other.join()

    InterpretedKernel(Probe())[(1,)]()
    assert seen == [False]


def test_threads_that_launch_at_the_same_time() -> None:
    """As browser sessions do, which are threads of one process."""
    ks = kernels.kernel_set()
    spec = StateSpec("conv", (4, 3), torch.float32, conv=True)
    memories = [StateMemory([spec], 3, device_of(ks), salt=salt) for salt in range(4)]

    def work(memory: StateMemory) -> None:
        tables = Tables.of([[[1, 2]]], memory.device)
        for _ in range(5):
            launch_precopy(ks, memory, tables, [0], [1], [1])

    threads = [threading.Thread(target=work, args=(memory,)) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for memory in memories:
        expected = memory.copied(memory.start_bytes(0), 0, 1, 2, 1)
        assert np.array_equal(memory.bytes(0), expected)


def reasons(error: BaseException | None) -> Iterator[str]:
    """What an error says, and what it comes from: compiled, the reason stands behind the places."""
    while error is not None:
        yield str(error)
        error = error.__cause__


@pytest.mark.skipif(not HAS_TRITON, reason="the plain twin takes any block size")
def test_after_a_launch_that_raises_another_thread_launches_as_before() -> None:
    """The lock is free, and what the interpreter had patched is as it was."""
    ks = kernels.kernel_set()
    device = device_of(ks)
    a, b = torch.arange(8, device=device), torch.zeros(8, dtype=torch.int64, device=device)
    src, dst = (torch.tensor([t.data_ptr()], dtype=torch.uint64, device=device) for t in (a, b))
    size = torch.tensor([64], dtype=torch.int32, device=device)
    with pytest.raises(Exception) as raised:
        ks.batch_memcpy_kernel[(1,)](src, dst, size, BLOCK_SIZE=7)
    assert "power of 2" in " ".join(reasons(raised.value))
    other = threading.Thread(
        target=lambda: ks.batch_memcpy_kernel[(1,)](src, dst, size, BLOCK_SIZE=64), daemon=True
    )
    other.start()
    other.join(60)
    assert not other.is_alive()
    assert torch.equal(a, b)


def test_grid_may_be_a_function_and_compile_options_are_taken(ks: kernels.KernelSet) -> None:
    device = device_of(ks)
    a, b = torch.arange(8, device=device), torch.zeros(8, dtype=torch.int64, device=device)
    src, dst = (torch.tensor([t.data_ptr()], dtype=torch.uint64, device=device) for t in (a, b))
    size = torch.tensor([64], dtype=torch.int32, device=device)
    ks.batch_memcpy_kernel[lambda _: (1,)](src, dst, size, BLOCK_SIZE=64, num_warps=1)
    assert torch.equal(a, b)
