"""Headlines and sentences, with the numbers of the run."""

from __future__ import annotations

import pytest

from mambaviz.trace import PHASES, Trace
from mambaviz.viz import tables
from mambaviz.viz.views import frame_at, frames
from mambaviz.viz.words import Words, words

from .conftest import RUNS


def told(trace: Trace, step: int, phase: str, request: str = "A") -> Words:
    return words(frame_at(trace, step, phase), request, 0)


def test_checkpoint_of_a(watch):
    said = told(watch, 2, "post-copy")
    assert said.headline == (
        "A’s accepted tokens end on a block boundary, so its state after 8 tokens is saved."
    )
    assert said.plain == (
        "CHECKPOINT, bias 1: conv rows 1–4 of running block 3 slide to rows 0–3 of block 2; the "
        "temporal state comes from column 2 + 1 = 3, speculative block 7. It is registered with "
        "the allocation of step 3. B ends inside its own running column: block 5 shifts in place "
        "by 2, and its accepted count returns to 1."
    )
    roles = {span.text: span.role for span in said.sentence if span.role}
    assert roles == {
        "CHECKPOINT, bias 1": "move",
        "running block 3": "running",
        "block 2": "cached",
        "speculative block 7": "speculative",
    }


def test_in_place_shift_of_b(watch):
    said = told(watch, 2, "post-copy", "B")
    assert said.headline == (
        "B’s accepted tokens fill its own running block, so its state shifts in place."
    )
    assert "the accepted count returns from 3 to 1" in said.plain


def test_migrate_with_a_bias(watch):
    said = told(watch, 4, "pre-copy")
    assert said.headline == "A outgrows block 3, so its state moves on into block 7."
    assert said.plain == (
        "MIGRATE, bias 2: The step before accepted 3 tokens, so the wanted state lies 3 − 1 = 2 "
        "past the start of block 3: two rows on in its conv window, and two columns on for the "
        "temporal state, in speculative block 9."
    )


@pytest.mark.parametrize(
    ("step", "phase", "headline"),
    [
        (0, "schedule", "A and B begin: 12 tokens in this step."),
        (2, "schedule", "6 tokens of A and B are scheduled."),
        (2, "allocate", "A gets block 9."),
        (3, "allocate", "B gets block 10."),
        (2, "metadata", "The batch becomes tensors: 2 decodes."),
        (2, "forward", "The layers take in 6 tokens, 3 of them A’s."),
        (2, "accept", "A keeps 1 of 2 drafts, B keeps both drafts."),
        (3, "post-copy", "No copy: no accepted token ends a block whose state lies elsewhere."),
        (2, "commit", "Computed now: A 8, B 12."),
        (4, "commit", "A and B are finished."),
    ],
)
def test_headlines(watch, step, phase, headline):
    assert told(watch, step, phase).headline == headline


def test_a_stopped_copy_says_which_guard(faulty):
    spans = [
        span.text
        for frame in frames(faulty)
        for request in frame.step.requests
        for span in words(frame, request, 0).sentence
        if span.role == "wrong"
    ]
    assert any("is skipped: source column" in text for text in spans)


@pytest.mark.parametrize("run", RUNS)
def test_every_phase_says_something_finished(run, request):
    trace = request.getfixturevalue(run)
    for frame in frames(trace):
        for plan in trace.scenario.requests:
            said = words(frame, plan.id, 0)
            assert said.headline.endswith(".")
            assert said.plain.strip().endswith((".", "?"))
            for gap in ("None", "  ", "()", " ,", ".."):
                assert gap not in said.headline + said.plain, said
            assert len(said.plain) < 420, "two lines hold no more"


def test_decision_table(watch):
    why = tables.why(frame_at(watch, 2, "post-copy"))
    assert why.requests == ("A", "B")
    assert {row.name: row.values for row in why.rows} == {
        "computed": ("6", "9"),
        "scheduled": ("3 (2)", "3 (2)"),  # in brackets, of them drafts
        "accepted": ("2", "3"),
        "running": ("7", "10"),
        "new": ("8", "12"),
        "aligned": ("8", "12"),
        "bias": ("1", "2"),
        "source column": ("2", "2"),
        "target column": ("1", "2"),
        "accepted out": ("2", "1"),
        "copies": ("4", "4"),
    }
    assert [row.name for row in why.rows if row.key] == ["bias"]
    assert why.formulas[0] == (
        "running = 6 + 3 − 2 = 7",
        "new = 7 + 2 − 1 = 8",
        "aligned = ⌊8 / 4⌋ · 4 = 8",
        "bias = 8 − 7 = 1",
        "column 2 → 1",
        "accepted out = 2",
        "copies = 4 of 4",
    )


def test_requests_without_a_copy_get_a_reason(watch):
    (reason,) = tables.why(frame_at(watch, 2, "pre-copy")).reasons
    assert reason.startswith("B: ")


def test_metadata_of_the_first_picture(watch):
    found = tables.metadata(frame_at(watch, 2, "post-copy"), 0)
    rows = {row.name: row for row in found.rows}
    assert "".join(cell.text for cell in rows["seq_lens"].cells) == "[9, 12]"
    assert "".join(cell.text for cell in rows["query_start_loc_d"].cells) == "[0, 3, 6]"
    blocks = [(c.block, c.role) for c in rows["state_indices_tensor_d"].cells if c.block]
    assert [block for block, _ in blocks] == [3, 7, 9, 5, 6, 8]
    assert [role for _, role in blocks] == ["running", "speculative", "speculative"] * 2
    assert rows["state_indices_tensor_p"].cells[0].text == "no rows"
    assert rows["state_indices_tensor_d"].kind == "int32 [2,3]"
    assert "has_initial_states_p" in found.empty


def test_metadata_before_it_is_built_is_that_of_the_step_before(watch):
    assert tables.metadata(frame_at(watch, 0, "allocate"), 0).rows == ()
    early = tables.metadata(frame_at(watch, 2, "allocate"), 0)
    late = tables.metadata(frame_at(watch, 1, "commit"), 0)
    assert early.note == "of step 1: not built yet"
    assert [row.name for row in early.rows] == [row.name for row in late.rows]


def test_columns_point_at_the_blocks_that_stand_there(all_mode):
    frame = frame_at(all_mode, 2, "forward")
    rows = {row.name: row for row in tables.metadata(frame, 0).rows}
    (cell,) = [c for c in rows["block_idx_last_scheduled_token"].cells if c.block is not None]
    assert cell.block == frame.tables.rows["A"].worker_row[0][int(cell.text)]


def test_every_field_of_every_run_has_a_meaning(watch, all_mode, wide_ds):
    for trace in (watch, all_mode, wide_ds):
        meanings = tables.meanings(trace.scenario.engine.mode)
        for frame in frames(trace):
            if frame.phase.name == PHASES[3]:
                for row in tables.metadata(frame, 0).rows:
                    assert meanings[row.name]


def test_lamps_say_what_was_checked(watch, faulty):
    texts = tables.lamp_texts(watch.steps[2])
    assert len(texts) == 7
    assert texts[2].startswith("I3: every accepted output")
    assert "compared" in texts[2]
    found = [f for step in faulty.steps for f in tables.findings(step)]
    assert {f.invariant for f in found} == {v.invariant for v in faulty.violations}
