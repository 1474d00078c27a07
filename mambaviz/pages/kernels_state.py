"""What the Kernels page shows, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mambaviz.launches import inputs as launches
from mambaviz.launches.inputs import (
    DEFAULT_LAUNCH,
    LAUNCHES,
    LaunchError,
    LaunchInputs,
    slug_of,
)
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.pages.packing import pack, unpacked

PROGRAM = r"\d{1,2}-\d{1,2}"  # batch row and state


class KernelsView(BaseModel):
    """One launch: ``own`` inputs, or the preset ``launch`` where that is None.

    ``program`` is the chosen one, batch row and state (None: the one to look at first).
    ``mistakes`` are switched on; ``fast`` launches the fast kernel.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    launch: str = DEFAULT_LAUNCH
    own: LaunchInputs | None = None
    program: Annotated[str, Field(pattern=f"^{PROGRAM}$")] | None = None
    mistakes: tuple[str, ...] = ()
    fast: bool = False

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.launch not in LAUNCHES:
            raise ValueError(f"there is no launch {self.launch!r}")
        unknown = next((name for name in self.mistakes if name not in MISTAKES), None)
        if unknown is not None:
            raise ValueError(f"there is no mistake {unknown!r}")
        return self

    @property
    def inputs(self) -> LaunchInputs:
        return self.own or LAUNCHES[self.launch]

    def showing(self, inputs: LaunchInputs) -> KernelsView:
        """The same view of another launch; a preset's own content stays a preset."""
        slug = slug_of(inputs)
        if slug is not None:
            return self.changed(launch=slug, own=None, program=None)
        kept = self.program if _same_grid(inputs, self.inputs) else None
        return self.changed(own=inputs, program=kept)

    def changed(self, **changes: Any) -> KernelsView:
        """A validated copy with other values."""
        return KernelsView.model_validate({**dict(self), **changes})


def _same_grid(one: LaunchInputs, other: LaunchInputs) -> bool:
    sizes = [(found.kernel, len(found.rows), found.layers) for found in (one, other)]
    return sizes[0] == sizes[1]


def to_link(view: KernelsView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.own is not None:
        link["inputs"] = pack(view.own)
    elif view.launch != DEFAULT_LAUNCH:
        link["launch"] = view.launch
    if view.program is not None:
        link["program"] = view.program
    if view.mistakes:
        link["broken"] = ",".join(name for name in MISTAKES if name in view.mistakes)
    if view.fast:
        link["path"] = "fast"
    return link


def from_values(values: Mapping[str, Any]) -> KernelsView:
    """The view of what `READERS` have read."""
    names = {"inputs": "own", "broken": "mistakes", "path": "fast"}
    return KernelsView(**{names.get(name, name): value for name, value in values.items()})


def _read_launch(text: str) -> str:
    if text not in LAUNCHES:
        raise ValueError(
            f"This link asks for a launch “{text[:40]}”, which does not exist, so "
            f"“{LAUNCHES[DEFAULT_LAUNCH].name}” is shown."
        )
    return text


def _read_inputs(packed: str) -> LaunchInputs:
    shown = f"so “{LAUNCHES[DEFAULT_LAUNCH].name}” is shown."
    text = unpacked(packed, "The launch in this link", shown)
    try:
        return launches.parse(text)
    except LaunchError as error:
        raise ValueError(f"The launch in this link cannot be ({error}), {shown}") from None


def _read_program(text: str) -> str:
    if not re.fullmatch(PROGRAM, text):
        raise ValueError(
            f"This link's program “{text[:40]}” is no batch row and state such as 1-0, "
            "so it is left out."
        )
    return text


def _read_mistakes(text: str) -> tuple[str, ...]:
    asked = text.split(",")
    unknown = next((name for name in asked if name not in MISTAKES), None)
    if unknown is not None:
        raise ValueError(
            f"This link breaks “{unknown[:40]}”, which is none of {', '.join(MISTAKES)}, "
            "so nothing is broken."
        )
    return tuple(name for name in MISTAKES if name in asked)


def _read_path(text: str) -> bool:
    if text not in ("fast", "readable"):
        raise ValueError(
            f"This link's path “{text[:40]}” is neither fast nor readable, so it is left out."
        )
    return text == "fast"


READERS: Mapping[str, Callable[[str], Any]] = {
    "inputs": _read_inputs,
    "launch": _read_launch,
    "program": _read_program,
    "broken": _read_mistakes,
    "path": _read_path,
}
