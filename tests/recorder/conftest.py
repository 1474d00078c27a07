"""A recorder in stand-ins of the engine's modules, taken out again after the test."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mambaviz.recorder import Options, plugin
from mambaviz.recorder.session import Session
from tests.recorder import engine


class Recorded:
    """The session under test and, once it is stopped, the lines of its file."""

    def __init__(self, session: Session, path: Path) -> None:
        self.session = session
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        plugin.stop()
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]


@pytest.fixture
def record(tmp_path, monkeypatch) -> Iterator[Any]:
    """Installs a recorder with the given options over fresh stand-ins."""

    def install(**options: Any) -> Recorded:
        for name, module in engine.modules().items():
            monkeypatch.setitem(sys.modules, name, module)
        path = tmp_path / "run.jsonl"
        return Recorded(plugin.install(Options(path, **options)), path)

    yield install
    plugin.stop()


@pytest.fixture
def scheduler() -> engine.Scheduler:
    """Made before the recorder comes: its hooks find it at its first schedule."""
    return engine.Scheduler(engine.vllm_config(), engine.kv_cache_config())
