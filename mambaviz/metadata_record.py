"""A metadata builder's result as the trace keeps it: cloned, since its buffers are reused."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from mambaviz.attention import BaseMambaAttentionMetadata
from mambaviz.observe import tensor_record
from mambaviz.trace import Metadata, MetadataField


def metadata_record(group: int, metadata: BaseMambaAttentionMetadata) -> Metadata:
    """Every field in the order of the dataclass, tensors as values."""
    return Metadata(
        group=group,
        fields=[
            MetadataField(name=field.name, value=_recorded(getattr(metadata, field.name)))
            for field in dataclasses.fields(metadata)
        ],
    )


def _recorded(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_record(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Nested values as ordinary data: a saved trace reads back equal."""
    if isinstance(value, torch.Tensor):
        return tensor_record(value).model_dump()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
