"""The page state is the link: there and back, and what a damaged link gets."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mambaviz.pages.state import (
    BACKEND_CHOICES,
    OPENINGS,
    PARTS,
    READERS,
    RECORDING_TABS,
    RUN_TABS,
    PageState,
    from_link,
    only_elsewhere,
    opened,
    pack,
    to_link,
    unpack,
)
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario, build
from mambaviz.trace import PHASES

OWN = build(
    {
        "name": "Mine: ü, ∅ & co",
        "engine": {"block_size": 8, "num_spec": 3, "retention": "boundary"},
        "requests": [
            {"id": "x", "prompt": [7, 8, 9], "accept": {"rate": 0.25, "seed": 3}},
            {"id": "y", "prompt_len": 4, "drafts": [3, 0], "accept": [1, 0, 2], "salt": "s"},
        ],
        "events": [{"step": 2, "kind": "preempt", "request": "x"}],
        "faults": ["bias-off-by-one"],
    }
)

states = st.builds(
    PageState,
    preset=st.sampled_from(sorted(PRESETS)),
    step=st.integers(0, 999_999),
    phase=st.sampled_from(PHASES),
    request=st.none() | st.text(min_size=1, max_size=40),
    layer=st.integers(0, 7),
    backend=st.sampled_from(BACKEND_CHOICES),
    theme=st.sampled_from([None, "light", "dark"]),
    details=st.booleans(),
    tab=st.sampled_from([None, *RUN_TABS, *RECORDING_TABS]),
    hide=st.lists(st.sampled_from(PARTS), unique=True).map(
        lambda parts: tuple(part for part in PARTS if part in parts)
    ),
)


@given(states)
def test_a_link_gives_its_view_back(state: PageState) -> None:
    assert from_link(to_link(state)) == (state, "")


def test_the_default_view_needs_no_parameters() -> None:
    assert to_link(PageState()) == {}
    assert from_link({}) == (PageState(), "")


def test_a_scenario_of_ones_own_travels_in_the_link() -> None:
    state = PageState(custom=OWN, step=3, phase="accept", request="y", layer=1)
    link = to_link(state)
    assert from_link(link) == (state, "")
    assert len(link["run"]) < 600
    assert link["run"].isascii()
    assert "=" not in link["run"]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"step": "x"}, "step “x”"),
        ({"tab": "hex"}, "tab “hex” is none of layers, "),
        ({"step": "-1"}, "step “-1”"),
        ({"step": "²"}, "step “²”"),
        ({"step": "9999999999"}, "step “9999999999”"),
        ({"layer": "1.5"}, "layer “1.5”"),
        ({"phase": "lunch"}, "phase “lunch”"),
        ({"preset": "gone"}, "preset “gone”"),
        ({"backend": "tpu"}, "back end “tpu”"),
        ({"theme": "pink"}, "theme “pink”"),
        ({"hide": "tabs,everything"}, "“everything”"),
        ({"foo": "1"}, "parameter “foo”"),
        ({"stpe": "3"}, "parameter “stpe”"),
        ({"x" * 900: "3"}, "parameter “" + "x" * 40 + "”"),
        ({"request": ""}, "has 0 characters"),
        ({"request": "r" * 41}, "41 characters"),
        ({"lesson": "t" * 81, "stops": ""}, "81 characters"),
    ],
)
def test_a_damaged_parameter_gets_its_default_and_a_sentence(
    params: dict[str, str], says: str
) -> None:
    state, problem = from_link(params)
    assert state == PageState()
    assert state.phase == "post-copy", "where the default preset opens"
    assert says in problem
    assert problem.endswith(".")
    assert "\n" not in problem


def test_the_rest_of_a_damaged_link_still_counts() -> None:
    state, problem = from_link({"preset": "plain-decode", "step": "x", "layer": "1"})
    assert state == opened(preset="plain-decode", layer=1)
    assert "step" in problem


def test_what_else_makes_no_sense_is_named() -> None:
    state, problem = from_link(
        {"preset": "no-such", "tab": "no-such", "colour": "red", "step": "1"}
    )
    assert state == PageState()
    assert "a preset “no-such”" in problem
    assert problem.endswith(" Nor does this make sense in it: tab, colour.")


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        (pack(OWN)[:-8], "end is missing"),
        ("!!!x", "damaged"),
        ("", "damaged"),
        (base64.urlsafe_b64encode(zlib.compress(b"\xff\xfe")).decode(), "damaged"),
        (base64.urlsafe_b64encode(zlib.compress(b"[1,")).decode(), "not JSON"),
        (base64.urlsafe_b64encode(zlib.compress(b"{}")).decode(), "requests"),
        (
            base64.urlsafe_b64encode(zlib.compress(b" " * 10**6)).decode(),
            "unpacks to more than 200,000",
        ),
        (base64.urlsafe_b64encode(zlib.compress(b" " * 10**7)).decode(), "12,988 characters"),
    ],
)
def test_a_damaged_scenario_gives_the_default_preset_from_its_start(packed: str, says: str) -> None:
    state, problem = from_link({"run": packed, "step": "3", "request": "x", "backend": "reference"})
    assert state == PageState(backend="reference")
    assert says in problem
    assert PRESETS[DEFAULT_PRESET].name in problem


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_a_preset_opens_where_its_story_is(slug: str) -> None:
    state, problem = from_link({"preset": slug})
    assert problem == ""
    assert (state.step, state.phase) == OPENINGS[slug]
    start, _ = from_link({"preset": slug, "step": "0", "phase": "schedule"})
    assert (start.step, start.phase) == (0, "schedule")
    assert from_link(to_link(start)) == (start, "")


def test_streamlits_own_parameters_are_no_damage() -> None:
    assert from_link({"embed": "true", "utm_source": "mail"}) == (PageState(), "")


@given(st.dictionaries(st.sampled_from([*READERS, "foo"]), st.text(max_size=60), max_size=4))
def test_no_link_breaks_the_page(params: dict[str, str]) -> None:
    state, problem = from_link(params)
    assert "\n" not in problem
    assert from_link(to_link(state)) == (state, "")


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_every_preset_survives_packing(slug: str) -> None:
    assert unpack(pack(PRESETS[slug])) == PRESETS[slug]


def test_showing_a_presets_own_content_is_showing_the_preset() -> None:
    copy = Scenario.model_validate_json(PRESETS["plain-decode"].model_dump_json())
    at_the_end = PageState(step=4, phase="commit", layer=1, backend="reference")
    assert at_the_end.showing(copy) == opened(preset="plain-decode", backend="reference")
    assert at_the_end.showing(OWN) == PageState(
        custom=OWN, opening=True, backend="reference", step=0, phase="schedule"
    )
    assert at_the_end.showing(OWN).showing(copy).custom is None


def test_the_state_refuses_what_it_cannot_show() -> None:
    with pytest.raises(ValidationError, match="no preset"):
        PageState(preset="gone")
    with pytest.raises(ValidationError):
        PageState().changed(phase="lunch")


def test_a_copied_link_leaves_out_what_only_other_pages_show() -> None:
    assert "rows" in only_elsewhere("Watch")
    assert "rows" not in only_elsewhere("Metadata")
    assert not {"run", "step", "request"} & set(only_elsewhere("Kernels"))
