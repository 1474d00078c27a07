"""A few random launches against the plain twins; `random_launches.py` runs many."""

from __future__ import annotations

import pytest

from kernels import KernelSet
from tests.kernels.random_launches import run_one


@pytest.mark.parametrize("seed", range(12))
def test_random_launch(ks: KernelSet, seed: int) -> None:
    run_one(ks, seed)
