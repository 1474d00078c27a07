"""What-if: another accepted count, one number overwritten by hand (mambaviz/variations.py)."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Edit, ScenarioError
from mambaviz.trace import Trace
from mambaviz.variations import rewind, with_edit
from tests.engine.runs import preset_run


def edited(**edit: object) -> Trace:
    scenario = with_edit(PRESETS[DEFAULT_PRESET], Edit.model_validate(edit))
    return engine.run(scenario, backend="reference")


def test_a_rewound_run_is_the_same_up_to_the_verification() -> None:
    original = preset_run(DEFAULT_PRESET)
    other = engine.run(rewind(original, 3, "A", 0), backend="reference")
    assert [step.requests["A"].accepted_drafts for step in original.steps] == [None, 0, 1, 2, 0]
    assert [step.requests["A"].accepted_drafts for step in other.steps[:4]] == [None, 0, 1, 0]
    for one, two in zip(original.steps[:3], other.steps[:3], strict=True):
        assert one.requests["B"] == two.requests["B"]
        assert one.num_computed_after == two.num_computed_after
    assert other.steps[3].num_computed_after["A"] == 9  # 8 + 1, not 8 + 3
    assert not other.violations


@pytest.mark.parametrize(
    ("step", "request_id", "accepted", "words"),
    [
        (9, "A", 0, "this run has steps 0 to 4"),
        (0, "A", 0, "A verified no drafts there"),
        (2, "C", 0, "C verified no drafts there"),
        (2, "A", 3, "allowed 0 to 2"),
    ],
)
def test_a_rewind_that_cannot_be(step: int, request_id: str, accepted: int, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        rewind(preset_run(DEFAULT_PRESET), step, request_id, accepted)


@pytest.mark.parametrize(
    ("edit", "invariants"),
    [
        ({"kind": "worker_row", "request": "A", "column": 2, "value": 5}, {"I2", "I3"}),
        ({"kind": "worker_row", "request": "A", "column": 2, "value": 0}, {"I4", "I3"}),
        ({"kind": "worker_row", "request": "A", "column": 2, "value": 99}, {"I7"}),
        ({"kind": "metadata", "field": "num_accepted_tokens", "index": [0], "value": 1}, {"I2"}),
        (
            {"kind": "metadata", "field": "state_indices_tensor_d", "index": [0, 0], "value": -7},
            {"I7"},
        ),
    ],
)
def test_an_edit_is_noticed(edit: dict[str, object], invariants: set[str]) -> None:
    trace = edited(step=3, **edit)
    assert "became" in trace.steps[3].actions[0]
    assert invariants <= {violation.invariant for violation in trace.steps[3].violations}
    assert not any(step.violations for step in trace.steps[:3])


@pytest.mark.parametrize(
    "edit",
    [
        {"kind": "worker_row", "request": "A", "column": 40, "value": 5},
        {"kind": "metadata", "field": "no_such_tensor", "index": [0], "value": 1},
        {"kind": "metadata", "field": "seq_lens", "index": [0, 0], "value": 1},
        {"kind": "metadata", "field": "seq_lens", "index": [7], "value": 1},
    ],
)
def test_an_edit_without_a_place_is_refused_in_words(edit: dict[str, object]) -> None:
    trace = edited(step=3, **edit)
    assert "refused" in trace.steps[3].actions[0]
    assert not trace.violations


def test_an_edit_of_nobody_is_refused_before_the_run() -> None:
    edit = Edit(step=0, kind="worker_row", request="Z", column=0, value=1)
    with pytest.raises(ScenarioError, match="there is no request 'Z'"):
        with_edit(PRESETS[DEFAULT_PRESET], edit)
