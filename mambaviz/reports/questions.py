"""Something to predict before a report's reveal. The answer is what the runs say, never a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mambaviz.scenario import Scenario
from mambaviz.trace import Tables

if TYPE_CHECKING:
    from mambaviz.reports.model import Replay


@dataclass(frozen=True)
class Question:
    """``answer`` is the index of the right choice; ``because`` is shown with it."""

    text: str
    choices: tuple[str, ...]
    answer: int
    because: str


@dataclass(frozen=True)
class _Guess:
    """A question for a number of the run with the mistake (`measures`); ``choices`` are plausible
    values of it."""

    text: str
    number: str
    choices: tuple[str, ...]


_GUESSES: Mapping[str, _Guess] = {
    "S01": _Guess(
        "A resumes in step 3 with nothing computed, on two blocks. Which columns does the worker "
        "take for its previous and its current one? (-1: it has none.)",
        "previous, current column",
        ("-1, 1", "0, 1", "1, 1", "3, 1"),
    ),
    "S02": _Guess(
        "Column 2 holds the state, 4 tokens were accepted, the row has 5 columns. What becomes of "
        "the temporal copy of step 2?",
        "pre-copy temporal",
        (
            "col 2 → col 3",
            "col 4 → col 3",
            "col 5 → col 3",
            "source column 5 is outside the row of 5 columns",
        ),
    ),
    "S03": _Guess(
        "The window holds t3 t4 t5 t6 t7 and slides by 2, last row first. What does it hold then?",
        "tokens in them",
        ("t5 t6 t7 t6 t7", "t5 t6 t7 t3 t4", "t7 t6 t7 t6 t7", "t7 t7 t7 t7 t7"),
    ),
    "S04": _Guess(
        "Two layers with two state tensors each. The first program resets the count that the "
        "others read. How many of the four states move?",
        "states that moved",
        ("0", "1", "2", "4"),
    ),
    "S05": _Guess(
        "X has slot 1 and batch row 0, Z slot 0 and row 1. The table is read at X's slot. Whose "
        "column 1 does the checkpoint of X write?",
        "whose column 1 is written in our run",
        ("X", "Z", "X, Z", "nobody's"),
    ),
    "S09": _Guess(
        "A prompt of 32 tokens is asked twice; blocks have 16. How many tokens does the second "
        "one find in the cache?",
        "hit of 32",
        ("0", "16", "31", "32"),
    ),
    "S11": _Guess(
        "C has 7 tokens, and its count of 2 has become 1. Which state does the pre-copy put into "
        "its new column?",
        "C's state then",
        ("h(5)", "h(6)", "h(7)", "h(8)"),
    ),
    "S13": _Guess(
        "A is at 9 tokens and B at 5; blocks have 4. Which columns does the second group write to?",
        "last scheduled column, group 1",
        ("2, 1", "1, 1", "1, 0", "0, 0"),
    ),
    "S14": _Guess(
        "One live row with block 4 and three padding rows, whose table rows still begin with 7, 9 "
        "and 0. Which blocks do the state indices name?",
        "state indices",
        ("4, 0, 0, 0", "4, 7, 9, 0", "4, 8, 0, 0", "4, 4, 4, 4"),
    ),
    "S16": _Guess(
        "B's block belonged to a request of one token before. B computes its first token as a "
        "decode. How many tokens does its state say it has absorbed?",
        "B's state after one token",
        ("h(0)", "h(1)", "h(2)", "h(9)"),
    ),
    "S17": _Guess(
        "Two rows of one token: A decodes, B computes its last prompt token. How many decodes and "
        "prefills does the flag alone make of them?",
        "decodes, prefills",
        ("2, 0", "1, 1", "0, 2"),
    ),
    "S20": _Guess(
        "Chunks of 4 end at 4, 8, 12 and 14; blocks have 6. Which states does a kernel store that "
        "takes every (6 // 4)-th chunk for a boundary?",
        "states in the blocks",
        ("h(6), h(12)", "h(4), h(8)", "h(8), h(12)", "h(8), h(14)"),
    ),
    "S24": _Guess(
        "At 8 tokens a new block begins, and its ring is empty. How many entries are replayed "
        "(position), and is the state written (flush)?",
        "at 8 computed: position, flush",
        ("0, 0", "0, 1", "2, 0", "2, 1"),
    ),
    "S26": _Guess(
        "Three tokens were kept in step t. Step t + 1 has no drafts. Which column does it read?",
        "column read in t + 1",
        ("0", "1", "2", "3"),
    ),
    "S29": _Guess(
        "Two channels, a0 to a3 and b0 to b3, slide by one token, copied as if they were SD. What "
        "arrives in channel a?",
        "channel a then",
        ("a1 a2 a3 *", "a1 a2 a3 b0", "b0 b1 b2 b3", "b1 b2 b3 *"),
    ),
    "S33": _Guess(
        "A row of 17 blocks is written into a table of 2 rows and 16 columns. Which block lands "
        "in the next request's row?",
        "spilt into the next row",
        ("nothing", "1", "16", "17"),
    ),
    "S36": _Guess(
        "A has 5 new tokens, B 9; chunks have 4. Where does a fixed grid cut?",
        "chunks",
        ("0, 4, 5, 7, 11, 14", "0, 4, 8, 12, 14", "0, 4, 5, 9, 13, 14", "0, 5, 14"),
    ),
    "S37": _Guess(
        "Blocks have 16, the budget is 8. How many tokens does A get in step 0?",
        "tokens of A in step 0",
        ("0", "4", "8", "16"),
    ),
}


def question_of(replay: Replay) -> Question:
    """The question for a report; which block goes wrong, where no number is asked for."""
    guess = _GUESSES.get(replay.report.id)
    return _which_block(replay) if guess is None else _which_value(replay, guess)


def _which_value(replay: Replay, guess: _Guess) -> Question:
    right = replay.measured(with_fault=False)[guess.number]
    wrong = replay.measured(with_fault=True)[guess.number]
    return Question(
        guess.text,
        guess.choices,
        guess.choices.index(wrong),
        f"{guess.number}: {wrong}, where it should be {right}.",
    )


def _which_block(replay: Replay) -> Question:
    """The block that the first broken invariant names, among all that stand in a row then."""
    found, wrong = replay.first_violation, replay.wrong
    assert found is not None
    assert wrong is not None
    assert found.block is not None
    places = _places(wrong.tables_after(found.step, "accept"), wrong.scenario)
    places.setdefault(found.block, "in nobody's row")
    blocks = sorted(places)
    return Question(
        f"By the end of step {found.step}, which block holds something else than it should?",
        tuple(f"block {block} ({places[block]})" for block in blocks),
        blocks.index(found.block),
        f"{found.invariant}: {found.message}.",
    )


def _places(tables: Tables, scenario: Scenario) -> dict[int, str]:
    """Every block of a Mamba group that stands in a worker's row, and where."""
    places: dict[int, str] = {}
    for request, table in tables.rows.items():
        for row in table.worker_row[: scenario.engine.num_mamba_groups]:
            for column, block in enumerate(row):
                if block:
                    places.setdefault(block, f"{request}, column {column}")
    return places
