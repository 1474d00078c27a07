"""What the Sizes page shows, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mambaviz.pages.packing import pack, unpacked
from mambaviz.sizes.command import read_value
from mambaviz.sizes.families import SizesError
from mambaviz.sizes.model import Model
from mambaviz.sizes.models import DEFAULT_MODEL, MODELS
from mambaviz.sizes.settings import Settings, settings_of


class SizesView(BaseModel):
    """A model that comes with the project, or the reader's ``own``, and how it is served."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = DEFAULT_MODEL
    own: Model | None = None
    settings: Settings = Settings()

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.model not in MODELS:
            raise ValueError(f"there is no model {self.model!r}")
        return self

    @property
    def shown(self) -> Model:
        return self.own or MODELS[self.model].model

    def changed(self, **changes: Any) -> SizesView:
        """A validated copy with other values."""
        return SizesView.model_validate({**dict(self), **changes})


def to_link(view: SizesView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out. Of a pasted config the link
    holds what was read from it."""
    link: dict[str, str] = {}
    if view.own is not None:
        link["config"] = pack(view.own)
    elif view.model != DEFAULT_MODEL:
        link["model"] = view.model
    changed = view.settings.model_dump(exclude_defaults=True)
    if changed:
        link["sizes"] = ",".join(f"{name}:{_written(value)}" for name, value in changed.items())
    return link


def from_values(values: Mapping[str, Any]) -> SizesView:
    """The view of what `READERS` have read."""
    names = {"config": "own", "sizes": "settings"}
    return SizesView(**{names.get(name, name): value for name, value in values.items()})


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read_model(text: str) -> str:
    if text not in MODELS:
        raise ValueError(
            f"This link asks for a model “{text[:40]}”, which is not in the list, so "
            f"{MODELS[DEFAULT_MODEL].name} is shown."
        )
    return text


def _read_config(text: str) -> Model:
    shown = f"so {MODELS[DEFAULT_MODEL].name} is shown."
    try:
        return Model.model_validate_json(unpacked(text, "The model in this link", shown))
    except ValidationError:
        raise ValueError(f"The model in this link is none that has sizes, {shown}") from None


def _read_settings(text: str) -> Settings:
    values = {}
    for part in text[:2000].split(","):
        name, _, written = part.partition(":")
        values[name] = read_value(written)
    try:
        return settings_of(values)
    except SizesError as error:
        raise ValueError(
            f"This link's settings make no sense ({error}), so none of them counts."
        ) from None


READERS: Mapping[str, Callable[[str], Any]] = {
    "config": _read_config,
    "model": _read_model,
    "sizes": _read_settings,
}
