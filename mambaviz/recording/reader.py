"""A recording, read a line at a time; what is wrong with it is said in one sentence."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from mambaviz.recording.lines import FORMAT, LONGEST_LINE, VERSION, End, Head, Line
from mambaviz.scenario import one_line

_LINES: TypeAdapter[Line] = TypeAdapter(Line)


class RecordingError(ValueError):
    """A file that is no recording, or one that cannot be read. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@dataclass
class Reader:
    """The lines of one recording behind its head.

    ``remarks`` are sentences about what is not as it should be and yet no reason to stop: a last
    line that is cut off, an end that is missing. They are complete once ``lines`` is through.
    """

    stream: BinaryIO
    name: str = "this recording"
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.number = 0
        self.digest = hashlib.sha256()  # of all lines read so far: tells recordings apart
        self.head = self._read_head()

    def _next(self) -> bytes:
        """The next line with its end; empty at the end of the file."""
        try:
            raw = self.stream.readline(LONGEST_LINE + 1)
        except EOFError:  # a compressed file that stops in the middle
            return b""
        except (OSError, ValueError, zlib.error) as error:
            raise RecordingError(
                f"{self.name} cannot be read on behind line {self.number}: {error}; copy it anew, "
                "or cut it before that line"
            ) from None
        if raw:
            self.number += 1
            self.digest.update(raw)
        if len(raw) > LONGEST_LINE:
            raise RecordingError(
                f"{self.name}, line {self.number}: it is longer than {LONGEST_LINE} bytes, which "
                "no line of a recording is"
            )
        return raw

    def _read_head(self) -> Head:
        raw = self._next().removeprefix(b"\xef\xbb\xbf")
        if not raw.strip():
            what = "begins with an empty line" if raw else "is empty"
            raise RecordingError(f"{self.name} {what}: a recording begins with its head")
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise RecordingError(
                f"{self.name}, line 1: this is not JSON; a recording begins with its head, see "
                "docs/recording.md"
            ) from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise RecordingError(
                f"{self.name} is no recording: its first line does not say "
                f'"format": "{FORMAT}"; python -m mambaviz run takes scenarios'
            )
        if found.get("version") != VERSION:
            raise RecordingError(
                f"{self.name} is a recording of version {found.get('version')!r}; this program "
                f"reads version {VERSION}: record it anew with the recorder that belongs to it"
            )
        try:
            return Head.model_validate_json(raw)
        except ValidationError as error:
            raise RecordingError(f"{self.name}, line 1, {_explained(error)}") from None

    def lines(self) -> Iterator[Line]:
        """Every line behind the head, in order; unknown kinds are left out. Closes the file.

        Raises `RecordingError` for a line that is damaged, unless it is the last and cut off.
        """
        with self.stream:
            yield from self._lines()

    def _lines(self) -> Iterator[Line]:
        ended = False
        while raw := self._next():
            if not raw.strip():
                continue
            try:
                line = _LINES.validate_json(raw)
            except ValidationError as error:
                if _is_unknown(error):
                    continue
                if _is_no_json(error) and not raw.endswith(b"\n"):
                    self.remarks.append(
                        f"Line {self.number}, the last one, is cut off and left out: the recording "
                        "ends before it."
                    )
                    return
                raise RecordingError(
                    f"{self.name}, line {self.number}, {_explained(error)}"
                ) from None
            ended = isinstance(line, End)
            yield line
        if not ended:
            self.remarks.append(
                f"The recording has no end: it was cut off after line {self.number}."
            )


def open_recording(path: Path) -> Reader:
    """A recording in a file, compressed (``.gz``) or not. Raises `RecordingError`."""
    try:
        return Reader(_opened(path), path.name)
    except (OSError, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        reason = getattr(error, "strerror", None) or "that is no file name"
        raise RecordingError(f"{path}: cannot be read: {reason}") from None


def _opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked. It stays open as long as its reader."""
    return cast("BinaryIO", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _is_unknown(error: ValidationError) -> bool:
    """Whether a line is of a kind that this version does not know."""
    first = error.errors(include_url=False)[0]
    return first["type"] == "union_tag_invalid"


def _is_no_json(error: ValidationError) -> bool:
    return error.errors(include_url=False)[0]["type"] == "json_invalid"


def _in_this_line(reason: str) -> str:
    """The parser's reason; it counts lines from the one that it was given."""
    return re.sub(r" at line \d+ column \d+$", "", reason)


def _explained(error: ValidationError) -> str:
    """Where, what, and what would be right: ``schedule.requests[0].computed = -1: …``."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"this is not JSON: {_in_this_line(first['ctx']['error'])}"
    if first["type"] in ("union_tag_not_found", "model_attributes_type", "dict_type"):
        return 'a line must be an object with the key "event"'
    place = ""
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f"{'.' if place else ''}{part}"
    if first["type"] == "missing":
        return f"{place}: this key is required"
    message = first["msg"].removeprefix("Value error, ")
    shown = repr(first["input"])[:60]
    return f"{place} = {shown}: {message[0].lower()}{message[1:]}"
