"""Record the runs that the app shows before anything is computed.

    python -m mambaviz.pages.record [NAME ...]

writes ``mambaviz/presets/recorded/NAME.json.gz`` for the presets named, or for all of them, for
every run of a ready-made comparison and for both runs of every report; without a name also the
numbers of the reports. ``reports`` stands for all that the Reports page needs, which runs on the
plain twins.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mambaviz.comparisons import READY_MADE
from mambaviz.engine import run
from mambaviz.pages.runs import recording_name, recording_path, write_recording
from mambaviz.reports import REPORTS
from mambaviz.reports.recorded import write_numbers
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS, Scenario

OF_REPORTS = "reports"


def recordings() -> dict[str, Scenario]:
    """Everything that is recorded, by name: presets, and the runs that are compared."""
    compared = [run for comparison in READY_MADE.values() for run in comparison.scenarios]
    named = {recording_name(scenario): scenario for scenario in compared}
    return {**PRESETS, **named, **of_reports()}


def of_reports() -> dict[str, Scenario]:
    """Both runs of every report that has any."""
    runs = [run for report in REPORTS.values() for run in (report.scenario, report.faulty_scenario)]
    return {recording_name(scenario): scenario for scenario in runs if scenario is not None}


def main(names: Sequence[str]) -> int:
    known, plain = recordings(), of_reports()
    if OF_REPORTS in names or not names:
        write_numbers()
    if OF_REPORTS in names:
        names = [*(name for name in names if name != OF_REPORTS), *plain]
    for name in names or known:
        if name not in known:
            print(
                f"there is no recording {name!r}; choose from {', '.join(known)}", file=sys.stderr
            )
            return 2
        scenario = known[name]
        trace = run(scenario, "reference" if name in plain else "auto")
        if trace.violations and not (scenario.faults or name in UNSOUND_PRESETS):
            print(f"{name}: {trace.violations[0].message}", file=sys.stderr)
            return 1
        write_recording(name, trace)
        size = recording_path(name).stat().st_size
        print(f"{name}: {len(trace.steps)} steps on {trace.backend}, {size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
