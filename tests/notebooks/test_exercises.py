"""The exercises: asked without an answer in sight, right accepted, wrong refused with a hint."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mambaviz.exercises import EXERCISES, Prediction, Puzzle, Reading, check
from tools.run_notebooks import notebooks

READINGS = [key for key, found in EXERCISES.items() if isinstance(found, Reading)]
PREDICTIONS = [key for key, found in EXERCISES.items() if isinstance(found, Prediction)]
PUZZLES = [key for key, found in EXERCISES.items() if isinstance(found, Puzzle)]


def test_every_exercise_stands_in_its_notebook():
    asked = []
    for path in notebooks():
        asked += re.findall(r'check\(\\"(\d\d\.\d)\\"', path.read_text(encoding="utf-8"))
    assert list(dict.fromkeys(asked)) == list(EXERCISES)


@pytest.mark.parametrize("key", EXERCISES)
def test_without_an_answer_it_asks(key: str):
    verdict = check(key)
    assert verdict.right is None
    assert "not answered yet" in repr(verdict)
    assert len(verdict.text) > 20


def test_an_exercise_that_is_not_there_is_named():
    with pytest.raises(KeyError, match=r"99\.9"):
        check("99.9", 1)


@pytest.mark.parametrize("key", READINGS)
def test_readings(key: str):
    found = EXERCISES[key]
    assert isinstance(found, Reading)
    right = found.right()
    assert check(key, right).right
    for wrong in (wrong_for(right), "nonsense"):
        verdict = check(key, wrong)
        assert verdict.right is False
        assert found.hint in verdict.text
        assert str(right) not in verdict.text or len(str(right)) < 3


def wrong_for(right: Any) -> Any:
    if isinstance(right, list):
        return [*right, 7]
    return right + 1 if isinstance(right, int) else right + "?"


@pytest.mark.parametrize("key", PREDICTIONS)
def test_predictions_are_refused_with_a_hint(key: str):
    found = EXERCISES[key]
    assert isinstance(found, Prediction)
    assert check(key, 99).right is False
    assert check(key, "block 1").right is False


def test_a_prediction_is_judged_by_the_kernels():
    found = EXERCISES["04.1"]
    assert isinstance(found, Prediction)
    right = found.asked.answer + 1
    for answer in range(1, len(found.asked.choices) + 1):
        verdict = check("04.1", answer)
        assert verdict.right is (answer == right)
        assert (found.asked.why == verdict.text) is (answer == right)


# What a reader might write. The checker knows none of it: it asks the kernels.


def checkpoint(computed, scheduled, drafts, accepted, column, block_size):
    running = computed + scheduled - drafts
    aligned = (running + accepted - 1) // block_size * block_size
    target, bias = aligned // block_size - 1, aligned - running
    if aligned < running or (target == column and bias == 0):
        return None
    return [target, bias, 1 if target == column else accepted]


def next_column(computed, query, accepted, old_column, block_size):
    column = -(-(computed + query) // block_size) - 1
    return [column, accepted if column == old_column else 1]


def num_decodes(rows, threshold):
    for index, (computed, query, prefilling) in enumerate(rows):
        if query > threshold or (prefilling and not (computed and query == 1)):
            return index
    return len(rows)


def chunk_ends(rows, chunk_size):
    ends, start = [0], 0
    for computed, query in rows:
        done = 0
        while done < query:
            done = min(query, ((computed + done) // chunk_size + 1) * chunk_size - computed)
            ends.append(start + done)
        start += query
    return ends


def ring(computed, base, block_size, length):
    anchor = max(base, computed // block_size * block_size)
    write_pos = (computed - anchor) % length
    return [write_pos, write_pos == length - 1 or (computed + 1) % block_size == 0]


SOLUTIONS = {
    "05.2": (checkpoint, lambda **a: checkpoint(**{**a, "accepted": a["accepted"] + 1})),
    "06.3": (next_column, lambda **a: [next_column(**a)[0], 1]),
    "07.2": (num_decodes, lambda rows, threshold: num_decodes(rows, 1)),
    "08.2": (
        chunk_ends,
        lambda rows, chunk_size: chunk_ends([(0, q) for _, q in rows], chunk_size),
    ),
    "11.1": (ring, lambda **a: ring(**{**a, "block_size": 1000})),
}


@pytest.mark.parametrize("key", PUZZLES)
def test_puzzles(key: str):
    right, wrong = SOLUTIONS[key]
    assert check(key, right).right, check(key, right)
    verdict = check(key, wrong)
    assert verdict.right is False
    assert "yours gives" in verdict.text
    assert check(key, lambda **_: None).right is False
    assert check(key, 3).right is False
