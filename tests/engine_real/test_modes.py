"""Cache modes, overlapping steps and the V2 runner of a real engine: they agree, nothing is wrong.

What an engine on a CPU does not run of its own is said in `tools.engine.drive`: the V2 runner
needs Triton, which is interpreted; asynchronous scheduling is switched off by the platform; in
all mode the CPU's kernels fail, so the layers do nothing.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.engine_real.recordings import Recorded, agrees_with_the_engine, first, recorded, unhooked
from tools.engine import cases
from tools.engine.examples import run_plan

pytestmark = pytest.mark.timeout(1800)  # an engine on two busy cores

WITH_ALL = "0.30.0"
PLAIN = cases.Run("plain", cases.mixed(1, 16, 60, 4), actions=[(30, "reset_running", None)])
NONE = {"mamba_cache_mode": "none", "enable_prefix_caching": False, "mamba_block_size": None}
ALL = {"mamba_cache_mode": "all"}
GREEDY = cases.repeating(2, 6, 80, 3, temperature=0.0)  # the interpreter knows no logarithm
DRAFTED = [cases.Run("plain", GREEDY)]
PLANS = {
    "none": cases.Plan(cases.MAMBA2, cases.mamba2_settings(6, 24, **NONE), [PLAIN]),
    "none, drafts": cases.Plan(
        cases.SMALL_HYBRID,
        cases.hybrid_settings(24, 48, mamba_cache_mode="none", enable_prefix_caching=False),
        DRAFTED,
    ),
    "all": cases.Plan(cases.MAMBA2, cases.mamba2_settings(20, 24, **ALL), [PLAIN]),
    "all, drafts": cases.Plan(cases.SMALL_HYBRID, cases.hybrid_settings(24, 48, **ALL), DRAFTED),
    "asynchronous": cases.Plan(
        cases.MAMBA2,
        cases.mamba2_settings(6, 24),
        [
            PLAIN,
            cases.Run("late", cases.mixed(4, 6, 60, 4)),  # a step of the run before still comes
            cases.Run("faulty", PLAIN.asks, fault="column_off_by_one", fault_step=12),
        ],
        asynchronous=True,
    ),
    "v2": cases.Plan(cases.MAMBA2, cases.mamba2_settings(6, 24), [PLAIN], runner="v2"),
    "v2, drafts": cases.Plan(
        cases.SMALL_HYBRID,
        cases.hybrid_settings(24, 48),
        [*DRAFTED, cases.Run("faulty", GREEDY, fault="count_left_in_slot", fault_step=4)],
        runner="v2",
    ),
    "v2, drafts, asynchronous": cases.Plan(
        cases.SMALL_HYBRID,
        cases.hybrid_settings(24, 48),
        DRAFTED,
        runner="v2",
        asynchronous=True,
    ),
}


@pytest.fixture(scope="module", params=PLANS)
def case(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def runs(case, version, tmp_path_factory) -> dict[str, Recorded]:
    """One engine. Its first run is recorded by the plugin alone."""
    if case.startswith("all") and version != WITH_ALL:
        pytest.skip(f"vllm {version} has no all mode any more: test_all_mode_is_refused")
    folder = tmp_path_factory.mktemp(f"case-{version}")
    run_plan(PLANS[case], version, folder, MAMBAVIZ_RECORD=str(folder / "plain.jsonl"))
    return recorded(folder, PLANS[case].runs)


def test_all_mode_is_refused(version, tmp_path):
    if version == WITH_ALL:
        pytest.skip(f"vllm {version} has all mode")
    with pytest.raises(subprocess.CalledProcessError):
        run_plan(PLANS["all"], version, tmp_path)
    assert "Input should be 'align' or 'none'" in (tmp_path / "engine.log").read_text()


def test_recordings_agree_and_hold(case, runs):
    for name in runs.keys() - {"faulty"}:
        agrees_with_the_engine(runs[name])
        assert runs[name].of("note") == []
        if case != "all, drafts":
            assert runs[name].verdicts() == []


@pytest.mark.parametrize("case", ["all, drafts"], indirect=True)
def test_blocks_filled_by_drafts_are_found(runs):
    """Section 5.2: in all mode the engine registers them, without the state at their boundary."""
    run = runs["plain"]
    size = run.lines[0]["settings"]["block_size"]
    filled = {
        (entry["id"], boundary)
        for line in run.of("schedule")
        for entry in line["requests"]
        for boundary in range(size, entry["computed"] + entry["scheduled"] + 1, size)
        if entry.get("drafts") and entry["computed"] < boundary
    }
    names = {name for line in run.of("blocks") for name in line.get("registered", {}).values()}
    expected = {(name, n) for name, n in filled if f"{name}@{n}" in names}
    assert expected
    found = run.verdicts()
    assert {verdict.rule for verdict in found} == {"boundary state"}
    assert {(verdict.request, verdict.expected) for verdict in found} == {
        (name, f"the state after {n} tokens") for name, n in expected
    }


def test_the_head_says_what_was_asked_for(case, runs):
    head, plan = runs["plain"].lines[0], PLANS[case]
    assert head["settings"]["mode"] == plan.engine["mamba_cache_mode"]
    assert head["settings"]["runner"] == plan.runner
    assert head["settings"]["async_scheduling"] == plan.asynchronous
    other = {"v1": "v2", "v2": "v1"}[plan.runner]
    assert unhooked(head) == {other: f"the engine uses its {plan.runner.upper()} runner"}
    assert any(hook["where"].endswith("MetadataBuilder.build") for hook in head["hooks"])


def test_what_is_to_be_seen_happens(case, runs):
    """A case that shows nothing would agree too."""
    run = runs["plain"]
    lines = run.of("schedule")
    entries = [entry for line in lines for entry in line["requests"]]
    assert any(entry["computed"] + entry["scheduled"] < entry["prompt"] for entry in entries)
    copies = [row for line in run.of("pre_copy") for row in line["rows"] if row["copies"]]
    assert bool(copies) == (PLANS[case].engine["mamba_cache_mode"] == "align")
    if "drafts" in case:
        counts = {count for line in run.of("accept") for count in line["counts"].values()}
        assert {1, 3} <= counts <= {1, 2, 3}
    else:
        assert any(line.get("preempted") for line in lines)
        assert any(hit(entry) for entry in entries) == ("none" not in case)


def hit(entry: dict[str, Any]) -> bool:
    return entry["kind"] != "running" and entry["computed"] > 0


@pytest.mark.parametrize("case", [c for c in PLANS if "asynchronous" in c], indirect=True)
def test_asynchronous_steps_overlap(runs):
    """A step is scheduled before the one before it is committed, but where work ran out."""
    pairs = ("schedule", "commit")
    order = [
        (line["event"], line["step"]) for line in runs["plain"].lines if line["event"] in pairs
    ]
    at = {pair: index for index, pair in enumerate(order)}
    steps = [step for event, step in order if event == "commit" and ("schedule", step + 1) in at]
    ahead = [step for step in steps if at["schedule", step + 1] < at["commit", step]]
    assert len(ahead) > len(steps) / 2


@pytest.mark.parametrize("case", ["asynchronous"], indirect=True)
def test_a_fault_is_found_where_steps_overlap(runs):
    """At the first copy before a forward."""
    copied = next(
        line["step"]
        for line in runs["faulty"].of("pre_copy")
        if line["step"] >= runs["faulty"].own["planted"]
        and any(row["copies"] for row in line["rows"])
    )
    assert first(runs["faulty"], "source") == copied


@pytest.mark.parametrize("case", ["v2, drafts"], indirect=True)
def test_a_count_left_in_a_slot_is_found(runs):
    """At the first step in which a request comes into a slot that an accepted draft was left in."""
    run = runs["faulty"]
    came = {
        (line["step"], entry["id"])
        for line in run.of("schedule")
        for entry in line["requests"]
        if entry["kind"] == "new"
    }
    left = next(
        line["step"]
        for line in run.of("rows")
        for name, count in line["accepted"].items()
        if (line["step"], name) in came and count != 1
    )
    assert first(run, "accepted count") == left
