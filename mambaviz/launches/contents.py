"""What the blocks of a launch hold before it: the states that the inputs' numbers speak of.

A forward has left the running state in the running column and the states after the drafts in the
columns behind it; columns before hold the boundaries. As everywhere in this project the bytes tell
what they are: channel 0 of a conv row is its token's position + 1, value 0 of a temporal state
counts the tokens in it (section 5.1). The other values are small made-up numbers that every cache
dtype holds exactly.
"""

from __future__ import annotations

import math

import numpy as np

from mambaviz.launches.inputs import LaunchInputs, LaunchRow
from mambaviz.launches.record import StateLayout

Caches = list[np.ndarray]  # per state uint8 [num_blocks, stride]


def layouts(inputs: LaunchInputs) -> list[StateLayout]:
    """The state tensors in kernel order: layer by layer, conv before temporal."""
    found = []
    for layer in range(inputs.layers):
        shapes = (
            ("conv", list(inputs.conv_shape)),
            ("temporal", [inputs.channels, inputs.d_state]),
        )
        for kind, shape in shapes:
            stride = math.prod(shape) * inputs.elem_size + inputs.padding
            found.append(
                StateLayout(
                    layer=layer,
                    kind="conv" if kind == "conv" else "temporal",
                    shape=shape,
                    dtype=inputs.dtype,
                    stride=stride,
                )
            )
    return found


def filled(inputs: LaunchInputs) -> Caches:
    """The caches before the launch."""
    states = layouts(inputs)
    caches = [np.zeros((inputs.num_blocks, state.stride), dtype=np.uint8) for state in states]
    for index, row in enumerate(inputs.rows):
        for column, block in enumerate(row.blocks):
            if not 0 < block < inputs.num_blocks:
                continue
            for state, cache in zip(states, caches, strict=True):
                raw = _block(inputs, state, index, row, column)
                cache[block, : state.num_bytes] = np.frombuffer(raw, dtype=np.uint8)
    return caches


def _block(
    inputs: LaunchInputs, state: StateLayout, index: int, row: LaunchRow, column: int
) -> bytes:
    source = row.state_idx if inputs.kernel == "postprocess" else row.src_col
    running = inputs.running(index)
    beyond = column - source
    if source < 0 or beyond > inputs.num_spec:
        values = np.zeros(state.shape, dtype=np.float32)  # nothing was written here yet
    elif beyond >= 0:
        values = _values(inputs, state, index, running, beyond, _drafts(inputs, row))
    else:
        boundary = (column + 1) * inputs.block_size
        values = _values(inputs, state, index, min(boundary, row.computed), 0, 0)
    return encode(values, state.dtype)


def _drafts(inputs: LaunchInputs, row: LaunchRow) -> int:
    """Inputs of drafts that stand behind the window in the running block."""
    known = inputs.kernel == "postprocess" and not inputs.advanced
    return min(row.drafts if known else inputs.num_spec, inputs.num_spec)


def _values(
    inputs: LaunchInputs, state: StateLayout, index: int, tokens: int, beyond: int, drafts: int
) -> np.ndarray:
    """A state after ``tokens`` tokens, or ``beyond`` drafts later."""
    if state.kind == "temporal":
        return _temporal(state, index, tokens + beyond)
    if beyond:
        return np.zeros(state.shape, dtype=np.float32)  # scratch columns keep no window
    window = inputs.conv_kernel - 1
    rows = np.zeros((inputs.conv_width, inputs.channels), dtype=np.float32)
    for place in range(window + drafts):
        token = tokens - window + place
        if token >= 0:
            rows[place] = [
                token + 1 if channel == 0 else _number(token, channel, index + state.layer)
                for channel in range(inputs.channels)
            ]
    return rows if inputs.layout == "SD" else rows.T


def _temporal(state: StateLayout, index: int, tokens: int) -> np.ndarray:
    if tokens <= 0:
        return np.zeros(state.shape, dtype=np.float32)
    size = math.prod(state.shape)
    numbers = [_number(tokens, place, 7 + index + state.layer) for place in range(size)]
    numbers[0] = tokens
    return np.array(numbers, dtype=np.float32).reshape(state.shape)


def _number(token: int, place: int, salt: int) -> float:
    """A quarter between -2.25 and 2.25, other than that of its neighbours."""
    return ((token * 7 + place * 13 + salt * 5) % 19 - 9) / 4


def encode(values: np.ndarray, dtype: str) -> bytes:
    """Numbers as the little-endian bytes of a cache dtype, which must hold them exactly."""
    plain = np.ascontiguousarray(values, dtype="<f4")
    if dtype == "float32":
        return plain.tobytes()
    if dtype == "float16":
        return plain.astype("<f2").tobytes()
    return (plain.view("<u4") >> 16).astype("<u2").tobytes()
