"""Seeded random runs of the whole engine, by the thousand, resumable.

    python -m benchmarks.campaigns                 every campaign, where it was broken off
    python -m benchmarks.campaigns align           one of them
    python -m benchmarks.campaigns --table         rewrite benchmarks/results/campaigns.md alone

A campaign is a check over a range of seeds; the tests draw a few of the same seeds. Finished
chunks are kept in .artifacts/campaigns and count as long as the sources are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from mambaviz.compare import compare_traces
from mambaviz.random_scenarios import random_scenario
from mambaviz.scenario import Scenario
from mambaviz.trace import Contents, Trace, Violation

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / ".artifacts" / "campaigns"
TABLE = ROOT / "benchmarks" / "results" / "campaigns.md"
CHUNK = 25  # seeds a process takes at a time


@dataclass(frozen=True)
class Finding:
    """What one seed came to. ``problem`` is empty where all is well.

    ``explained`` counts violations that a known unsound rule accounts for; ``worst`` is the
    largest relative difference between two back ends.
    """

    seed: int
    steps: int
    problem: str = ""
    explained: int = 0
    worst: float = 0.0


@dataclass(frozen=True)
class Campaign:
    """A check, how many seeds a proof runs, and what the table says about it."""

    check: Callable[[int], Finding]
    seeds: int
    words: str


# ------------------------------------------------------------------------------------- checks


def everything(seed: int) -> Scenario:
    """A random scenario over every option the engine has."""
    return random_scenario(
        random.Random(f"whole/{seed}"),
        modes=("none", "align", "align", "all"),
        runners=("v1", "v2"),
        layouts=("SD", "DS"),
        conv_kernels=(2, 3, 4),
        cache_dtypes=("float32", "float16", "bfloat16"),
        chunk_sizes=(1, 2, 4),
        page_paddings=(0, 12),
        mamba_groups=(1, 1, 2),
        attention=(False, True),
        events=True,
        replayssm=True,
        full_cuda_graphs=(False, True),
        drop_last_matched_block=(False, True),
        states=("both", "both", "conv", "temporal"),
        sufficient=bool(seed % 4),
    )


def explained_by_padded_first_token(trace: Trace) -> bool:
    """The one rule of the specification that random scenarios show to be unsound.

    A one-token prompt that is padded like a decode (section 2, padded tail) has no state to
    decode from, so section 4.2 makes it a prefill, which absorbs the placeholders too.
    """
    return any(
        request.padded_tail and request.num_computed == 0
        for step in trace.steps
        for request in step.requests.values()
    )


def unexplained(trace: Trace) -> list[Violation]:
    """Violations that no known unsound rule accounts for."""
    return [] if explained_by_padded_first_token(trace) else trace.violations


def bytes_unexplained(trace: Trace) -> int:
    """Bytes of all copy phases that the recorded copies do not account for."""
    return sum(phase.bytes_unexplained or 0 for step in trace.steps for phase in step.phases)


def judge(seed: int, trace: Trace) -> Finding:
    """No violation, every moved byte explained."""
    problem = ""
    if broken := unexplained(trace):
        problem = f"{broken[0].invariant} at step {broken[0].step}: {broken[0].message}"
    elif count := bytes_unexplained(trace):
        problem = f"{count} moved bytes that no copy explains"
    explained = len(trace.violations) - len(broken)
    return Finding(seed, len(trace.steps), problem, explained)


def check_align(seed: int) -> Finding:
    """Align mode, V1, SD: no violation, and no run that gets stuck."""
    from mambaviz import engine

    trace = engine.run(random_scenario(random.Random(seed)), backend="reference")
    finding = judge(seed, trace)
    if not finding.problem and trace.steps[-1].stuck:
        return Finding(seed, len(trace.steps), "the run got stuck")
    return finding


def check_whole(seed: int) -> Finding:
    """Every mode, runner, layout, dtype, group and event."""
    from mambaviz import engine

    return judge(seed, engine.run(everything(seed), backend="reference"))


def check_runners(seed: int) -> Finding:
    """V1 and V2 leave the same bytes in every block after every step."""
    from mambaviz import engine

    scenario = random_scenario(
        random.Random(f"runners/{seed}"),
        modes=("none", "align", "align"),
        layouts=("SD", "DS"),
        conv_kernels=(2, 4),
        mamba_groups=(1, 2),
        attention=(False, True),
        events=True,
    )
    settings = scenario.engine.model_copy(update={"runner": "v2"})
    other = scenario.model_copy(update={"engine": settings})
    one, two = (engine.run(each, backend="reference") for each in (scenario, other))
    ends = zip(_contents_by_step(one), _contents_by_step(two), strict=True)
    for step, (left, right) in enumerate(ends):
        if left != right:
            return Finding(seed, len(one.steps), f"other block contents after step {step}")
    return judge(seed, two)


def _contents_by_step(trace: Trace) -> list[Contents]:
    return [dict(held) for _, phase, _, held in trace.walk() if phase.name == "commit"]


def check_backends(seed: int) -> Finding:
    """The process's back end against the plain twins, as section 1 defines equal."""
    from mambaviz import engine
    from mambaviz.oracle import tolerance

    scenario = everything(seed)
    plain = engine.run(scenario, backend="reference")
    real = engine.run(scenario)
    if real.backend == plain.backend:
        return Finding(seed, 0, "this process has the plain twins only")
    found = compare_traces(plain, real, tolerance(scenario.layer.cache_dtype))
    problem = found.problems[0] if found.problems else judge(seed, real).problem
    return Finding(seed, len(plain.steps), problem, worst=found.worst)


CAMPAIGNS: dict[str, Campaign] = {
    "align": Campaign(check_align, 1_000, "align mode, V1, SD"),
    "whole": Campaign(
        check_whole, 10_000, "every mode, runner, layout, dtype, group, event; plain"
    ),
    "runners": Campaign(check_runners, 2_000, "V1 against V2: the same bytes after every step"),
    "backends": Campaign(check_backends, 200, "the kernels against the plain twins"),
}


# ------------------------------------------------------------------------------------ running


def sources() -> str:
    """A short hash over the code that makes a trace: findings count while it is the same."""
    digest = hashlib.sha256()
    for folder in ("kernels", "mambaviz", "benchmarks/campaigns.py"):
        for path in sorted([ROOT / folder, *(ROOT / folder).rglob("*.py")]):
            if path.is_file() and not {"viz", "pages"} & set(path.parts):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def record_path(name: str, backend: str, code: str) -> Path:
    return RECORDS / f"{name}-{backend}.{code}.jsonl"


def backend_of(name: str) -> str:
    """The back end a campaign runs on in this process."""
    import kernels

    return kernels.BACKEND if name == "backends" else "reference"


def read_findings(path: Path) -> list[Finding]:
    """Findings of earlier calls; a line that was cut off is left out."""
    findings = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            findings.append(Finding(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return findings


def _run_chunk(name: str, seeds: list[int]) -> list[Finding]:
    import torch

    torch.set_num_threads(1)
    return [CAMPAIGNS[name].check(seed) for seed in seeds]


def run_campaign(name: str, code: str, workers: int) -> list[Finding]:
    """All findings of a campaign, running only the seeds that have none yet."""
    path = record_path(name, backend_of(name), code)
    path.parent.mkdir(parents=True, exist_ok=True)
    findings = read_findings(path)
    done = {finding.seed for finding in findings}
    seeds = [seed for seed in range(CAMPAIGNS[name].seeds) if seed not in done]
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    started = time.monotonic()
    fresh = get_context("spawn")  # a fork of a process that has met CUDA cannot use it
    with (
        ProcessPoolExecutor(workers, mp_context=fresh) as pool,
        path.open("a", encoding="utf-8") as out,
    ):
        for number, found in enumerate(pool.map(_run_chunk, [name] * len(chunks), chunks), 1):
            findings += found
            out.writelines(json.dumps(asdict(finding)) + "\n" for finding in found)
            out.flush()
            bad = sum(bool(finding.problem) for finding in findings)
            rate = number * CHUNK / (time.monotonic() - started)
            left = (len(chunks) - number) * CHUNK / rate
            print(
                f"\r{name}: {len(findings)} of {CAMPAIGNS[name].seeds} scenarios, {bad} bad, "
                f"{rate:.1f}/s, {left:.0f} s left  ",
                end="",
                flush=True,
            )
    print()
    return findings


def table_row(name: str, backend: str, findings: list[Finding]) -> str:
    bad = [finding for finding in findings if finding.problem]
    worst = max((finding.worst for finding in findings), default=0.0)
    return (
        f"| {name} | {CAMPAIGNS[name].words} | {backend} | {len(findings)} | "
        f"{sum(finding.steps for finding in findings)} | {len(bad)} | "
        f"{sum(bool(finding.explained) for finding in findings)} | "
        f"{f'{worst:.2g}' if worst else '–'} |"
    )


def write_table(results: dict[tuple[str, str], list[Finding]], code: str) -> None:
    """``results`` by campaign and back end."""
    lines = [
        "# Random runs of the whole engine",
        "",
        f"Fixed seeds from 0; code `{code}` (hash of the sources left of the pictures). *bad*: "
        "scenarios with an unexplained violation, a moved byte that no copy explains, or a "
        "difference. *explained*: scenarios whose violations come from the padded one-token "
        "prompt (docs/spec/README.md). *worst*: largest difference between back ends, relative "
        "to the largest value of the tensor.",
        "",
        "| campaign | what | back end | scenarios | steps | bad | explained | worst |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(table_row(*place, findings) for place, findings in results.items()),
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Exit code 1 if a campaign found something."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaigns", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CAMPAIGNS)}; all by default")
    parser.add_argument("--table", action="store_true", help="only rewrite the table")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in CAMPAIGNS]:
        parser.error(f"no campaign {unknown[0]!r}; choose from {', '.join(CAMPAIGNS)}")
    code = sources()
    if not options.table:
        for name in options.names or CAMPAIGNS:
            run_campaign(name, code, options.workers)
    results = {
        (name, backend): read_findings(record_path(name, backend, code))
        for name in CAMPAIGNS
        for backend in ("reference", "interpreter", "cuda")
    }
    write_table({place: findings for place, findings in results.items() if findings}, code)
    bad = [f for findings in results.values() for f in findings if f.problem]
    for finding in bad[:10]:
        print(f"seed {finding.seed}: {finding.problem}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
