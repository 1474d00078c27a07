"""What the About page shows, as one value; a part of `mambaviz.pages.state.PageState`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from mambaviz.attention.fields import FIELDS
from mambaviz.glossary import TERMS
from mambaviz.pages.handbook import texts

AboutPart = Literal["glossary", "exact", "versions", "keys", "docs"]
ABOUT_PARTS: tuple[AboutPart, ...] = get_args(AboutPart)
DEFAULT_TEXT = "1"


class AboutView(BaseModel):
    """A part of the page; the ``term`` set off in the glossary, a word of it or a metadata field;
    the text that is ``read``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: AboutPart = "glossary"
    term: str | None = None
    read: str = DEFAULT_TEXT

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.term is not None and not is_term(self.term):
            raise ValueError(f"there is no term {self.term!r}")
        return self

    def changed(self, **changes: Any) -> AboutView:
        """A validated copy with other values."""
        return AboutView.model_validate({**dict(self), **changes})


def is_term(name: str) -> bool:
    return name in TERMS or name in FIELDS


def to_link(view: AboutView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.term is not None:
        link["term"] = view.term
    if view.read != DEFAULT_TEXT:
        link["read"] = view.read
    if view.part != _part_of(link):
        link["part"] = view.part
    return link


def from_values(values: Mapping[str, Any]) -> AboutView:
    """The view of what `READERS` have read. A text alone opens the part where it is read."""
    return AboutView(**{"part": _part_of(values), **values})


def _part_of(values: Mapping[str, Any]) -> AboutPart:
    """The part that a link means which names none."""
    return "docs" if "read" in values and "term" not in values else "glossary"


def _read_part(text: str) -> str:
    if text not in ABOUT_PARTS:
        raise ValueError(
            f"This link's part “{text[:40]}” is none of {', '.join(ABOUT_PARTS)}, "
            "so the glossary is shown."
        )
    return text


def _read_term(text: str) -> str:
    if not is_term(text):
        raise ValueError(
            f"This link asks for the term “{text[:40]}”, which is not in the glossary, "
            "so all terms are shown."
        )
    return text


def _read_text(text: str) -> str:
    if text not in texts():
        raise ValueError(
            f"This link wants to read “{text[:40]}”, which is no section of the specification and "
            "no guide, so section 1 is shown."
        )
    return text


READERS: Mapping[str, Callable[[str], Any]] = {
    "part": _read_part,
    "term": _read_term,
    "read": _read_text,
}
