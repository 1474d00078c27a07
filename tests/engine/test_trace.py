"""The record is complete, deterministic and reads back (section 6)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mambaviz import engine
from mambaviz.scenario import DEFAULT_PRESET, PRESETS
from mambaviz.trace import PHASES, Trace, tokens_absorbed, window_rows
from tests.engine.runs import preset_run


@pytest.fixture(scope="module")
def trace() -> Trace:
    return preset_run(DEFAULT_PRESET)


def test_the_same_run_twice_is_the_same_json(trace: Trace) -> None:
    assert engine.run(PRESETS[DEFAULT_PRESET], backend="reference").to_json() == trace.to_json()


def test_reads_back_equal(trace: Trace) -> None:
    assert Trace.from_json(trace.to_json()) == trace


def test_another_format_is_refused(trace: Trace) -> None:
    with pytest.raises(ValidationError):
        Trace.from_json(trace.to_json().replace('"steps"', '"stairs"'))


def test_says_what_it_depends_on(trace: Trace) -> None:
    assert trace.backend == "reference"
    assert {"python", "torch", "numpy"} <= set(trace.versions)
    assert trace.scenario_hash == PRESETS[DEFAULT_PRESET].content_hash


def test_the_hash_covers_the_scenario_alone() -> None:
    scenario = PRESETS[DEFAULT_PRESET]
    renamed = scenario.model_copy(update={"name": "another", "story": "another"})
    other = scenario.model_copy(
        update={"engine": scenario.engine.model_copy(update={"num_blocks": 17})}
    )
    assert renamed.content_hash == scenario.content_hash != other.content_hash


def test_every_step_has_every_phase(trace: Trace) -> None:
    for step in trace.steps:
        assert tuple(phase.name for phase in step.phases) == PHASES


def test_the_run_of_the_mock_up(trace: Trace) -> None:
    """Rows, copies and biases of design's default run, and the labels read from the bytes."""
    tables = trace.tables_after(2, "post-copy")
    assert tables.rows["A"].worker_row == [[1, 2, 3, 7, 9]]
    assert tables.rows["A"].block_list == [[0, 2, 3, 7, 9]]
    assert tables.rows["A"].roles[0][:3] == ["retired", "cached", "running"]
    assert tables.rows["B"].worker_row == [[0, 4, 5, 6, 8]]
    copies = {
        (c.kind, c.request, c.state, c.src_block, c.dst_block, c.bias)
        for c in trace.steps[2].phase("post-copy").copies
    }
    assert copies == {
        ("checkpoint", "A", "conv", 3, 2, 1),
        ("checkpoint", "A", "temporal", 7, 2, 1),
        ("checkpoint", "B", "conv", 5, 5, 2),
        ("checkpoint", "B", "temporal", 8, 5, 2),
    }
    contents = trace.contents_after(2, "post-copy")
    layout = trace.scenario.engine.layout
    for layer in (0, 1):
        window = trace.spec_of[layer, "conv"].decode(contents[layer, "conv", 2])
        state = trace.spec_of[layer, "temporal"].decode(contents[layer, "temporal", 2])
        assert window_rows(window, layout)[:3] == [5, 6, 7]
        assert tokens_absorbed(state) == 8


def test_a_phase_that_changes_a_block_says_so(trace: Trace) -> None:
    changed = {(change.block, change.state) for change in trace.steps[2].phase("post-copy").changes}
    assert changed == {(2, "conv"), (2, "temporal"), (5, "conv"), (5, "temporal")}


def test_progress_is_told_and_can_stop_a_run() -> None:
    seen: list[int] = []

    def progress(done: int, words: str) -> None:
        seen.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(PRESETS[DEFAULT_PRESET], backend="reference", progress=progress)
    assert seen == [1, 2]
