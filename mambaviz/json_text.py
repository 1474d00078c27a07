"""JSON as a person hands it over: a model, or one sentence on why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mambaviz.limits import LONGEST_TEXT

Model = TypeVar("Model", bound=BaseModel)
Explain = Callable[[ValidationError], str]


def parsed(model: type[Model], text: str, explain: Explain, refusal: type[ValueError]) -> Model:
    """The model of a JSON text, byte order mark or not. Raises ``refusal`` with one line."""
    if len(text) > LONGEST_TEXT:
        raise refusal(f"this text has {len(text):,} characters; at most {LONGEST_TEXT:,} are read")
    try:
        return model.model_validate_json(text.removeprefix("\ufeff"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise refusal(f"this is not JSON: {first['ctx']['error']}") from None
        raise refusal(explain(error)) from None


def built(
    model: type[Model], data: Mapping[str, Any], explain: Explain, refusal: type[ValueError]
) -> Model:
    """The model of a plain mapping, as an editor holds it. Raises ``refusal`` with one line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal(explain(error)) from None


def is_there(path: str) -> bool:
    """Whether a name is that of a file, whatever the name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # longer than any file name, or with a NUL in it
        return False


def text_of(path: str | Path, refusal: type[ValueError], shown: str | None = None) -> str:
    """A file's text. Raises ``refusal`` with one line, which calls the file ``shown``.

    No more is read than can be taken: some files never end.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LONGEST_TEXT + 1)
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise refusal(f"{shown or path}: cannot be read: {reason}") from None
    if len(text) > LONGEST_TEXT:
        raise refusal(f"{shown or path}: has more characters than are read, {LONGEST_TEXT:,}")
    return text
