"""What an exploration has done so far, in a file: broken off, it goes on from there.

The first line says what is explored, each further line is one finished task. A line that was cut
off is left out, and its task done again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mambaviz.explore.search import Job, SearchTask, Tally, tally_from_text, tally_to_text
from mambaviz.scenario import ScenarioError


@dataclass(frozen=True)
class Heading:
    """The first line: findings count for this job on these sources alone."""

    job: Job
    sources: str

    def text(self) -> str:
        return json.dumps({"explore": asdict(self.job), "sources": self.sources})

    @property
    def name(self) -> str:
        """A file name of its own."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:12]


class Record:
    """Finished tasks, appended as they come in."""

    def __init__(self, path: Path, heading: Heading) -> None:
        """Goes on with the file where there is one. ScenarioError if it is about something else."""
        self.path = path
        self.done: dict[SearchTask, Tally] = {}
        try:
            if path.exists() and path.stat().st_size:
                self._read(heading)
            path.parent.mkdir(parents=True, exist_ok=True)
            # A cut-off last line is closed, so that the next one stands alone.
            self._file = path.open("a+", encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ScenarioError(f"{path}: cannot be used: {reason}") from None
        if not path.stat().st_size:
            self._write(heading.text())
        elif not path.read_bytes().endswith(b"\n"):
            self._write("")

    def _read(self, heading: Heading) -> None:
        first, *lines = self.path.read_text(encoding="utf-8").splitlines()
        if first != heading.text():
            try:
                found = json.loads(first)
                same_job = found["explore"] == asdict(heading.job)
            except (ValueError, KeyError, TypeError, RecursionError):
                raise ScenarioError(
                    f"{self.path}: this is no record of an exploration; name another file"
                ) from None
            what = "older sources" if same_job else "another scope, fault or query"
            raise ScenarioError(
                f"{self.path}: the record is of {what}; name another file, or remove this one"
            )
        for line in lines:
            try:
                data = json.loads(line)
                self.done[SearchTask(**data["task"])] = tally_from_text(data["tally"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off

    def add(self, task: SearchTask, tally: Tally) -> None:
        self.done[task] = tally
        self._write(json.dumps({"task": asdict(task), "tally": tally_to_text(tally)}))

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
