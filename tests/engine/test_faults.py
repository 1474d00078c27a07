"""Breaking the code is noticed: each named mistake turns its checks red, and only with the fault.

The scenarios are those of `mambaviz.fault_scenarios`. What each check says first is written out:
the invariant, the step, the layer, the block and its column, and the cell with both numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mambaviz import engine
from mambaviz.comparisons import FAULT, LAYOUTS, MODES, RUNNERS, varied
from mambaviz.fault_scenarios import FAULT_SCENARIOS
from mambaviz.faults import FAULTS, METADATA
from mambaviz.metadata_check import metadata_problems
from mambaviz.scenario import (
    DEFAULT_PRESET,
    PRESETS,
    UNSOUND_PRESETS,
    Scenario,
    ScenarioError,
    build,
)
from mambaviz.trace import Trace
from tests.engine.runs import preset_run, with_faults


@dataclass(frozen=True)
class Red:
    """What a check says first: where, and which cell. ``layer`` is the group for metadata."""

    check: str
    step: int
    layer: int
    block: int | None
    column: int | None
    cell: str


FIRST = {
    "accepted-count-not-reset": (Red("I2", 3, 0, 6, None, "row 2, channel 0 should be 12, is 0"),),
    "bias-off-by-one": (Red("I2", 1, 0, 5, None, "row 2, channel 0 should be 8, is 0"),),
    "wrong-block-table-row": (
        Red("I2", 1, 0, 3, None, "row 2, channel 0 should be 8, is 0"),
        Red("I3", 0, 0, None, None, "head 0, channel 1 should be -0.454749122, is 0"),
        Red("metadata", 0, 0, None, None, "state_indices_tensor_p[0] (A) should be 1, is 0"),
    ),
    "pre-copy-skipped": (
        Red("I2", 1, 0, 5, None, "row 2, channel 0 should be 8, is 0"),
        Red("I3", 1, 0, None, None, "head 0, channel 0 should be 5.79813803, is 2.29026937"),
    ),
    "reset-seen-by-siblings": (
        Red("I2", 2, 0, 2, None, "head 0, channel 0, state 0 should be 8, is 6"),
    ),
    "stale-column": (
        Red(
            "I7",
            2,
            0,
            3,
            0,
            "source column 1 is outside the row of 1 columns; the copy was stopped",
        ),
    ),
    "column-in-wrong-block-size": (Red("I2", 3, 0, 2, None, "row 0, channel 0 should be 2, is 4"),),
    "block-table-row-by-slot": (
        Red("I2", 2, 0, 2, None, "row 0, channel 2 should be 0.0625, is -1.5"),
    ),
    "request-arrays-by-batch-row": (
        Red("I2", 2, 0, 2, None, "row 0, channel 2 should be 0.0625, is -1.5"),
    ),
    "unordered-in-place-shift": (
        Red("I1", 2, 0, 1, 1, "row 0, channel 0 should be 6, is 8"),
        Red("I2", 2, 0, 2, None, "row 0, channel 0 should be 6, is 8"),
    ),
    "ds-copied-flat": (Red("I2", 2, 0, 2, None, "row 2, channel 0 should be 7, is 0"),),
    "temporal-source-without-bias": (
        Red("I2", 2, 0, 2, None, "head 0, channel 0, state 0 should be 8, is 6"),
    ),
    "counts-permuted-twice": (
        Red("I2", 2, 0, 5, None, "row 1, channel 2 should be -0.3125, is 1.5"),
    ),
    "worker-row-not-grown": (
        Red(
            "I7",
            2,
            0,
            3,
            3,
            "source column 5 is outside the row of 5 columns; the copy was stopped",
        ),
    ),
    "chunk-ends-inside-block": (Red("I1", 1, 0, 4, 0, "row 0, channel 0 should be 2, is 0"),),
    "scratch-registered": (Red("I1", 1, 0, 2, 1, "row 0, channel 0 should be 6, is 9"),),
    "padding-not-null": (
        Red("metadata", 2, 0, None, None, "state_indices_tensor_d[3] should be [0], is [4]"),
    ),
    "first-chunk-as-decode": (
        Red("I3", 4, 0, None, None, "head 0, channel 0 should be 0.58617516, is 4.6457386"),
        Red("metadata", 0, 0, None, None, "num_decodes should be 0, is 1"),
    ),
    "short-extend-as-prefill": (
        Red("metadata", 1, 0, None, None, "num_decodes should be 1, is 0"),
    ),
    "metadata-of-another-group": (
        Red("I2", 2, 1, 3, None, "row 2, channel 0 should be 4, is 0"),
        Red("metadata", 0, 1, None, None, "state_indices_tensor_p[0] (A) should be 2, is 1"),
    ),
    "stale-graph-buffers": (
        Red("I1", 2, 1, 4, 1, "row 2, channel 3 should be -2.4375, is 1.3125"),
        Red(
            "metadata", 2, 1, None, None, "block_idx_last_scheduled_token[0] (A) should be 2, is 1"
        ),
    ),
    "offset-lost-without-drafts": (
        Red("I2", 2, 0, 1, None, "row 0, channel 0 should be 4, is 2"),
        Red("I3", 2, 0, None, None, "head 0, channel 0 should be 9.89822402, is 7.2237978"),
        Red("metadata", 2, 0, None, None, "num_accepted_tokens[0] (A) should be 3, is 1"),
    ),
    "chunks-on-a-fixed-grid": (
        Red("I1", 1, 0, 1, 0, "head 1, channel 0, state 3 should be -0.00500675959, is 1.85478902"),
        Red("metadata", 1, 0, None, None, "cu_chunk_seqlen_p should be [0, 1, 3], is [0, 3]"),
    ),
    "replay-anchor-not-moved": (
        Red("I1", 1, 0, 1, 0, "head 1, channel 0, state 3 should be -0.00500675959, is 1.85478902"),
        Red("I3", 2, 0, None, None, "head 0, channel 0 should be 5.79813803, is 5.82938814"),
        Red("metadata", 1, 0, None, None, "is_flush_d[0] (A) should be 1, is 0"),
    ),
    "window-from-computed-column": (
        Red("I3", 2, 0, None, None, "head 0, channel 0 should be 5.79813803, is 4.5251956"),
    ),
    "short-chunk-writes-its-source": (Red("I1", 1, 0, 1, 0, "row 0, channel 0 should be 2, is 4"),),
}


def first_of(trace: Trace, check: str) -> Red:
    if check == METADATA:
        problem = metadata_problems(trace)[0]
        return Red(check, problem.step, problem.group, None, None, problem.message)
    found = next(violation for violation in trace.violations if violation.invariant == check)
    assert found.layer is not None
    cell = found.message.rpartition(": ")[2]
    return Red(check, found.step, found.layer, found.block, found.column, cell)


def red(trace: Trace) -> set[str]:
    broken = {violation.invariant for violation in trace.violations}
    return broken | ({METADATA} if metadata_problems(trace) else set())


def test_every_fault_is_listed() -> None:
    assert set(FIRST) == set(FAULTS) == set(FAULT_SCENARIOS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_turns_its_checks_red(fault: str) -> None:
    scenario = FAULT_SCENARIOS[fault]
    assert red(engine.run(scenario, backend="reference")) == set()
    trace = engine.run(varied(scenario, FAULT, fault), backend="reference")
    assert tuple(red.check for red in FIRST[fault]) == FAULTS[fault].noticed_by
    assert tuple(first_of(trace, check) for check in FAULTS[fault].noticed_by) == FIRST[fault]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_no_invariant_sees_says_why(fault: str) -> None:
    silent = FAULTS[fault].noticed_by == (METADATA,)
    assert bool(FAULTS[fault].why_silent) == silent
    if silent:
        trace = engine.run(varied(FAULT_SCENARIOS[fault], FAULT, fault), backend="reference")
        assert trace.violations == []


@pytest.mark.parametrize("layout", LAYOUTS.ways)
@pytest.mark.parametrize("runner", RUNNERS.ways)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed_wherever_it_can_act(fault: str, runner: str, layout: str) -> None:
    try:
        scenario = varied(varied(FAULT_SCENARIOS[fault], RUNNERS, runner), LAYOUTS, layout)
        faulty = varied(scenario, FAULT, fault)
    except ScenarioError:
        return  # it says that it cannot
    assert red(engine.run(scenario, backend="reference")) == set()
    noticed = red(engine.run(faulty, backend="reference"))
    expected = set(FAULTS[fault].noticed_by)
    if "I7" in expected and (runner, layout) != ("v1", "SD"):
        expected = {"I4"}  # a fused kernel's row does not end: behind it the table is null
    assert expected <= noticed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_says_in_which_modes_and_on_which_runners_it_acts(fault: str) -> None:
    scenario = FAULT_SCENARIOS[fault]
    for variation, ways in ((MODES, FAULTS[fault].modes), (RUNNERS, FAULTS[fault].runners)):
        for way in variation.ways:
            try:
                could_run = varied(scenario, variation, way)
            except ScenarioError:
                continue  # not even without the fault
            needs = " ".join(FAULTS[fault].missing(could_run))
            assert (way in ways) == (f"engine.{variation.what.split()[-1]}" not in needs)


KERNEL_FAULTS = (
    "reset-seen-by-siblings",
    "block-table-row-by-slot",
    "request-arrays-by-batch-row",
    "unordered-in-place-shift",
    "ds-copied-flat",
    "temporal-source-without-bias",
    "pre-copy-skipped",
    "chunks-on-a-fixed-grid",
    "short-chunk-writes-its-source",
)


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
def test_the_kernels_of_every_back_end_do_the_same_damage(fault: str) -> None:
    faulty = varied(FAULT_SCENARIOS[fault], FAULT, fault)
    twins, own = (engine.run(faulty, backend=backend) for backend in ("reference", "auto"))
    assert [(v.invariant, v.step, v.block) for v in own.violations] == [
        (v.invariant, v.step, v.block) for v in twins.violations
    ]


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - UNSOUND_PRESETS))
def test_without_faults_no_preset_breaks_one(name: str) -> None:
    assert red(preset_run(name)) == set()


def test_a_skipped_copy_shows_in_the_bytes() -> None:
    """The decision was taken, the bytes never came: the record says so."""
    trace = engine.run(
        with_faults(PRESETS[DEFAULT_PRESET], "pre-copy-skipped"), backend="reference"
    )
    assert any(step.phase("pre-copy").bytes_unexplained for step in trace.steps)


# ---------------------------------------------------------------------- what cannot act is refused


def plain(**engine_settings: object) -> dict[str, object]:
    return {"engine": engine_settings, "requests": [{"id": "A", "prompt_len": 3}]}


@pytest.mark.parametrize(
    ("faults", "settings", "sentence"),
    [
        (
            ["block-table-row-by-slot"],
            {"runner": "v1"},
            "faults: block-table-row-by-slot has nothing to spoil here; it needs engine.runner "
            "'v2'",
        ),
        (
            ["ds-copied-flat"],
            {"mode": "none", "num_spec": 0},
            "faults: ds-copied-flat has nothing to spoil here; it needs engine.mode 'align', "
            "engine.layout 'DS' and engine.num_spec of at least 1",
        ),
        (
            ["bias-off-by-one", "counts-permuted-twice"],
            {},
            "faults: counts-permuted-twice has nothing to spoil here; it needs at least two "
            "requests",
        ),
    ],
)
def test_a_fault_that_cannot_act_is_refused(
    faults: list[str], settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        build({**plain(**settings), "faults": faults})
    assert str(error.value) == sentence


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ScenarioError, match="faults: 'bias' is not a known fault; choose from "):
        build({**plain(), "faults": ["bias"]})


def test_every_need_of_a_fault_is_felt() -> None:
    """Some scenario lacks it: no need is met by just any."""
    lacking = [Scenario.model_validate(plain(mode=mode, num_spec=0)) for mode in ("none", "all")]
    lacking.append(
        Scenario.model_validate(
            {
                **plain(mode="align", runner="v2", num_spec=2, block_size=4),
                "layer": {"states": "temporal", "num_layers": 1},
            }
        )
    )
    lacking.append(
        Scenario.model_validate({**plain(num_spec=0, block_size=1), "layer": {"states": "conv"}})
    )
    for fault in FAULTS.values():
        for need in fault.needs:
            assert any(not need.is_met(scenario) for scenario in lacking), need.words
