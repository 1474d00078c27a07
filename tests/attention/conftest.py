"""Every test that takes `device` runs on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param
