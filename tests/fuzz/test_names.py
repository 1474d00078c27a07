"""Names of strangers stay text: in the log, in pictures, tables, pages and exports."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from benchmarks.mutations import NASTY_TEXTS
from mambaviz import batch, engine, log
from mambaviz.explore.scope import find_scope
from mambaviz.history import History
from mambaviz.launches import inputs
from mambaviz.launches.run import launch
from mambaviz.lifelines import lifelines
from mambaviz.pages import compare_sidebar, sidebar
from mambaviz.scenario import PRESETS, Scenario, build, one_line
from mambaviz.sizes.reader import parse_config
from mambaviz.sizes.report import size
from mambaviz.sizes.settings import Settings
from mambaviz.trace import Trace
from mambaviz.viz import explored
from mambaviz.viz.batch import view as batch_view
from mambaviz.viz.export import replay_html
from mambaviz.viz.kernels import view as kernels_view
from mambaviz.viz.sizes import tables
from mambaviz.viz.stamp import run_name
from mambaviz.viz.svg import exported, legal, picture
from mambaviz.viz.tabs.lifelines import lifelines_html
from mambaviz.viz.tabs.matrix import matrix_html

HACK = "<script>window.hacked=1</script>"
NAMES = list(dict.fromkeys(text[:40] for text in NASTY_TEXTS if text))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    requests = [
        {"id": name, "prompt_len": 2 + 3 * (not at), "max_tokens": 2 + at % 2, "salt": name}
        for at, name in enumerate(NAMES)
    ]
    settings = {"max_num_seqs": 64, "num_blocks": 300, "max_num_batched_tokens": 512}
    return build(
        {"name": HACK, "story": HACK, "engine": settings, "layer": {"num_layers": 1},
         "requests": requests}
    )  # fmt: skip


@pytest.fixture(scope="module")
def trace(scenario: Scenario) -> Trace:
    return engine.run(scenario, backend="reference")


class Active(HTMLParser):
    """Collects what would do something: scripts, pictures, frames, handlers, links to scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object", "embed", "link", "base", "form"):
            self.found.append(tag)
        for name, value in attrs:
            leads = name in ("href", "src", "xlink:href", "action")
            if name.startswith("on") or (leads and not (value or "").startswith(("#", "https:"))):
                self.found.append(f"{tag} {name}={value}")


def active(html: str) -> list[str]:
    parser = Active()
    parser.feed(html)
    parser.close()
    return parser.found


def test_the_judge_knows_what_is_active() -> None:
    for text in (HACK, '<img src=x onerror="a()">', "<a href='javascript:a()'>", "<p onclick=a>"):
        assert active(text)
    assert active("&lt;script&gt;<b title='&lt;script&gt;'>x</b><a href='#a'>") == []


def test_the_log_is_printable_lines(trace: Trace) -> None:
    lines = [one_line(line, limit=10_000) for line in log.run_lines(trace)]
    assert all(line.isprintable() for line in lines)
    assert any(HACK in line for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_a_picture(trace: Trace, name: str) -> None:
    """Well-formed, also with signs that no XML may hold; only shapes and texts in it."""
    root = ET.fromstring(picture(trace, 1, "forward", request=name))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {
        "svg", "style", "defs", "pattern", "rect", "g", "title", "text", "tspan", "path", "circle",
        "line", "marker", "polygon", "clipPath", "use", "ellipse", "polyline",
    }  # fmt: skip
    assert not [key for element in root.iter() for key in element.attrib if key.startswith("on")]
    shown = "".join(root.itertext())
    assert legal(name[:4]).replace("\r", "\n").strip() in shown


def test_tables_and_tabs(trace: Trace, scenario: Scenario) -> None:
    lives = lifelines(History(trace))
    last = trace.steps[-1]
    told = [
        sidebar.facts_table(scenario),
        sidebar.requests_table(scenario),
        compare_sidebar.requests_table([scenario, PRESETS["plain-decode"]]),
        compare_sidebar._table([(name, name) for name in NAMES]),
        matrix_html(trace, last, "commit"),
        lifelines_html(trace, lives, last.index, "commit", 1),
        explored.scenario_html(scenario),
    ]
    assert [active(html) for html in told] == [[]] * len(told)
    assert "&lt;script&gt;" in told[1]


def test_a_batch_a_launch_a_scope_and_a_model() -> None:
    rows = [
        {"request": name, "computed": 4, "query": 1, "blocks": [at + 1]}
        for at, name in enumerate(NAMES[:12])
    ]
    record = batch.build({"name": HACK, "story": HACK, "max_num_seqs": 16, "rows": rows}).build()
    told = [batch_view.say_html(record), batch_view.split_html(record)]
    told.append(batch_view.build_html(record))
    launched = [
        {"request": name, "computed": 3, "blocks": [at + 1]} for at, name in enumerate(NAMES[:12])
    ]
    shown = launch(inputs.build({"name": HACK, "story": HACK, "rows": launched}), "reference")
    told += [kernels_view.say_html(shown, None), kernels_view.programs_html(shown, None)]
    told.append(kernels_view.detail_html(shown, None, {}))
    scope = find_scope("tiny").model_copy(update={"name": HACK, "story": HACK})
    told += [explored.say_html(scope, None, None, None), explored.plan_html(scope, None)]
    model = parse_config(
        json.dumps({
            "name": HACK, "architectures": [HACK], "family": "mamba1", "d_inner": 64,
            "ssm_state_size": 16, "conv_kernel": 4, "layers": {"mamba": 2, "attention": 0},
        })
    )  # fmt: skip
    report = size(model, Settings())
    told += [tables.say_html(report), tables.tables_html(report)]
    told.append(tables.notes_html(model.assumed, "assumed"))
    assert [active(html) for html in told] == [[]] * len(told)


def test_a_replay_has_the_scripts_of_the_stage_and_no_other(trace: Trace) -> None:
    plain = engine.run(PRESETS["plain-decode"], backend="reference")
    usual, found = (replay_html(one, step=0, phase="forward") for one in (plain, trace))
    for sign in ("<script", "</script", "<!--", "<img", "onerror="):
        assert found.lower().count(sign) == usual.lower().count(sign), sign
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', found, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["asked"]["step"] == 0
    assert "<title>mambaviz: &lt;script&gt;" in found


def test_names_of_files_are_names(trace: Trace) -> None:
    assert re.fullmatch(r"[A-Za-z0-9.-]+", run_name(trace))


def test_the_exported_picture_says_the_name(trace: Trace) -> None:
    from mambaviz.viz.stamp import Place

    assert "window.hacked" in exported(trace, Place(1, "forward", NAMES[1], 0))
