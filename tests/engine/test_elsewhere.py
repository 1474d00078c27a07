"""A run in a process of its own: another back end, the same steps."""

from __future__ import annotations

import pytest
import torch

from kernels import BackendError
from mambaviz.elsewhere import run_elsewhere
from mambaviz.engine import run
from mambaviz.scenario import build

SMALL = build({"requests": [{"id": "A", "prompt_len": 3, "max_tokens": 2}]})


def test_a_child_runs_the_same_steps_and_reports_them() -> None:
    heard: list[tuple[int, str]] = []
    found = run_elsewhere(SMALL, "reference", lambda done, words: heard.append((done, words)))
    here = run(SMALL, backend="reference")
    assert found.backend == "reference"
    assert found.steps == here.steps
    assert heard[0] == (0, "loading PyTorch")
    assert max(done for done, _ in heard) == len(here.steps)


def test_whoever_stops_listening_ends_the_child() -> None:
    class Enough(Exception):  # noqa: N818  # no error: a wish
        pass

    def stop(_done: int, _words: str) -> None:
        raise Enough

    with pytest.raises(Enough):
        run_elsewhere(SMALL, "reference", stop)
    # The next one does not wait for it.
    assert run_elsewhere(SMALL, "reference", lambda *_: None).steps


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_back_end_that_is_not_here_says_why() -> None:
    with pytest.raises(BackendError, match="CUDA device"):
        run_elsewhere(SMALL, "cuda", lambda *_: None)
