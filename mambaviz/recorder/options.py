"""What the user asks the recorder for: environment variables, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "MAMBAVIZ_RECORD"


@dataclass(frozen=True)
class Options:
    """Settings of a recording.

    ``limit_bytes`` closes the file once it is that large; ``buffer_lines`` may wait for the
    writer before lines are dropped and counted as lost.
    """

    path: Path
    states: bool = False
    tokens: bool = False
    requests: bool = False
    limit_bytes: int = 200_000_000
    buffer_lines: int = 20_000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Options | None:
        """The options, or None without ``MAMBAVIZ_RECORD``. Raises ValueError with a sentence."""
        path = environment.get(PREFIX, "").strip()
        if not path:
            return None
        return cls(
            path=Path(path),
            states=_switch(environment, "STATES"),
            tokens=_switch(environment, "TOKENS"),
            requests=_switch(environment, "REQUESTS"),
            limit_bytes=_whole(environment, "LIMIT_MB", 200) * 1_000_000,
            buffer_lines=_whole(environment, "BUFFER_LINES", 20_000),
        )


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(f"{PREFIX}_{name}", "0").strip()
    if text not in ("", "0", "1"):
        raise ValueError(f"{PREFIX}_{name} is {text[:40]!r}; it takes 0 or 1")
    return text == "1"


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(f"{PREFIX}_{name}", "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{PREFIX}_{name} is {text[:40]!r}; it takes a whole number from 1 on")
    return int(text)
