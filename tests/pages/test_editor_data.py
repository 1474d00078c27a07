"""The editor's contents: every field is there, text for lists there and back, one sentence."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mambaviz.pages.editor_data import (
    EVENT_HELP,
    EVENT_KINDS,
    KNOBS,
    REQUEST_HELP,
    EventRow,
    FieldError,
    RequestRow,
    format_accept,
    format_drafts,
    format_tokens,
    parse_accept,
    parse_drafts,
    parse_tokens,
    read_draft,
    rows_from,
    to_draft,
)
from mambaviz.scenario import (
    DEFAULT_PRESET,
    PRESETS,
    AcceptanceRate,
    EngineSettings,
    Event,
    LayerSettings,
    RequestPlan,
)
from tests.pages.test_state import OWN


def test_every_field_of_a_scenario_can_be_edited() -> None:
    for section, model in (("engine", EngineSettings), ("layer", LayerSettings)):
        names = [knob.name for knob in KNOBS if knob.section == section]
        assert sorted(names) == sorted(model.model_fields)
    assert set(REQUEST_HELP) == set(RequestPlan.model_fields)
    assert set(REQUEST_HELP) == {field.name for field in fields(RequestRow)}
    assert set(EVENT_HELP) == set(Event.model_fields)
    assert set(EVENT_HELP) == {field.name for field in fields(EventRow)}
    assert EVENT_KINDS == ("preempt", "abort", "reset", "reset_running")


@pytest.mark.parametrize("scenario", [OWN, *PRESETS.values()], ids=lambda scenario: scenario.name)
def test_a_scenario_survives_the_editor(scenario) -> None:
    assert read_draft(to_draft(scenario)) == scenario


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("mode", "none or align or all"),
        ("block_size", "1 to 65536"),
        ("num_blocks", "2 to 4096"),
        ("num_mamba_groups", "1 to 4"),
        ("prefill_chunk_limit", "1 to 65536, or empty"),
        ("retention", "dense, boundary, or a number from 1"),
        ("conv_kernel", "2 to 4"),
        ("allow_unsound", "on or off"),
        ("seed", "0 or more"),
    ],
)
def test_the_allowed_range_is_the_models(name: str, allowed: str) -> None:
    assert next(knob for knob in KNOBS if knob.name == name).allowed == allowed


@given(st.lists(st.integers(0, 99_999)))
def test_token_lists_there_and_back(tokens: list[int]) -> None:
    assert parse_tokens(format_tokens(tokens)) == (tokens or None)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1000..1003", [1000, 1001, 1002, 1003]),
        ("1-3, 7", [1, 2, 3, 7]),
        (" [7, 8,9] ", [7, 8, 9]),
        ("5", [5]),
        ("  ", None),
    ],
)
def test_token_text(text: str, tokens: list[int] | None) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize("text", ["7,x", "9..3", "1..9999999", "-4", "1.5"])
def test_token_text_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_tokens(text)


@pytest.mark.parametrize(
    ("text", "accept"),
    [
        ("", "all"),
        ("ALL", "all"),
        (" none ", "none"),
        ("2,0,1", [2, 0, 1]),
        ("2", [2]),
        ("[1; 0]", [1, 0]),
        ("rate 0.7", AcceptanceRate(rate=0.7)),
        ("rate=.5 seed=3", AcceptanceRate(rate=0.5, seed=3)),
        ("70% seed 9", AcceptanceRate(rate=0.7, seed=9)),
    ],
)
def test_acceptance_text(text: str, accept) -> None:
    assert parse_accept(text) == accept
    assert parse_accept(format_accept(accept)) == accept


@pytest.mark.parametrize(
    ("text", "says"), [("some", "'some'"), ("rate 1.2", "more than"), ("1,x", "'x'")]
)
def test_acceptance_text_that_makes_no_sense(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_accept(text)


@pytest.mark.parametrize(("text", "drafts"), [("", None), ("all", None), ("2", 2), ("2 0", [2, 0])])
def test_draft_text(text: str, drafts) -> None:
    assert parse_drafts(text) == drafts
    assert parse_drafts(format_drafts(drafts)) == drafts


def broken(change):
    draft = to_draft(PRESETS[DEFAULT_PRESET])
    change(draft)
    with pytest.raises(FieldError) as caught:
        read_draft(draft)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("engine.block_size", 0, "allowed 1 to 65536"),
        ("engine.block_size", None, "engine.block_size"),
        ("engine.num_spec", 5, "1 + num_spec"),
        ("engine.retention", "sometimes", "engine.retention"),
        ("layer.num_layers", 9, "allowed 1 to 8"),
    ],
)
def test_a_wrong_setting_is_named(path: str, value, says: str) -> None:
    error = broken(lambda draft: draft.settings.update({path: value}))
    assert error.field == path
    assert says in str(error)


def test_wrong_text_in_a_table_is_named_by_row() -> None:
    error = broken(lambda draft: setattr(draft.requests[1], "accept", "maybe"))
    assert error.field == "requests[1]"
    assert "(B): accept" in str(error)


def test_more_than_can_be_accepted_is_named_by_row() -> None:
    error = broken(lambda draft: setattr(draft.requests[1], "accept", "3"))
    assert error.field == "requests[1]"


def test_an_event_for_nobody_is_named() -> None:
    error = broken(lambda draft: draft.events.append(EventRow(1, "abort", "Z")))
    assert error.field == "events[0]"
    assert "'Z'" in str(error)


def test_no_requests_at_all() -> None:
    assert broken(lambda draft: draft.requests.clear()).field == "requests"


def test_empty_cells_of_a_table_take_the_default() -> None:
    rows = rows_from(
        [{"id": "A", "prompt": None, "prompt_len": 3, "max_tokens": None, "salt": ""}], RequestRow
    )
    assert rows == [RequestRow(id="A", prompt_len=3)]
