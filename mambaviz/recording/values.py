"""Values of metadata as a recording has them: numbers, words, tensors as far as they are held."""

from __future__ import annotations

from typing import Any

from mambaviz.recording.checked import is_tensor
from mambaviz.recording.lines import Built
from mambaviz.trace import MetadataField, TensorRecord


def built_fields(built: Built) -> list[MetadataField]:
    """A builder's result in the trace's terms, field by field in the line's order."""
    return [MetadataField(name=name, value=_value(value)) for name, value in built.fields.items()]


def _value(value: Any) -> Any:
    if is_tensor(value):
        return TensorRecord(
            dtype=str(value["dtype"]),
            shape=value["shape"],
            values=value.get("values"),
            fill=value.get("fill"),
        )
    return value
