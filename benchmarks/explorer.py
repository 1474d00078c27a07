"""The explorer over more than a million scenarios, and how its rate grows with the workers.

    python -m benchmarks.explorer                  where it was broken off; all cores
    python -m benchmarks.explorer --workers 16
    python -m benchmarks.explorer --shortest       the shortest scenario of every fault, anew

Writes benchmarks/results/explorer.md. Finished parts are kept in .artifacts/explorer and count as
long as the sources are the same. Exit code 1 if symbols and bytes disagree anywhere.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from mambaviz.explore.command import Telling, report_lines
from mambaviz.explore.explorer import Report, explore
from mambaviz.explore.pool import LocalPool, default_workers
from mambaviz.explore.record import Heading, Record
from mambaviz.explore.scope import Scope, find_scope
from mambaviz.explore.search import Job, Tally, tasks_of
from mambaviz.faults import ALL, DS, FAULTS, GRAPHS, GROUPS, METADATA, NO_DRAFTS, RING, V2
from mambaviz.sources import sources_hash

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / ".artifacts" / "explorer"
TABLE = ROOT / "benchmarks" / "results" / "explorer.md"
SHORTEST = ROOT / "tests" / "explore" / "shortest"
SCOPES = ("proof", "modes")
RATE_TASKS = 48  # parts of the scope that a rate is measured over


def explored(name: str, workers: int) -> Report:
    """A scope gone through whole, every hit counted."""
    scope = find_scope(name)
    heading = Heading(Job.of(scope, None), sources_hash())
    record = Record(RECORDS / f"{name}-{heading.name}.jsonl", heading)
    pool, telling = LocalPool(workers), Telling(sys.stderr)
    try:
        return explore(scope, None, pool, record, telling, everything=True)
    finally:
        telling.end()
        record.close()
        pool.close()


def rate(scope: Scope, workers: int) -> float:
    """Scenarios a second over some parts of a scope; the workers have seen parts before."""
    job, tasks = Job.of(scope, None), tasks_of(scope, scope.steps)
    step = max(1, len(tasks) // RATE_TASKS)
    chosen = tasks[::step][:RATE_TASKS]
    pool = LocalPool(workers)
    try:
        for _ in pool.run(job, chosen[:workers]):
            pass  # processes start, torch is imported
        started, runs = time.monotonic(), 0
        for _, found in pool.run(job, chosen):
            assert isinstance(found, Tally)
            runs += found.runs
        return runs / (time.monotonic() - started)
    finally:
        pool.close()


def write_table(reports: list[Report], rates: dict[int, float]) -> None:
    lines = [
        "# Explorer",
        "",
        f"Python {platform.python_version()} on {platform.machine()}; sources `{sources_hash()}`. "
        "A scenario is one run of at most so many steps, with its own pattern of accepted drafts. "
        "Nothing is wrong in these rules: no fault is switched on.",
        "",
        "| scope | scenarios | steps each | break an invariant | set aside | replayed | disagree |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for report in reports:
        replayed = report.replayed_hits + report.replayed_others
        lines.append(
            f"| {report.scope.name} | {report.runs:,} | up to {report.depth} | {report.hits:,} "
            f"| {report.set_aside:,} | {replayed:,} | {len(report.disagreements)} |"
        )
    lines += [
        "",
        "*set aside*: beginnings of runs in which a one-token prompt is padded like a decode, the "
        "rule that docs/spec/README.md shows to be unsound; the scope `small` finds it. "
        "*replayed*: with real bytes, through the engine.",
        "",
        "| workers | scenarios a second | times one worker |",
        "| --- | --- | --- |",
    ]
    first = next(iter(rates.values()))
    lines += [f"| {n} | {each:,.0f} | {each / first:.2f} |" for n, each in rates.items()]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------- every fault's shortest

# Ranges without which a fault acts late or not at all, where `FAULTS` cannot say it.
BESIDES: dict[str, dict[str, Any]] = {
    "chunk-ends-inside-block": {
        "prompt_lens": [4, 5],
        "max_tokens": [1],
        "engine": {"max_num_batched_tokens": 6},
    },
    "first-chunk-as-decode": {
        "modes": ["none"],
        "num_specs": [0],
        "num_blocks": [2],
        "chunk_limits": [1],
        "prompt_lens": [3, 4],
        "max_tokens": [2],
        "arrivals": [0, 2],
        "steps": 8,
        "engine": {"max_num_batched_tokens": 3},
    },
    "offset-lost-without-drafts": {"modes": ["none"], "draft_plans": [[2, 0]]},
}


def scope_for(fault: str) -> Scope:
    """A small scope in which a fault can act, made from what it needs."""
    needs = FAULTS[fault].needs
    without_drafts = NO_DRAFTS in needs or RING in needs
    fields: dict[str, Any] = {
        "name": "faults",
        "modes": ["all"] if ALL in needs else ["align"],
        "runners": ["v2"] if V2 in needs else ["v1"],
        "layouts": ["DS"] if DS in needs else ["SD"],
        "block_sizes": [4],
        "num_specs": [0] if without_drafts else [2],
        "num_blocks": [24 if GROUPS in needs or ALL in needs else 12],
        "replayssm_buffer_lens": [4] if RING in needs else [0],
        "mamba_groups": [2] if GROUPS in needs else [1],
        "graphs": [GRAPHS in needs],
        "num_requests": [1, 2],
        "prompt_lens": [1, 5, 7],
        "max_tokens": [6],
        "arrivals": [0, 1],
        "shared_prefix": [False, True],
        "events": ["none", "preempt"],
        "event_steps": [2],
        "steps": 6,
        "set_padded_first_tokens_aside": True,
        "engine": {
            "max_num_seqs": 4,
            "max_model_len": 24,
            "drop_last_matched_block": ALL not in needs,
        },
        "faults": [fault],
    }
    besides = BESIDES.get(fault, {})
    engine = {**fields["engine"], **besides.get("engine", {})}
    return Scope.model_validate({**fields, **besides, "engine": engine})


def find_shortest(workers: int) -> list[str]:
    """Rewrite tests/explore/shortest; a line for each fault."""
    SHORTEST.mkdir(exist_ok=True)
    lines = []
    pool = LocalPool(workers)
    try:
        for fault, about in FAULTS.items():
            if set(about.noticed_by) == {METADATA}:
                lines.append(f"{fault}: no invariant sees it: {about.why_silent}")
                continue
            scope = scope_for(fault)
            report = explore(scope, None, pool, watch=Telling(sys.stderr), most_replays=5)
            lines.append(f"{fault}: {'; '.join(report_lines(report)[:4])}")
            print(lines[-1], flush=True)
            if report.scenario is not None:
                data = report.scenario.model_dump(mode="json", exclude_defaults=True)
                text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
                (SHORTEST / f"{fault}.json").write_text(text, encoding="utf-8")
    finally:
        pool.close()
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description="Explorer.")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--shortest", action="store_true", help="every fault's shortest, anew")
    options = parser.parse_args()
    if options.shortest:
        print("\n".join(find_shortest(options.workers)))
        return 0
    reports = [explored(name, options.workers) for name in SCOPES]
    for report in reports:
        print("\n".join(report_lines(report)), flush=True)
    counts = sorted({1, 2, options.workers})
    rates = {workers: rate(find_scope("proof"), workers) for workers in counts}
    write_table(reports, rates)
    return 1 if any(report.disagreements for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
