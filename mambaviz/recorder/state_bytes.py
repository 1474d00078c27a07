"""Bytes of the state tensors, only on request and only of small caches (docs/recording.md)."""

from __future__ import annotations

import base64
from typing import Any

from mambaviz.recorder.head import STATE_NAMES, group_kind
from mambaviz.recorder.session import Session

LARGEST_CACHE = 1 << 20  # bytes


class StateBytes:
    """Remembers every block's bytes and writes those that changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on = session.options.states
        self._last: dict[tuple[int, str, int], bytes] = {}

    def after(self, phase: str, step: int, runner: Any) -> None:
        """Write what changed since the phase before."""
        if not self._on or runner is None or step < 0 or not self._session.recording:
            return
        tensors = _state_tensors(runner)
        total = sum(tensor.numel() * tensor.element_size() for *_, tensor in tensors)
        if total > LARGEST_CACHE or self._session.async_scheduling:
            self._on = False
            why = (
                "steps overlap"
                if self._session.async_scheduling
                else f"the caches hold {total} bytes; 1 MiB at most is written out"
            )
            self._session.note("state", why)
            return
        for group, layer, state, tensor in tensors:
            for block, raw in enumerate(_blocks(tensor)):
                key = (layer, state, block)
                if self._last.get(key, bytes(len(raw))) == raw:
                    continue
                self._last[key] = raw
                self._session.emit(
                    {
                        "event": "state",
                        "step": step,
                        "after": phase,
                        "group": group,
                        "layer": layer,
                        "state": state,
                        "block": block,
                        "data": base64.b64encode(raw).decode(),
                    }
                )


def _state_tensors(runner: Any) -> list[tuple[int, int, str, Any]]:
    """(group, layer, state, tensor [blocks, ...]) of all Mamba layers."""
    context = runner.compilation_config.static_forward_context
    found, layer = [], 0
    for index, group in enumerate(runner.kv_cache_config.kv_cache_groups):
        if group_kind(group.kv_cache_spec) != "mamba":
            continue
        for name in group.layer_names:
            for state, tensor in zip(STATE_NAMES, context[name].kv_cache, strict=False):
                found.append((index, layer, state, tensor))
            layer += 1
    return found


def _blocks(tensor: Any) -> list[bytes]:
    """The natural bytes of every block of a strided state tensor."""
    flat = tensor.detach().cpu().contiguous()
    as_bytes = flat.view(flat.shape[0], -1).view(dtype=_byte_type(flat))
    return [bytes(row.tolist()) for row in as_bytes]


def _byte_type(tensor: Any) -> Any:
    """``torch.uint8``, of the library that the tensor is of."""
    import sys

    return sys.modules[type(tensor).__module__.partition(".")[0]].uint8
