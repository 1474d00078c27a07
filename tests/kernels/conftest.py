"""``ks``: the kernels of each back end that this process can run, and the fast copy kernels."""

from __future__ import annotations

import pytest

import kernels
from kernels import KernelSet
from tests.kernels.fast import fast_kernel_set
from tests.kernels.golden_cases import backends

FAST = [] if kernels.BACKEND == "reference" else ["fast"]


@pytest.fixture(params=[*backends(), *FAST])
def ks(request: pytest.FixtureRequest) -> KernelSet:
    return fast_kernel_set() if request.param == "fast" else kernels.kernel_set(request.param)
