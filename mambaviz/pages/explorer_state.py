"""What the Explorer page asks, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from mambaviz.explore.findings import Order
from mambaviz.explore.queries import AskedQuery
from mambaviz.explore.scope import Scope, find_scope, parse_scope, scope_names, with_fault
from mambaviz.faults import FAULTS
from mambaviz.pages.packing import pack, unpacked
from mambaviz.scenario import ScenarioError

DEFAULT_SCOPE = "tiny"
SCOPES: Mapping[str, Scope] = {name: find_scope(name) for name in scope_names()}


class ExplorerView(BaseModel):
    """A scope that comes with the project, or the reader's ``own``; a named mistake or none; what
    is looked for: a query's step, or None for a broken invariant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: str = DEFAULT_SCOPE
    own: Scope | None = None
    fault: str | None = None
    find: str | None = None

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.scope not in SCOPES:
            raise ValueError(f"there is no scope {self.scope!r}")
        if self.fault is not None and self.fault not in FAULTS:
            raise ValueError(f"there is no fault {self.fault!r}")
        if self.find is not None:
            AskedQuery.parse(self.find)
        return self

    @property
    def shown(self) -> Scope:
        return self.own or SCOPES[self.scope]

    @property
    def query(self) -> AskedQuery | None:
        return None if self.find is None else AskedQuery.parse(self.find)

    @property
    def order(self) -> Order:
        """ScenarioError where the fault has nothing to spoil in the scope."""
        return Order(scope=_with_fault(self.shown.model_dump_json(), self.fault), find=self.find)

    def changed(self, **changes: Any) -> ExplorerView:
        """A validated copy with other values."""
        return ExplorerView.model_validate({**dict(self), **changes})


@lru_cache(maxsize=64)
def _with_fault(text: str, fault: str | None) -> Scope:
    """Asked with every run of the page, and a look at all combinations at worst."""
    scope = parse_scope(text)
    return scope if fault is None else with_fault(scope, fault)


def to_link(view: ExplorerView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.own is not None:
        link["ranges"] = pack(view.own)
    elif view.scope != DEFAULT_SCOPE:
        link["scope"] = view.scope
    if view.fault is not None:
        link["fault"] = view.fault
    if view.find is not None:
        link["find"] = view.find
    return link


def from_values(values: Mapping[str, Any]) -> ExplorerView:
    """The view of what `READERS` have read."""
    return ExplorerView(
        **{"own" if name == "ranges" else name: value for name, value in values.items()}
    )


def _read_scope(text: str) -> str:
    if text not in SCOPES:
        raise ValueError(
            f"This link asks for a scope “{text[:40]}”, which does not exist, so “{DEFAULT_SCOPE}” "
            "is shown."
        )
    return text


def _read_ranges(text: str) -> Scope:
    shown = f"so “{DEFAULT_SCOPE}” is shown."
    try:
        return parse_scope(unpacked(text, "The scope in this link", shown))
    except ScenarioError as error:
        raise ValueError(f"The scope in this link cannot be ({error}), {shown}") from None


def _read_fault(text: str) -> str:
    if text not in FAULTS:
        raise ValueError(
            f"This link asks for a fault “{text[:40]}”, which does not exist, so none is made."
        )
    return text


def _read_find(text: str) -> str:
    try:
        return str(AskedQuery.parse(text[:80]))
    except ScenarioError:
        raise ValueError(
            f"This link looks for “{text[:40]}”, which is no query here, so a broken invariant is "
            "looked for."
        ) from None


READERS: Mapping[str, Callable[[str], Any]] = {
    "ranges": _read_ranges,
    "scope": _read_scope,
    "fault": _read_fault,
    "find": _read_find,
}
