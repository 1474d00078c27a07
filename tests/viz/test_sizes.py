"""Charts and tables of the Sizes page: true numbers, strokes and patterns beside colours."""

from __future__ import annotations

import itertools
import math

import pytest

from mambaviz.sizes.models import DEFAULT_MODEL, MODELS
from mambaviz.sizes.report import Report, size
from mambaviz.sizes.settings import settings_of
from mambaviz.viz.sizes import charts, tables
from mambaviz.viz.theme import THEMES


def report(model: str = DEFAULT_MODEL, **settings: object) -> Report:
    return size(MODELS[model].model, settings_of(settings))


@pytest.mark.parametrize("style", THEMES)
def test_a_page_is_stacked_to_the_same_length_for_both_kinds(style: str) -> None:
    figure = charts.bytes_per_layer(report(), style)
    rows: dict[str, int] = {}
    for bar in figure.data:
        rows[bar.y[0]] = rows.get(bar.y[0], 0) + bar.x[0]
    assert rows == {"recurrent": 3_211_264, "attention": 3_211_264}
    assert [bar.name for bar in figure.data][:2] == ["temporal 3,145,728", "conv 61,440"]


def test_what_does_not_exist_is_not_drawn() -> None:
    names = [bar.name for bar in charts.bytes_per_layer(report("falcon-mamba-7b")).data]
    assert names == ["temporal 262,144", "conv 49,152"]


def test_memory_has_a_line_a_mode_and_the_chosen_one_is_heavy() -> None:
    figure = charts.memory_over_length(report(mode="none"))
    lines = {line.name: line for line in figure.data if line.mode == "lines"}
    assert lines.keys() == {"none", "align", "all"}
    assert len({line.line.dash for line in lines.values()}) == 3
    assert [name for name, line in lines.items() if line.line.width == 3] == ["none"]
    told = report(mode="none")
    assert lines["none"].y[-1] * 2**30 == dict(told.memory_curve("none"))[lines["none"].x[-1]]


def test_crossings_fall_with_the_block_and_the_chosen_one_is_marked() -> None:
    told = report(num_spec=2)
    figure = charts.crossings_over_block(told)
    heavy = next(line for line in figure.data if line.mode == "lines" and line.line.width == 3)
    assert list(heavy.y) == sorted(heavy.y, reverse=True)
    assert dict(zip(heavy.x, heavy.y, strict=True))[told.block] == pytest.approx(told.crossings)
    assert f"block {told.block:,}" in [note.text for note in figure.layout.annotations]


@pytest.mark.parametrize("drafts", [0, 2, 7])
def test_names_at_the_ends_of_lines_stand_apart(drafts: int) -> None:
    figure = charts.crossings_over_block(report("nemotron-3-super-120b-a12b", num_spec=drafts))
    names = [trace for trace in figure.data if trace.mode == "text"]
    heights = sorted(math.log10(trace.y[0]) for trace in names)
    rates = [math.log10(y) for line in figure.data if line.mode == "lines" for y in line.y]
    room = (max(rates) - min(rates)) * charts.NAME_HEIGHT
    assert len(names) >= 2
    assert all(b - a >= room - 1e-9 for a, b in itertools.pairwise(heights))


@pytest.mark.parametrize("block", [16, 784, 100_000])
def test_block_sizes_have_a_few_powers_of_two_as_ticks(block: int) -> None:
    figure = charts.crossings_over_block(report("mamba2-2-7b", block_size=block))
    ticks = figure.layout.xaxis.tickvals
    assert 4 <= len(ticks) <= 7
    assert all(tick & (tick - 1) == 0 for tick in ticks)


def test_crossings_are_drawn_for_drafts_wider_than_the_block() -> None:
    figure = charts.crossings_over_block(report("mamba2-2-7b", num_spec=30))
    assert all(min(line.x) > 0 for line in figure.data)


def test_tables_open_to_rule_and_source_and_stay_text() -> None:
    html = tables.tables_html(report())
    assert html.count("<details") == html.count("<summary>") == html.count("Source: ")
    assert "vLLM 0.33.0" in html
    assert tables.notes_html(["a < b"], "note").count("&lt;") == 1
    assert tables.notes_html([], "note") == ""


def test_where_a_models_numbers_come_from() -> None:
    for public in MODELS.values():
        html = tables.about_html(public)
        assert f"confidence {public.confidence}" in html
        assert html.count("<dd>") == len(public.sources) + len(public.seen) > 0
