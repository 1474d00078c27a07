"""What every test needs: one torch thread, and a reason where there is no GPU.

The tests of the kernels, the worker and the attention metadata also run where nothing but torch,
triton, numpy, pytest and hypothesis is installed, so this file imports nothing else.
"""

from __future__ import annotations

import os
import sys

# Before torch is imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

# Tensors here hold a few hundred numbers: more threads only get in each other's way.
torch.set_num_threads(1)

# An interpreted kernel takes milliseconds per program, whatever the example: no deadline.
settings.register_profile("default", deadline=None)
# The same examples in every run, so that a red run can be repeated.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# benchmarks/proof.py: many new examples each time.
settings.register_profile("proof", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


# Streamlit makes the script that it runs the main module, and leaves it so after the test.
MAIN = sys.modules["__main__"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Let the settings file name the time limit where pytest-timeout is not installed."""
    if not pluginmanager.hasplugin("timeout"):
        parser.addini("timeout", "seconds a test may take; unused without pytest-timeout")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: the browser tests wait a good part of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what drives a browser; skip GPU tests where there is no GPU."""
    if item.path.parent.name == "browser":
        item.add_marker(pytest.mark.browser)
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and torch sees none"))


def pytest_runtest_setup() -> None:
    """Put the main module back: a process that a test spawns begins by running it."""
    sys.modules["__main__"] = MAIN
