"""The real kernels on small caches: every outcome, bytes and counts as the twins say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import BACKEND, BackendError, kernel_set
from mambaviz.launches.contents import filled, layouts
from mambaviz.launches.inputs import DEFAULT_LAUNCH, LAUNCHES, LaunchError, LaunchInputs, build
from mambaviz.launches.record import LaunchRecord, ProgramRecord, recorded
from mambaviz.launches.run import launch
from mambaviz.launches.source import listing

DEFAULT = LAUNCHES[DEFAULT_LAUNCH]


@pytest.fixture(scope="module")
def every() -> LaunchRecord:
    return launch(DEFAULT)


def row(record: LaunchRecord, name: str) -> list[ProgramRecord]:
    index = next(i for i, one in enumerate(record.inputs.rows) if one.request == name)
    return [program for program in record.programs if program.row == index]


@pytest.mark.parametrize("slug", LAUNCHES)
def test_the_recorded_launch_is_what_the_kernel_does_now(slug: str) -> None:
    now, before = launch(LAUNCHES[slug]), recorded(slug)
    assert now.unexplained == 0
    same = {"backend": before.backend}
    assert now.model_copy(update=same) == before, "re-record: python -m mambaviz.launches.run"


@pytest.mark.parametrize("slug", LAUNCHES)
def test_the_twin_gives_the_same_record(slug: str) -> None:
    twin, own = launch(LAUNCHES[slug], "reference"), launch(LAUNCHES[slug])
    assert twin.model_copy(update={"backend": own.backend}) == own


def test_every_outcome_stands_in_the_grid(every: LaunchRecord) -> None:
    labels = {name: [one.label for one in row(every, name)[:2]] for name in "ABCDEF"}
    assert labels == {
        "A": ["3 → 2", "7 → 2"],
        "B": ["5 shift 2", "8 → 5"],
        "C": ["nothing to do", "nothing to do"],
        "D": ["already in place", "already in place"],
        "E": ["17 shift 2", "col 3 is 0"],
        "F": ["21 shift 2", "col 6 ≥ 6"],
    }
    outcomes = [one.outcome for name in "ABCDEF" for one in row(every, name)[:2]]
    assert outcomes == [
        *("copied", "copied", "shifted", "copied", "idle", "idle"),
        *("in place", "in place", "shifted", "guarded", "shifted", "guarded"),
    ]
    assert every.num_bytes == 672


def test_the_blocks_say_what_moved(every: LaunchRecord) -> None:
    image, state = every.image(0, 5), every.states[0]
    assert state.labels(image.raw_before, "SD") == [7, 8, 9, 10, 11]
    assert state.labels(image.raw_after, "SD") == [9, 10, 11, 10, 11]
    temporal = every.image(1, 5)
    assert every.states[1].labels(temporal.raw_before, "SD") == [10]
    assert every.states[1].labels(temporal.raw_after, "SD") == [12]
    assert every.counts[0].after == [2, 1, 1, 1, 1, 1]


def test_byte_ranges_lie_within_the_block(every: LaunchRecord) -> None:
    program = every.program("1-0")
    assert program.source is not None
    assert program.target is not None
    assert (program.source.start, program.source.length) == (32, 48)
    assert (program.target.start, program.target.length) == (0, 48)


@pytest.mark.parametrize("slug", LAUNCHES)
def test_every_value_belongs_to_one_line_of_the_source(slug: str) -> None:
    record = recorded(slug)
    source = listing(record.function)
    for program in record.programs:
        for value in program.lines:
            found = [
                line
                for line in source.of(value.function)
                if line.text.strip().startswith(value.code)
            ]
            assert len(found) == 1, f"{value.function}: {value.code}"


def test_padding_stays_as_it_was() -> None:
    inputs = build({**DEFAULT.model_dump(), "padding": 8})
    record = launch(inputs)
    assert record.unexplained == 0
    assert record.states[0].stride == 88
    value = next(line.value for line in record.program("1-0").lines if "dst_addr =" in line.code)
    assert value == "base + 5 · 88"


def test_the_blocks_hold_the_tokens_that_the_inputs_speak_of() -> None:
    caches, states = filled(DEFAULT), layouts(DEFAULT)
    conv, temporal = states[0], states[1]
    of = {block: caches[0][block][:80].tobytes() for block in (1, 2, 3)}
    assert [conv.labels(of[block], "SD") for block in (1, 2, 3)] == [
        [1, 2, 3, None, None],  # h(4), a boundary
        [3, 4, 5, None, None],  # h(6), what was computed
        [4, 5, 6, 7, 8],  # the running block: window at row 0 and two drafts
    ]
    drafts = [temporal.labels(caches[1][block][:64].tobytes(), "SD") for block in (3, 7, 9)]
    assert drafts == [[7], [8], [9]]
    assert not caches[0][0].any()


def test_an_outcome_of_chance_is_refused() -> None:
    data = DEFAULT.model_dump()
    data["rows"][2] |= {"computed": 14, "accepted": 3, "blocks": [0, 0, 5, 10, 11, 12]}
    with pytest.raises(LaunchError, match="block 5 is written by B and"):
        launch(build({**data, "rows": [*data["rows"][:2], _writes_into_five()]}))


def _writes_into_five() -> dict[str, Any]:
    return {
        "request": "X",
        "computed": 9,
        "scheduled": 3,
        "drafts": 2,
        "accepted": 3,
        "state_idx": 3,
        "blocks": [0, 0, 5, 10, 11, 12],
    }


def test_another_back_end_needs_another_process() -> None:
    other = "interpreter" if BACKEND == "cuda" else "cuda"
    with pytest.raises(BackendError, match="start another process"):
        launch(DEFAULT, other)  # type: ignore[arg-type]


@pytest.mark.skipif(
    kernel_set().postprocess_mamba_pieces_kernel is None, reason="no fast kernels here"
)
@pytest.mark.parametrize(
    "slug", [slug for slug, one in LAUNCHES.items() if one.kernel in ("postprocess", "precopy")]
)
def test_the_fast_kernel_leaves_the_same_bytes(slug: str) -> None:
    fast, readable = launch(LAUNCHES[slug], fast=True), launch(LAUNCHES[slug])
    assert fast.unexplained == 0
    assert (fast.blocks, fast.counts) == (readable.blocks, readable.counts)
    assert fast.function.endswith("_pieces_kernel")


def test_no_fast_kernel_is_said() -> None:
    with pytest.raises(LaunchError, match="no fast kernel for “batch_memcpy_kernel”"):
        launch(LAUNCHES["a-list-of-copies"], fast=True)
    with pytest.raises(LaunchError, match="on the back end reference"):
        launch(DEFAULT, "reference", fast=True)


def test_the_shift_in_other_orders(every: LaunchRecord) -> None:
    orders = every.program("1-0").orders
    assert [strip.rows for strip in orders] == [
        [7, 8, 9, 10, 11],
        [9, 10, 11, 10, 11],
        [9, 10, 11, 10, 11],
        [11, 10, 11, 10, 11],
    ]
    assert [strip.right for strip in orders] == [True, True, True, False]
    assert every.program("0-0").orders == []


@st.composite
def some_inputs(draw: st.DrawFn) -> LaunchInputs:
    """Any launch that can be built, with ids of their own so that nothing depends on chance."""
    kernel = draw(st.sampled_from(["postprocess", "precopy", "preprocess"]))
    count = draw(st.integers(1, 3))
    rows = []
    for index in range(count):
        ids = list(range(1 + 6 * index, 7 + 6 * index))
        blocks = [draw(st.sampled_from([one, one, one, 0, -3])) for one in ids]
        drafts = draw(st.integers(0, 2))
        rows.append(
            {
                "request": "ABC"[index],
                "computed": draw(st.integers(0, 20)),
                "scheduled": drafts + draw(st.integers(1, 3)),
                "drafts": drafts,
                "accepted": draw(st.integers(1, 3)),
                "state_idx": draw(st.integers(-1, 7)),
                "src_col": draw(st.integers(-1, 7)),
                "bias": draw(st.integers(-1, 5)),
                "blocks": blocks,
            }
        )
    return build(
        {
            "kernel": kernel,
            "layout": draw(st.sampled_from(["SD", "DS"])),
            "dtype": draw(st.sampled_from(["float32", "bfloat16"])),
            "block_size": draw(st.sampled_from([1, 4, 5])),
            "advanced": kernel == "postprocess" and draw(st.booleans()),
            "layers": 1,
            "rows": rows,
        }
    )


@settings(max_examples=60, deadline=None)
@given(some_inputs())
def test_twin_and_kernel_agree_on_anything(inputs: LaunchInputs) -> None:
    record = launch(inputs)
    assert record.unexplained == 0
    moved = sum(np.any(one.raw_before != one.raw_after) for one in record.blocks)
    assert record.num_bytes or not moved
    assert all(program.why and program.label for program in record.programs)
