"""What the Try section makes of a run: verifications to change, numbers to edit, scenarios."""

from __future__ import annotations

import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mambaviz.pages import try_out
from mambaviz.pages.runs import recorded
from mambaviz.pages.try_out import edited, nearest, verifications
from mambaviz.scenario import DEFAULT_PRESET, Edit, ScenarioError
from mambaviz.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    run = recorded(DEFAULT_PRESET)
    assert run is not None
    return run.trace


def test_every_verification_of_drafts_can_be_changed(trace: Trace) -> None:
    found = verifications(trace)
    assert [(one.step, one.request, one.kept) for one in found] == [
        (2, "A", 1),
        (2, "B", 2),
        (3, "A", 2),
        (3, "B", 0),
        (4, "A", 0),
        (4, "B", 2),
    ]
    assert found[2].words == "step 3, A: keeps 2 of 2"


@pytest.mark.parametrize(
    ("step", "request_id", "wanted"), [(0, "B", (2, "B")), (3, "A", (3, "A")), (9, "B", (4, "B"))]
)
def test_the_one_on_screen_is_offered_first(
    trace: Trace, step: int, request_id: str, wanted: tuple[int, str]
) -> None:
    found = verifications(trace)
    chosen = found[nearest(found, step, request_id)]
    assert (chosen.step, chosen.request) == wanted


def test_an_edit_names_the_scenario(trace: Trace) -> None:
    row = Edit(step=3, kind="worker_row", request="A", column=2, value=0)
    assert edited(trace.scenario, row).name == (
        "Drafts meet the boundary, block 0 in column 2 of A, step 3"
    )
    entry = Edit(step=3, kind="metadata", field="state_indices_tensor_d", index=[0, 1], value=5)
    made = edited(trace.scenario, entry)
    assert made.name == "Drafts meet the boundary, state_indices_tensor_d[0, 1] = 5, step 3"
    assert made.edits == [entry]


def test_an_edit_that_cannot_be_is_refused(trace: Trace) -> None:
    with pytest.raises(ScenarioError, match="Mamba groups"):
        edited(
            trace.scenario, Edit(step=0, kind="metadata", group=3, field="x", index=[0], value=1)
        )


def test_what_the_browser_cannot_have_chosen_is_the_first_there_is(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label of before comes through as its text, a number of another run as it is."""
    monkeypatch.setattr(st, "selectbox", lambda *_, **__: "gone")
    monkeypatch.setattr(DeltaGenerator, "selectbox", lambda *_, **__: "gone")
    monkeypatch.setattr(DeltaGenerator, "number_input", lambda *_, **__: 10**9)
    step = trace.steps[0]
    row, tensor = try_out._row_entry(trace, step), try_out._tensor_entry(step)
    assert row is not None
    assert tensor is not None
    assert row[0]["request"] in step.requests
    assert isinstance(row[0]["column"], int)
    assert set(tensor[0]["index"]) == {0}
