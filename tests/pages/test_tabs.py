"""The tabs below the stage: what they say comes from the trace."""

from __future__ import annotations

import re

from mambaviz.pages.runs import Run, recorded
from mambaviz.pages.stage_component import StageState
from mambaviz.pages.tabs import changed_bytes, contents_before, copy_matrix
from mambaviz.scenario import DEFAULT_PRESET
from mambaviz.trace import BlockCopy, Trace


def default_trace() -> Trace:
    run = recorded(DEFAULT_PRESET)
    assert isinstance(run, Run)
    return run.trace


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_matrix_shows_every_copy_by_layer_and_state() -> None:
    shown = text(copy_matrix(default_trace().steps[2]))
    assert "post-copy, request A" in shown
    assert "layer 0 block 3 → 2, 64 B block 7 → 2, 64 B" in shown
    assert "layer 1 block 5 → 5, 48 B block 8 → 5, 64 B" in shown
    assert "pre-copy, request B" in shown


def test_a_skipped_copy_says_why() -> None:
    trace = default_trace()
    step = trace.steps[2]
    phase = step.phase("post-copy")
    skipped = BlockCopy.model_validate(
        {
            **phase.copies[0].model_dump(),
            "source": None,
            "target": None,
            "num_bytes": 0,
            "skipped": "the <null> block",
        }
    )
    other = phase.model_copy(update={"copies": [skipped, *phase.copies[1:]]})
    broken = step.model_copy(
        update={"phases": [other if p.name == "post-copy" else p for p in step.phases]}
    )
    assert "✗ skipped: the &lt;null&gt; block" in copy_matrix(broken)


def test_changed_bytes_are_marked_and_only_they() -> None:
    trace = default_trace()
    shown = changed_bytes(trace, StageState(step=2, phase="post-copy", request=None, layer=0))
    assert "block 2, conv state, float32" in shown
    assert "CHECKPOINT: 64 bytes from block 3" in shown
    before = contents_before(trace, 2, "post-copy")
    changes = [change for change in trace.steps[2].phase("post-copy").changes if change.layer == 0]
    differ = sum(
        new != old
        for change in changes
        for new, old in zip(
            change.raw, before[change.layer, change.state, change.block], strict=True
        )
    )
    assert shown.count("<mark>") == differ > 0
    assert shown.count("<section>") == len(changes)


def test_a_phase_that_changes_nothing_says_so() -> None:
    state = StageState(step=0, phase="schedule", request=None, layer=1)
    assert "changed no bytes of layer 1" in changed_bytes(default_trace(), state)


def test_before_the_first_write_a_block_is_zeros() -> None:
    state = StageState(step=0, phase="forward", request=None, layer=0)
    assert "00 00 00 00" in changed_bytes(default_trace(), state)
    assert contents_before(default_trace(), 0, "schedule") == {}
