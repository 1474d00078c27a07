"""Our runs as recordings: what is read back is what the trace says."""

from __future__ import annotations

import pytest

from mambaviz.recording.steps import RecordedStep
from mambaviz.recording.values import built_fields
from mambaviz.scenario import PRESETS
from mambaviz.trace import Decision, Step, TensorRecord, Trace
from tests.recording.files import lines_of, preset_trace, reader_of, steps_of


@pytest.mark.parametrize("name", PRESETS)
def test_what_the_format_holds_comes_back(name: str) -> None:
    trace = preset_trace(name)
    steps = steps_of(lines_of(trace))
    assert [step.index for step in steps] == [step.index for step in trace.steps]
    for ours, found in zip(trace.steps, steps, strict=True):
        _scheduled(ours, found)
        _books(trace, ours, found)
        _decisions(ours, found)
        _metadata(ours, found)
        assert found.commit is not None
        assert found.commit.computed == ours.num_computed_after
        assert found.commit.finished == ours.finished_after


def _scheduled(ours: Step, found: RecordedStep) -> None:
    assert found.schedule is not None
    assert [request.id for request in found.requests] == ours.order
    for request in found.requests:
        mine = ours.requests[request.id]
        assert (request.kind, request.computed, request.scheduled, request.drafts) == (
            mine.event,
            mine.num_computed,
            mine.num_scheduled,
            mine.drafts,
        )
        assert (request.known, request.prompt) == (mine.num_tokens, mine.num_prompt_tokens)
        assert request.padded_tail == mine.padded_tail
    assert [came.id for came in found.came] == ours.arrivals
    assert found.schedule.finished == ours.finished_reported
    assert found.schedule.preempted == ours.preempted
    assert found.schedule.waiting == ours.waiting


def _books(trace: Trace, ours: Step, found: RecordedStep) -> None:
    tables = trace.tables_after(ours.index, "allocate")
    assert found.blocks is not None
    lists = {n: [list(row or ()) for row in rows] for n, rows in found.blocks.lists.items()}
    assert lists == {name: row.block_list for name, row in tables.rows.items()}
    assert found.blocks.registered == tables.registered
    assert list(found.blocks.free_queue or ()) == ours.free_queue_after_alloc
    if ours.order:
        assert found.rows is not None
        assert list(found.rows.order) == ours.batch_order
        for name in ours.order:
            rows = [list(row or ()) for row in found.rows.rows[name]]
            assert rows == tables.rows[name].worker_row
            assert (found.rows.accepted or {})[name] == tables.rows[name].num_accepted


def _decisions(ours: Step, found: RecordedStep) -> None:
    for phase, line in (("pre-copy", found.pre_copy), ("post-copy", found.post_copy)):
        mine = next(one for one in ours.phases if one.name == phase).decisions
        rows = line.rows if line is not None else []
        assert [row.id for row in rows] == [decision.request for decision in mine]
        for row, decision in zip(rows, mine, strict=True):
            assert (row.accepted, row.accepted_out, row.copies) == (
                decision.accepted,
                decision.accepted_out,
                decision.copies,
            )
            if decision.copies:
                assert (row.src_col, row.dst_col, row.bias) == _move(decision)
    counts = {name: 1 + (r.accepted_drafts or 0) for name, r in ours.requests.items()}
    if ours.order:
        assert found.accept is not None
        assert found.accept.counts == counts


def _move(decision: Decision) -> tuple[int | None, int | None, int | None]:
    return decision.src_col, decision.dst_col, decision.bias


def _metadata(ours: Step, found: RecordedStep) -> None:
    assert [built.group for built in found.metadata] == [built.group for built in ours.metadata]
    for mine, built in zip(ours.metadata, found.metadata, strict=True):
        fields = {field.name: field.value for field in built_fields(built)}
        for field in mine.fields:
            value = field.value
            if isinstance(value, TensorRecord) and value.dtype.startswith("float"):
                value = value.model_copy(update={"values": None})
            assert fields[field.name] == value


def test_bytes_are_written_on_request_only() -> None:
    trace = preset_trace("drafts-meet-the-boundary")
    assert not any(step.states for step in steps_of(lines_of(trace)))
    lines = lines_of(trace, states=True)
    assert reader_of(lines).head.states
    for ours, found in zip(trace.steps, steps_of(lines), strict=True):
        mine = [
            (phase.name, change.layer, change.state, change.block, change.data)
            for phase in ours.phases
            for change in phase.changes
        ]
        assert mine == [(s.after, s.layer, s.state, s.block, s.data) for s in found.states]


def test_nothing_but_numbers_and_names_of_requests_is_written() -> None:
    text = "".join(lines_of(preset_trace("a-shared-prefix")))
    tokens = {
        str(token)
        for step in preset_trace("a-shared-prefix").steps
        for request in step.requests.values()
        for token in request.tokens
    }
    assert not any(f"{token}" in text for token in tokens)


def test_prefix_aliases_are_equal_where_prompts_are() -> None:
    trace = preset_trace("a-shared-prefix")
    prefixes = {came.id: came.prefix for step in steps_of(lines_of(trace)) for came in step.came}
    size = trace.scenario.engine.block_size
    prompts = {
        plan.id: trace.scenario.prompt_of(i) for i, plan in enumerate(trace.scenario.requests)
    }
    for one, mine in prefixes.items():
        for other, theirs in prefixes.items():
            for block, (left, right) in enumerate(zip(mine or (), theirs or (), strict=False)):
                end = (block + 1) * size
                assert (left == right) == (prompts[one][:end] == prompts[other][:end])
