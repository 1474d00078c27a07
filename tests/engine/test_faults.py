"""Breaking the code is noticed: each named mistake turns an invariant red in some preset."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.faults import FAULTS
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, UNSOUND_PRESETS
from tests.engine.runs import preset_run, with_faults

# The invariants that must notice it, on the default preset.
NOTICED = {
    "accepted-count-not-reset": {"I2"},
    "bias-off-by-one": {"I2"},
    "wrong-block-table-row": {"I2", "I3"},
    "pre-copy-skipped": {"I2", "I3"},
}


def test_every_fault_is_listed() -> None:
    assert set(NOTICED) == set(FAULTS)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_turns_an_invariant_red(fault: str) -> None:
    trace = engine.run(with_faults(PRESETS[DEFAULT_PRESET], fault), backend="reference")
    assert NOTICED[fault] <= {violation.invariant for violation in trace.violations}


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - UNSOUND_PRESETS))
def test_without_faults_no_preset_breaks_one(name: str) -> None:
    assert preset_run(name).violations == []


def test_a_skipped_copy_shows_in_the_bytes() -> None:
    """The decision was taken, the bytes never came: the record says so."""
    trace = engine.run(
        with_faults(PRESETS[DEFAULT_PRESET], "pre-copy-skipped"), backend="reference"
    )
    assert any(step.phase("pre-copy").bytes_unexplained for step in trace.steps)
