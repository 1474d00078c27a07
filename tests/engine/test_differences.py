"""In which facts runs differ, and where they part."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.alignment import align
from mambaviz.comparisons import READY_MADE
from mambaviz.differences import Fact, Parting, RunFacts, differences, parting
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Edit
from mambaviz.trace import PHASES, Trace
from mambaviz.variations import with_edit
from tests.engine.runs import preset_run


def runs_of(slug: str) -> list[Trace]:
    scenarios = READY_MADE[slug].scenarios
    return [engine.run(scenario, backend="reference") for scenario in scenarios]


def parting_of(traces: list[Trace], layer: int = 0) -> Parting | None:
    return parting([RunFacts(trace, layer) for trace in traces], align(traces))


@pytest.mark.parametrize("slug", ["runner", "layout"])
@pytest.mark.parametrize("layer", [0, 1])
def test_what_must_come_out_the_same_does(slug: str, layer: int) -> None:
    assert parting_of(runs_of(slug), layer) is None


@pytest.mark.parametrize(
    ("slug", "moment", "phase", "fact"),
    [
        ("rewound", 3, "accept", Fact("schedule", "A", "accepted")),
        ("accepted-count-not-reset", 3, "pre-copy", Fact("state", "B", "column 3")),
        ("bias-off-by-one", 0, "post-copy", Fact("state", "A", "column 0")),
        ("wrong-block-table-row", 0, "metadata", Fact("metadata", "", "state_indices_tensor_p")),
        ("pre-copy-skipped", 1, "pre-copy", Fact("state", "A", "column 1")),
    ],
)
def test_where_runs_part(slug: str, moment: int, phase: str, fact: Fact) -> None:
    found = parting_of(runs_of(slug))
    assert found is not None
    assert (found.moment, found.phase) == (moment, phase)
    assert found.differences[0].fact == fact


def test_a_fact_carries_each_runs_text() -> None:
    traces = runs_of("wrong-block-table-row")
    found = parting_of(traces)
    assert found is not None
    assert [one.values for one in found.differences] == [("[1, 4]", "[0, 2]")]


def test_states_are_read_from_the_bytes() -> None:
    facts = RunFacts(preset_run(DEFAULT_PRESET), 0).at(2, "post-copy")
    assert facts[Fact("blocks", "A", "column 1")] == "2"
    assert facts[Fact("state", "A", "column 1")] == "h(8) [t5 t6 t7 t8 –]"
    assert facts[Fact("blocks", "A", "column 0")] == "∅"
    assert Fact("state", "A", "column 0") not in facts
    assert facts[Fact("worker row", "A", "ids")] == "[1 2 3 7 9]"
    assert facts[Fact("copies", "A", "checkpoint temporal")] == "7 → 2, bias 1, 64 B"


def test_a_step_knows_only_what_has_been_decided() -> None:
    facts = RunFacts(preset_run(DEFAULT_PRESET), 0)
    accepted = Fact("schedule", "A", "accepted")
    metadata = Fact("metadata", "", "seq_lens")
    known = [(accepted in facts.at(2, phase), metadata in facts.at(2, phase)) for phase in PHASES]
    assert known == [(False, False)] * 3 + [(False, True)] * 2 + [(True, True)] * 3


def test_a_run_that_has_ended_differs_in_nothing() -> None:
    traces = runs_of("rewound")
    runs, moments = [RunFacts(trace, 0) for trace in traces], align(traces)
    assert differences(runs, moments[4], "commit")
    assert differences(runs, moments[6], "commit") == ()


def test_outputs_are_held_against_the_first_run() -> None:
    """An edited metadata entry makes the forward read another block: other outputs."""
    scenario = PRESETS[DEFAULT_PRESET]
    edit = Edit(step=3, kind="metadata", field="state_indices_tensor_d", index=[0, 1], value=12)
    traces = [engine.run(run, backend="reference") for run in (scenario, with_edit(scenario, edit))]
    runs, moments = [RunFacts(trace, 0) for trace in traces], align(traces)
    kinds = {one.fact.kind for one in differences(runs, moments[3], "commit")}
    assert "metadata" in kinds
    later = [one for one in differences(runs, moments[4], "forward") if one.fact.kind == "outputs"]
    assert [one.fact.request for one in later] == ["A"]
    assert later[0].values[0] == ""
    assert later[0].values[1] is not None
    assert later[0].values[1].endswith("apart")


def test_an_edited_table_shows_in_the_workers_row_first() -> None:
    scenario = PRESETS[DEFAULT_PRESET]
    edit = Edit(step=3, kind="worker_row", request="A", column=2, value=12)
    traces = [engine.run(run, backend="reference") for run in (scenario, with_edit(scenario, edit))]
    found = parting_of(traces)
    assert found is not None
    assert (found.moment, found.phase) == (3, "allocate")
    assert found.differences[0].fact == Fact("worker row", "A", "ids")
    assert found.differences[0].values == ("[1 2 3 7 9]", "[1 2 12 7 9]")
