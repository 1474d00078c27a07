"""The judge's formulas are those of the kernels, the builder and the worker.

They are written twice, since the judge needs no torch: here they are held against each other, over
every small number.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import torch

from kernels.reference import (
    Outcome,
    decide_postprocess,
    decide_postprocess_advanced,
    decide_preprocess,
)
from mambaviz.attention.all_mode import block_columns, last_scheduled_of_previous_step
from mambaviz.columns import last_column, next_column
from mambaviz.recording.judge.memory import NO_COLUMN
from mambaviz.recording.judge.post_copy import Checkpoint
from mambaviz.recording.judge.pre_copy import Migration
from mambaviz.recording.lines import Scheduled
from mambaviz.worker import v1
from tests.project.sources import ROOT

BLOCK_SIZES = (1, 2, 4)


def test_a_checkpoint_is_what_the_postprocess_decides() -> None:
    """Section 3.2, from the counts before the step and from the advanced count."""
    for size, computed, scheduled in product(BLOCK_SIZES, range(9), range(1, 6)):
        for drafts, column in product(range(scheduled), range(4)):
            request = Scheduled(
                id="A", kind="running", computed=computed, scheduled=scheduled, drafts=drafts
            )
            for accepted in range(1, 2 + drafts):
                ours = Checkpoint.of(request.running, accepted, column, size)
                new = request.computed_after(accepted)
                for theirs in (
                    decide_postprocess(0, accepted, column, computed, scheduled, drafts, size),
                    decide_postprocess_advanced(0, accepted, column, new, size),
                ):
                    assert theirs.new == new
                    assert ours.copied == (theirs.outcome is Outcome.COPIED)
                    assert ours.accepted_out == theirs.accepted_out
                    if ours.copied:
                        move = (theirs.src_col, theirs.dst_col, theirs.bias)
                        assert (ours.move.source, ours.move.target, ours.move.bias) == move


def test_a_migration_is_what_the_preprocess_decides() -> None:
    """Section 3.3; a request without a column is fresh."""
    assert NO_COLUMN == v1.NO_COLUMN
    for size, computed, scheduled in product(BLOCK_SIZES, range(9), range(1, 6)):
        for column, accepted in product(range(NO_COLUMN, 4), range(1, 4)):
            ours = Migration(column, last_column(computed + scheduled, size), accepted)
            theirs = decide_preprocess(0, column, computed, scheduled, accepted, size)
            assert ours.target == theirs.dst_col
            assert ours.moves == (theirs.outcome is Outcome.COLUMN_CHANGED)
            assert (ours.move.source, ours.move.bias) == (theirs.src_col, theirs.src_off)


def test_columns_are_those_of_the_builder() -> None:
    """Section 4.6."""
    counts = torch.arange(12, dtype=torch.int32)
    for size in BLOCK_SIZES:
        found = block_columns(counts, counts, size)
        last = [last_column(count, size) for count in range(12)]
        assert found.last_computed.tolist() == found.last_scheduled.tolist() == last
        assert found.first_scheduled.tolist() == [next_column(count, size) for count in range(12)]
        nothing = torch.full_like(counts, -1)
        assert last_scheduled_of_previous_step(nothing, counts, size).tolist() == last


def test_judging_needs_no_torch() -> None:
    judge = "import sys, mambaviz.recording.command as _; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", judge], cwd=ROOT, check=False).returncode == 0
