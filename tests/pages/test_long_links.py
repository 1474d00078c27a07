"""A view whose link would be too long has none: a sentence says so, and JSON keeps it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.batch import BATCHES, DEFAULT_BATCH
from mambaviz.limits import LONGEST_LINK
from mambaviz.pages import state, watch
from mambaviz.pages.runs import RunStore
from mambaviz.pages.state import PACKED, PageState, from_link, short_enough, to_link, too_long
from mambaviz.scenario import Scenario, build
from tests.pages.test_runs import FakeEngine
from tests.pages.test_watch_page import APP, address


def wide(length: int) -> Scenario:
    """A scenario that does not pack well: random tokens."""
    rng = random.Random(length)
    prompt = [rng.randrange(10**9) for _ in range(length)]
    engine = {"max_model_len": 4_000, "num_blocks": 4_000, "max_num_batched_tokens": 4_000}
    return build({"engine": engine, "requests": [{"id": "A", "prompt": prompt}]})


def test_only_what_is_too_long_is_left_out_with_what_belongs_to_it() -> None:
    view = PageState(custom=wide(3_000), step=3, layer=1, backend="reference")
    batch = BATCHES[DEFAULT_BATCH].model_copy(update={"name": "mine"})
    link = to_link(view.changed(own_batch=batch))
    assert {"run", "step", "layer", "rows"} <= link.keys()
    found = too_long(link)
    assert found is not None
    assert found.name == "run"
    short = short_enough(link)
    assert short == {"backend": "reference", "rows": link["rows"]}
    assert len(urlencode(short)) <= LONGEST_LINK
    assert from_link(short) == (PageState(backend="reference", own_batch=batch), "")


def test_every_packed_parameter_is_known_and_goes_along_with_itself() -> None:
    assert all(one.name in one.with_it and one.name in state.READERS for one in PACKED)
    assert all(set(one.with_it) <= state.READERS.keys() for one in PACKED)


def test_a_scenario_that_fits_stays_in_the_link() -> None:
    link = to_link(PageState(custom=wide(300)))
    assert short_enough(link) is link


def test_a_link_that_is_too_long_says_so_and_shows_the_default() -> None:
    found, problem = from_link({"run": "x" * (LONGEST_LINK + 1), "step": "2"})
    assert found == PageState()
    assert "has 8,001 characters where 8,000 can be" in problem


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    fake = FakeEngine()
    store = RunStore(fake)
    monkeypatch.setattr(watch, "run_store", lambda: store)
    st.cache_resource.clear()
    yield AppTest.from_file(APP, default_timeout=30)
    fake.gate.set()


def test_the_page_says_that_there_is_no_link_and_what_keeps_the_scenario(app: AppTest) -> None:
    app.run()
    assert not [one for one in app.caption if "too long" in one.value]
    here = app.session_state["session"]
    here.state = here.state.showing(wide(3_000))  # as an opened file does
    here.written = [*here.written, short_enough(to_link(here.state))]
    app.run()
    assert not app.exception
    (said,) = [one.value for one in app.caption if "too long" in one.value]
    assert said.startswith("This view is too long for a link: ")
    assert "where 8,000 can be. The address leaves the scenario out; Save JSON keeps it." in said
    assert "run" not in address(app)
    assert app.session_state["session"].state.custom is not None  # and the view stays
