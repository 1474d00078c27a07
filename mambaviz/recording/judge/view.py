"""What the kernels find for a row: one group's metadata, entry by entry (section 4).

Where no metadata was recorded, everything is taken to be as the rules have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mambaviz.recording.judge.facts import Facts
from mambaviz.recording.steps import RecordedStep, Row
from mambaviz.recording.values import built_fields
from mambaviz.trace import MetadataField, TensorRecord


@dataclass(frozen=True)
class MetadataView:
    """One group's metadata. A field that is held in part only is None."""

    order: tuple[str, ...]
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, step: RecordedStep, group: int) -> MetadataView:
        order = step.rows.order if step.rows is not None else ()
        built = next((built for built in step.metadata if built.group == group), None)
        return cls(order, _plain(built_fields(built)) if built is not None else {})

    def is_decode(self, request: str) -> bool | None:
        """Whether a request's row stands among the decodes; None: not known."""
        decodes = self.fields.get("num_decodes")
        if not isinstance(decodes, int) or request not in self.order:
            return None
        return self.order.index(request) < decodes

    def number(self, name: str, request: str) -> int | None:
        """A field's entry for a request's row; None: not known."""
        values = self.fields.get(name)
        if not isinstance(values, list) or request not in self.order:
            return None
        row = self.order.index(request)
        found = values[row] if row < len(values) else None
        return found if isinstance(found, int) else None

    def slots(self, request: str, ids: Row | None, facts: Facts, end: int) -> list[int] | None:
        """Blocks that the kernels find for a row (section 4.3); None where that is not known."""
        decode = self.is_decode(request)
        if decode is not None:
            name = f"state_indices_tensor_{'d' if decode else 'p'}"
            row = self.order.index(request) - (0 if decode else self.fields["num_decodes"])
            values = self.fields.get(name)
            if isinstance(values, list):
                return _entries(values, row)
            if name in self.fields:
                return None  # held in part only
        if ids is None:
            return None
        start = facts.last_column(end) if facts.mode == "align" else 0
        return list(ids[start:])


def _entries(values: Sequence[Any], row: int) -> list[int] | None:
    """A row of a table, or the one entry of a list, as a list."""
    if row >= len(values):
        return None
    return values[row] if isinstance(values[row], list) else [values[row]]


def _plain(fields: Sequence[MetadataField]) -> dict[str, Any]:
    """Fields whose values are there in full; a tensor held in part is None."""
    found: dict[str, Any] = {}
    for one in fields:
        value = one.value
        if isinstance(value, TensorRecord):
            found[one.name] = value.values if value.holds_all else None
        else:
            found[one.name] = value
    return found
