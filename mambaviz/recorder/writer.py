"""Lines to a file, in the background: the engine hands over and goes on.

The queue is bounded; what does not fit is dropped, and a `lost` line says how much where it
was lost. Every batch is flushed, so that a run that is killed leaves whole lines behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
# An event, or what makes it: numbers that are still on their way from a device are waited for
# by the writer, not by the engine.
Pending = Event | Callable[[], Event]

LONGEST_LINE = 1 << 20  # bytes; what a reader accepts (docs/recording.md)


class Writer:
    """Writes events as JSON lines to ``path`` until closed, full, or out of disk."""

    def __init__(self, path: Path, limit_bytes: int, buffer_lines: int) -> None:
        """Opens the file. Raises OSError where that cannot be done."""
        self.path = path
        self.steps = 0
        self._limit = limit_bytes
        self._file = path.open("xb")
        self._written = 0
        self._lines = 0
        self._lost = 0
        self.dropped = 0  # over the whole recording
        self._closed = False
        self._process = os.getpid()
        self._queue: queue.Queue[Pending | None] = queue.Queue(buffer_lines)
        self._thread = threading.Thread(target=self._run, name="mambaviz-recorder", daemon=True)
        self._thread.start()

    @property
    def open(self) -> bool:
        """Whether events still go to the file; a forked child writes nothing."""
        return not self._closed and os.getpid() == self._process

    def put(self, event: Pending) -> None:
        """Hand over an event. Never waits, never raises."""
        if not self.open:
            return
        try:
            if self._lost:
                self._queue.put_nowait({"event": "lost", "lines": self._lost})
                self._lost = 0
            self._queue.put_nowait(event)
        except queue.Full:
            self._lost += 1
            self.dropped += 1

    def close(self, why: str, timeout: float = 10.0) -> None:
        """Write what waits, then the end."""
        if not self.open:
            return
        self._closed = True
        end: Event = {"event": "end", "why": why}
        with contextlib.suppress(queue.Full):
            if self._lost:
                self._queue.put({"event": "lost", "lines": self._lost}, timeout=timeout)
            self._queue.put(end, timeout=timeout)
            self._queue.put(None, timeout=timeout)
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while (event := self._queue.get()) is not None:
                self._write(event)
                if self._queue.empty():
                    self._file.flush()
        except OSError:  # a full disk ends the recording, not the engine
            pass
        finally:
            self._closed = True
            with contextlib.suppress(OSError):
                self._file.close()

    def _write(self, pending: Pending) -> None:
        if self._written > self._limit:
            return
        self._append(self._line(pending))
        if self._written > self._limit:
            self._closed = True
            self._append(self._line({"event": "end", "why": "limit"}))

    def _line(self, pending: Pending) -> bytes:
        """The line of an event, or a note in its place where it cannot be written."""
        try:
            event = pending() if callable(pending) else pending
            if event.get("event") == "end":
                event = event | {"steps": self.steps, "lines": self._lines}
            line = _encoded(event)
        except Exception as error:  # noqa: BLE001  # one value is no reason to stop recording
            return _note({}, f"a line could not be made: {type(error).__name__}")
        if len(line) > LONGEST_LINE:
            return _note(event, f"a line of {len(line)} bytes is longer than 1 MiB")
        return line

    def _append(self, line: bytes) -> None:
        self._file.write(line)
        self._written += len(line)
        self._lines += 1


def _encoded(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _note(event: Event, what: str) -> bytes:
    seam = str(event.get("event", "writer"))
    return _encoded({"event": "note", "step": event.get("step", 0), "seam": seam, "what": what})


def free_path(path: Path) -> Path:
    """``path``, or with a number behind its stem: no recording overwrites another."""
    if not path.exists():
        return path
    for number in range(2, 10_000):
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        if not candidate.exists():
            return candidate
    raise FileExistsError(f"{path}: ten thousand recordings of that name are there")
