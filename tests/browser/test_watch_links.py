"""What points at what, the keyboard, words for every picture: the stage in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

import pytest
from playwright.sync_api import Locator, expect

from mambaviz.engine import run
from mambaviz.glossary import TERMS
from mambaviz.scenario import PRESETS, UNSOUND_PRESETS, build
from mambaviz.trace import Trace, Violation
from tests.browser.test_replay import Replay, open_replay  # noqa: F401  (a fixture)
from tests.browser.test_watch import Watch, watch  # noqa: F401  (a fixture)

Open = Callable[..., Replay]

pytestmark = pytest.mark.timeout(600)


@cache
def run_of(name: str) -> Trace:
    """A preset's run, or the default one with a bias that is one too large."""
    if name != "a fault":
        return run(PRESETS[name], backend="reference")
    scenario = json.loads(PRESETS["drafts-meet-the-boundary"].model_dump_json())
    return run(build({**scenario, "faults": ["bias-off-by-one"]}), backend="reference")


@pytest.fixture
def page(open_replay: Open) -> Replay:  # noqa: F811
    return open_replay(run_of("drafts-meet-the-boundary"), step=2, phase="post-copy")


def blocks(found: Locator) -> list[int]:
    """Blocks that nodes stand for, each once."""
    return sorted(
        {int(block) for block in found.evaluate_all("ns => ns.map(n => n.dataset.block)")}
    )


def block(page: Replay, number: int) -> Locator:
    """A block in the worker's row."""
    return page.page.locator(f".lane .bk[data-block='{number}'][role=button]")


def focus(page: Replay) -> str:
    """What has the keyboard's focus, as a screen reader says it."""
    return str(page.page.evaluate(
        "document.activeElement.ariaLabel ?? document.activeElement.textContent"
    ))  # fmt: skip


# --------------------------------------------------------------------------------------
# Linked highlights
# --------------------------------------------------------------------------------------


def test_a_block_marks_everything_about_it(page: Replay) -> None:
    block(page, 3).hover()
    assert blocks(page.page.locator(".pointed")) == [3]
    expect(page.page.locator(".state .pointed")).to_have_count(2)  # strip and bar
    expect(page.page.locator(".state .row-mark")).to_have_count(2)
    expect(page.page.locator(".lane .list.linked")).to_have_text("3")
    expect(page.page.locator(".lane .copy.linked")).to_contain_text("conv")
    expect(page.page.locator(".metadata .bkc.linked")).to_have_text("3")
    expect(page.page.locator(".metadata tr.hit")).to_contain_text("state_indices_tensor_d")
    tokens = page.page.locator(".lane .span-mark")
    expect(tokens).to_have_count(2)  # what the state has taken in, and its window
    page.page.mouse.move(1, 1)
    expect(page.page.locator(".pointed, .linked, .hit, .span-mark, .row-mark")).to_have_count(0)


def test_a_token_marks_the_blocks_that_hold_it(page: Replay) -> None:
    page.page.locator(".lane [data-token='7']").first.hover()
    assert blocks(page.page.locator(".lane .pointed")) == [2, 3]  # in their window
    assert blocks(page.page.locator(".lane .partly")) == [7, 9]  # in their temporal state only
    expect(page.page.locator(".state .tk.linked").first).to_be_attached()
    expect(page.page.locator(".metadata tr.hit", has_text="seq_lens")).to_be_attached()
    page.page.locator(".lane [data-token='8']").first.hover()
    assert blocks(page.page.locator(".lane .partly")) == [9]


def test_a_field_marks_blocks_and_tokens_and_an_entry_its_own_block(page: Replay) -> None:
    table = page.page.locator(".metadata")
    table.locator("td", has_text="query_start_loc_d").hover()
    expect(page.page.locator(".lane .span-mark.frame")).to_have_count(2)
    expect(table.locator(".meaning")).to_contain_text("query_start_loc_d: Where the query")
    table.locator(".bkc", has_text="9").hover()
    assert blocks(page.page.locator(".lane .pointed")) == [9]


def test_a_click_pins_and_escape_releases(page: Replay) -> None:
    block(page, 7).click()
    pin = page.page.locator(".pinned")
    expect(pin).to_have_text("block 7✕")
    page.page.mouse.move(1, 1)
    page.press("ArrowRight", "ArrowRight")  # the marks follow the block through the run
    assert page.place == "step 3, schedule"
    assert blocks(page.page.locator(".lane .pointed")) == [7]
    page.press("Escape")
    expect(pin).to_be_hidden()
    expect(page.page.locator(".pointed")).to_have_count(0)
    assert page.problems == []


# --------------------------------------------------------------------------------------
# Keyboard
# --------------------------------------------------------------------------------------


def test_tab_visits_every_group_in_the_order_of_the_page(page: Replay) -> None:
    seen = []
    for _ in range(40):
        page.press("Tab")
        seen.append(page.page.evaluate(
            "document.activeElement.closest('.top, .phases, .say, .lanes, .state, .why, "
            ".changes, .metadata, .legend')?.classList.item(0) ?? "
            "document.activeElement.closest('.panel')?.classList.item(1) ?? ''"
        ))  # fmt: skip
    order = list(dict.fromkeys(name for name in seen if name))
    assert order == ["top", "phases", "say", "panel", "legend"]
    ring = page.page.locator(".play")
    ring.focus()
    page.press("Shift+Tab", "Tab")
    expect(ring).to_have_css("outline-style", "solid")


def test_arrows_move_inside_the_lanes_and_enter_pins(page: Replay) -> None:
    block(page, 3).focus()
    page.press("Shift+Tab", "Tab")
    assert focus(page).startswith("A: block 3, running, state after 7 tokens")
    page.press("ArrowRight")
    assert focus(page).startswith("A: block 7, speculative")
    page.press("ArrowUp")
    assert re.match(r"A: token \d+", focus(page))
    page.press("ArrowDown", "ArrowDown", "ArrowDown")
    assert focus(page).startswith("B: block")
    assert page.place == "step 2, post-copy"  # arrows inside a group do not step
    page.press("Enter")
    expect(page.page.locator(".pinned")).to_contain_text("block")
    page.press("e")  # another frame: the focus stays in the lanes
    assert focus(page).startswith("B: block")


def test_arrows_after_a_click_step_the_run(page: Replay) -> None:
    page.page.locator(".lamp").nth(2).click()
    page.press("Escape", "ArrowLeft")
    assert page.place == "step 2, accept"
    page.page.locator(".chip", has_text="forward").click()
    page.press("ArrowRight")
    assert page.place == "step 2, accept"
    assert focus(page).startswith("accept")  # the focus goes along


def test_letters_and_digits(page: Replay) -> None:
    state = page.page.locator(".state-of")
    page.press("2")
    expect(state).to_have_text("State of request B, layer 0")
    page.press("]", "l")
    expect(state).to_have_text("State of request A, layer 1")
    page.press("[", "L")
    expect(state).to_have_text("State of request B, layer 0")
    page.press("h")
    expect(page.page.locator(".hex td.new").first).to_be_visible()
    page.press("Shift+E")  # A's copy in the same phase is an event of its own
    assert page.place == "step 2, post-copy"
    expect(state).to_have_text("State of request A, layer 0")
    page.press("Shift+E")
    assert page.place == "step 2, accept"
    page.press("Shift+E", "e")
    assert page.place == "step 2, accept"
    assert page.problems == []


def test_the_list_of_keys(page: Replay) -> None:
    keys = page.page.get_by_role("dialog", name="keys")
    page.page.locator("[data-do=keys]").focus()
    page.press("?")
    expect(keys).to_contain_text("next or previous event")
    page.press("Escape")
    expect(keys).to_be_hidden()
    expect(page.page.locator("[data-do=keys]")).to_be_focused()


BROKEN = ["a fault", *sorted(UNSOUND_PRESETS)]


@pytest.mark.parametrize("name", BROKEN)
def test_a_red_lamp_leads_to_the_exact_place(open_replay: Open, name: str) -> None:  # noqa: F811
    trace = run_of(name)
    first = trace.violations[0]
    page = open_replay(trace, step=first.step, phase="commit", size=(1440, 1000))
    page.page.locator(".lamp.bad", has_text=first.invariant).focus()
    page.press("Enter")
    findings = page.page.get_by_role("dialog", name="what the lamp checked")
    expect(findings).to_contain_text(first.message)
    page.press("Escape")
    expect(findings).to_be_hidden()
    assert focus(page).startswith(first.invariant)
    page.press("Enter", "Enter")  # open, and go to the first finding
    assert page.place == f"step {first.step}, {first.phase}"
    _shows(page, trace, first)
    assert page.problems == []


def _shows(page: Replay, trace: Trace, broken: Violation) -> None:
    title = page.page.locator(".state-of")
    if broken.request is not None:
        expect(title).to_contain_text(f"request {broken.request}")
    if broken.layer is not None:
        expect(title).to_contain_text(f"layer {broken.layer}")
    if broken.block:
        assert blocks(page.page.locator(".main .pointed")) == [broken.block]


# --------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------


def test_a_term_is_explained_on_hover_and_on_focus(page: Replay) -> None:
    tip = page.page.get_by_role("tooltip")
    expect(tip).to_be_hidden()
    page.page.locator(".say .term", has_text="bias").hover()
    expect(tip).to_contain_text(TERMS["bias"].meaning)
    page.press("Escape")
    expect(tip).to_be_hidden()
    lamp = page.page.locator(".lamp").first
    lamp.focus()
    page.press("Tab", "Shift+Tab")
    expect(tip).to_contain_text("I1 " + TERMS["I1"].meaning)
    assert lamp.get_attribute("aria-describedby") == tip.get_attribute("id")
    page.page.locator(".legend [data-term=speculative]").hover()
    expect(tip).to_contain_text(TERMS["speculative"].meaning)
    page.page.locator(".why td [data-term='aligned tokens']").hover()
    expect(tip).to_contain_text(TERMS["aligned tokens"].meaning)


def test_every_picture_is_said_and_the_words_follow_the_step(page: Replay) -> None:
    for picture, said in (
        (".lane-picture", "Column 2: block 3, running, state after 7 tokens"),
        (".state-picture", "Conv state of block 3, source: rows t4 t5 t6 t7 t8"),
        (".change-picture", "Block 2, cached, of A, column 1"),
        (".overview", "Step 4: decode, finish"),
    ):
        told = page.page.locator(f"#{page.page.get_attribute(picture, 'aria-describedby')}")
        expect(told).to_contain_text(said)
    page.press("ArrowLeft")
    expect(page.page.locator("#lanes-told")).not_to_contain_text("bias 1")
    expect(page.page.locator("#changes-told")).to_have_text("No block changes in this phase.")


def test_playing_is_not_read_aloud(page: Replay) -> None:
    say = page.page.locator(".say")
    expect(say).to_have_attribute("aria-live", "polite")
    page.press("Home", " ")
    expect(say).to_have_attribute("aria-live", "off")
    page.press(" ")
    expect(say).to_have_attribute("aria-live", "polite")


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)], ids=["1440x900", "1280x720"])
def test_the_legend_is_one_line(open_replay: Open, size: tuple[int, int]) -> None:  # noqa: F811
    page = open_replay(run_of("a-shared-prefix"), step=3, phase="pre-copy", size=size)
    legend = page.page.locator(".legend")
    box = legend.bounding_box()
    assert box is not None
    assert box["height"] < 26
    more = legend.locator(".more")
    if more.count():  # fonts differ; what does not fit is a press away
        more.click()
        expect(legend.locator("[data-term=boundary]")).to_be_visible()
        more.click()
    for item in legend.locator("[data-term]:visible").all():
        at = item.bounding_box()
        assert at is not None
        assert at["x"] + at["width"] <= box["x"] + box["width"] + 0.5


# --------------------------------------------------------------------------------------
# In the app: the first visit, the session, the link
# --------------------------------------------------------------------------------------


def test_details_start_folded_and_open_in_one_click(watch: Watch) -> None:  # noqa: F811
    watch.open("?step=2&phase=post-copy")
    lower = watch.stage.locator(".lower")
    expect(lower).to_be_hidden()
    watch.stage.get_by_role("tab", name="Why").click()
    for panel in ("why", "changes", "metadata"):
        expect(watch.stage.locator(f".lower .{panel}")).to_be_visible()
    expect(watch.stage.locator(".change-picture .heat").first).to_be_visible()
    watch.at(r"details=open")
    watch.sidebar.get_by_role("combobox").first.click()
    watch.page.get_by_role("option", name=re.compile("Shift in place")).click()
    watch.at(r"preset=shift-in-place.*details=open")
    expect(watch.headline).to_contain_text("shifts in place")  # the run itself has come
    expect(lower).to_be_visible()  # remembered
    watch.stage.locator(".fold").click()
    expect(lower).to_be_hidden()
    watch.at(r"preset=shift-in-place$")


def test_a_link_can_open_the_details(watch: Watch) -> None:  # noqa: F811
    watch.open("?step=2&phase=post-copy&details=open")
    expect(watch.stage.locator(".lower .metadata")).to_be_visible()
    watch.page.keyboard.press("d")
    expect(watch.stage.locator(".lower")).to_be_hidden()


def test_tabs_are_on_the_screen_of_a_projector(watch: Watch) -> None:  # noqa: F811
    watch.page.set_viewport_size({"width": 1280, "height": 720})
    watch.open("?step=2&phase=post-copy")
    tab = watch.stage.get_by_role("tab", name="Metadata")
    tab.click()
    expect(watch.stage.locator(".lower .metadata")).to_be_visible()
    expect(watch.stage.locator(".lower .why")).to_be_hidden()
    box = tab.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 720
    tab.click()
    expect(watch.stage.locator(".lower .metadata")).to_be_hidden()
