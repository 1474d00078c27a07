"""Record the runs that the app shows before anything is computed.

    python -m mambaviz.pages.record [NAME ...]

writes ``mambaviz/presets/recorded/NAME.json.gz`` for the presets named, or for all of them and
for every run of a ready-made comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mambaviz.comparisons import READY_MADE
from mambaviz.engine import run
from mambaviz.pages.runs import recording_name, recording_path, write_recording
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS, Scenario


def recordings() -> dict[str, Scenario]:
    """Everything that is recorded, by name: presets, and the runs that are compared."""
    compared = [run for comparison in READY_MADE.values() for run in comparison.scenarios]
    return {**PRESETS, **{recording_name(scenario): scenario for scenario in compared}}


def main(names: Sequence[str]) -> int:
    known = recordings()
    for name in names or known:
        if name not in known:
            print(
                f"there is no recording {name!r}; choose from {', '.join(known)}", file=sys.stderr
            )
            return 2
        scenario = known[name]
        trace = run(scenario)
        if trace.violations and not (scenario.faults or name in UNSOUND_PRESETS):
            print(f"{name}: {trace.violations[0].message}", file=sys.stderr)
            return 1
        write_recording(name, trace)
        size = recording_path(name).stat().st_size
        print(f"{name}: {len(trace.steps)} steps on {trace.backend}, {size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
