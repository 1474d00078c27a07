"""The guide's links: every parameter is understood, every stop is one that the run has."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

import pytest

from mambaviz.pages.runs import recorded
from mambaviz.pages.state import from_link, to_link
from tests.project.sources import ROOT

GUIDE = (ROOT / "docs" / "onboarding.md").read_text(encoding="utf-8")
LINKS = re.findall(r"`/\?([^`]+)`", GUIDE)
OTHER_PAGES = re.findall(r"`/([a-z]+)(?:\?([^`]+))?`", GUIDE)


def test_the_guide_has_links():
    assert len(LINKS) >= 8


@pytest.mark.parametrize("link", LINKS)
def test_a_link_is_understood(link: str):
    state, problem = from_link(dict(parse_qsl(link, strict_parsing=True)))
    assert problem == ""
    assert state.preset_shown is not None
    found = recorded(state.preset_shown)
    assert found is not None
    for stop in state.lesson.stops if state.lesson else ():
        step = found.trace.steps[stop.step]
        assert stop.request in step.requests


@pytest.mark.parametrize(("path", "query"), OTHER_PAGES)
def test_another_page_is_there_and_understands_its_link(path: str, query: str):
    assert f'url_path="{path}"' in (ROOT / "app.py").read_text(encoding="utf-8")
    wanted = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    state, problem = from_link(wanted)
    assert problem == ""
    assert to_link(state) == wanted
