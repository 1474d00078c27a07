"""The tour: every stop stands on a recorded run, and says only what its run has."""

from __future__ import annotations

import re

import pytest

from mambaviz.pages.learn import recorded_trace
from mambaviz.tour import NAMES, STOPS, Moment, Seen, Stop, told
from mambaviz.trace import PHASES
from mambaviz.viz.payload import phase_events
from mambaviz.viz.views import frame_at

every = pytest.mark.parametrize("stop", STOPS, ids=NAMES)
SEEN_MOVING = {"migrate", "checkpoint", "hit", "preempted", "wrong"}


def frames_between(stop: Stop) -> list[tuple[int, int]]:
    """Step and phase number of every frame after the first moment, up to the second."""
    if stop.after is None:
        return []
    first, last = (
        moment.step * len(PHASES) + PHASES.index(moment.phase)
        for moment in (stop.before, stop.after)
    )
    assert first < last
    return [divmod(frame, len(PHASES)) for frame in range(first + 1, last + 1)]


@every
def test_no_number_is_written_by_hand(stop: Stop) -> None:
    for template in (stop.title, stop.ask, stop.told):
        text = re.sub(r"\{[^}]*\}", "", template)
        text = text.replace("V2", "").replace("− 1", "")  # a name, and a part of two formulas
        assert not re.search(r"\d", text), template


@every
def test_the_texts_are_whole(stop: Stop) -> None:
    texts = told(stop, recorded_trace(stop.scenario))
    for text in (texts.ask, texts.told):
        assert "None" not in text
        assert "{" not in text
        assert text.count("**") % 2 == 0
        assert len(text) < 300
    assert bool(texts.told) == (stop.after is not None)
    assert ("**Predict" in texts.ask) == (stop.after is not None)


@every
def test_what_moves_is_what_the_stop_says(stop: Stop) -> None:
    trace = recorded_trace(stop.scenario)
    seen = {
        event
        for step, phase in frames_between(stop)
        for event in phase_events(trace, trace.steps[step], phase)
    }
    # Other requests of the batch may move too; a stop about none of it says so.
    mine = {
        copy.kind
        for step, phase in frames_between(stop)
        for copy in trace.steps[step].phases[phase].copies
        if copy.request == stop.before.request and not copy.skipped
    }
    assert (seen & (SEEN_MOVING - {"migrate", "checkpoint"})) | mine == set(stop.moves)


def test_stops_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert 18 <= len(NAMES) <= 24


def test_the_texts_read_the_picture() -> None:
    stop = next(stop for stop in STOPS if stop.name == "checkpoint")
    trace = recorded_trace(stop.scenario)
    assert stop.after is not None
    cells = frame_at(trace, stop.after.step, stop.after.phase).lane("A", 0, 0).cells
    found = Seen(trace, stop.after)
    assert found.block == tuple(cell.block for cell in cells) == (1, 2, 3, 7, 9)
    assert found.h == (4, 8, 7, 8, 9)
    assert (found.copy.bias, found.copy.dst_block, found.copy.temporal_block) == (1, 2, 7)
    assert "block 7" in told(stop, trace).told


def test_what_a_moment_does_not_have_is_refused() -> None:
    trace = recorded_trace(STOPS[0].scenario)
    seen = Seen(trace, Moment(1, "forward", "A"))
    for name in ("copy", "count", "slot", "broken"):
        with pytest.raises(ValueError, match="step 1, forward of A"):
            getattr(seen, name)
