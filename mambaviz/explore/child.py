"""``python -m mambaviz.explore.child``: an exploration for a page, in a process of its own.

The first line of the input is an `Order`, each line of the output a `Line`. When the input ends,
nobody is there any more who asked, and the process ends too. What is finished is kept in a record:
the same order goes on from there.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from mambaviz.explore.findings import Findings, Line, Order
from mambaviz.scenario import ScenarioError

RECORDS = Path(".artifacts") / "explore" / "app"
RECORDS_KEPT = 20  # of explorations that were stopped
POLITENESS = 10  # whoever waits for a page goes first


def main() -> int:
    os.nice(POLITENESS)
    order = Order.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    try:
        say(Line(findings=findings_of(order)))
    except ScenarioError as error:
        say(Line(refused=str(error)))
    return 0


def _end_with_the_input() -> None:
    sys.stdin.read()
    os._exit(1)


def say(line: Line) -> None:
    print(line.model_dump_json(), flush=True)


def findings_of(order: Order) -> Findings:
    """One worker: the machine is the app's, and other readers' too."""
    from mambaviz import engine
    from mambaviz.explore.command import report_as_json
    from mambaviz.explore.explorer import explore
    from mambaviz.explore.pool import SerialPool
    from mambaviz.explore.record import Heading, Record
    from mambaviz.explore.search import Job
    from mambaviz.sources import sources_hash

    heading = Heading(Job.of(order.scope, order.goal), sources_hash())
    _forget_old_records()
    record = Record(RECORDS / f"{heading.name}.jsonl", heading)
    try:
        report = explore(
            order.scope, order.goal, SerialPool(), record, lambda now: say(Line.of(now))
        )
    finally:
        record.close()
    # It was only there in case of a stop. Another app in this folder may have done the same.
    record.path.unlink(missing_ok=True)
    found = Findings.model_validate_json(report_as_json(report))
    if report.scenario is None:
        return found
    trace = engine.run(report.scenario, backend="reference")
    return found.model_copy(update={"trace": trace})


def _forget_old_records() -> None:
    RECORDS.mkdir(parents=True, exist_ok=True)
    found = sorted(RECORDS.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in found[: -RECORDS_KEPT or None]:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
