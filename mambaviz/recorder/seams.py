"""Where the recorder looks: names in the engine, wrapped where they are as expected.

A seam is a function or method by its dotted name and the parameters that are read from it.
What is not there, or takes other parameters, stays untouched, and the head of the file says
why. A wrapper calls the original exactly once, outside of everything that can go wrong here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mambaviz.recorder.session import Session

Bound = dict[str, Any]  # parameter name -> argument of one call
Before = Callable[[Bound], Any]
After = Callable[[Bound, Any, Any], None]  # (arguments, what `before` gave, result)


@dataclass(frozen=True)
class Seam:
    """A place to look at. ``target`` is a function, or a method as ``Class.method``."""

    name: str
    module: str
    target: str
    needs: tuple[str, ...]
    after: After | None = None
    before: Before | None = None

    @property
    def where(self) -> str:
        return f"{self.module}.{self.target}"


@dataclass(frozen=True)
class Wrapped:
    """An attribute that was replaced, and what it was."""

    owner: Any
    name: str
    original: Any

    def undo(self) -> None:
        setattr(self.owner, self.name, self.original)


class SeamError(LookupError):
    """Why a seam cannot be hooked, in a sentence."""


def hook(module: ModuleType, seam: Seam, session: Session) -> Wrapped:
    """Put the recorder into a seam. Raises SeamError."""
    owner: Any = module
    *path, name = seam.target.split(".")
    for part in path:
        owner = getattr(owner, part, None)
        if owner is None:
            raise SeamError(f"{module.__name__} has no {part}")
    return wrap(owner, name, seam, session)


def wrap(owner: Any, name: str, seam: Seam, session: Session) -> Wrapped:
    """Replace ``owner.name`` by a function that also records. Raises SeamError."""
    original = vars(owner).get(name)
    if not inspect.isfunction(original):
        raise SeamError(f"{seam.where} is not there, or no plain function")
    signature = inspect.signature(original)
    missing = [need for need in seam.needs if need not in signature.parameters]
    if missing:
        raise SeamError(f"{seam.where} takes no {' and no '.join(missing)}")
    setattr(owner, name, _recorded(original, signature, seam, session))
    return Wrapped(owner, name, original)


def _recorded(
    original: Callable[..., Any], signature: inspect.Signature, seam: Seam, session: Session
) -> Callable[..., Any]:
    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        bound: Bound | None = None
        found = None
        try:
            bound = signature.bind(*args, **kwargs).arguments
            if seam.before is not None:
                found = seam.before(bound)
        except Exception as error:  # noqa: BLE001  # the engine must never notice
            bound = None
            _say(session, seam, error)
        result = original(*args, **kwargs)
        if seam.after is not None and bound is not None:
            try:
                seam.after(bound, found, result)
            except Exception as error:  # noqa: BLE001  # the engine must never notice
                _say(session, seam, error)
        return result

    return recorded


def _say(session: Session, seam: Seam, error: Exception) -> None:
    """Note the kind of a failure; its text could hold what must not be written."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        line, trace = trace.tb_lineno, trace.tb_next
    session.note(seam.name, f"{seam.where} could not be read: {type(error).__name__}, line {line}")
