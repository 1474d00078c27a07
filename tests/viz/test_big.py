"""How a run travels to the browser, and how large numbers are set.

The largest promised run itself is in tests/browser/test_watch_big.py, computed once for all.
"""

from __future__ import annotations

import pytest

from mambaviz.trace import Trace
from mambaviz.viz import lanes
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.scene import Text
from mambaviz.viz.theme import LANES
from mambaviz.viz.views import BlockView

MOST_CHARACTERS = 20_000_000
MOST_PACKED = 3_500_000


def test_a_short_run_travels_as_it_is(watch: Trace) -> None:
    payload = stage_payload(watch)
    assert payload.packed == payload.text


def test_progress_counts_the_steps_and_may_end_the_drawing(watch: Trace) -> None:
    seen: list[int] = []
    stage_payload(watch, seen.append)
    assert seen == list(range(1, len(watch.steps) + 1))

    def enough(done: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        stage_payload(watch, enough)


@pytest.mark.parametrize(
    ("block", "absorbed", "role", "size"),
    [(8, 6, "running", "id"), (143, 168, "running", "id close"), (143, 168, "cached", "id close")],
)
def test_three_digits_each_are_set_closer(block, absorbed, role, size) -> None:
    cell = BlockView(3, block, role, absorbed, (165, 166, 167), 0)
    width = LANES.wide_column - 4
    number, letter, state = (
        p
        for p in lanes.block_body(cell, width, 43).parts
        if isinstance(p, Text) and p.cls != "win s12"
    )
    assert number.cls == size
    # As wide as a wide font sets them: neither may meet its neighbour.
    digit, per_letter = (9.05, 7.45) if size == "id close" else (10.8, 7.9)
    assert number.x + digit * len(str(block)) <= letter.x
    assert letter.x + 9.3 <= state.x - per_letter * len(state.text)
