"""``python -m mambaviz explore``: a scope gone through, told while it goes and when it is done.

Exit codes: 0 nothing broke (or the query was answered); 1 an invariant breaks, a query has no
answer, or symbols and bytes disagree; 2 bad input; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mambaviz.scenario import ScenarioError, one_line

if TYPE_CHECKING:
    from mambaviz.explore.explorer import Report
    from mambaviz.explore.progress import Progress

OK, BROKEN, BAD_INPUT, STOPPED = 0, 1, 2, 130
RECORDS = Path(".artifacts") / "explore"
TOLD_EVERY = 0.5  # seconds, on a terminal
TOLD_IN_A_LOG_EVERY = 15.0
MOST_WORKERS = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", default="small", help="a scope by name, or a JSON file")
    parser.add_argument("--fault", help="a named mistake to make on the way")
    parser.add_argument("--find", metavar="QUERY", help="a situation instead of a broken invariant")
    parser.add_argument(
        "--all", action="store_true", help="do not stop at the shortest: count all there are"
    )
    parser.add_argument("--workers", type=int, help="processes (default: all cores)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a dask.distributed cluster")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="record to go on from, and keep"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--list", action="store_true", help="scopes, faults and queries there are")


def explore_command(options: argparse.Namespace) -> int:
    """Raises ScenarioError for bad input."""
    if options.list:
        print("\n".join(listing()))
        return OK
    from mambaviz.explore.explorer import explore
    from mambaviz.explore.pool import ClusterPool, LocalPool, Pool, SerialPool, default_workers
    from mambaviz.explore.queries import AskedQuery
    from mambaviz.explore.record import Heading, Record
    from mambaviz.explore.scope import find_scope, with_fault
    from mambaviz.explore.search import Job
    from mambaviz.sources import sources_hash

    scope = find_scope(options.scope)
    if options.fault is not None:
        scope = with_fault(scope, options.fault)
    goal = None if options.find is None else AskedQuery.parse(options.find)
    workers = default_workers() if options.workers is None else options.workers
    if not 1 <= workers <= MOST_WORKERS:
        raise ScenarioError(f"--workers {workers}: allowed 1 to {MOST_WORKERS}")
    if options.scheduler is not None and options.workers is not None:
        raise ScenarioError("--workers is for this machine; a cluster at --scheduler has its own")
    scope.shapes()  # refused before anything is started
    heading = Heading(Job.of(scope, goal), sources_hash())
    path = options.resume or RECORDS / f"{heading.name}.jsonl"
    record = Record(path, heading)
    pool: Pool
    if options.scheduler is not None:
        pool = ClusterPool(options.scheduler)
    else:
        pool = LocalPool(workers) if workers > 1 else SerialPool()
    telling = Telling(sys.stderr)
    try:
        report = explore(scope, goal, pool, record, telling, everything=options.all)
    except KeyboardInterrupt:
        telling.end()
        print(f"stopped; to go on: the same command with --resume {path}", file=sys.stderr)
        return STOPPED
    finally:
        record.close()
        pool.close()
    telling.end()
    if options.resume is None:
        path.unlink()  # it was only there in case of a stop
    print(report_as_json(report) if options.json else "\n".join(report_lines(report)))
    return exit_code(report)


def exit_code(report: Report) -> int:
    wanted = report.hits > 0 if report.goal is not None else report.hits == 0
    return OK if wanted and not report.disagreements else BROKEN


# ----------------------------------------------------------------------------- while it goes


class Telling:
    """Progress on one line of a terminal; in a log a line now and then."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.on_terminal = stream.isatty()
        self._last = 0.0
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        pause = TOLD_EVERY if self.on_terminal else TOLD_IN_A_LOG_EVERY
        if now - self._last < pause:
            return
        self._last = now
        text = progress_line(progress)
        if self.on_terminal:
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def end(self) -> None:
        if self.on_terminal and self._width:
            self.stream.write("\n")


def progress_line(progress: Progress) -> str:
    left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
    if progress.replaying:
        return f"replaying with real bytes: {progress.done} of {progress.tasks} parts{left}"
    hits = f", {progress.hits:,} found" if progress.hits else ""
    rate = f", {progress.rate:,.0f} a second" if progress.rate else ""
    share = f"{progress.done} of {progress.tasks} parts"
    at_this_depth = " at this depth" if left and progress.depth < progress.last_depth else ""
    return (
        f"runs of {_steps(progress.depth)} (of up to {progress.last_depth}): {progress.runs:,} "
        f"scenarios, {share}{rate}{hits}{left}{at_this_depth}"
    )


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


# ------------------------------------------------------------------------------- when it is done


def report_lines(report: Report) -> list[str]:
    """The report in sentences, the shortest scenario as JSON behind them."""
    fault = f" with the fault {', '.join(report.scope.faults)}" if report.scope.faults else ""
    lines = [f"Scope {one_line(report.scope.name)}{fault}: {_verdict(report)}"]
    if report.refused:
        lines.append(f"{report.refused} combinations of the scope cannot run and were left out.")
    if report.set_aside:
        lines.append(
            f"{report.set_aside:,} beginnings were set aside: a one-token prompt is padded in "
            "them, a rule that is known to be unsound (docs/spec/README.md)."
        )
    if report.fresh_runs:
        lines.append(
            f"{report.fresh_runs:,} scenarios in {duration(report.seconds)}, all depths together: "
            f"{report.rate:,.0f} a second, {report.workers} at a time."
        )
    lines.append(_replays(report))
    lines += [f"DISAGREEMENT between symbols and bytes: {words}" for words in report.disagreements]
    if report.shortest is not None and report.scenario is not None:
        size = report.shortest.size
        lines.append(
            f"The shortest: {_steps(size.steps)}, {size.tokens} tokens, {size.requests} "
            f"request{'s' if size.requests > 1 else ''}."
        )
        if report.goal is None:
            lines += [f"  {words}" for words in report.shortest.words]
        lines.append(report.scenario.model_dump_json(exclude_defaults=True))
    return lines


def _verdict(report: Report) -> str:
    scenarios = f"{report.runs:,} scenarios of up to {_steps(report.depth)}"
    if report.goal is None:
        if not report.hits:
            return f"it holds. {scenarios}, every invariant kept in all of them."
        return f"{report.hits:,} of {scenarios} break an invariant."
    if not report.hits:
        return f"none of {scenarios} has a step with {report.goal.words}."
    return f"{report.hits:,} of {scenarios} have a step with {report.goal.words}."


def _replays(report: Report) -> str:
    count = report.replayed_hits + report.replayed_others
    agree = "all agree" if not report.disagreements else f"{len(report.disagreements)} DISAGREE"
    hits = f"{report.replayed_hits} of the {report.hits:,} found" if report.hits else "none found"
    return (
        f"{count} scenarios replayed with real bytes ({hits}, {report.replayed_others} others): "
        f"{agree}."
    )


def report_as_json(report: Report) -> str:
    shortest = None if report.shortest is None else asdict(report.shortest)
    return json.dumps(
        {
            "scope": report.scope.name,
            "faults": report.scope.faults,
            "find": None if report.goal is None else str(report.goal),
            "depth": report.depth,
            "scenarios": report.runs,
            "steps": report.steps,
            "hits": report.hits,
            "refused": report.refused,
            "set_aside": report.set_aside,
            "shortest": shortest,
            "scenario": None
            if report.scenario is None
            else report.scenario.model_dump(mode="json", exclude_defaults=True),
            "replayed_hits": report.replayed_hits,
            "replayed_others": report.replayed_others,
            "disagreements": report.disagreements,
            "seconds": round(report.seconds, 3),
            "scenarios_a_second": round(report.rate, 1),
            "workers": report.workers,
        },
        indent=1,
    )


def listing() -> list[str]:
    """What --scope, --fault and --find can be given."""
    from mambaviz.explore.queries import QUERIES
    from mambaviz.explore.scope import find_scope, scope_names
    from mambaviz.faults import FAULTS

    lines = ["scopes"]
    lines += [f"  {name}: {find_scope(name).story}" for name in scope_names()]
    lines.append("faults")
    lines += [f"  {name}: {fault.what}" for name, fault in FAULTS.items()]
    lines.append("queries: a step with ...")
    for name, query in QUERIES.items():
        shown = name if query.number is None else f"{name}=n"
        lines.append(f"  {shown}: {query.words}")
    return lines
