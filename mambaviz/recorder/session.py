"""One recording: its file, its step counter, and the names in it."""

from __future__ import annotations

import atexit
import logging
from typing import Any

from mambaviz.recorder.aliases import Aliases
from mambaviz.recorder.options import Options
from mambaviz.recorder.writer import Pending, Writer, free_path

RECORDER_VERSION = "1"
FORMAT_VERSION = 1
# What a scheduler's output carries to the worker, in this process or another one.
MARK = "_mambaviz_mark"

MOST_EARLY = 1000  # lines that wait for a head

logger = logging.getLogger("vllm.mambaviz")


class Session:
    """What all seams share. Nothing is written before `begin`, nothing after `end`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.aliases = Aliases(options.requests)
        self.step = -1
        self.hooks: list[dict[str, Any]] = []
        self.runner: str | None = None
        self.async_scheduling = False
        self.accept_step = -1  # the last step of which the worker said what was kept
        self.restarts = 0  # times after which writers of lists begin anew
        self._writer: Writer | None = None
        self._early: list[Pending] = []  # what came before the head
        self._over = False
        self._dropped = 0
        self._noted: set[str] = set()

    @property
    def begun(self) -> bool:
        return self._writer is not None

    @property
    def recording(self) -> bool:
        return self._writer is not None and self._writer.open

    def begin(self, head: dict[str, Any], suffix: str = "") -> None:
        """Open the file and write its head; a file that cannot be opened ends it all."""
        if self._writer is not None or self._over:
            return
        path = self.options.path
        if suffix:
            path = path.with_name(f"{path.stem}.{suffix}{path.suffix}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path = free_path(path)
            self._writer = Writer(path, self.options.limit_bytes, self.options.buffer_lines)
        except OSError as error:
            self._over = True
            logger.warning("mambaviz records nothing: %s: %s", path, error.strerror)
            return
        atexit.register(self.end, "exit")
        logger.info("mambaviz records into %s", path)
        self._writer.put(head)
        for event in self._early:
            self._writer.put(event)
        self._early.clear()

    def emit(self, event: Pending) -> None:
        """Hand a line to the writer; before the head it waits for it."""
        if self._writer is None:
            if not self._over and len(self._early) < MOST_EARLY:
                self._early.append(event)
        else:
            self._writer.put(event)
            if self._writer.dropped != self._dropped:
                self._dropped = self._writer.dropped
                self.restarts += 1

    def next_step(self) -> int:
        self.step += 1
        if self._writer is not None:
            self._writer.steps = self.step + 1
        return self.step

    def note(self, seam: str, what: str) -> None:
        """Say once for each seam that something was not as expected there."""
        if seam in self._noted:
            return
        self._noted.add(seam)
        self.emit({"event": "note", "step": max(self.step, 0), "seam": seam, "what": what})

    def end(self, why: str) -> None:
        """Close the file. Safe to call twice."""
        self._over = True
        if self._writer is not None:
            self._writer.close(why)


def head_lines(
    session: Session, engine_version: str, settings: dict[str, Any], groups: list[dict[str, Any]]
) -> dict[str, Any]:
    """The head without ``process``."""
    options = session.options
    return {
        "event": "head",
        "step": 0,
        "format": "mambaviz-recording",
        "version": FORMAT_VERSION,
        "engine": "vllm",
        "engine_version": engine_version,
        "recorder": RECORDER_VERSION,
        "settings": settings,
        "groups": groups,
        "hooks": list(session.hooks),
        "aliases": {
            "requests": "kept" if options.requests else "alias",
            "tokens": "kept" if options.tokens else "left out",
        },
        "states": options.states,
    }
