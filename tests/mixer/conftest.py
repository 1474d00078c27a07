"""Every test that takes `place` runs on the process's own back end and on the plain twins."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import kernels
from kernels import BACKEND, KernelSet


@dataclass(frozen=True)
class Place:
    """Kernels, and the device their tensors live on."""

    kernels: KernelSet
    device: torch.device


OWN = Place(kernels.kernel_set(), kernels.device())
TWIN = Place(kernels.kernel_set("reference"), torch.device("cpu"))
PLACES = {"twin": TWIN} if BACKEND == "reference" else {BACKEND: OWN, "twin": TWIN}


@pytest.fixture(params=PLACES.values(), ids=PLACES.keys())
def place(request: pytest.FixtureRequest) -> Place:
    return request.param
