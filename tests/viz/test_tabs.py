"""The pictures and tables of the tabs: every run, every phase, nothing unescaped."""

from __future__ import annotations

import re

import pytest

from mambaviz.history import History, frame_of
from mambaviz.lifelines import Life, lifelines
from mambaviz.provenance import provenance
from mambaviz.trace import BlockCopy, PhaseName, Trace
from mambaviz.truth import Distance, Measured, allowed
from mambaviz.viz.scene import Rect
from mambaviz.viz.tabs import byte_ranges
from mambaviz.viz.tabs.html import tabs_css, tabs_js
from mambaviz.viz.tabs.lifelines import event_words, lifelines_html, lives_scene, window
from mambaviz.viz.tabs.matrix import matrices, matrix_html
from mambaviz.viz.tabs.provenance import UNKNOWN, provenance_html
from mambaviz.viz.tabs.truth import TruthRow, truth_html
from mambaviz.viz.theme import BYTES, LIVES
from tests.viz.conftest import HOSTILE, RUNS


@pytest.fixture(params=RUNS)
def trace(request: pytest.FixtureRequest) -> Trace:
    return request.getfixturevalue(request.param)


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def well_formed(html: str) -> None:
    """No markup of a stranger's, every table with a caption and headings that say their scope."""
    assert HOSTILE not in html
    assert "</script>" not in html
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    for table in tables:
        assert "<caption>" in table
        assert not re.search(r"<th(?![^>]*scope=)[ >]", table)


# -- life-lines --------------------------------------------------------------------------


def test_life_lines_of_every_run_can_be_drawn_at_every_step(trace: Trace) -> None:
    lives = lifelines(History(trace))
    for step in (0, len(trace.steps) // 2, len(trace.steps) - 1):
        for phase in ("schedule", "commit"):
            well_formed(lifelines_html(trace, lives, step, phase, lives[0].block))


def test_a_sign_leads_to_its_moment_and_every_event_has_one(watch: Trace) -> None:
    lives = lifelines(History(watch))
    scene = lives_scene(lives, 0, len(watch.steps) - 1, 0, None)
    signs = {mark.name for mark in scene.marks if mark.name.startswith("go:")}
    assert signs == {
        f"go:{event.step}:{event.phase}:{life.block}" for life in lives for event in life.events
    }
    assert "go:2:post-copy:2" in signs


def test_a_bar_is_as_long_as_its_time_and_has_its_role(watch: Trace) -> None:
    lives = lifelines(History(watch))
    scene = lives_scene(lives, 0, 4, 0, None)
    step = LIVES.step
    running = scene.named(f"span:3:{frame_of(2, 'allocate')}")  # to the end of step 3
    assert "running" in running.body.cls
    assert running.x == pytest.approx(LIVES.left + (2 + 1 / 8) * (1140 - LIVES.left) / 5, abs=1)
    frame = next(part for part in running.body.parts if isinstance(part, Rect))
    assert frame.w == pytest.approx(2 * min(step, (1140 - LIVES.left) / 5), abs=5)


def test_the_moment_on_screen_and_the_chosen_block_are_marked(watch: Trace) -> None:
    lives = lifelines(History(watch))
    html = lifelines_html(watch, lives, 2, "post-copy", 2)
    assert 'data-mark="now"' in html
    assert 'aria-current="step"' in html
    assert "Block 2 C after post-copy of step 2: cached, held by A: 1 reference." in text(html)
    assert "CHECKPOINT, bias 1: the state of A is copied here from blocks 3 and 7" in text(html)


def test_every_kind_of_event_has_words(crowd: Trace, watch: Trace) -> None:
    lives: list[Life] = [*lifelines(History(crowd)), *lifelines(History(watch))]
    for life in lives:
        for event in life.events:
            words = event_words(event)
            assert words.endswith(".")
            assert "None" not in words


def test_a_long_run_is_drawn_in_parts_that_stay_where_they_are(long_run: Trace) -> None:
    steps = len(long_run.steps)
    assert steps > LIVES.most_steps
    assert window(steps, 0) == window(steps, LIVES.most_steps - 1) == (0, LIVES.most_steps - 1)
    html = lifelines_html(long_run, lifelines(History(long_run)), 0, "schedule", None)
    assert f"Steps 0 to {LIVES.most_steps - 1} of {steps}" in text(html)
    assert "later steps" in html
    assert "earlier steps" not in html


# -- provenance --------------------------------------------------------------------------


def test_provenance_of_every_block_can_be_told(trace: Trace) -> None:
    history, last = History(trace), len(trace.steps) - 1
    moments: tuple[tuple[int, PhaseName], ...] = ((0, "forward"), (last, "post-copy"))
    layers = {spec.layer for spec in trace.states}
    for step, phase in moments:
        frame = frame_of(step, phase)
        for block in range(1, trace.scenario.engine.num_blocks):
            for layer in layers:
                role = history.tables[frame].block_roles[block]
                html = provenance_html(provenance(history, frame, block, layer), role)
                well_formed(html)
                assert trace.scenario.faults or UNKNOWN not in html


def test_unknown_bytes_are_said_to_be_unknown(faulty: Trace) -> None:
    history, frame = History(faulty), frame_of(len(faulty.steps) - 1, "commit")
    shown = [
        provenance_html(provenance(history, frame, block, 0), "running")
        for block in range(1, faulty.scenario.engine.num_blocks)
    ]
    assert any(f"✗ {UNKNOWN}" in html for html in shown)


# -- layers × states ---------------------------------------------------------------------


def test_every_request_and_layer_stands_in_the_matrix(trace: Trace) -> None:
    layers = sorted({spec.layer for spec in trace.states})
    for step in trace.steps:
        well_formed(matrix_html(trace, step, "post-copy"))
        found = matrices(trace, step)
        assert [one.request for one in found] == [plan.id for plan in trace.scenario.requests]
        for one in found:
            if one.request in step.requests:
                assert sorted(layer for line in one.lines for layer in line.layers) == layers
            else:
                assert one.said[0].endswith("nothing to copy.")


def test_the_matrix_shows_copies_with_rows_and_bytes(watch: Trace) -> None:
    shown = text(matrix_html(watch, watch.steps[2], "post-copy"))
    assert "layers 0–1 → block 2 → 3, rows 0–4, 80 B → block 2 → 3, 64 B" in shown
    assert "→ block 5, in place, rows 2–4, 48 B → block 8 → 5, 64 B" in shown
    assert "The running block stays." in shown
    assert "running 7, new 8, aligned 8, bias 1, column 2 → 1" in shown


def test_the_same_rows_in_either_layout(wide_ds: Trace) -> None:
    phase = next(
        (step, phase) for step in wide_ds.steps for phase in step.phases
        if any(copy.bias and copy.state == "conv" for copy in phase.copies)
    )  # fmt: skip
    copy = next(c for c in phase[1].copies if c.bias and c.state == "conv")
    rows = wide_ds.spec_of[0, "conv"].shape[1] - copy.bias
    last = copy.bias + rows - 1
    assert f"rows {copy.bias}–{last}" in text(matrix_html(wide_ds, phase[0], "post-copy"))


def test_a_guard_is_named_with_its_reason(watch: Trace) -> None:
    step = watch.steps[2]
    phase = step.phase("post-copy")
    values = {"source": None, "target": None, "num_bytes": 0, "skipped": "the <null> block"}
    skipped = BlockCopy.model_validate({**phase.copies[0].model_dump(), **values})
    other = phase.model_copy(update={"copies": [skipped, *phase.copies[1:]]})
    phases = [other if p.name == "post-copy" else p for p in step.phases]
    broken = step.model_copy(update={"phases": phases})
    html = matrix_html(watch, broken, "post-copy")
    assert "✗ stopped by a guard: the &lt;null&gt; block" in html
    assert "layers 0–1" not in text(html).split(" B ")[0], "layers that differ have a line each"


def test_without_copies_the_mode_says_why(none_mode: Trace, all_mode: Trace) -> None:
    assert "None mode has one block" in text(matrix_html(none_mode, none_mode.steps[1], "forward"))
    assert "the forward itself writes" in text(matrix_html(all_mode, all_mode.steps[1], "forward"))


# -- bytes -------------------------------------------------------------------------------


def copies_of(trace: Trace) -> list[BlockCopy]:
    return [
        copy
        for step in trace.steps
        for phase in step.phases
        for copy in phase.copies
        if copy.target is not None
    ]


def test_the_filled_bytes_are_the_bytes_of_the_copy(trace: Trace) -> None:
    layout = trace.scenario.engine.layout
    for copy in copies_of(trace):
        spec = trace.spec_of[copy.layer, copy.state]
        scene = byte_ranges.byte_scene(copy, spec, layout)
        for name, part in (("source", copy.source), ("target", copy.target)):
            assert part is not None
            parts = scene.named(name).body.parts
            moved = [p for p in parts if isinstance(p, Rect) and p.cls == "moved"]
            assert len(moved) == part.rows
            scale = BYTES.strip / spec.num_bytes
            assert moved[0].x == pytest.approx(BYTES.left + part.start * scale)
            assert sum(p.w + 0.5 for p in moved) == pytest.approx(copy.num_bytes * scale, rel=0.1)


def test_a_conv_copy_is_one_piece_in_sd_and_one_a_channel_in_ds(
    watch: Trace, wide_ds: Trace
) -> None:
    def pieces(trace: Trace) -> set[int]:
        conv = [copy for copy in copies_of(trace) if copy.state == "conv" and copy.bias]
        return {copy.source.rows for copy in conv if copy.source is not None}

    assert pieces(watch) == {1}
    assert pieces(wide_ds) == {wide_ds.spec_of[0, "conv"].shape[0]}


# -- truth -------------------------------------------------------------------------------


def test_the_strip_says_what_is_there_what_is_not_and_what_is_wrong(watch: Trace) -> None:
    near = Distance(10, 2.5e-7)
    good = Measured(Distance(8, 0.0), near, near, 4, 4)
    far = Distance(10, 1.5, worst="block 3, layer 0, h(7)")
    bad = Measured(Distance(8, None, unknown=2), far, near, 4, 3)
    rows = [
        TruthRow("GPU", "unavailable", "torch sees <no> device"),
        TruthRow("interpreter", "done", "on screen", good),
        TruthRow("plain twin", "done", "", bad),
        TruthRow("another", "not run yet"),
    ]
    html = truth_html(watch, 2, rows, allowed(watch), {"conv": 0.0, "temporal": 1.5, "outputs": 0})
    well_formed(html)
    shown = text(html)
    assert "unavailable: torch sees &lt;no&gt; device" in shown
    assert "interpreter 0, equal 2.5e-07 2.5e-07 4 of 4 byte for byte ✓ within" in shown
    assert "✗ 2 labels beyond every history" in shown
    assert "✗ 1.5e+00" in shown
    assert "✗ 3 of 4 byte for byte" in shown
    assert "✗ beyond the tolerance: block 3, layer 0, h(7)" in shown
    assert "another not run yet" in shown
    assert "1e-05 of the largest value (float32 cache)" in shown


def test_style_and_script_are_there() -> None:
    assert "light-dark(" in tabs_css()
    assert "export default" in tabs_js()
