"""The drawing itself: coordinates and labels of a few shapes, and that everything is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from mambaviz.trace import PHASES
from mambaviz.viz import changes, lanes, shapes, state_stage
from mambaviz.viz.scene import Mark, Scene, Text, heat_class, heat_letter
from mambaviz.viz.svg import lanes_scene, state_scene
from mambaviz.viz.views import frame_at, frames

from .conftest import RUNS


def texts(mark: Mark) -> list[str]:
    return [part.text for part in mark.body.parts if isinstance(part, Text)]


def drawn_lane(trace, step, phase, request) -> Scene:
    view = frame_at(trace, step, phase).lane(request, 0, 0)
    return Scene(0, 0, lanes.lane(view, lanes.axis_of(trace, 0), False))


def test_blocks_stand_in_their_columns(watch):
    scene = drawn_lane(watch, 2, "post-copy", "A")
    assert (scene.named("b2").x, scene.named("b2").y) == (62 + 92 + 2, 89)
    assert texts(scene.named("b2")) == ["2", "C", "h(8)", "[t5 t6 t7]"]
    assert texts(scene.named("b3")) == ["3", "R", "h(7)", "[t5 t6 t7] @1"]
    assert texts(scene.named("c0")) == ["1", "C", "h(4)", "[t1 t2 t3]"]
    assert scene.named("running").x == scene.named("b3").x


def test_pins_stand_where_their_state_belongs(watch):
    scene = drawn_lane(watch, 2, "post-copy", "A")
    middle = {block: scene.named(f"pin{block}").x + 10.5 for block in (1, 2, 3, 7, 9)}
    assert middle == {block: 62 + 23 * n for block, n in {1: 4, 2: 8, 3: 7, 7: 8, 9: 9}.items()}
    assert scene.named("pin7").y > scene.named("pin2").y  # both hold h(8): one below the other


def test_list_differs_where_the_row_keeps_an_old_id(watch):
    scene = drawn_lane(watch, 2, "post-copy", "A")
    assert texts(scene.named("list0")) == ["∅ dropped"]
    assert scene.named("list0").body.cls == "list differs"
    assert texts(scene.named("list1")) == ["2"]


def test_arrows_lead_from_running_and_from_running_plus_bias(watch):
    scene = drawn_lane(watch, 2, "post-copy", "A")
    conv, temporal = scene.named("arrow-conv"), scene.named("arrow-temporal")
    assert conv.body.parts[0].d.startswith("M288 134")  # column 2
    assert temporal.body.parts[0].d.startswith("M384 134")  # column 2 + 1
    assert texts(scene.named("bias")) == ["bias = 1"]
    assert texts(drawn_lane(watch, 2, "post-copy", "B").named("bias")) == ["bias = 2, in place"]


def test_moved_scratch_keeps_its_name_so_that_it_slides(watch):
    before = drawn_lane(watch, 1, "schedule", "A")
    after = drawn_lane(watch, 1, "pre-copy", "A")
    names = {mark.name for mark in before.marks} & {mark.name for mark in after.marks}
    assert {"b2", "b3", "running"} <= names


def test_rows_slide_in_from_where_they_were_read(watch):
    marks = state_stage.state(frame_at(watch, 2, "post-copy").state("A", 0))
    scene = Scene(0, 0, marks)
    source, target = scene.named("a3-1"), scene.named("b2-0")
    assert target.origin == (source.x, source.y)
    assert source.x - target.x == 59
    assert scene.named("b2-4").origin is None  # this row was not copied


def test_a_lane_that_is_not_chosen_shrinks_in_a_crowd(crowd):
    frame = frame_at(crowd, 4, "post-copy")
    scene = lanes_scene(frame, "B", 0)
    assert any(mark.name == "B-t0" for mark in scene.marks)
    assert not any(mark.name == "C-t0" for mark in scene.marks)
    assert any(mark.name.startswith("C-b") for mark in scene.marks)


@pytest.mark.parametrize("run", RUNS)
def test_every_phase_of_every_run_is_drawn(run, request):
    trace = request.getfixturevalue(run)
    layers = sorted({spec.layer for spec in trace.states})
    names = [plan.id for plan in trace.scenario.requests]
    for frame in frames(trace):
        for name in names:
            for layer in layers[:1]:
                for scene in (lanes_scene(frame, name, layer), state_scene(frame, name, layer)):
                    found = [mark.name for mark in scene.marks]
                    assert len(found) == len(set(found)), "a name stands for one mark"
                    assert all(mark.x == mark.x and mark.y == mark.y for mark in scene.marks)


def test_axes_do_not_move_between_phases(watch):
    axis = lanes.axis_of(watch, 0)
    for frame in frames(watch):
        for mark in lanes.lane(frame.lane("A", 0, 0), axis, False):
            if mark.name.startswith("edge"):
                assert mark.x == axis.lefts[int(mark.name[4:])]
    assert axis.token == 23
    assert axis.columns == 6


def test_none_mode_has_one_wide_column(none_mode):
    axis = lanes.axis_of(none_mode, 0)
    assert axis.covering == 1
    assert axis.columns == 3
    assert axis.lefts[-1] <= 614


def test_wide_blocks_keep_numbers_readable(wide_ds):
    axis = lanes.axis_of(wide_ds, 0)
    assert axis.per_column == 8
    assert axis.token >= 16 or axis.every > 1


def test_long_windows_are_shortened():
    assert shapes.window_text((5, 6, 7), 1) == "[t5 t6 t7] @1"
    assert shapes.window_text((219, 220, 221), 0) == "[t219–221]"
    assert shapes.window_text((219, 7, 221), 2) == "[t219 … t221] @2"
    assert shapes.window_text((None, None, 3), 0) == "[– – t3]"


def test_heat_letters_keep_sign_and_strength():
    assert [heat_letter(value, 2.0) for value in (0.0, 0.01, 2.0, -1.0)] == [".", "a", "j", "E"]
    assert heat_letter(float("nan"), 2.0) == "j"
    assert [heat_class(letter) for letter in ".ajE"] == ["z", "p1", "p10", "n5"]


def test_outline_runs_around_the_changed_cells():
    cells = np.array([[True, True], [False, False]])
    edges = sorted(edge for edge in changes.outline(cells, 10).split("M") if edge)
    assert edges == sorted(["0 0h10", "0 10h10", "0 0v10", "10 0h10", "10 10h10", "20 0v10"])
    assert changes.outline(np.zeros((2, 2), dtype=bool), 10) == ""


def test_changed_blocks_show_before_and_after(watch):
    frame = frame_at(watch, 2, "post-copy")
    marks, width = changes.changes(frame.changes(0), watch, changes.scales_of(watch))
    scene = Scene(width, 0, marks)
    assert texts(scene.named("of2")) == ["of A, column 1", "before", "after"]
    assert texts(scene.named("temporal-before2-labels")) == ["h(6)"]
    assert texts(scene.named("temporal-after2-labels")) == ["h(8)"]
    assert texts(scene.named("conv-after2-labels"))[:4] == ["t5", "t6", "t7", "t8"]
    assert scene.named("conv-frame2").body.parts[0].d


def test_hex_is_the_number_as_written(watch):
    """Channel 0 of a conv row is position + 1: t5 is 6.0, hex 40c00000."""
    frame = frame_at(watch, 2, "post-copy")
    marks, _ = changes.changes(frame.changes(0), watch, changes.scales_of(watch))
    heat = Scene(0, 0, marks).named("conv-after2").body.parts[0]
    assert (heat.values[0], heat.raw[0]) == ("6", "40c00000")


def test_ds_grids_are_drawn_with_tokens_as_rows(wide_ds):
    spec = wide_ds.spec_of[0, "conv"]
    change = next(
        c for s in wide_ds.steps for p in s.phases for c in p.changes if c.state == "conv"
    )
    grid = changes.as_grid(spec, change.raw, "DS")
    assert grid.shape == (spec.shape[1], spec.shape[0])
    np.testing.assert_array_equal(grid.T, spec.decode(change.raw))


def test_bars_tell_what_they_held_before(watch):
    marks = state_stage.state(frame_at(watch, 2, "post-copy").state("A", 0))
    scene = Scene(0, 0, marks)
    assert texts(scene.named("bar2-h")) == ["h(8)"]
    assert texts(scene.named("bar2-was")) == ["was h(6)"]
    assert texts(scene.named("bar9-note")) == ["with a rejected draft"]
    assert "column 2 + 1 = 3" in texts(scene.named("arrow-note"))


def test_phases_are_the_traces_own(watch):
    assert [frame.phase.name for frame in frames(watch)] == list(PHASES) * len(watch.steps)
