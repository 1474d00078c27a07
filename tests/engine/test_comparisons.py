"""Ready-made comparisons: they run, are named by what differs, and show what they promise."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.comparisons import (
    FAULT,
    LAYOUTS,
    MODES,
    NO_FAULT,
    READY_MADE,
    RUNNERS,
    Comparison,
    compare_ways,
    run_labels,
    varied,
    with_and_without,
)
from mambaviz.faults import FAULTS
from mambaviz.metadata_check import metadata_problems
from mambaviz.prefix_hits import FoundPrefix, admissions
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, ScenarioError
from mambaviz.variations import rewind
from tests.engine.runs import preset_run

DEFAULT = PRESETS[DEFAULT_PRESET]


def names(comparison: Comparison) -> list[str]:
    return [label.name for label in comparison.labels]


def test_runs_are_named_by_what_tells_them_apart() -> None:
    assert names(READY_MADE["cache-mode"]) == ["none", "align", "all"]
    assert names(READY_MADE["runner"]) == ["V1", "V2"]
    assert names(READY_MADE["layout"]) == ["SD", "DS"]
    assert names(READY_MADE["rewound"]) == ["original", "A keeps 0 at step 3"]
    assert names(READY_MADE["bias-off-by-one"]) == [NO_FAULT, "bias-off-by-one"]
    two = (PRESETS["plain-decode"], PRESETS["shift-in-place"])
    assert [label.name for label in run_labels(two)] == [scenario.name for scenario in two]
    same = [label.name for label in run_labels((DEFAULT, DEFAULT))]
    assert len(set(same)) == 2, "the same scenario twice still has two names"


def test_every_fault_is_compared_and_noticed() -> None:
    for name in FAULTS:
        compared = with_and_without(name)
        assert READY_MADE.get(name, compared) == compared
        whole, faulty = (engine.run(run, backend="reference") for run in compared.scenarios)
        assert whole.violations == []
        assert faulty.violations or metadata_problems(faulty)


def test_the_rewound_one_is_what_rewind_makes() -> None:
    made = rewind(preset_run(DEFAULT_PRESET), 3, "A", 0)
    assert made.content_hash == READY_MADE["rewound"].scenarios[1].content_hash
    assert made.name == READY_MADE["rewound"].scenarios[1].name


def test_ways_of_a_scenario() -> None:
    assert varied(DEFAULT, FAULT, NO_FAULT) == DEFAULT
    assert varied(DEFAULT, LAYOUTS, "DS").engine.layout == "DS"
    both = compare_ways(DEFAULT, RUNNERS, RUNNERS.ways)
    assert [run.engine.runner for run in both.scenarios] == ["v1", "v2"]
    with pytest.raises(ScenarioError, match="all mode runs on the V1 runner only"):
        varied(varied(DEFAULT, RUNNERS, "v2"), MODES, "all")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_two_or_three_runs(count: int) -> None:
    with pytest.raises(ScenarioError, match=f"{count} runs"):
        Comparison("x", "", (DEFAULT,) * count)


def test_what_the_next_turn_could_find() -> None:
    """Align has A's states after 4, 8 and 12 tokens, all only the prefill's, none nothing."""
    found = {}
    for scenario in READY_MADE["cache-mode"].scenarios:
        trace = engine.run(scenario, backend="reference")
        found[scenario.engine.mode] = next(one for one in admissions(trace) if one.request == "A2")
    assert found["align"].found == (
        FoundPrefix(4, 1, "A"), FoundPrefix(8, 2, "A"), FoundPrefix(12, 3, "A"),
    )  # fmt: skip
    assert found["all"].found == (FoundPrefix(4, 1, "A"),)
    assert found["none"].found == ()
    assert [found[mode].reused for mode in MODES.ways] == [0, 8, 4]
    assert {one.shared for one in found.values()} == {"A"}
    assert found["align"].most_blocks == 2
