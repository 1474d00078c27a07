"""Do something right after a module has been imported, whenever that will be."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Then = Callable[[ModuleType], None]


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls ``then[name](module)`` once each of these modules is there.

    The engine's plugins are loaded before most of the engine is: importing its modules here
    would change the order in which it starts.
    """

    def __init__(self, then: dict[str, Then]) -> None:
        self._then = dict(then)

    def install(self) -> None:
        for name in list(self._then):
            module = sys.modules.get(name)
            if module is not None:
                self._then.pop(name)(module)
        if self._then:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        self._then.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders have, its loader told to call back."""
        then = self._then.pop(fullname, None)
        if then is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                _call_after(spec, then)
                return spec
        return None


def _call_after(spec: importlib.machinery.ModuleSpec, then: Then) -> None:
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def execute_and_call(module: ModuleType) -> None:
        execute(module)
        then(module)

    loader.exec_module = execute_and_call  # type: ignore[method-assign, union-attr]
