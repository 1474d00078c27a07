"""The slots of the V2 runner: which request gets which one does not depend on a set's order."""

from __future__ import annotations

from mambaviz.scenario import build
from tests.engine.reports import Play

EARLY, LATE = ("A", "B", "C", "D"), ("E", "F", "G", "H")


def test_slots_that_are_freed_together_are_taken_again_from_the_highest() -> None:
    """Four requests leave in one step; a set gives them back in any of 24 orders."""
    early = [{"id": name, "prompt_len": 3, "max_tokens": 1} for name in EARLY]
    late = [{"id": name, "prompt_len": 3, "max_tokens": 2, "arrive": 1} for name in LATE]
    engine = {"runner": "v2", "max_num_seqs": 4, "num_blocks": 64}
    play = Play(build({"engine": engine, "requests": [*early, *late]}))
    play.run(1)
    assert play.v2.slots == {"A": 3, "B": 2, "C": 1, "D": 0}
    play.run(2)
    assert play.v2.slots == {"E": 3, "F": 2, "G": 1, "H": 0}
