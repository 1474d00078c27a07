"""A picture that leaves the app says where it comes from and needs nothing to be seen."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from mambaviz.viz import theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.export import replay_html
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.stamp import Place, picture_name, run_name, stamp
from mambaviz.viz.svg import exported, picture
from mambaviz.viz.theme import THEMES
from tests.viz.conftest import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
AT = Place(2, "post-copy", "A", 0)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("style", THEMES)
def test_an_exported_picture_is_the_scene_with_its_sentence_and_stamp(watch, style):
    found = texts(exported(watch, AT, style))
    assert "step 2, post-copy, request A, layer 0" in found
    assert stamp(watch) in found
    assert any(text.startswith("CHECKPOINT, bias 1") for text in found)
    for text in texts(picture(watch, 2, "post-copy")):
        assert text in found or text == "step 2, post-copy, layer 0"


@pytest.mark.parametrize("style", THEMES)
def test_it_uses_no_variable_and_names_every_colour(watch, style):
    svg = exported(watch, AT, style)
    assert "var(" not in svg
    assert THEMES[style].cached.fill in svg
    classes = {name for names in re.findall(r' class="([^"]*)"', svg) for name in names.split()}
    for role in ("cached", "running", "speculative", "retired", "null"):
        assert role in classes


def test_the_stamp_names_scenario_back_end_and_versions(watch):
    text = stamp(watch)
    assert watch.scenario_hash in text
    assert f"back end {watch.backend}" in text
    for name, version in watch.versions.items():
        assert f"{name} {version}" in text


def test_file_names_say_what_is_in_them(watch, crowd):
    hash7 = watch.scenario_hash[:7]
    assert run_name(watch) == f"mambaviz-Drafts-meet-the-boundary-{hash7}"
    assert picture_name(watch, AT) == f"{run_name(watch)}-step-2-post-copy-A-layer-0"
    hostile = picture_name(crowd, Place(0, "accept", HOSTILE, 1))
    assert re.fullmatch(r"[A-Za-z0-9-]+", hostile)
    assert hostile.endswith("-step-0-accept-script-b-layer-1")


@pytest.mark.parametrize(
    "place",
    [
        Place(9, "post-copy", "A", 0),
        Place(2, "lunch", "A", 0),  # type: ignore[arg-type]
        Place(2, "post-copy", "Z", 0),
        Place(2, "post-copy", "A", 7),
    ],
)
def test_a_place_that_the_run_does_not_have_is_refused(watch, place):
    with pytest.raises(KeyError):
        exported(watch, place)


def test_a_style_sheet_written_out_knows_its_tokens_only():
    assert "var(" not in theme.written_out(marks_css(), "dark")
    with pytest.raises(KeyError):
        theme.written_out(".x { fill: var(--no-such-token); }", "light")


def test_a_replay_is_stamped_and_takes_the_payload_that_is_there(watch):
    page = replay_html(watch, payload=stage_payload(watch))
    assert page == replay_html(watch)
    assert f"<footer>{stamp(watch)}" in page
