"""The exercises of the notebooks, and the checker that asks the kernels.

No solution is written down here: the right answer comes out of a run or a launch made for the
exercise. There are three kinds.

    Prediction   a generated question (`mambaviz.questions`) with a fixed seed
    Reading      a value to read off or work out; the engine says what it is
    Puzzle       a function to write; the kernel or the builder does the same on random inputs

`check("05.1", answer)` says right, or what to look at again. Keys begin with the notebook's number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mambaviz import engine
from mambaviz.batch import BATCHES, Batch, BatchError
from mambaviz.batch import build as build_batch_data
from mambaviz.batch_build import build_batch
from mambaviz.batch_record import BatchRecord
from mambaviz.comparisons import MODES, RUNNERS, varied
from mambaviz.costs import costs
from mambaviz.launches.inputs import LAUNCHES, LaunchInputs
from mambaviz.launches.inputs import build as build_launch
from mambaviz.launches.run import launch
from mambaviz.questions import Question, question
from mambaviz.reports import REPORTS
from mambaviz.scenario import PRESETS, EngineSettings, RequestPlan, Scenario
from mambaviz.trace import Trace, window_rows

CASES = 12  # random inputs of a puzzle


# --------------------------------------------------------------------------------------
# What a reader sees
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """``right`` is None while there is no answer."""

    key: str
    right: bool | None
    text: str

    def __repr__(self) -> str:
        head = {None: "not answered yet", True: "right", False: "not yet"}[self.right]
        return f"{self.key}: {head}. {self.text}".rstrip()


def check(key: str, answer: object = None) -> Verdict:
    """Judge an answer. Without one it asks. Raises KeyError for an exercise that is not there."""
    if key not in EXERCISES:
        raise KeyError(f"no exercise {key!r}; there are {', '.join(EXERCISES)}")
    found = EXERCISES[key]
    if answer is None or answer is ...:
        return Verdict(key, None, found.task)
    return found.judge(key, answer)


# --------------------------------------------------------------------------------------
# The three kinds
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """A generated question; the answer is the number of a choice, counted from 1."""

    topic: str
    seed: int

    @property
    def asked(self) -> Question:
        return _question(self.topic, self.seed, "reference")

    @property
    def task(self) -> str:
        asked = self.asked
        choices = [f"  {number}  {text}" for number, text in enumerate(asked.choices, start=1)]
        return "\n".join([asked.text, *choices])

    def judge(self, key: str, answer: object) -> Verdict:
        last = len(self.asked.choices)
        if not isinstance(answer, int) or not 1 <= answer <= last:
            return Verdict(key, False, f"The answer is the number of a choice, 1 to {last}.")
        by_kernels = _question(self.topic, self.seed, "auto")
        if answer - 1 != by_kernels.answer:
            return Verdict(key, False, _HINTS[self.topic])
        return Verdict(key, True, by_kernels.why)


@cache
def _question(topic: str, seed: int, backend: engine.Backend) -> Question:
    return question(topic, seed, backend)


_HINTS = {
    "forward": "Find the running column first: it covers the last query token. Then count on.",
    "blocks": "Work out the target column before you look for a block, and whether a boundary is "
    "reached at all.",
    "bias": "Before a forward it counts from the accepted tokens, after one from the boundary.",
    "columns": "The source is where the state is worked on; the target covers the tokens wanted.",
    "counts": "Ask whether the state lies at row 0 of the block that the next step reads.",
    "metadata": "Start from the column that covers the last token of the step.",
    "chunks": "A state is wanted at multiples of the chunk size of each request, not of the batch.",
    "hits": "One token is always computed, and a state can't be shortened.",
    "modes": "Say first which columns of the row must have a block of their own in this mode.",
}


@dataclass(frozen=True)
class Reading:
    """A value; ``right`` runs what is needed to know it."""

    task: str
    right: Callable[[], Any]
    hint: str

    def judge(self, key: str, answer: object) -> Verdict:
        right = self.right()
        if _plain(answer) == _plain(right):
            return Verdict(key, True, "The run says the same.")
        return Verdict(key, False, f"{_size_hint(answer, right)}{self.hint}")


def _plain(value: object) -> object:
    """Lists and tuples alike, sets in order."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _size_hint(answer: object, right: object) -> str:
    if isinstance(right, list | tuple | set):
        if not isinstance(answer, list | tuple | set):
            return f"A list of {len(right)} values is wanted. "
        return f"It has {len(right)} values. " if len(answer) != len(right) else ""
    numbers = isinstance(answer, int | float) and isinstance(right, int | float)
    return f"It is {'less' if answer > right else 'more'}. " if numbers else ""  # type: ignore


@dataclass(frozen=True)
class Case:
    """Arguments of a puzzle by name, and what the kernel or the builder made of them."""

    arguments: dict[str, Any]
    right: Any


@dataclass(frozen=True)
class Puzzle:
    """A function to write. ``by`` names who is asked; the first case that differs is shown."""

    task: str
    cases: Callable[[], Sequence[Case]]
    by: str

    def judge(self, key: str, answer: object) -> Verdict:
        if not callable(answer):
            return Verdict(key, False, "The answer is a function: its name, without brackets.")
        found = self.cases()
        for number, case in enumerate(found):
            given = answer(**case.arguments)
            if _plain(given) != _plain(case.right):
                told = ", ".join(f"{name} = {value}" for name, value in case.arguments.items())
                passed = (
                    f" {number} of {len(found)} cases came out right before it." if number else ""
                )
                return Verdict(
                    key,
                    False,
                    f"For {told} yours gives {given}, {self.by} {case.right}.{passed}",
                )
        return Verdict(key, True, f"{len(found)} random cases, the same as {self.by} each time.")


# --------------------------------------------------------------------------------------
# Runs that readings look at
# --------------------------------------------------------------------------------------


@cache
def preset(name: str) -> Trace:
    """A preset, by the kernels of this process."""
    return engine.run(PRESETS[name])


GROWING = Scenario(
    name="One request, two kinds of memory",
    engine=EngineSettings(num_spec=0, attention_group=True, num_blocks=12),
    requests=[RequestPlan(id="A", prompt_len=6, max_tokens=12)],
)
"""Notebook 01: a Mamba group beside an attention group."""


@cache
def growing() -> Trace:
    return engine.run(GROWING)


def attention_blocks(trace: Trace, step: int) -> int:
    """Blocks of the attention group that request A holds after a step has allocated."""
    row = trace.tables_after(step, "allocate").rows["A"]
    return sum(block > 0 for block in row.block_list[-1])


@cache
def _with_smaller_blocks() -> Trace:
    settings = GROWING.engine.model_copy(update={"block_size": 2, "num_blocks": 24})
    return engine.run(GROWING.model_copy(update={"engine": settings}))


@cache
def _skipped_by(shared: int) -> int:
    """Tokens that B skips in the preset a-shared-prefix if only ``shared`` are those of A."""
    scenario = PRESETS["a-shared-prefix"]
    first, second = scenario.requests
    assert second.prompt is not None
    prompt = [
        token if index < shared else 2000 + index for index, token in enumerate(second.prompt)
    ]
    requests = [first, second.model_copy(update={"prompt": prompt})]
    trace = engine.run(scenario.model_copy(update={"requests": requests}))
    return next(step.requests["B"].num_computed for step in trace.steps if "B" in step.requests)


def _pieces() -> list[int]:
    """Number of pieces, bytes in each, and bytes from one to the next, of a DS shift by 1."""
    inputs = build_launch(
        {
            "layout": "DS",
            "layers": 1,
            "channels": 8,
            "rows": [
                {"request": "A", "computed": 6, "scheduled": 3, "drafts": 2, "accepted": 2,
                 "state_idx": 2, "blocks": [1, 2, 3, 7, 9]}
            ],
        }
    )  # fmt: skip
    source = launch(inputs).programs[0].source
    assert source is not None
    return [source.rows, source.length, source.stride]


def _window_of_b() -> list[int | None]:
    trace = preset("drafts-meet-the-boundary")
    row = trace.tables_after(2, "accept").rows["B"]
    assert row.state_col is not None
    raw = trace.contents_after(2, "forward")[0, "conv", row.worker_row[0][row.state_col]]
    rows = window_rows(trace.spec_of[0, "conv"].decode(raw), trace.scenario.engine.layout)
    begin, width = row.num_accepted - 1, trace.scenario.layer.conv_kernel - 1
    return rows[begin : begin + width]


def _migrate_bias() -> int | None:
    trace = preset("accepted-past-the-boundary")
    for step in trace.steps:
        for decision in step.phase("pre-copy").decisions:
            if decision.copies:
                return decision.bias
    raise AssertionError("the preset migrates")


def _rows_broken() -> list[int]:
    """Rows that come out wrong when a shift by 2 runs from the last row to the first."""
    program = launch(LAUNCHES["every-outcome"]).first
    right = next(strip for strip in program.orders[1:] if strip.right)
    wrong = next(strip for strip in program.orders[1:] if not strip.right)
    both = zip(wrong.rows, right.rows, strict=True)
    return [row for row, (found, wanted) in enumerate(both) if found != wanted]


def _held(mode: str, step: int) -> int:
    scenario = varied(PRESETS["accepted-past-the-boundary"], MODES, mode)
    return costs(engine.run(scenario))[step].blocks_held


@cache
def _on_runner(runner: str) -> Trace:
    scenario = PRESETS["drafts-meet-the-boundary"]
    return engine.run(varied(scenario, RUNNERS, runner))


def _copied(runner: str) -> int:
    return sum(cost.bytes_copied for cost in costs(_on_runner(runner)))


def _launches_before(runner: str) -> list[str]:
    found = [step.phase("pre-copy").launches for step in _on_runner(runner).steps]
    return sorted({one.kernel for launches in found for one in launches})


def _padding_indices() -> list[int]:
    record = build_batch(BATCHES["graph-padding"])
    return list(record.numbers("state_indices_tensor_d")[-1])


def _last_row_start() -> int:
    return int(build_batch(BATCHES["graph-padding"]).numbers("query_start_loc_d")[-1])


def _report_step() -> int:
    found = REPORTS["S04"].replay().first_violation
    assert found is not None
    return found.step


def _report_invariant() -> str:
    found = REPORTS["S04"].replay().first_violation
    assert found is not None
    return found.invariant


def _program_count() -> int:
    grid = launch(LAUNCHES["every-outcome"]).grid
    return grid[0] * grid[1]


def _bytes_moved() -> int:
    return launch(LAUNCHES["into-a-new-block"]).num_bytes


# --------------------------------------------------------------------------------------
# Cases for puzzles
# --------------------------------------------------------------------------------------


def _checkpoints() -> list[Case]:
    """The kernel of section 3.2 on random counts, one request a row, all of them in one launch.

    What it did is read from its programs and from the count array after it.
    """
    rng = random.Random(5)
    size, rows = 4, []
    for index in range(CASES):
        drafts = rng.randint(0, 2)
        computed = rng.randint(1, 13)
        accepted = rng.randint(1, 1 + drafts)
        column = -(-(computed + 1 + drafts) // size) - 1
        first = 1 + 7 * index
        rows.append(
            {"request": f"r{index}", "computed": computed, "scheduled": 1 + drafts,
             "drafts": drafts, "accepted": accepted, "state_idx": column,
             "blocks": list(range(first, first + 7))}
        )  # fmt: skip
    inputs: LaunchInputs = build_launch(
        {"block_size": size, "layers": 1, "num_blocks": 1 + 7 * CASES, "columns": 7, "rows": rows}
    )
    record = launch(inputs)
    cases = []
    for index, row in enumerate(inputs.rows):
        conv = record.program(f"{index}-0")
        moved = conv.outcome in ("copied", "shifted")
        target = None if conv.dst_block is None else row.blocks.index(conv.dst_block)
        cases.append(
            Case(
                {
                    "computed": row.computed,
                    "scheduled": row.scheduled,
                    "drafts": row.drafts,
                    "accepted": row.accepted,
                    "column": row.state_idx,
                    "block_size": size,
                },
                [target, conv.bias, record.counts[0].after[index]] if moved else None,
            )
        )
    return cases


def _new_columns() -> list[Case]:
    """The kernel of section 3.3: where a request runs next, and with which offset it is read."""
    rng = random.Random(6)
    size, rows = 4, []
    for index in range(CASES):
        computed, query = rng.randint(1, 14), rng.randint(1, 3)
        rows.append(
            {"request": f"r{index}", "computed": computed, "scheduled": query,
             "accepted": rng.randint(1, 3), "state_idx": (computed - 1) // size}
        )  # fmt: skip
    inputs = build_launch({"kernel": "preprocess", "block_size": size, "rows": rows})
    record = launch(inputs)
    after = {counts.name: counts.after for counts in record.counts}
    return [
        Case(
            {
                "computed": row.computed,
                "query": row.scheduled,
                "accepted": row.accepted,
                "old_column": row.state_idx,
                "block_size": size,
            },
            [after["state_idx"][index], after["num_accepted"][index]],
        )
        for index, row in enumerate(inputs.rows)
    ]


def _random_batches(seed: int, prefills: bool) -> Iterator[BatchRecord]:
    """Built batches of three rows in the order that a batch has."""
    rng = random.Random(seed)
    while True:
        rows, block = [], 1
        for index in range(3):
            prefilling = prefills or rng.random() < 0.6
            computed = rng.choice([0, rng.randint(1, 14)]) if prefilling else rng.randint(1, 14)
            query = rng.randint(1, 9) if prefilling else rng.randint(1, 3)
            columns = -(-(computed + query) // 4) + 2
            rows.append(
                {"request": "ABC"[index], "computed": computed, "query": query,
                 "prefilling": prefilling, "drafts": None if prefilling else query - 1,
                 "blocks": list(range(block, block + columns))}
            )  # fmt: skip
            block += columns
        settings = {"block_size": 4, "num_spec": 2, "chunk_size": 4, "num_blocks": 64, "rows": rows}
        try:
            batch: Batch = build_batch_data(settings)
        except BatchError:
            continue  # rows out of order: no scheduler makes such a batch
        yield build_batch(batch)


def _splits() -> list[Case]:
    cases = []
    for record in _random_batches(7, prefills=False):
        rows = [(row.computed, row.query, row.prefilling) for row in record.batch.rows]
        cases.append(Case({"rows": rows, "threshold": record.threshold}, record.num_decodes))
        if len(cases) == CASES:
            break
    return cases


def _chunk_cuts() -> list[Case]:
    cases = []
    for record in _random_batches(8, prefills=True):
        if record.num_decodes:
            continue
        rows = [(row.computed, row.query) for row in record.batch.rows]
        right = record.numbers("cu_chunk_seqlen_p")
        cases.append(Case({"rows": rows, "chunk_size": 4}, right))
        if len(cases) == CASES:
            break
    return cases


def _ring_steps() -> list[Case]:
    """One decode row of a ReplaySSM batch, in align mode."""
    rng = random.Random(11)
    cases = []
    for _ in range(CASES):
        base = rng.randint(1, 12)
        computed = base + rng.randint(0, 9)
        size, length = rng.choice([4, 8]), rng.choice([3, 4])
        columns = -(-(computed + 1) // size)
        record = build_batch(
            build_batch_data(
                {"block_size": size, "replayssm_buffer_len": length, "accepted_given": False,
                 "rows": [{"request": "A", "computed": computed, "query": 1, "decode_base": base,
                           "blocks": list(range(1, columns + 1))}]}
            )
        )  # fmt: skip
        right = [record.numbers("write_pos_d")[0], bool(record.numbers("is_flush_d")[0])]
        arguments = {"computed": computed, "base": base, "block_size": size, "length": length}
        cases.append(Case(arguments, right))
    return cases


# --------------------------------------------------------------------------------------
# All of them
# --------------------------------------------------------------------------------------

Exercise = Prediction | Reading | Puzzle

EXERCISES: dict[str, Exercise] = {
    "01.1": Reading(
        "The same request with blocks of 2 tokens instead of 4: how many blocks does the attention "
        "group hold once step 8 has allocated?",
        lambda: attention_blocks(_with_smaller_blocks(), 8),
        "The prompt takes two steps, 4 tokens and then 2; every step after them computes one.",
    ),
    "01.2": Reading(
        "How many bytes do conv and temporal state of one layer take in one block? The conv state "
        "has 3 rows of 4 channels, the temporal state 2 heads of 2 channels with 4 numbers each, "
        "all float32.",
        lambda: sum(spec.num_bytes for spec in growing().states if spec.layer == 0),
        "A float32 has 4 bytes.",
    ),
    "02.1": Prediction("hits", 3),
    "02.2": Reading(
        "If B shared only the first 7 tokens with A instead of 8: how many tokens would it skip?",
        lambda: _skipped_by(7),
        "A state can't be shortened. Which states did A's prefill leave, and which of them does "
        "a request with only 7 equal tokens fit?",
    ),
    "03.1": Reading(
        "DS layout, 8 channels of float32, 5 token rows, bias 1: give [number of pieces, bytes in "
        "a piece, bytes from one piece to the next] of the conv copy.",
        _pieces,
        "In DS a channel is a row of memory with all its tokens side by side.",
    ),
    "03.2": Reading(
        "Request B of this run keeps both drafts of step 2. Which tokens stand in its window once "
        "they are accepted? Give their numbers, [first, second, third].",
        _window_of_b,
        "The window has one row less than the convolution has inputs, and its last row is the "
        "token computed last. How many tokens has B computed after step 2?",
    ),
    "04.1": Prediction("forward", 5),
    "04.2": Prediction("bias", 5),
    "04.3": Reading(
        "In the preset accepted-past-the-boundary all drafts are accepted. With which bias does "
        "the first migrate copy?",
        _migrate_bias,
        "Look at the accepted count that the step before leaves, and at whether a copy in place "
        "has returned it to 1.",
    ),
    "05.1": Prediction("blocks", 0),
    "05.2": Puzzle(
        "Write checkpoint(computed, scheduled, drafts, accepted, column, block_size): None where "
        "no state is copied after acceptance, else [target column, bias, accepted count after it].",
        _checkpoints,
        "the kernel",
    ),
    "05.3": Prediction("columns", 2),
    "06.1": Reading(
        "A window of 5 rows slides by 2, row by row from the last to the first. Which rows come "
        "out wrong?",
        _rows_broken,
        "Row 0 takes row 2. Ask of each row whether the row that it takes was overwritten before.",
    ),
    "06.2": Prediction("counts", 6),
    "06.3": Puzzle(
        "Write next_column(computed, query, accepted, old_column, block_size): [column the request "
        "runs in now, accepted count it is read with after a move].",
        _new_columns,
        "the kernel",
    ),
    "07.1": Prediction("metadata", 13),
    "07.2": Puzzle(
        "Write num_decodes(rows, threshold), rows = [(computed, query, prefilling), …]. Rows that "
        "prefill here carry no placeholder drafts.",
        _splits,
        "the builder",
    ),
    "08.1": Prediction("chunks", 1),
    "08.2": Puzzle(
        "Write chunk_ends(rows, chunk_size), rows = [(computed, new), …]: the start of every chunk "
        "and then the total, as in cu_chunk_seqlen_p.",
        _chunk_cuts,
        "the builder",
    ),
    "09.1": Reading(
        "The preset accepted-past-the-boundary in all mode: how many blocks are held once step 1 "
        "has allocated?",
        lambda: _held("all", 1),
        "Count the columns: ⌈(computed + scheduled + num_spec · B) / B⌉.",
    ),
    "09.2": Prediction("modes", 1),
    "10.1": Reading(
        "Which kernels does the V2 runner launch before the forward? Give their names in "
        "alphabetical order, as a list.",
        lambda: _launches_before("v2"),
        "One decides in which column each request runs, one moves the states.",
    ),
    "10.2": Reading(
        "The V1 runner copies some number of bytes in the preset drafts-meet-the-boundary (the "
        "table above). How many does V2 copy?",
        lambda: _copied("v2"),
        "Both runners obey the same section of the specification.",
    ),
    "11.1": Puzzle(
        "Write ring(computed, base, block_size, length), align mode: [write_pos, is_flush].",
        _ring_steps,
        "the builder",
    ),
    "11.2": Reading(
        "A ring of 4, block size 16, base 20, no prefix hit. How many tokens does the anchored "
        "state of the row hold when 27 are computed?",
        lambda: build_batch(BATCHES["replayssm"]).rings[1].steps[0].anchor,
        "In align mode the anchor is the base or the last block boundary, whichever is later.",
    ),
    "12.1": Reading(
        "Which block ids stand in the last returned row of state_indices_tensor_d of the batch "
        "graph-padding?",
        _padding_indices,
        "A padding row must neither read nor write anything.",
    ),
    "12.2": Reading(
        "And the last entry of query_start_loc_d?",
        _last_row_start,
        "A padding row has an empty query.",
    ),
    "13.1": Reading(
        "Report S04: in which step is the first invariant broken?",
        _report_step,
        "Run it as above: REPORTS['S04'].replay(), and look at the violations of its wrong run.",
    ),
    "13.2": Reading(
        "Which invariant is it? Answer with its name, such as 'I6'.",
        _report_invariant,
        "Ask what is read first: a state at the start of a forward, or a registered block.",
    ),
    "14.1": Reading(
        "How many programs does the launch every-outcome start?",
        _program_count,
        "One for each request and state.",
    ),
    "14.2": Reading(
        "How many bytes does the launch into-a-new-block read in total?",
        _bytes_moved,
        "Add up conv and temporal state of every layer, for the requests that copy.",
    ),
}
