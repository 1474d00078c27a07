"""Pictures as files: well-formed, nothing from outside, hostile names stay text."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from mambaviz.viz.assets import SCRIPTS, stage_css, stage_js
from mambaviz.viz.export import replay_html
from mambaviz.viz.svg import picture

from .conftest import HOSTILE, RUNS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("run", RUNS)
def test_svg_is_well_formed(run, request):
    trace = request.getfixturevalue(run)
    for phase in ("schedule", "forward", "post-copy"):
        root = ElementTree.fromstring(picture(trace, min(2, len(trace.steps) - 1), phase))
        assert root.tag == f"{SVG}svg"
        assert float(root.get("width", 0)) > 1000


def test_svg_shows_the_state_and_its_headline(watch):
    root = ElementTree.fromstring(picture(watch, 2, "post-copy"))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert root.get("aria-label", "").startswith("A’s accepted tokens end")
    for expected in ("[t5 t6 t7] @1", "bias = 2, in place", "column 2 + 1 = 3", "h(12)"):
        assert expected in texts


def test_svg_of_the_dark_theme_differs_only_in_its_tokens(watch):
    light, dark = (picture(watch, 2, "post-copy", style=style) for style in ("light", "dark"))
    assert light != dark
    assert light.split("</style>")[1] == dark.split("</style>")[1]


def test_svg_has_no_script_and_nothing_from_outside(watch):
    svg = picture(watch, 2, "post-copy").replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in svg
    assert "http" not in svg


def test_unknown_places_are_named(watch):
    with pytest.raises(KeyError, match="no request 'Z'"):
        picture(watch, 2, "post-copy", request="Z")
    with pytest.raises(KeyError, match="step 9"):
        picture(watch, 9, "post-copy")


def test_hostile_names_stay_text_in_svg(crowd):
    root = ElementTree.fromstring(picture(crowd, 2, "post-copy", request=HOSTILE))
    assert not list(root.iter(f"{SVG}b"))
    assert any(HOSTILE in (node.text or "") for node in root.iter(f"{SVG}text"))


def test_replay_cannot_be_ended_by_a_name(crowd):
    page = replay_html(crowd, request=HOSTILE)
    assert page.count("</script>") == 2  # the data's end and the script's
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["asked"]["request"] == HOSTILE


def test_replay_fetches_nothing(watch):
    page = replay_html(watch, step=2, phase="post-copy")
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_script_never_reads_markup():
    """Everything on screen goes through textContent and createElementNS."""
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in stage_js()
    assert stage_js().count("export default") == 1


def test_styles_hold_no_colour_of_their_own():
    from mambaviz.viz.assets import _read

    for name in ("stage.css", "marks.css", *SCRIPTS, "stage.html"):
        text = re.sub(r"url\(#\w+\)|replace\(|href=\"#\w+", "", _read(name))
        assert not re.findall(r"#[0-9a-fA-F]{3,8}\b", text), name
        assert not re.findall(r"\b(?:rgb|hsl)a?\(", text), name


def test_every_variable_is_defined_and_every_token_is_used():
    css = stage_css()
    defined = set(re.findall(r"--([a-z-]+):", css))
    used = set(re.findall(r"var\(--([a-z-]+)", css))
    assert used - defined == {"st-code-font"}  # Streamlit's own, where there is one
    assert defined - used == {"free-fill"}  # a free block is not filled
