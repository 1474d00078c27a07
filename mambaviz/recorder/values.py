"""Numbers out of an engine's tensors and arrays, without importing the library they are of.

A tensor on the CPU is read at once, since the engine will write over it. One on a device is
copied on the device's own stream into pinned memory, and the writer's thread waits for that
copy: the engine is never made to synchronise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

MOST_ENTRIES = 256  # of a tensor that are kept whole (docs/recording.md)
HELD_COLUMNS = 16  # of a longer one's last axis

Value = Any  # a number, bool, string, None, or a tensor as the format writes it
Later = Callable[[], Any]


def ints(array: Any, count: int) -> list[int]:
    """The first ``count`` entries of a 1-D CPU array or tensor."""
    return [int(entry) for entry in array[:count].tolist()]


def later(tensor: Any) -> Later:
    """What gives ``tensor.tolist()`` as it is now, when the writer asks."""
    if _on_cpu(tensor):
        entries = tensor.tolist()
        return lambda: entries
    cuda = sys.modules["torch"].cuda
    detached = tensor.detach()
    host = detached.to("cpu", non_blocking=True)  # behind whatever wrote it, on this stream
    copied = cuda.Event()
    copied.record()

    def wait() -> Any:
        copied.synchronize()
        return host.tolist()

    return wait


def _on_cpu(tensor: Any) -> bool:
    device = getattr(tensor, "device", None)
    return device is None or getattr(device, "type", "cpu") == "cpu"


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "tolist")


def tensor_value(tensor: Any) -> Later:
    """A tensor as the format writes it; floating point without its values."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = [int(extent) for extent in tensor.shape]
    record: dict[str, Any] = {"dtype": dtype, "shape": shape}
    if "float" in dtype or "complex" in dtype:
        return lambda: record
    size = 1
    for extent in shape:
        size *= extent
    if size <= MOST_ENTRIES:
        values = later(tensor)
        return lambda: record | {"values": values()}
    if len(shape) == 1:
        values = later(tensor)  # a padded list: its head and what fills the rest
        return lambda: record | _head_and_fill(values())
    held = [min(extent, MOST_ENTRIES // HELD_COLUMNS) for extent in shape]
    values = later(tensor[tuple(slice(0, extent) for extent in held)])
    return lambda: record | {"held": held, "values": values()}


def _head_and_fill(entries: list[int]) -> dict[str, Any]:
    fill = entries[-1]
    kept = len(entries)
    while kept and entries[kept - 1] == fill:
        kept -= 1
    if kept <= MOST_ENTRIES:
        return {"values": entries[:kept], "fill": fill}
    return {"held": [MOST_ENTRIES], "values": entries[:MOST_ENTRIES]}


def plain_value(value: Any) -> Later | None:
    """A field's value for the file, or None for what is neither number nor tensor."""
    if value is None or isinstance(value, bool | int | str):
        return lambda: value
    if isinstance(value, float):
        return lambda: value if value == value and abs(value) != float("inf") else None
    if is_tensor(value):
        return tensor_value(value)
    return None
