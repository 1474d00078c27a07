"""Command line.

    python -m mambaviz run SCENARIO.json|PRESET [--backend auto] [--json OUT]
    python -m mambaviz check

Exit codes: 0 all well; 1 an invariant broke or a check failed; 2 bad input, said in a sentence.
Modules that import torch are imported only where they are needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mambaviz import check, log
from mambaviz.scenario import PRESETS, Scenario, ScenarioError, load

if TYPE_CHECKING:
    from mambaviz.engine import Backend

OK, BROKEN, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.command == "check":
        return OK if check.report(sys.stdout) else BROKEN
    try:
        scenario = find_scenario(options.scenario)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return run_scenario(scenario, options.backend, options.json)


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
    commands.add_parser("check", help="versions, back ends, and a self-test of the kernels")
    return root


def find_scenario(name: str) -> Scenario:
    """A preset by its name, else a file. Raises ScenarioError."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).exists() and not name.endswith(".json"):
        raise ScenarioError(
            f"{name}: neither a file nor a preset; the presets are {', '.join(PRESETS)}"
        )
    return load(name)


def run_scenario(scenario: Scenario, backend: Backend, out: Path | None) -> int:
    from kernels import BackendError
    from mambaviz.engine import run

    try:
        trace = run(scenario, backend=backend)
    except (ScenarioError, BackendError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    for line in log.run_lines(trace):
        print(line)
    if out is not None:
        try:
            out.write_text(trace.to_json(), encoding="utf-8")
        except OSError as error:
            print(f"{out}: cannot be written: {error.strerror}", file=sys.stderr)
            return BAD_INPUT
    return BROKEN if trace.violations else OK


if __name__ == "__main__":
    sys.exit(main())
