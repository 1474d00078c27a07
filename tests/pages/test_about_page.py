"""The About page: every part opens, every word leads somewhere, every link is understood."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.attention.fields import FIELDS
from mambaviz.glossary import TERMS
from mambaviz.likeness import KIND_MEANING, LIKENESSES, SOURCES, Likeness
from mambaviz.pages.about import PART_NAMES
from mambaviz.pages.about_state import ABOUT_PARTS, AboutView
from mambaviz.pages.handbook import texts
from mambaviz.pages.reports import replay_of
from mambaviz.pages.runs import recorded
from mambaviz.pages.sights import SIGHTS
from mambaviz.pages.state import PageState, from_link, to_link
from mambaviz.reports import REPORTS
from mambaviz.sizes.models import MODELS
from mambaviz.trace import INVARIANTS, PHASES
from mambaviz.viz.views import Frame, frame_at
from tests.project.sources import ROOT

ROLES = {"cached", "running", "previous", "speculative", "null", "retired"}
TOKENS = {"prompt", "generated", "reused", "ahead", "pending", "accepted", "rejected"}


def script() -> None:
    from mambaviz.pages import about, state

    state.enter("About")
    about.page()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=60)


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


# ------------------------------------------------------------------------------------- page


def test_every_part_opens_and_is_in_the_address(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert address(app) == {}
    for part in ABOUT_PARTS[1:]:
        app.segmented_control(key="about-part").set_value(part).run()
        assert not app.exception
        assert address(app) == {"part": part}
        assert PART_NAMES[part]
    app.selectbox(key="about-read").set_value("3.2").run()
    assert address(app) == {"read": "3.2"}
    assert any("bias = aligned - running" in one.value for one in app.markdown)


def test_versions_and_back_ends_are_those_of_the_check(app: AppTest) -> None:
    app.query_params["part"] = "versions"
    app.run()
    shown = html(app)
    for word in ("torch", "triton", "streamlit", "code ", "what &#x27;auto&#x27; means"):
        assert word in shown
    others = [name for name in ("cuda", "interpreter", "reference") if f"<dt>{name}</dt>" in shown]
    assert len(others) == 2, "the back ends that do not run, with a reason"


def test_a_wrong_term_gets_one_sentence(app: AppTest) -> None:
    app.query_params["term"] = "lunch"
    app.run()
    assert not app.exception
    assert [one.value for one in app.warning] == [
        "This link asks for the term “lunch”, which is not in the glossary, so all terms are shown."
    ]


def test_views_and_links() -> None:
    views = [
        AboutView(part=part, term=term, read=read)
        for part in ABOUT_PARTS
        for term in (None, "h(n)", "seq_lens")
        for read in ("1", "3.2", "onboarding")
    ]
    for view in views:
        back, problem = from_link(to_link(PageState(about=view)))
        assert (back.about, problem) == (view, "")
    for name, wrong in (("part", "all"), ("read", "9.9")):
        back, problem = from_link({name: wrong})
        assert back.about == AboutView()
        assert wrong in problem


# ---------------------------------------------------------------------- where a word is seen


def test_every_word_has_its_place_and_its_section() -> None:
    assert SIGHTS.keys() == TERMS.keys() | FIELDS.keys()
    sections = {term.section for term in TERMS.values()} | {
        info.section for info in FIELDS.values()
    }
    assert sections <= texts().keys()
    for name, sight in SIGHTS.items():
        if sight.page == "Watch":
            state, problem = from_link(dict(parse_qsl(sight.href.partition("?")[2])))
            assert problem == "", name
            assert (state.preset, state.step, state.phase) == (
                sight.preset,
                sight.step,
                sight.phase,
            )


def seen(name: str) -> Frame:
    sight = SIGHTS[name]
    found = recorded(sight.preset)
    assert found is not None
    return frame_at(found.trace, sight.step, sight.phase)


@pytest.mark.parametrize("name", sorted(ROLES))
def test_a_role_is_there_where_it_is_said_to_be(name: str) -> None:
    frame = seen(name)
    lanes = [frame.lane(request, 0, 0) for request in frame.tables.rows]
    assert name in {cell.role for lane in lanes for cell in lane.cells}


@pytest.mark.parametrize("name", sorted(TOKENS))
def test_a_token_is_there_where_it_is_said_to_be(name: str) -> None:
    frame = seen(name)
    assert name in {status for one in frame.lives for status in frame.token_statuses(one)}


def test_copies_and_the_broken_invariant_are_where_they_are_said_to_be() -> None:
    for name in ("migrate", "checkpoint"):
        assert {copy.kind for copy in seen(name).phase.copies} == {name}
    assert any(copy.src_block == copy.dst_block for copy in seen("in place").phase.copies)
    assert seen("wrong").violations_so_far()


def test_a_request_is_preempted_in_the_report_that_is_named() -> None:
    sight = SIGHTS["preempted"]
    back, problem = from_link(dict(parse_qsl(sight.href.partition("?")[2])))
    assert (back.museum.report, problem) == (sight.report, "")
    assert any(step.preempted for step in replay_of(back.museum.report).right.steps)


def test_a_phase_is_shown_at_that_phase() -> None:
    assert all(SIGHTS[phase].phase == phase for phase in PHASES)
    assert all(SIGHTS[invariant].phase == "commit" for invariant in INVARIANTS)


# ------------------------------------------------------------------------------- likenesses


@pytest.mark.parametrize("one", LIKENESSES, ids=lambda one: one.part)
def test_a_likeness_names_a_section_and_tests_that_exist(one: Likeness) -> None:
    assert one.kind in KIND_MEANING
    assert one.section in texts().keys() | {""}
    assert all((ROOT / file).is_file() for file in one.checked)
    assert one.checked or one.kind != "exact"
    assert all(text.endswith(".") for text in (one.real, one.here, one.why))


def test_the_counts_that_are_named_are_right() -> None:
    golden = ROOT / "tests" / "golden"
    counts = {
        name: len(json.loads((golden / name).read_text()))
        for name in ("kernels.json", "builder.json")
    }
    lines = (golden / "engine.json").read_text().splitlines()
    runs = [json.loads(line.rstrip(",")) for line in lines if line.startswith("{")]
    said = " ".join(source.what for source in SOURCES)
    assert f"{counts['kernels.json']} kernel launches" in said
    assert f"{counts['builder.json']} batches" in said
    assert f"{len(runs)} runs" in said
    assert f"{len(MODELS)} models" in said
    assert f"{len(REPORTS)} bug reports" in said
    lists = next(one.here for one in LIKENESSES if one.part == "Block pool and request lists")
    versions = [run["vllm_version"] for run in runs]
    assert re.findall(r"(\d+) (?:recordings|of version)", lists) == [
        str(len(runs)),
        str(versions.count("0.30.0")),
    ]
    assert set(versions) == {"0.30.0", "0.32.0"}
