"""What the browser may ask for as a picture: it comes from outside."""

from __future__ import annotations

import pytest

from mambaviz.pages.export_menu import megabytes, picture_asked
from mambaviz.pages.runs import recorded
from mambaviz.trace import Trace
from mambaviz.viz.stamp import Place

VIEW = {"step": 2, "phase": "post-copy", "request": "A", "layer": 1}


@pytest.fixture(scope="module")
def trace() -> Trace:
    run = recorded("drafts-meet-the-boundary")
    assert run is not None
    return run.trace


def test_a_view_of_the_run_is_a_place_in_it(trace: Trace) -> None:
    asked = {"kind": "png", "dark": True, "view": VIEW}
    assert picture_asked(trace, asked) == ("png", "dark", Place(2, "post-copy", "A", 1))
    assert picture_asked(trace, {"kind": "svg", "view": VIEW}) == (
        "svg", "light", Place(2, "post-copy", "A", 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        "svg",
        {},
        {"kind": "svg"},
        {"kind": "exe", "view": VIEW},
        {"kind": "svg", "view": {**VIEW, "step": 99}},
        {"kind": "svg", "view": {**VIEW, "step": "2"}},
        {"kind": "svg", "view": {**VIEW, "step": None}},
        {"kind": "svg", "view": {**VIEW, "phase": "lunch"}},
        {"kind": "svg", "view": {**VIEW, "request": "Z"}},
        {"kind": "svg", "view": {**VIEW, "layer": 9}},
        {"kind": "svg", "view": {**VIEW, "layer": []}},
    ],
)
def test_nonsense_gets_no_picture(trace: Trace, wanted: object) -> None:
    assert picture_asked(trace, wanted) is None


def test_sizes_are_said_in_round_numbers() -> None:
    assert [megabytes(n) for n in (10, 4_200, 99_999, 310_000, 12_345_678)] == [
        "1 kB", "4 kB", "100 kB", "0.3 MB", "12.3 MB",
    ]  # fmt: skip
