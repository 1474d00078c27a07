"""A lesson as a link says it: a title and the stops; a part of `mambaviz.pages.state.PageState`.

    ?lesson=Lesson 4 of 9: a new running block&stops=4.pre-copy.A,4.post-copy.A

A stop is ``step.phase`` or ``step.phase.request``; without a request it is about the one that the
phase is about, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mambaviz.limits import LONGEST_REQUEST
from mambaviz.trace import PHASES, PhaseName

LONGEST_TITLE = 80  # characters
MOST_STOPS = 40
LONGEST_STOPS = 4000  # characters of the parameter
WHOLE_PAGE = "so the whole page is shown."


class Stop(BaseModel):
    """A moment of a run, from the first one on, seen from a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: Annotated[int, Field(ge=0, lt=10**6)]
    phase: PhaseName
    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)] | None = None


class Lesson(BaseModel):
    """A title line and at least one stop; no stop occurs twice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Annotated[str, Field(max_length=LONGEST_TITLE)] = ""
    stops: Annotated[tuple[Stop, ...], Field(min_length=1, max_length=MOST_STOPS)]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.stops)) < len(self.stops):
            raise ValueError("a stop occurs twice")
        return self


def to_link(lesson: Lesson) -> dict[str, str]:
    """Query parameters of a lesson; a title that says nothing is left out."""
    link = {"stops": ",".join(_stop_text(stop) for stop in lesson.stops)}
    return {"lesson": lesson.title, **link} if lesson.title else link


def from_values(values: Mapping[str, Any]) -> Lesson | None:
    """The lesson of what `READERS` have read; None without stops."""
    if "stops" not in values:
        return None
    return Lesson(title=values.get("lesson", ""), stops=values["stops"])


def _stop_text(stop: Stop) -> str:
    """Commas and dots part the stops: those of a request's name are written as ``%2C``."""
    text = f"{stop.step}.{stop.phase}"
    return text if stop.request is None else f"{text}.{quote(stop.request, safe='')}"


def _read_title(text: str) -> str:
    if len(text) > LONGEST_TITLE:
        raise ValueError(
            f"This link's lesson title has {len(text)} characters where {LONGEST_TITLE} can be, "
            "so it is left out."
        )
    if not text.isprintable():
        raise ValueError("This link's lesson title has signs that are no text, so it is left out.")
    return text.strip()


def _read_stops(text: str) -> tuple[Stop, ...]:
    parts = text.split(",")
    if len(parts) > MOST_STOPS or len(text) > LONGEST_STOPS:
        raise ValueError(
            f"This link's stops are too many: {MOST_STOPS} of them in {LONGEST_STOPS} characters "
            f"can be, {WHOLE_PAGE}"
        )
    stops = tuple(_read_stop(part) for part in parts)
    if len(set(stops)) < len(stops):
        raise ValueError(f"This link's stops name one twice, {WHOLE_PAGE}")
    return stops


def _read_stop(text: str) -> Stop:
    step, _, rest = text.partition(".")
    phase, dot, request = rest.partition(".")
    name = unquote(request)
    good_step = step.isascii() and step.isdigit() and len(step) <= 6
    if not good_step or phase not in PHASES or (dot and not 0 < len(name) <= LONGEST_REQUEST):
        raise ValueError(
            f"This link's stop “{text[:40]}” is no step.phase or step.phase.request, {WHOLE_PAGE}"
        )
    return Stop(step=int(step), phase=phase, request=name or None)


READERS: Mapping[str, Callable[[str], Any]] = {"lesson": _read_title, "stops": _read_stops}
