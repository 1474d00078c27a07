"""``python -m mambaviz sizes``: a model's sizes for a terminal or a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from mambaviz.json_text import is_there, text_of
from mambaviz.scenario import one_line
from mambaviz.sizes import export
from mambaviz.sizes.copy_rates import measured
from mambaviz.sizes.families import SizesError
from mambaviz.sizes.model import Model
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.reader import parse_config
from mambaviz.sizes.report import size
from mambaviz.sizes.settings import Settings, settings_of

Form = Literal["lines", "json", "csv"]


def told(name: str, settings: Sequence[str], form: Form) -> str:
    """The sizes of a model of the list or of a config.json, under ``name=value`` settings.

    Raises SizesError with one sentence.
    """
    model, chosen = find_model(name), read_settings(settings)
    try:
        rates = measured()
    except ValueError as error:
        raise SizesError(str(error)) from None
    report = size(model, chosen, rates)
    if form == "json":
        return export.to_json(report)
    if form == "csv":
        return export.to_csv(report).rstrip("\n")
    return "\n".join(export.to_lines(report))


def find_model(name: str) -> Model:
    if name in MODELS:
        return MODELS[name].model
    shown = one_line(name, 60)
    if not name.endswith(".json") and not is_there(name):
        raise SizesError(f"{shown}: neither a file nor a model; the models are {', '.join(MODELS)}")
    text = text_of(name, SizesError, shown)
    try:
        return parse_config(text)
    except SizesError as error:
        raise SizesError(f"{shown}: {error}") from None


def read_settings(pairs: Sequence[str]) -> Settings:
    """Settings from texts such as ``tp=2``; values as JSON has them, words without quotes."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, sign, written = pair.partition("=")
        if not sign:
            raise SizesError(
                f"{one_line(pair, 60)}: a setting is name=value; the names are "
                f"{', '.join(Settings.model_fields)}"
            )
        values[name] = read_value(written)
    return settings_of(values)


def read_value(written: str) -> Any:
    """A number, true, false or null as JSON has it, else the word itself."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written
