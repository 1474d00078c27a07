"""A saved state that is lost, one that is registered early, and a copy onto itself: in words."""

from __future__ import annotations

import pytest

from mambaviz import log
from mambaviz.engine import run
from mambaviz.history import History
from mambaviz.lifelines import lifelines
from mambaviz.scenario import Scenario, parse
from mambaviz.trace import Trace
from mambaviz.viz.tabs.lifelines import event_words
from mambaviz.viz.views import frames
from mambaviz.viz.words import words

STORY = """{"name": "Past the boundary", "requests": [
  {"id": "B", "prompt_len": 5, "max_tokens": 14, "accept": [2, 2, 0, 1, 2, 0]}]}"""


@pytest.fixture(scope="module")
def past() -> Trace:
    scenario: Scenario = parse(STORY)
    return run(scenario, backend="reference")


def said(trace: Trace, step: int, phase: str) -> str:
    for frame in frames(trace):
        if (frame.step.index, frame.phase.name) == (step, phase):
            return words(frame, "B", 0).plain
    raise KeyError(phase)


def test_a_checkpoint_that_is_never_registered_says_why(past: Trace) -> None:
    copy = next(c for c in past.steps[6].phase("post-copy").copies if c.state == "conv")
    assert "It is never registered: the next allocation lets go of it" in said(past, 6, "post-copy")
    lost = f"Block {copy.dst_block} of B was never registered, so its h(16) is lost"
    assert lost in said(past, 7, "allocate")
    life = next(life for life in lifelines(History(past)) if life.block == copy.dst_block)
    freed = next(event for event in life.events if event.kind == "freed")
    assert freed.lost == 16
    assert "the saved h(16) is lost: it was never registered" in event_words(freed)


def test_a_block_registered_before_its_bytes_says_what_it_holds(past: Trace) -> None:
    early = [
        event
        for life in lifelines(History(past))
        for event in life.events
        if event.kind == "registered" and event.holds is not None
    ]
    assert early
    for event in early:
        full = event.prefix == f"B@{event.holds}"
        assert ("It still holds" in event_words(event)) is not full


def test_a_copy_onto_itself_is_called_one_everywhere(past: Trace) -> None:
    copies = past.steps[6].phase("pre-copy").copies
    itself = [copy for copy in copies if copy.onto_itself]
    assert {copy.state for copy in itself} == {"temporal"}
    assert all("onto itself" in log.copy_text(copy) for copy in itself)
    assert "copied onto itself" in said(past, 6, "pre-copy")
    frame = next(f for f in frames(past) if (f.step.index, f.phase.name) == (6, "pre-copy"))
    assert frame.copies("B", 0)[0].temporal_stays
