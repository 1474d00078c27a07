"""Which back end this process runs the kernels on (section 5.4).

    cuda          Triton, compiled, on a GPU
    interpreter   the very same Triton kernels, run by Triton's interpreter on the CPU
    reference     the plain twins of ``kernels/reference.py``, without Triton

Triton decides between compiler and interpreter when a kernel is *defined*. So the choice
falls here, once, before any kernel module is imported, and holds for the whole process;
whoever wants to see a second back end starts a second process (``child_environment``).

Environment
    MAMBAVIZ_BACKEND     one of the three names forces it (a GPU machine may be forced to
                         ``interpreter`` or ``reference``: its tensors then live on the CPU)
    TRITON_INTERPRET=1   honoured: the interpreter, also on a GPU machine
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Mapping
from typing import Literal, get_args

import torch

BackendName = Literal["cuda", "interpreter", "reference"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)

FORCE_VARIABLE = "MAMBAVIZ_BACKEND"
INTERPRET_VARIABLE = "TRITON_INTERPRET"


class BackendError(RuntimeError):
    """A back end was asked for that is unknown, or that this process cannot be."""


def choose_backend(
    environment: Mapping[str, str], *, has_cuda: bool, has_triton: bool
) -> BackendName:
    """The back end for a process with these environment variables and this equipment.

    Raises BackendError when MAMBAVIZ_BACKEND names no back end, or one that is impossible here.
    """
    forced = environment.get(FORCE_VARIABLE, "")
    interpret = environment.get(INTERPRET_VARIABLE, "").lower() in ("1", "true", "on", "yes", "y")
    if not forced:
        if not has_triton:
            return "reference"
        return "cuda" if has_cuda and not interpret else "interpreter"
    if forced not in BACKENDS:
        names = ", ".join(BACKENDS)
        raise BackendError(f"{FORCE_VARIABLE}={forced!r} is no back end; it must be one of {names}")
    if forced != "reference" and not has_triton:
        raise BackendError(
            f"{FORCE_VARIABLE}={forced} needs the package triton, which is not installed; "
            "without it only 'reference' runs"
        )
    if forced == "cuda" and not has_cuda:
        raise BackendError(
            f"{FORCE_VARIABLE}=cuda needs a CUDA device, and torch sees none; "
            "use 'interpreter' or 'reference'"
        )
    if forced == "cuda" and interpret:
        raise BackendError(
            f"{FORCE_VARIABLE}=cuda contradicts {INTERPRET_VARIABLE}=1, which makes Triton "
            "interpret its kernels; unset one of the two"
        )
    return forced


def child_environment(backend: BackendName) -> dict[str, str]:
    """Environment variables for a new process that shall run on ``backend``.

    This process may have switched its own interpreter on; the child must not inherit that.
    """
    environment = {k: v for k, v in os.environ.items() if k != INTERPRET_VARIABLE}
    return {**environment, FORCE_VARIABLE: backend}


def why_not(backend: BackendName) -> str:
    """Why this process does not run its kernels on ``backend``; empty for the one it does."""
    if backend == BACKEND:
        return ""
    try:
        choose_backend({FORCE_VARIABLE: backend}, has_cuda=HAS_CUDA, has_triton=HAS_TRITON)
    except BackendError as error:
        return str(error)
    if backend == "reference":
        return f"runs beside {BACKEND} where it is asked for, on CPU tensors"
    return (
        "possible here, but a process has one kind of Triton; "
        f"another one runs it with {FORCE_VARIABLE}={backend}"
    )


def device() -> torch.device:
    """Where this process keeps its tensors: the current CUDA device, else the CPU."""
    if BACKEND == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _interpret_triton_library() -> None:
    """Make the functions of ``triton.language`` that are themselves kernels interpretable.

    Only needed when Triton was imported before this module: ``tl.sum`` and its like were then
    defined for the compiler, and an interpreted kernel could not call them.
    """
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for module in (tl, tl.standard, tl.random):
        for name, member in list(vars(module).items()):
            if isinstance(member, JITFunction):
                setattr(module, name, InterpretedFunction(member.fn))


HAS_CUDA = torch.cuda.is_available()
HAS_TRITON = importlib.util.find_spec("triton") is not None
BACKEND: BackendName = choose_backend(os.environ, has_cuda=HAS_CUDA, has_triton=HAS_TRITON)

# The interpreter patches global state of ``triton.language`` while it runs, so a process has
# one launch at a time. Re-entrant, so that a wrapper may launch from within a launch's lock.
launch_lock = threading.RLock()

if BACKEND == "interpreter":
    triton_came_first = "triton" in sys.modules
    os.environ[INTERPRET_VARIABLE] = "1"
    if triton_came_first:
        _interpret_triton_library()
