"""The 300 recorded launches of tests/golden/kernels.json, on every back end of this process."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import KernelSet
from tests.kernels.golden_cases import GoldenCase, device_of, load_cases, run_case

CASES = load_cases()


def test_all_cases_are_there() -> None:
    assert len(CASES) == 300


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.id}")
def test_golden(ks: KernelSet, case: GoldenCase) -> None:
    memory = case.memory(device_of(ks))
    results = run_case(ks, case, memory)

    for name, values in results.items():
        assert values == case.expected[name], name
    for k, spec in enumerate(memory.specs):
        differing = np.flatnonzero(memory.bytes(k) != case.expected_bytes(memory, k))
        assert differing.size == 0, f"{spec.name}: bytes {differing[:8]} are not as recorded"
