"""The Kernels page's pictures, by word and by place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mambaviz.launches.inputs import DEFAULT_LAUNCH, LAUNCHES, build
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import LaunchRecord, recorded
from mambaviz.launches.run import launch
from mambaviz.launches.simulate import damage
from mambaviz.launches.source import listing
from mambaviz.speeds import SpeedCase, Speeds, Timing
from mambaviz.viz.kernels import code, speeds, strips, view, words
from mambaviz.viz.scene import Mark, Scene, Text

EVERY = recorded(DEFAULT_LAUNCH)
HOSTILE = "<b>x</b>&\"'"


def texts(mark: Mark) -> list[str]:
    return [part.text for part in mark.body.parts if isinstance(part, Text)]


def cells(scene: Scene, start: str) -> list[str]:
    return [texts(mark)[0] for mark in scene.marks if mark.name.startswith(start)]


def test_the_headline_counts_what_the_grid_shows() -> None:
    assert words.headline(EVERY) == (
        "24 programs: 12 moved bytes, 8 had nothing to move, 4 were stopped by a guard."
    )
    assert words.sentences(EVERY) == [
        "672 bytes read and 672 written.",
        "E and F: the conv rows still move while the temporal copies are skipped, since the two "
        "read different columns.",
        "The accepted counts of B, E and F become 1.",
    ]
    html = view.programs_html(EVERY, None)
    assert html.count("data-program=") == 24
    for outcome, number in (("copied", 6), ("shifted", 6), ("guarded", 4), ("in-place", 4)):
        assert html.count(f'<button type="button" class="program {outcome}"') == number


@pytest.mark.parametrize("slug", LAUNCHES)
def test_every_preset_has_its_words_and_pictures(slug: str) -> None:
    record = recorded(slug)
    assert words.headline(record).endswith(".")
    told = code.values(record)
    assert set(told) == {program.key for program in record.programs}
    html = view.detail_html(record, None, told)
    for program in record.programs:
        assert f'data-for="{program.key}"' in html


def test_a_launch_that_differs_from_its_twin_says_so() -> None:
    wrong = EVERY.model_copy(update={"unexplained": 3})
    assert words.headline(wrong) == "This launch went wrong: 3 bytes came out otherwise."
    assert "mv-broken" in view.say_html(wrong, None)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_marked_and_caught(name: str) -> None:
    inputs = LAUNCHES[MISTAKES[name].preset]
    record, found = launch(inputs), damage(inputs, [name])
    head = words.headline(record, found)
    assert head.startswith(f"Built wrong ({MISTAKES[name].label}): {len(found.programs)} of ")
    assert MISTAKES[name].how in " ".join(words.sentences(record, found))
    html = view.programs_html(record, found)
    assert html.count(" hurt") == len(found.programs)
    assert 'class="lamp">I1' in html
    key = found.programs[0]
    scene = strips.bytes_scene(record, record.program(key), found)
    assert any("hurt" in mark.body.cls for mark in scene.marks)


def test_a_harmless_mistake_is_said() -> None:
    found = damage(EVERY.inputs, ["flat-ds-copy"])
    assert words.headline(EVERY, found).endswith("and these inputs do not show it.")
    assert "Nothing to catch" in view.programs_html(EVERY, found)


# --------------------------------------------------------------------------------------
# Bytes and orders
# --------------------------------------------------------------------------------------


def test_a_shift_in_place_is_one_block_before_and_after() -> None:
    scene = strips.bytes_scene(EVERY, EVERY.program("1-0"))
    assert cells(scene, "cell-before-5") == ["t7", "t8", "t9", "t10", "t11"]
    assert cells(scene, "cell-after-5") == ["t9", "t10", "t11", "t10", "t11"]
    assert texts(scene.named("reads-before")) == ["reads bytes 432–479"]
    assert texts(scene.named("writes-before")) == ["writes bytes 400–447"]
    changed = [mark.name for mark in scene.marks if "new" in mark.body.cls]
    assert changed == [f"cell-after-5-0-{row}" for row in range(3)]


def test_a_copy_is_a_source_and_a_target() -> None:
    scene = strips.bytes_scene(EVERY, EVERY.program("0-1"))
    assert cells(scene, "cell-source-7") == ["h(8)"]
    assert cells(scene, "cell-before-2") == ["h(6)"]
    assert cells(scene, "cell-after-2") == ["h(8)"]


def test_a_copy_onto_itself_is_called_one() -> None:
    record = recorded("into-a-new-block")
    program = record.program("0-1")
    assert (program.label, program.src_block, program.dst_block) == ("3 onto itself", 3, 3)
    assert "each is written over itself" in view.programs_html(record, None)
    scene = strips.bytes_scene(record, program)
    assert not [mark for mark in scene.marks if "new" in mark.body.cls]


def test_a_ds_block_has_a_line_for_each_channel() -> None:
    record = recorded("shift-in-place-ds")
    scene = strips.bytes_scene(record, record.program("0-0"))
    assert len(cells(scene, "cell-before-5")) == 20
    assert "and so in 3 more rows, 20 B apart" in texts(scene.named("reads-before"))[0]


def test_brackets_stay_within_the_picture() -> None:
    for slug in LAUNCHES:
        record = recorded(slug)
        for program in record.programs if record.inputs.copies else ():
            scene = strips.bytes_scene(record, program)
            for mark in scene.marks:
                assert 0 <= mark.x < scene.width
                assert 0 <= mark.y < scene.height


def test_the_row_that_is_lost_is_framed() -> None:
    program = EVERY.program("1-0")
    scene = strips.orders_scene(program.orders, program.bias, 3, running=10)
    wrong = [mark.name for mark in scene.marks if mark.name.startswith("wrong-")]
    assert wrong == ["wrong-3-0"]
    said = [texts(mark)[0] for mark in scene.marks if mark.name.startswith("said-")]
    assert said == ["as it should be", "right, by luck", "row 0 lost"]
    kinds = [scene.named(f"order-1-{row}").body.cls for row in range(5)]
    assert kinds == ["tk generated", "tk accepted", "tk accepted", "tk old", "tk old"]


def test_addresses_are_worked_out() -> None:
    html = view.detail_html(EVERY, None, code.values(EVERY))
    for expected in ("base + 5 · 80 + 2 · 16", "base + 432", "432–447", "(5 − 2) · 16"):
        assert expected in html


# --------------------------------------------------------------------------------------
# Source
# --------------------------------------------------------------------------------------


def test_the_source_is_the_kernels_own() -> None:
    import inspect

    from kernels import BACKEND, postprocess

    found = listing("postprocess_mamba_fused_kernel")
    assert list(dict.fromkeys(line.function for line in found.lines))[:2] == [
        "postprocess_mamba_fused_kernel",
        "copy_state_block",
    ]
    if BACKEND == "interpreter":
        kernel = postprocess.postprocess_mamba_fused_kernel.kernel.fn
        own = inspect.getsource(kernel).partition("def ")[2].rstrip().splitlines()
        shown = [line.text for line in found.of(kernel.__name__)]
        assert shown[1:] == own[1:]
    with pytest.raises(KeyError, match="no Triton kernel 'no_kernel'"):
        listing("no_kernel")


def test_a_value_without_a_line_is_no_silent_loss() -> None:
    program = EVERY.programs[0]
    stray = program.lines[0].model_copy(update={"code": "nowhere = 1"})
    record = EVERY.model_copy(update={"programs": [program.model_copy(update={"lines": [stray]})]})
    with pytest.raises(ValueError, match="has 0 lines that begin 'nowhere = 1'"):
        code.values(record)


def test_the_fast_kernel_gets_its_values_by_name() -> None:
    record = launch(EVERY.inputs, fast=True)
    told = code.values(record)["1-0"]
    source = listing(record.function)
    by_line = {source.lines[int(index)].text.strip(): shown for index, shown in told.items()}
    assert by_line["bias = aligned - running"] == ["2", "key"]
    assert by_line["running = computed + scheduled - drafts"] == ["10", ""]
    assert "running = new - accepted + 1" not in by_line, "the way that was not taken"
    assert "values by name" in view.detail_html(record, None, code.values(record))


def test_nothing_of_it_imports_torch() -> None:
    modules = "mambaviz.viz.kernels.view, mambaviz.viz.kernels.speeds, mambaviz.launches.from_run"
    check = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_hostile_names_stay_text() -> None:
    data = EVERY.inputs.model_dump()
    data["rows"][0]["request"] = HOSTILE
    record: LaunchRecord = launch(build(data))
    found = damage(record.inputs, ["signed-address"])
    for html in (
        view.say_html(record, found),
        view.programs_html(record, found),
        view.detail_html(record, found, code.values(record)),
    ):
        assert "<b>x" not in html


# --------------------------------------------------------------------------------------
# Measurements
# --------------------------------------------------------------------------------------


def test_bars_are_shares_of_the_cards_copy() -> None:
    fast = Timing(us=51.3, tbs=3.9, share=0.975, idle_us=1.9)
    case = SpeedCase(
        name="<one>",
        crossing=1,
        layers=1,
        layout="SD",
        bytes=1,
        target="97%",
        card_us=50,
        card_tbs=4,
        precopy=fast,
        met=False,
    )
    found = Speeds(device="H200", conditions="torch 2.11", idle_limit_us=3.5, cases=[case])
    html = speeds.speeds_html(found)
    for expected in ("width:97.5%", "98% · 3.90 TB/s", "left:97.0%", "&lt;one&gt;", "1.9 µs"):
        assert expected in html
    assert html.count("not measured") == 2
    assert 'class="missed"' in html
    assert "0 of 1 targets are met; with nothing to copy at most 3.5 µs are wanted" in html
    assert "No measurement" in speeds.speeds_html("No measurement is committed here.")
