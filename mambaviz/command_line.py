"""Command line.

    python -m mambaviz run SCENARIO.json|PRESET [--backend auto] [--json OUT] [--large]
    python -m mambaviz sizes MODEL|CONFIG.json [SETTING=VALUE ...] [--json|--csv]
    python -m mambaviz explore [--scope NAME|FILE] [--fault NAME] [--find QUERY] [--workers N]
    python -m mambaviz replay RECORDING [--request ID] [--steps A:B] [--json|--html OUT|--cut OUT]
    python -m mambaviz check

Exit codes: 0 all well; 1 an invariant broke or a check failed; 2 bad input, said in a sentence.
Modules that import torch are imported only where they are needed.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mambaviz import check, json_text, log
from mambaviz.explore.command import add_arguments, explore_command
from mambaviz.limits import LARGE, USUAL, Bounds
from mambaviz.recording import command as replaying
from mambaviz.recording.reader import RecordingError
from mambaviz.scenario import PRESETS, Scenario, ScenarioError, load, one_line
from mambaviz.workload import guarded, within

if TYPE_CHECKING:
    from mambaviz.engine import Backend

OK, BROKEN, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    asked = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(replaying.joined(asked))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character
            stream.reconfigure(errors="backslashreplace")
    try:
        if options.command == "check":
            return OK if check.report(sys.stdout) else BROKEN
        if options.command == "sizes":
            return print_sizes(options)
        if options.command == "explore":
            return explore_command(options)
        if options.command == "replay":
            return replaying.replay_command(options)
        scenario = find_scenario(options.scenario)
        bounds = LARGE if options.large else USUAL
        return run_scenario(within(scenario, bounds), options.backend, options.json, bounds)
    except (ScenarioError, RecordingError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # whoever read the log has seen enough
        sys.stderr.close()
        return OK
    except OSError as error:
        print(f"the log cannot be written: {error.strerror}", file=sys.stderr)
        return BAD_INPUT


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m mambaviz",
        description="See how a serving engine keeps the state of Mamba layers in a paged cache.",
    )
    commands = root.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a scenario and print what every step did")
    run.add_argument("scenario", help="a JSON file, or the name of a preset")
    run.add_argument(
        "--backend",
        default="auto",
        choices=("auto", "cuda", "interpreter", "reference"),
        help="what runs the kernels (default: the best that is here)",
    )
    run.add_argument("--json", type=Path, metavar="OUT", help="write the whole trace to this file")
    run.add_argument(
        "--large", action="store_true", help="take more than a page would: see docs/limits.md"
    )
    sizes = commands.add_parser("sizes", help="blocks, bytes and crossings of a real model")
    sizes.add_argument("model", help="a config.json as it is, or the name of a model")
    sizes.add_argument("settings", nargs="*", metavar="SETTING=VALUE", help="such as tp=2")
    form = sizes.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json")
    form.add_argument("--csv", dest="form", action="store_const", const="csv")
    sizes.set_defaults(form="lines")
    explore = commands.add_parser(
        "explore", help="go through every scenario of a small scope; find the shortest that breaks"
    )
    add_arguments(explore)
    replaying.add_arguments(
        commands.add_parser("replay", help="judge a recording of a serving engine, step by step")
    )
    commands.add_parser("check", help="versions, back ends, and a self-test of the kernels")
    return root


def print_sizes(options: argparse.Namespace) -> int:
    """The sizes of a model, or a sentence on why there are none."""
    from mambaviz.sizes import command, families

    try:
        print(command.told(options.model, options.settings, options.form))
    except families.SizesError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return OK


def find_scenario(name: str) -> Scenario:
    """A preset by its name, else a file. Raises ScenarioError."""
    if name in PRESETS:
        return PRESETS[name]
    if not name.endswith(".json") and not json_text.is_there(name):
        raise ScenarioError(
            f"{name[:60]}: neither a file nor a preset; the presets are {', '.join(PRESETS)}"
        )
    return load(name)


def run_scenario(scenario: Scenario, backend: Backend, out: Path | None, bounds: Bounds) -> int:
    """Run, print the log, write the trace. Raises ScenarioError for what cannot be done."""
    trace_file = _opened(out) if out is not None else None  # before the run, not after it
    try:
        from mambaviz.engine import run

        trace = run(scenario, backend=backend, progress=guarded(bounds))
    except RuntimeError as error:
        if type(error).__name__ != "BackendError":  # its class cannot be had without a back end
            raise
        raise ScenarioError(str(error)) from None
    for line in log.run_lines(trace):
        print(one_line(line, limit=10_000))
    if trace_file is not None:
        assert out is not None
        _write_whole(trace_file, trace.to_json(), out)
    return BROKEN if trace.violations else OK


def _opened(out: Path) -> TextIO:
    try:
        return out.open("w", encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "that is no file name"
        raise ScenarioError(f"{out}: cannot be written: {reason}") from None


def _write_whole(file: TextIO, text: str, out: Path) -> None:
    """Write the file, or leave none: half a trace looks like one."""
    try:
        with file:
            file.write(text)
    except OSError as error:
        if out.is_file():  # and no device
            out.unlink()
        raise ScenarioError(f"{out}: cannot be written: {error.strerror}") from None
