"""What there is to see, against the table of the Watch run and against the bytes."""

from __future__ import annotations

import pytest

from mambaviz.trace import Trace
from mambaviz.viz.views import Frame, LaneView, fold_before, frame_at, frames, twin_layers


def lane(trace: Trace, step: int, phase: str, request: str) -> LaneView:
    return frame_at(trace, step, phase).lane(request, 0, 0)


def row(trace: Trace, step: int, request: str) -> list[int]:
    return [cell.block for cell in lane(trace, step, "commit", request).cells]


# Worker rows and copies of the Watch run, step by step.
ROWS = {
    "A": [[1, 2, 3], [1, 2, 3, 7], [1, 2, 3, 7, 9], [1, 2, 3, 7, 9], [1, 2, 3, 7, 9, 11]],
    "B": [[0, 4, 5, 6], [0, 4, 5, 6, 8], [0, 4, 5, 6, 8], [0, 4, 5, 6, 8, 10], [0, 4, 5, 6, 8, 10]],
}


def test_worker_rows_of_the_watch_run(watch):
    for request, expected in ROWS.items():
        # A finished request gives its row up at the end of the step.
        found = [[c.block for c in lane(watch, s, "post-copy", request).cells] for s in range(5)]
        assert found == expected


def test_the_first_picture_cell_by_cell(watch):
    a = lane(watch, 2, "post-copy", "A")
    assert [(c.block, c.role, c.absorbed, c.window, c.offset) for c in a.cells] == [
        (1, "retired", 4, (1, 2, 3), 0),
        (2, "cached", 8, (5, 6, 7), 0),
        (3, "running", 7, (5, 6, 7), 1),
        (7, "speculative", 8, (), 0),
        (9, "speculative", 9, (), 0),
    ]
    assert a.block_list == (0, 2, 3, 7, 9)
    assert a.tokens == ("prompt",) * 6 + ("generated", "accepted", "rejected")
    assert a.query is not None
    assert (a.query.start, a.query.end) == (6, 9)
    assert a.query.text == "query 3, accepted 2: computed 6 → 8"


def test_copies_of_the_first_picture(watch):
    (a,) = lane(watch, 2, "post-copy", "A").copies
    assert (a.kind, a.bias, a.src_block, a.dst_block) == ("checkpoint", 1, 3, 2)
    assert (a.temporal_col, a.temporal_block) == (3, 7)
    assert (a.conv_rows, a.conv_bytes, a.temporal_bytes) == (4, 64, 64)
    assert a.pairs == ((1, 0), (2, 1), (3, 2), (4, 3))
    (b,) = lane(watch, 2, "post-copy", "B").copies
    assert (b.bias, b.src_block, b.dst_block, b.temporal_block) == (2, 5, 5, 8)
    assert b.in_place


def test_migrate_with_a_bias(watch):
    (copy,) = lane(watch, 4, "pre-copy", "A").copies
    assert (copy.kind, copy.bias) == ("migrate", 2)
    assert (copy.src_block, copy.dst_block, copy.temporal_block) == (3, 7, 9)
    cells = {cell.block: cell for cell in lane(watch, 4, "pre-copy", "A").cells}
    assert (cells[3].role, cells[3].window, cells[3].offset) == ("previous", (8, 9, 10), 2)
    assert (cells[7].role, cells[7].window, cells[7].offset) == ("running", (8, 9, 10), 0)
    assert cells[11].absorbed is None


def test_drafts_are_pending_until_they_are_verified(watch):
    assert lane(watch, 2, "forward", "A").tokens[6:] == ("generated", "pending", "pending")
    assert lane(watch, 3, "schedule", "A").tokens[7] == "generated"


def test_a_prompt_in_chunks_shows_what_is_still_ahead(watch):
    assert lane(watch, 0, "forward", "A").tokens == ("prompt",) * 4 + ("ahead",) * 2


def test_forward_ribbons_lead_only_what_was_computed(watch):
    """Before step 4, B's block still holds rejected drafts of positions 13 and 14."""
    state = frame_at(watch, 4, "forward").state("B", 0)
    before, after = state.strips
    assert [token for token, _ in before.rows] == [10, 11, 12, 13, 14]
    assert [token for token, _ in after.rows] == [11, 12, 13, 14, 15]
    assert state.ribbons == ((1, 0), (2, 1))
    assert [status for _, status in before.rows[3:]] == ["old", "old"]


def test_in_place_shift_shows_one_block_before_and_after(watch):
    state = frame_at(watch, 2, "post-copy").state("B", 0)
    upper, lower = state.strips
    assert (upper.block, lower.block) == (5, 5)
    assert [token for token, _ in upper.rows] == [7, 8, 9, 10, 11]
    assert [token for token, _ in lower.rows] == [9, 10, 11, 10, 11]
    assert (upper.window, lower.window) == ((2, 3), (0, 3))
    assert [status for _, status in lower.rows[3:]] == ["old", "old"]
    target = next(bar for bar in state.bars if bar.block == 5)
    assert (target.absorbed, target.was) == (12, 10)


def test_a_skipped_copy_carries_the_guards_reason(faulty):
    skipped = [
        copy.temporal_skipped
        for frame in frames(faulty)
        for request in frame.step.requests
        for copy in frame.copies(request, 0)
        if copy.temporal_skipped
    ]
    assert skipped
    assert "null block" in skipped[0]


def test_blocks_that_invariants_name_are_marked(faulty):
    wrong = {
        (violation.step, violation.block)
        for violation in faulty.violations
        if violation.block and violation.layer in (None, 0)
    }
    marked = {
        (frame.step.index, cell.block)
        for frame in frames(faulty)
        for request in frame.tables.rows
        for cell in frame.lane(request, 0, 0).cells
        if cell.wrong
    }
    assert marked
    assert marked <= wrong


def test_a_retired_id_names_its_new_holder(crowd):
    holders = {
        (cell.block, cell.holder)
        for frame in frames(crowd)
        for request in frame.tables.rows
        for cell in frame.lane(request, 0, 0).cells
        if cell.holder
    }
    assert holders
    for frame in frames(crowd):
        for request, tables in frame.tables.rows.items():
            for cell in frame.lane(request, 0, 0).cells:
                if cell.holder:
                    assert cell.block in frame.tables.rows[cell.holder].block_list[0]
                    assert cell.block not in tables.block_list[0] or cell.role == "retired"


def test_new_owners_do_not_claim_old_bytes(crowd):
    """A block taken over with old bytes is stale until it is written."""
    stale = [
        (frame, cell)
        for frame in frames(crowd)
        for request in frame.tables.rows
        for cell in frame.lane(request, 0, 0).cells
        if cell.stale
    ]
    assert stale
    for frame, cell in stale:
        assert cell.role in ("speculative", "running", "retired", "previous")
        assert not frame.changed(0, cell.block) or cell.role != "running"


def test_absent_requests_say_why(crowd):
    first = frame_at(crowd, 0, "commit")
    assert first.lane("C", 0, 0).note == "arrives at step 1"
    last = frame_at(crowd, len(crowd.steps) - 1, "commit")
    assert last.lane("B", 0, 0).note.startswith("finished in step")


def test_attention_groups_have_blocks_without_state(hybrid):
    view = frame_at(hybrid, 2, "forward").lane("A", 2, None)
    assert view.cells
    assert not any(cell.state for cell in view.cells)
    assert view.copies == ()


def test_layers_look_alike_until_one_is_wrong(watch, faulty):
    assert twin_layers(watch) == {1: 0}
    assert twin_layers(faulty) == {}


@pytest.mark.parametrize(
    ("tokens", "block_size", "fold"),
    [(13, 4, 0), (14, 4, 4), (16, 4, 8), (17, 8, 8), (200, 4, 196)],
)
def test_bars_fold_whole_blocks(tokens, block_size, fold):
    assert fold_before(tokens, block_size) == fold


def test_a_frame_that_is_not_there_is_named(watch):
    with pytest.raises(KeyError, match="step 9"):
        frame_at(watch, 9, "forward")


def test_labels_are_read_from_the_bytes(watch):
    """Change a byte in the record and the label follows; there is no ledger."""
    phase = watch.steps[0].phase("forward")
    index, change = next(
        (i, c) for i, c in enumerate(phase.changes) if c.state == "temporal" and c.block == 1
    )
    import base64

    raw = bytearray(change.raw)
    raw[0:4] = b"\x00\x00\x40\x41"  # 12.0
    edited = change.model_copy(update={"data": base64.b64encode(bytes(raw)).decode()})
    changes = [*phase.changes[:index], edited, *phase.changes[index + 1 :]]
    phases = [
        p.model_copy(update={"changes": changes}) if p.name == "forward" else p
        for p in watch.steps[0].phases
    ]
    step = watch.steps[0].model_copy(update={"phases": phases})
    trace = watch.model_copy(update={"steps": [step, *watch.steps[1:]]})
    frame: Frame = frame_at(trace, 0, "forward")
    label = frame.label(change.layer, 1)
    assert label.absorbed == 12
