"""The states nobody draws: each is made to occur in the app, looked for, and kept as a picture.

The pictures are written to .artifacts/states-*.png.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from mambaviz.pages.state import PageState, to_link
from mambaviz.scenario import PRESETS, build
from tests.browser.test_lesson import query
from tests.browser.test_watch import LAPTOP, PROJECTOR, Watch

pytestmark = pytest.mark.timeout(600)
A = {"id": "A", "prompt_len": 6, "accept": [1, 2, 0], "max_tokens": 8}
WATCH = PRESETS["drafts-meet-the-boundary"].model_dump()

ELSEWHERE = "interpreter" if shutil.which("nvidia-smi") else "cuda"  # not this process's back end
FIRST_RUN = 120_000  # ms: a run that is not recorded waits for torch
Open = Callable[..., Watch]


@pytest.fixture
def open_app(browser: Browser, app_url: str) -> Iterator[Open]:
    tabs: list[Watch] = []

    def opened(
        scenario: dict | None = None,
        size: tuple[int, int] = LAPTOP,
        drawn: bool = True,
        backend: str = "reference",
        **place: object,
    ) -> Watch:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce"
        )
        tab = Watch(context.new_page(), app_url)
        tabs.append(tab)
        own = build(scenario) if scenario else None
        tab.page.goto(
            f"{app_url}/{query(**to_link(PageState(custom=own, backend=backend, **place)))}"
        )
        if drawn:
            expect(tab.headline).not_to_be_empty(timeout=FIRST_RUN)
        return tab

    yield opened
    for tab in tabs:
        tab.page.context.close()
        assert tab.complaints == []


def within(node: Locator, outer: str, side: str) -> bool:
    """Whether a node ends inside what it is in; both measured at once: the page may move."""
    script = """([node, outer, side]) =>
        node.getBoundingClientRect()[side] <= node.closest(outer).getBoundingClientRect()[side]"""
    return node.evaluate(f"(node, [outer, side]) => ({script})([node, outer, side])", [outer, side])


def bottom(node: Locator) -> float:
    box = node.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def test_whole_lanes_and_every_control_are_in_the_window(open_app: Open) -> None:
    """Two requests, and the pointer and the keyboard on the stage, on the smallest window."""
    tab = open_app(size=PROJECTOR)
    last = tab.stage.locator(".lane").last.locator(".bk").last
    assert within(last, ".lane-picture", "bottom"), "no lane is cut off"
    assert within(tab.stage.locator(".lane-picture"), ".panel", "bottom")
    expect(tab.page.get_by_role("tab", name="Layers × states")).to_be_in_viewport()
    tab.stage.locator("[data-do=first]").focus()
    tab.page.keyboard.press("Tab")
    focused = tab.stage.locator("[data-do=back]")
    expect(focused).to_be_focused()
    assert focused.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    tab.stage.locator(".lane .bk").nth(2).hover()
    tab.shoot("states-focus-and-hover")


def test_a_phase_in_which_nothing_changes(open_app: Open) -> None:
    idle = {"name": "Idle", "requests": [{**A, "arrive": 1}]}
    tab = open_app(idle, step=0, phase="metadata", details=True)
    expect(tab.headline).to_have_text("Nothing is scheduled in this step.")
    expect(tab.stage.locator(".say p")).to_contain_text("A arrives at step 1.")
    expect(tab.stage.locator(".changes .nothing")).to_have_text("No block changes in this phase.")
    expect(tab.stage.locator(".state-picture")).to_contain_text("No state on show")
    tab.shoot("states-idle")


def test_a_red_lamp_a_red_block_and_a_stopped_copy(open_app: Open) -> None:
    faulty = {**WATCH, "name": "Off by one", "faults": ["bias-off-by-one"]}
    tab = open_app(faulty, size=PROJECTOR, step=2, phase="post-copy", request="B")
    expect(tab.stage.locator(".lamp.bad").first).to_be_visible()
    expect(tab.stage.locator(".main .wrong-disc").first).to_be_visible()
    picture = tab.stage.locator(".state-picture")
    expect(picture.locator(".copy.skipped").first).to_be_visible()
    for text in ("✗ source column", "block"):
        part = picture.get_by_text(text).last
        assert within(part, ".state-picture", "right"), "the reason is not cut"
    tab.stage.locator(".lamp.bad").first.click()
    expect(tab.stage.locator(".findings button").first).to_be_visible(timeout=20_000)
    assert bottom(tab.stage.locator(".panel.lanes")) <= PROJECTOR[1], "the lanes stay in view"
    tab.shoot("states-broken")


def test_long_names_and_columns_far_apart(open_app: Open) -> None:
    engine = {"num_blocks": 130, "max_model_len": 200}
    far = [{**A, "id": "LONG", "prompt_len": 120}, {**A, "id": "B", "prompt_len": 9}]
    tab = open_app({"name": "Far", "engine": engine, "requests": far}, step=3, phase="forward")
    expect(tab.stage.locator(".lane .badge").first).to_contain_text("LONG")
    away = tab.stage.locator(".lane .away")
    expect(away.nth(0)).to_be_empty()
    expect(away.nth(1)).to_contain_text("← runs in column")
    tab.shoot("states-far-apart")


@pytest.mark.parametrize(
    ("name", "fields", "says", "drawn"),
    [
        ("ds", {"engine": {"layout": "DS"}}, "DS, float32", "CHECKPOINT"),
        ("none", {"engine": {"mode": "none"}}, "none", "h(9)"),
        (
            "groups",
            {"engine": {"mode": "all", "num_mamba_groups": 2, "num_blocks": 32}},
            "Mamba groups",
            "h(9)",
        ),
        ("temporal", {"layer": {"states": "temporal"}}, "temporal only", "keeps no conv state"),
        ("conv", {"layer": {"states": "conv"}}, "conv only", "keeps no temporal state"),
    ],
)
def test_every_kind_of_cache_is_drawn(
    open_app: Open, name: str, fields: dict, says: str, drawn: str
) -> None:
    tab = open_app({"name": name, "requests": [A], **fields}, step=2, phase="post-copy")
    expect(tab.sidebar.locator(".mv-facts")).to_contain_text(says)
    expect(tab.stage.locator(".state-picture")).to_contain_text(drawn)
    expect(tab.stage.locator(".lane .bk").first).to_be_visible()
    for state in {"temporal": ["conv"], "conv": ["temporal"]}.get(name, []):
        arrow = tab.stage.locator(".lane-picture .copy").get_by_text(state, exact=True)
        expect(arrow).to_have_count(0)
    if name == "groups":
        expect(tab.stage.locator(".groups button")).to_have_count(2)
    tab.shoot(f"states-{name}")


def test_a_first_run_that_is_computed_stopped_or_cannot_be(open_app: Open) -> None:
    """Nothing was there before it: the stage's shape, and what to do next."""
    engine = {"num_blocks": 200, "max_model_len": 400}
    requests = [{"id": name, "prompt_len": 9, "max_tokens": 300} for name in "ABC"]
    long = {"name": "Long", "engine": engine, "requests": requests}
    tab = open_app(long, drawn=False, backend="auto")
    expect(tab.page.get_by_text(re.compile("^Computing"))).to_be_visible()
    skeleton = tab.page.locator(".skeleton")
    expect(skeleton).to_contain_text("The run is being computed")
    tab.shoot("states-computing")
    tab.page.get_by_role("button", name="Stop").click()
    expect(tab.page.get_by_text("This run was stopped.")).to_be_visible()
    expect(skeleton).to_contain_text("press “Run it”")
    tab.shoot("states-stopped")
    failed = open_app({"name": "Elsewhere", "requests": [A]}, drawn=False, backend=ELSEWHERE)
    expect(failed.page.get_by_role("button", name="Try again")).to_be_visible()
    expect(failed.page.locator(".skeleton")).to_contain_text(
        "There is no run to show: try it again"
    )
    failed.shoot("states-failed")
