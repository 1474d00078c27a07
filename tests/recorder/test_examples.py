"""The recordings of real engines that the Watch page offers: small, told, and as they are told."""

from __future__ import annotations

import pytest

from mambaviz.recording.judge import Judge
from mambaviz.recording.reader import open_recording
from mambaviz.recording.steps import Gatherer
from tools.engine.examples import FOLDER, Example, examples

ALL = {example.plan.runs[0].name: example for example in examples()}


@pytest.mark.parametrize(("name", "example"), ALL.items())
def test_an_example_is_what_its_story_tells(name: str, example: Example):
    path = FOLDER / f"{name}.jsonl.gz"
    assert path.stat().st_size < 300_000
    reader = open_recording(path)
    with reader.stream:
        assert (reader.head.title, reader.head.story) == (example.title, example.story)
        judge, steps, wrong = Judge(reader.head), 0, []
        for step in Gatherer().steps(reader.lines()):
            steps += 1
            wrong += judge.step(step)
    assert reader.remarks == []
    assert steps >= 100
    if example.plan.runs[0].fault is None:
        assert wrong == []
    else:
        assert (wrong[0].rule, wrong[0].step) == ("boundary state", 60)


def test_no_other_examples_are_kept():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.jsonl.gz" for name in ALL}
