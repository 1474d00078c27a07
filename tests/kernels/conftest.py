"""``ks``: the kernels of each back end that this process can run."""

from __future__ import annotations

import pytest

import kernels
from kernels import KernelSet
from tests.kernels.golden_cases import backends


@pytest.fixture(params=backends())
def ks(request: pytest.FixtureRequest) -> KernelSet:
    return kernels.kernel_set(request.param)
