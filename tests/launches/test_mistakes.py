"""Every mistake does the damage that is told of it, and the right launch does none."""

from __future__ import annotations

import pytest

from mambaviz.launches.inputs import DEFAULT_LAUNCH, LAUNCHES, build
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import Damage
from mambaviz.launches.run import launch
from mambaviz.launches.simulate import WIDE_STRIDE, damage, wrapped_block

DEFAULT = LAUNCHES[DEFAULT_LAUNCH]


def labels(found: Damage, state: int, block: int) -> tuple[list[int | None], list[int | None]]:
    """A damaged block as it should be and as it is."""
    record = launch(LAUNCHES[DEFAULT_LAUNCH])
    image = next(one for one in found.blocks if (one.state, one.block) == (state, block))
    layout = record.states[state]
    return layout.labels(image.raw_before, "SD"), layout.labels(image.raw_after, "SD")


def caught(found: Damage) -> set[str]:
    return {one.invariant for one in found.broken}


@pytest.mark.parametrize("slug", LAUNCHES)
def test_done_right_nothing_is_damaged_and_the_launch_agrees(slug: str) -> None:
    found = damage(LAUNCHES[slug], [])
    assert found.harmless
    assert found.programs == found.notes == []


@pytest.mark.parametrize("name", MISTAKES)
def test_the_preset_of_a_mistake_shows_it(name: str) -> None:
    found = damage(LAUNCHES[MISTAKES[name].preset], [name])
    assert found.programs
    assert {"I1", "I2"} <= caught(found)
    assert found.notes == []
    record = launch(LAUNCHES[MISTAKES[name].preset])
    right = {(one.state, one.block): one.after for one in record.blocks}
    assert all(right[one.state, one.block] == one.before for one in found.blocks)
    assert all(one.before != one.after for one in found.blocks)


def test_an_unordered_shift_overwrites_what_it_still_has_to_read() -> None:
    found = damage(DEFAULT, ["unordered-shift"])
    assert labels(found, 0, 5) == ([9, 10, 11, 10, 11], [11, 10, 11, 10, 11])
    assert found.programs == ["1-0", "1-2", "4-0", "4-2", "5-0", "5-2"]
    assert caught(found) == {"I1", "I2"}


def test_an_early_reset_makes_the_siblings_stay_away() -> None:
    found = damage(DEFAULT, ["early-reset"])
    assert labels(found, 1, 5) == ([12], [10])
    assert "1-0" not in found.programs, "the program that was first saw the right count"
    assert found.programs == ["1-1", "1-2", "1-3", "4-2", "5-2"]


def test_a_32_bit_product_wraps_to_other_blocks() -> None:
    assert [wrapped_block(block) for block in (0, 7, 8, 15, 16, 17, 23)] == [
        *(0, 7, -8, -1, 0, 1, 7),
    ]
    assert 8 * WIDE_STRIDE == 2**31
    found = damage(DEFAULT, ["int32-product"])
    assert any(one.block == 1 for one in found.blocks), "17 wraps to 1, a block of another request"
    null = damage(LAUNCHES["ids-that-lead-outside"], ["int32-product"])
    assert "I4" in caught(null)
    assert any(one.block == 0 for one in null.blocks), "16 wraps to the null block"


def test_a_signed_address_leaves_one_layer_behind() -> None:
    found = damage(DEFAULT, ["signed-address"])
    assert {one.state for one in found.blocks} == {0, 1}
    assert labels(found, 1, 2) == ([8], [6])


def test_without_a_bounds_check_another_request_is_read() -> None:
    found = damage(DEFAULT, ["no-bounds-check"])
    assert labels(found, 1, 21) == ([18], [4]), "h(4) is what request A keeps in block 1"
    assert [one.place for one in found.broken if one.invariant == "I7"] == [
        "column 6 of F is outside a row of 6 columns"
    ]


def test_a_flat_ds_copy_looks_right_in_channel_0() -> None:
    found = damage(LAUNCHES["shift-in-place-ds"], ["flat-ds-copy"])
    assert "channel 0 looks right, but the window is wrong in channel 2, 3" in found.broken[0].place


def test_mistakes_add_up() -> None:
    both = damage(DEFAULT, ["unordered-shift", "no-bounds-check"])
    one, other = (damage(DEFAULT, [name]) for name in ("unordered-shift", "no-bounds-check"))
    assert set(both.programs) == set(one.programs) | set(other.programs)
    assert caught(both) == caught(one) | caught(other)


@pytest.mark.parametrize(
    ("slug", "name", "sentence"),
    [
        (DEFAULT_LAUNCH, "flat-ds-copy", "does nothing in the SD layout"),
        ("which-column-next", "int32-product", "is about kernels that move bytes"),
        ("into-a-new-block", "early-reset", "this one writes no counts"),
        ("most-steps-copy-nothing", "unordered-shift", "does no damage to these inputs"),
    ],
)
def test_where_a_mistake_does_no_damage_it_is_said(slug: str, name: str, sentence: str) -> None:
    found = damage(LAUNCHES[slug], [name])
    assert found.harmless
    assert sentence in found.notes[0]
    assert LAUNCHES[MISTAKES[name].preset].name in found.notes[0]


def test_an_unknown_mistake_is_named() -> None:
    with pytest.raises(KeyError, match="no mistake 'typo'"):
        damage(DEFAULT, ["typo"])


def test_a_copy_between_blocks_has_no_order() -> None:
    """Only a shift in place can be spoiled by the order of its rows."""
    data = DEFAULT.model_dump()
    data["rows"] = data["rows"][:1]  # A copies from block 3 to block 2
    assert damage(build(data), ["unordered-shift"]).harmless
