"""The scheduler's side and a worker's side of one run, written by two processes, as one file.

    python -m mambaviz.recorder.join run.jsonl run.rank0.jsonl whole.jsonl

Both count the same steps and use the same names, so every line finds its place by its step and
its kind (docs/recording.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]

ORDER = (
    "request",
    "action",
    "schedule",
    "blocks",
    "rows",
    "pre_copy",
    "state after pre-copy",
    "metadata",
    "state after forward",
    "accept",
    "post_copy",
    "state after post-copy",
    "commit",
    "note",
    "lost",
)


class JoinError(ValueError):
    """Two files that do not belong together; the message is one sentence."""


def join(engine: Iterable[str], worker: Iterable[str]) -> list[Line]:
    """All lines of both, the head first. Raises JoinError."""
    ours, theirs = _lines(engine), _lines(worker)
    roles = [_role(lines) for lines in (ours, theirs)]
    if roles != ["engine", "worker"]:
        raise JoinError(
            f"the files are of {roles[0]} and {roles[1]}: the first must be the engine's, the "
            "second one worker's"
        )
    said = {line["step"] for line in theirs if line["event"] == "accept"}
    kept = [line for line in ours[1:] if line["event"] != "accept" or line["step"] not in said]
    merged = sorted([*kept, *theirs[1:]], key=_place)  # stable: each side keeps its order
    return [_head(ours[0], theirs[0]), *merged]


def _lines(text: Iterable[str]) -> list[Line]:
    """Parsed lines; a last one that is cut off is left out, so is an end: the other goes on."""
    found: list[Line] = []
    step = 0
    for number, raw in enumerate(text, start=1):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict) or "event" not in line:
            raise JoinError(f"line {number} is no line of a recording: {raw[:60].strip()}")
        if line.get("event") != "end":
            step = line.setdefault("step", step)  # what was lost, was lost here
            found.append(line)
    return found


def _role(lines: list[Line]) -> str:
    if not lines or lines[0].get("format") != "mambaviz-recording":
        return "no recording"
    return str(lines[0].get("process", {}).get("role", "a whole run"))


def _place(line: Line) -> tuple[int, int]:
    kind = line["event"]
    if kind == "state":
        kind = f"state after {line['after']}"
    return line["step"], ORDER.index(kind) if kind in ORDER else len(ORDER)


def _head(ours: Line, theirs: Line) -> Line:
    """The engine's head with what only the worker knew; a seam is hooked where one side had it."""
    hooks = {hook["where"]: hook for hook in theirs["hooks"]}
    hooks |= {hook["where"]: hook for hook in ours["hooks"] if hook["hooked"]}
    head = ours | {"settings": theirs["settings"] | ours["settings"], "hooks": [*hooks.values()]}
    head["states"] = ours["states"] or theirs["states"]
    del head["process"]
    return head


def main(engine: str, worker: str, out: str) -> None:
    try:
        with Path(engine).open() as ours, Path(worker).open() as theirs:
            lines = join(ours, theirs)
        with Path(out).open("x") as whole:
            whole.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    except JoinError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m mambaviz.recorder.join ENGINE.jsonl WORKER.jsonl WHOLE.jsonl")
    main(*sys.argv[1:])
