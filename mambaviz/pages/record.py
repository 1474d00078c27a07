"""Record the presets' runs, which the app shows before anything is computed.

    python -m mambaviz.pages.record [SLUG ...]

writes ``mambaviz/presets/recorded/SLUG.json.gz`` for the presets named, or for all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mambaviz.engine import run
from mambaviz.pages.runs import recording_path, write_recording
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS


def main(slugs: Sequence[str]) -> int:
    for slug in slugs or PRESETS:
        if slug not in PRESETS:
            print(f"there is no preset {slug!r}; choose from {', '.join(PRESETS)}", file=sys.stderr)
            return 2
        trace = run(PRESETS[slug])
        if trace.violations and slug not in UNSOUND_PRESETS:
            print(f"{slug}: {trace.violations[0].message}", file=sys.stderr)
            return 1
        write_recording(slug, trace)
        size = recording_path(slug).stat().st_size
        print(f"{slug}: {len(trace.steps)} steps on {trace.backend}, {size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
