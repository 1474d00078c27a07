"""Checks of what a line may hold as it likes: metadata fields and the bytes of a state."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from mambaviz.limits import MOST_PADDED_ROWS

LARGEST = 2**53  # beyond, a browser no longer tells neighbouring numbers apart

_COUNTS = (
    "num_reqs",
    "num_decodes",
    "num_prefills",
    "num_decode_tokens",
    "num_prefill_tokens",
)
# Index tensors that are looked at row by row, with the axes that they may have.
_AXES = {
    "state_indices_tensor_d": (1, 2),
    "state_indices_tensor_p": (1, 2),
    "has_initial_states_p": (1,),
    "query_start_loc_d": (1,),
    "query_start_loc_p": (1,),
    "num_computed_tokens_p": (1,),
    "num_accepted_tokens": (1,),
    "seq_lens": (1,),
    "cu_chunk_seqlen_p": (1,),
    "seq_idx_p": (1,),
    "last_chunk_indices_p": (1,),
    "block_idx_last_computed_token": (1,),
    "block_idx_last_scheduled_token": (1,),
    "block_idx_last_scheduled_token_prev_step": (1,),
    "block_idx_first_scheduled_token_p": (1,),
    "write_pos_d": (1,),
    "is_flush_d": (1,),
}


def checked_field(value: Any) -> Any:
    """A metadata value of any kind, if its numbers are small enough and its tensor is whole."""
    if is_tensor(value):
        _check_tensor(value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            checked_field(part)
    elif isinstance(value, int) and abs(value) >= LARGEST:
        raise ValueError(f"a number must be smaller than {LARGEST}")
    return value


def checked_names(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a builder, if those with a known name are of their kind; null is any's."""
    for name in _COUNTS:
        count = fields.get(name)
        if count is not None and not (type(count) is int and count >= 0):
            raise ValueError(f"{name} must be a count, from 0 on")
    if (fields.get("num_reqs") or 0) > MOST_PADDED_ROWS:
        raise ValueError(f"num_reqs must be at most {MOST_PADDED_ROWS}")
    for name, axes in _AXES.items():
        tensor = fields.get(name)
        if tensor is None:
            continue
        whole = is_tensor(tensor) and tensor.get("values") is not None
        if not whole or len(tensor["shape"]) not in axes:
            wanted = " or ".join(str(number) for number in axes)
            raise ValueError(f"{name} must be a tensor with values, of {wanted} axes")
    return fields


def is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and "dtype" in value and "shape" in value


def _check_tensor(tensor: dict[str, Any]) -> None:
    shape, values, fill = tensor["shape"], tensor.get("values"), tensor.get("fill")
    if not isinstance(shape, list) or not all(_is_index(n) and n >= 0 for n in shape):
        raise ValueError("a tensor's shape must be a list of counts")
    if fill is not None and not _is_index(fill):
        raise ValueError("a tensor's fill must be an integer")
    if values is not None:
        _check_entries(values, shape)


def _check_entries(values: Any, shape: Sequence[int]) -> None:
    if not shape:
        if not (_is_index(values) or isinstance(values, bool)):
            raise ValueError("a tensor's values must be integers or truth values")
        return
    if not isinstance(values, list) or len(values) > shape[0]:
        raise ValueError("a tensor's values must be nested lists, no longer than its shape says")
    for entry in values:
        _check_entries(entry, shape[1:])


def _is_index(number: Any) -> bool:
    return type(number) is int and abs(number) < LARGEST


def checked_base64(data: str) -> str:
    """Bytes written as text, if they are."""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("bytes must be written in base64") from None
    return data
