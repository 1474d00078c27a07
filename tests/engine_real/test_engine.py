"""vLLM with small random-weight models: recordings agree with it, and faults in it are found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine_real.recordings import Recorded, agrees_with_the_engine, first, recorded, unhooked
from tools.engine import cases
from tools.engine.examples import run_plan

pytestmark = pytest.mark.timeout(1800)  # an engine on two busy cores

ASKS = cases.mixed(1, 16, 60, 4)
BROKEN_FROM = 12
MAMBA2_RUNS = [
    cases.Run("plain", ASKS, actions=[(30, "reset_running", None), (36, "abort", 7)]),
    cases.Run("states", cases.mixed(1, 4, 60, 4), states=True),
    cases.Run("column", ASKS, fault="column_off_by_one", fault_step=BROKEN_FROM),
    cases.Run("chunk", ASKS, fault="chunk_ends_inside", fault_step=BROKEN_FROM),
    # The last one: an engine that goes by a stale column may not live on.
    cases.Run("cleanup", ASKS, fault="cleanup_skipped", fault_step=BROKEN_FROM),
]
HYBRID_RUNS = [
    cases.Run("drafts", cases.repeating(2, 6, 80, 3)),
    cases.Run("counts", cases.repeating(2, 6, 80, 3), fault="counts_swapped", fault_step=8),
]


@pytest.fixture(scope="module")
def mamba2(version, tmp_path_factory) -> dict[str, Recorded]:
    """One engine with a Mamba-2 model. Its first run is recorded by the plugin alone."""
    folder = tmp_path_factory.mktemp(f"mamba2-{version}")
    plan = cases.Plan(cases.MAMBA2, cases.mamba2_settings(6, 24), MAMBA2_RUNS)
    run_plan(plan, version, folder, MAMBAVIZ_RECORD=str(folder / "plain.jsonl"))
    return recorded(folder, MAMBA2_RUNS)


@pytest.fixture(scope="module")
def hybrid(version, tmp_path_factory) -> dict[str, Recorded]:
    """One engine with a hybrid model and n-gram drafts."""
    folder = tmp_path_factory.mktemp(f"hybrid-{version}")
    run_plan(cases.Plan(cases.HYBRID, cases.hybrid_settings(24, 48), HYBRID_RUNS), version, folder)
    return recorded(folder, HYBRID_RUNS)


def test_the_plugin_hooks_everything(mamba2, version):
    head = mamba2["plain"].lines[0]
    assert head["engine_version"].startswith(version)
    assert unhooked(head) == {"v2": "the engine uses its V1 runner"}
    assert any(hook["where"].endswith("MetadataBuilder.build") for hook in head["hooks"])
    assert head["settings"]["mode"] == "align"
    assert head["settings"]["retention"] == "dense"


def test_chunks_hits_and_preemptions_happen(mamba2):
    lines = mamba2["plain"].of("schedule")
    entries = [entry for line in lines for entry in line["requests"]]
    assert any(entry["kind"] == "new" and entry["computed"] for entry in entries)  # a hit
    assert any(entry["kind"] == "resumed" for entry in entries)
    preempted = {line["step"] for line in lines if line.get("preempted")}
    assert preempted - {line["step"] for line in mamba2["plain"].of("action")}  # for want of blocks
    assert any(
        entry["computed"] + entry["scheduled"] < entry["prompt"] for entry in entries
    )  # a chunk
    kinds = [line["kind"] for line in mamba2["plain"].of("action")]
    assert kinds == ["reset_running", "abort"]


def test_drafts_are_accepted_and_rejected(hybrid):
    counts = {count for line in hybrid["drafts"].of("accept") for count in line["counts"].values()}
    assert {1, 3} <= counts <= {1, 2, 3}
    assert any(row["copies"] for line in hybrid["drafts"].of("pre_copy") for row in line["rows"])
    assert hybrid["drafts"].of("post_copy")


@pytest.mark.parametrize("name", ["plain", "states"])
def test_mamba2_recordings_agree_and_hold(mamba2, name):
    agrees_with_the_engine(mamba2[name])
    assert mamba2[name].of("note") == []
    assert mamba2[name].verdicts() == []


def test_the_hybrid_recording_agrees_and_holds(hybrid):
    agrees_with_the_engine(hybrid["drafts"])
    assert hybrid["drafts"].of("note") == []
    assert hybrid["drafts"].verdicts() == []


def test_states_are_written_where_they_are_asked_for(mamba2):
    assert mamba2["plain"].of("state") == []
    states = mamba2["states"].of("state")
    assert {line["state"] for line in states} == {"conv", "temporal"}
    assert {line["layer"] for line in states} == {0, 1}
    # The block that a copy went to holds what its source holds.
    copied = next(
        (line, row["blocks"][0])
        for line in mamba2["states"].of("pre_copy")
        for row in line["rows"]
        if row["copies"]
    )
    written = {line["block"] for line in states if line["step"] == copied[0]["step"]}
    assert copied[1]["dst"] in written


def test_a_skipped_cleanup_is_found(mamba2):
    """At the first step that begins with the column of a request which is over."""
    run = mamba2["cleanup"]
    planted, steps = run.own["planted"], run.own["steps"]
    stale = next(
        step
        for step in range(planted, len(steps))
        if set(steps[step]["state_idx"]) - set(steps[step]["rows"])
    )
    assert first(run, "stale entry") == stale


def test_a_column_off_by_one_is_found(mamba2):
    """At the first copy before a forward."""
    run = mamba2["column"]
    copied = next(
        line["step"]
        for line in run.of("pre_copy")
        if line["step"] >= run.own["planted"] and any(row["copies"] for row in line["rows"])
    )
    assert first(run, "source") == copied


def test_a_chunk_that_ends_inside_a_registered_block_is_found(mamba2):
    """At the first step in which a column is registered whose last token was no chunk's end."""
    run = mamba2["chunk"]
    assert first(run, "boundary state") == first_wrong_boundary(run)


def first_wrong_boundary(run: Recorded) -> int:
    block_size = run.lines[0]["settings"]["block_size"]
    schedules = {line["step"]: line["requests"] for line in run.of("schedule")}

    def crosses(entry: dict[str, Any]) -> bool:
        """A prefill that ends behind a boundary which it did not stop at."""
        end = entry["computed"] + entry["scheduled"]
        return (
            entry["scheduled"] > 1
            and end % block_size
            and (end // block_size > entry["computed"] // block_size)
        )

    return next(
        step
        for step in range(run.own["planted"], len(schedules))
        if any(map(crosses, schedules[step]))
    )


def test_counts_swapped_between_rows_are_found(hybrid):
    """At the first step whose first and last row came with different counts."""
    run = hybrid["counts"]
    rows = {line["step"]: line for line in run.of("rows")}
    swapped = next(
        step
        for step in range(run.own["planted"], len(rows))
        if len({rows[step]["accepted"][name] for name in ends(rows[step]["order"])}) == 2
    )
    assert first(run, "accepted count") == swapped


def ends(order: list[str]) -> tuple[str, str]:
    return order[0], order[-1]
