"""``python -m mambaviz replay FILE``: a recording as a readable log with verdicts.

A file is read a line at a time, so it may be larger than the memory. With ``--steps`` counted from
the end, or ``--cut`` for one request, it is read twice.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from mambaviz.recording.cut import WHOLE, Span, cut, steps_of
from mambaviz.recording.judge import Judge
from mambaviz.recording.reader import Reader, RecordingError, open_recording
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import Gatherer, RecordedStep
from mambaviz.recording.told import head_lines, step_lines, summary, verdict_lines
from mambaviz.scenario import one_line

OK, WRONG, BAD_INPUT = 0, 1, 2
_FROM_THE_END = re.compile(r"-\d")
MOST_LISTED = 10_000  # verdicts in one JSON answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", type=Path, help="a recording, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--request", metavar="ID", help="print what is about this request only; all are judged"
    )
    parser.add_argument(
        "--steps", metavar="A:B", help="print these steps only: 100:400, :300, 7 or -200:"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    form.add_argument("--html", type=Path, metavar="OUT", help="write a replay in one file")
    form.add_argument(
        "--cut", type=Path, metavar="OUT", help="write a recording of these steps alone"
    )


def joined(arguments: Sequence[str]) -> list[str]:
    """The same with ``--steps -200:`` as ``--steps=-200:``: what begins with a dash, argparse takes
    for an option."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] == "--steps" and _FROM_THE_END.match(argument):
            found[-1] += f"={argument}"
        else:
            found.append(argument)
    return found


def replay_command(options: argparse.Namespace) -> int:
    """Exit code: 0 nothing contradicts the rules, 1 something does, 2 no recording."""
    span = Span.parse(options.steps) if options.steps else WHOLE
    if span.from_the_end:
        span = span.counted(1 + max((s.index for s in _read(options.recording)[1]), default=-1))
    if options.cut is not None:
        return _cut(options, span)
    if options.html is not None:
        return _html(options, span)
    return _json(options, span) if options.json else _log(options, span)


def _read(path: Path) -> tuple[Reader, Iterator[RecordedStep]]:
    reader = open_recording(path)
    return reader, Gatherer(reader.remarks).steps(reader.lines())


def _log(options: argparse.Namespace, span: Span) -> int:
    reader, steps = _read(options.recording)
    for line in head_lines(reader.head):
        _say(line)
    judge, first, count, number, rules = Judge(reader.head), None, 0, 0, set[str]()
    asked = Asked(reader.name, span, options.request)
    for step in steps:
        asked.look(step)
        verdicts = judge.step(step)
        number, count = number + 1, count + len(verdicts)
        rules |= {verdict.rule for verdict in verdicts}
        is_first = first is None and bool(verdicts)
        if is_first:
            first = verdicts[0]
        if span.holds(step.index) and _is_about(step, verdicts, options.request):
            _say("")
            for line in step_lines(judge.settled or step, options.request):
                _say(line)
            for line in verdict_lines(verdicts, first=is_first):
                _say(line)
    _say("")
    for remark in reader.remarks:
        _say(remark)
    _say(summary(number, count, first, rules))
    asked.check()
    return OK if first is None else WRONG


@dataclass
class Asked:
    """Whether the steps and the request that were asked for are in the recording."""

    name: str
    span: Span
    request: str | None
    last: int | None = None  # step of the recording
    held: bool = False
    known: bool = False

    def look(self, step: RecordedStep) -> None:
        self.last = step.index
        self.held |= self.span.holds(step.index)
        names = {came.id for came in step.came} | {one.id for one in step.requests}
        self.known |= self.request in names

    def check(self) -> None:
        """Raise `RecordingError` if one of them is not."""
        if self.last is not None and not self.held:
            raise RecordingError(
                f"{self.name} has steps up to {self.last}, none of those asked for"
            )
        if self.request is not None and not self.known:
            raise RecordingError(f"{self.name} has no request {self.request!r}")


def _is_about(step: RecordedStep, verdicts: list[Verdict], request: str | None) -> bool:
    if request is None:
        return True
    ran = any(scheduled.id == request for scheduled in step.requests)
    return ran or any(verdict.request == request for verdict in verdicts)


def _json(options: argparse.Namespace, span: Span) -> int:
    reader, steps = _read(options.recording)
    judge, listed, count, number = Judge(reader.head), list[dict[str, Any]](), 0, 0
    wanted = Asked(reader.name, span, options.request)
    for step in steps:
        wanted.look(step)
        number += 1
        for verdict in judge.step(step):
            count += 1
            asked = options.request in (None, verdict.request) and span.holds(step.index)
            if asked and len(listed) < MOST_LISTED:
                listed.append(as_json(verdict))
    wanted.check()
    answer = {
        "engine": reader.head.engine,
        "engine_version": reader.head.engine_version,
        "steps": number,
        "findings": count,
        "verdicts": listed,
        "remarks": reader.remarks,
    }
    print(json.dumps(answer, indent=1))
    return WRONG if count else OK


def as_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its lamp and its rule, for other programs."""
    found = {key: value for key, value in asdict(verdict).items() if value is not None}
    return {**found, "lamp": verdict.lamp, "section": verdict.section, "says": verdict.sentence}


def _cut(options: argparse.Namespace, span: Span) -> int:
    if options.request is not None:
        span = steps_of(options.request, _read(options.recording)[1])
    with _opened(options.cut) as out:
        reader, steps = _read(options.recording)
        for line in cut(reader.head, steps, span):
            out.write(line)
    for remark in reader.remarks:
        _say(remark)
    _say(f"{options.cut}: {options.cut.stat().st_size / 1e6:.1f} MB")
    return OK


def _html(options: argparse.Namespace, span: Span) -> int:
    from mambaviz.recording.replay import replay
    from mambaviz.viz.recorded_export import recording_html

    only = frozenset({options.request}) if options.request else frozenset[str]()
    found = replay(open_recording(options.recording), span, only)
    with _opened(options.html) as out:
        out.write(recording_html(found, step=found.opening[0], phase=found.opening[1]))
    for remark in found.remarks:
        _say(remark)
    _say(found.summary)
    return WRONG if found.verdicts else OK


def _opened(out: Path) -> TextIO:
    try:
        return out.open("w", encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "that is no file name"
        raise RecordingError(f"{out}: cannot be written: {reason}") from None


def _say(line: str) -> None:
    print(one_line(line, limit=10_000))
