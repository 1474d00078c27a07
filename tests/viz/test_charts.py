"""Figures for notebooks."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import pytest

from mambaviz.trace import PHASES
from mambaviz.viz.charts import block_heatmap, stage_figure
from mambaviz.viz.svg import picture


def test_heatmap_shows_the_numbers_of_a_block(watch):
    figure = block_heatmap(watch, 2, "post-copy", 2)
    (heat,) = figure.data
    assert list(heat.y) == ["row 0: t5", "row 1: t6", "row 2: t7", "row 3: t8", "row 4: –"]
    assert [row[0] for row in heat.text] == ["6", "7", "8", "9", "0"]
    assert (heat.zmin, heat.zmax) == (-1, 1)
    assert "h(8)" in figure.layout.title.text


def test_heatmap_of_a_temporal_state(watch):
    (heat,) = block_heatmap(watch, 2, "post-copy", 2, state="temporal").data
    assert heat.y[0] == "head 0, channel 0"
    assert heat.text[0][0] == "8"


def test_heatmap_of_a_block_never_written(watch):
    figure = block_heatmap(watch, 0, "schedule", 3)
    assert "never written" in figure.layout.title.text


def test_heatmap_refuses_a_block_that_is_not_there(watch):
    with pytest.raises(ValueError, match="block 16: the pool has blocks 0 to 15"):
        block_heatmap(watch, 2, "post-copy", 16)


def test_stage_figure_has_a_frame_for_each_phase(watch):
    figure = stage_figure(watch, 2)
    assert [frame.name for frame in figure.frames] == list(PHASES)
    source = figure.frames[PHASES.index("post-copy")].layout.images[0].source
    svg = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
    assert svg == picture(watch, 2, "post-copy")
    ElementTree.fromstring(svg)
