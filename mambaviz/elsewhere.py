"""A run in a process of its own, so that it can be on another back end than this one.

A process has either the compiled kernels or interpreted ones (`kernels.backend`); whoever wants
both starts a second one:

    trace = run_elsewhere(scenario, "interpreter", progress)

The child reads the scenario from its input and writes a line for every step, then the trace.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from mambaviz.scenario import Scenario
from mambaviz.trace import Trace

if TYPE_CHECKING:
    from kernels import BackendName

Progress = Callable[[int, str], None]

PATIENCE = 0.2  # s between two looks at whether the run is still wanted


def run_elsewhere(scenario: Scenario, backend: BackendName, progress: Progress) -> Trace:
    """Run a scenario on ``backend`` in a child process.

    ``progress(steps_done, words)`` is called often; what it raises ends the child. Raises
    `kernels.BackendError` for a back end that this machine does not have, RuntimeError with the
    child's last words if it breaks off.
    """
    return _child(scenario, backend, _environment(backend), progress)


def _environment(backend: BackendName) -> dict[str, str]:
    """Of the child. Raises BackendError before one is started in vain."""
    import torch

    from kernels.backend import child_environment, choose_backend

    environment = child_environment(backend)
    choose_backend(
        environment,
        has_cuda=torch.cuda.is_available(),
        has_triton=importlib.util.find_spec("triton") is not None,
    )
    return environment


def _child(
    scenario: Scenario, backend: BackendName, environment: dict[str, str], progress: Progress
) -> Trace:
    command = (sys.executable, "-m", "mambaviz.elsewhere", backend)
    with tempfile.TemporaryFile("w+") as complaints:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            assert child.stdin is not None
            child.stdin.write(scenario.model_dump_json())
            child.stdin.close()
            found = _listen(child, progress)
        finally:
            child.kill()
            child.wait()
        if found is None:
            complaints.seek(0)
            last = complaints.read().strip().splitlines()[-1:] or ["it said nothing"]
            raise RuntimeError(f"the run on {backend} broke off: {last[0]}")
        return found


def _listen(child: subprocess.Popen[str], progress: Progress) -> Trace | None:
    """Follow a child to its trace; None if it ends without one."""
    lines: Queue[str | None] = Queue()
    threading.Thread(target=_forward, args=(child, lines), daemon=True).start()
    done, words = 0, "loading PyTorch"
    while True:
        progress(done, words)
        try:
            line = lines.get(timeout=PATIENCE)
        except Empty:
            continue
        if line is None:
            return None
        said: dict[str, Any] = json.loads(line)
        if "trace" in said:
            return Trace.from_json(said["trace"])
        done, words = said["done"], said["words"]


def _forward(child: subprocess.Popen[str], lines: Queue[str | None]) -> None:
    assert child.stdout is not None
    with child.stdout as said:
        for line in said:
            lines.put(line)
    lines.put(None)


def main() -> None:
    """The child: scenario in, steps and trace out, a JSON object a line."""
    from mambaviz.engine import run

    def progress(done: int, words: str) -> None:
        print(json.dumps({"done": done, "words": words}), flush=True)

    scenario = Scenario.model_validate_json(sys.stdin.read())
    trace = run(scenario, backend=sys.argv[1], progress=progress)  # type: ignore[arg-type]
    print(json.dumps({"trace": trace.to_json()}), flush=True)


if __name__ == "__main__":
    main()
