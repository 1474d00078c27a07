"""The Metadata page's wiring: widgets, batch, address and pictures agree.

What needs a hand on a cell or a pointer is tested in a real browser (tests/browser).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.batch import BATCHES, DEFAULT_BATCH, BatchError, build
from mambaviz.pages import batch_editor, runs, state
from mambaviz.pages.state import PageState, from_link, pack, to_link
from mambaviz.scenario import PRESETS
from mambaviz.viz.batch import words
from tests.pages.test_runs import FakeEngine


def script() -> None:
    from mambaviz.pages import metadata, state

    state.enter("Metadata")
    metadata.page()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page alone; runs of the Watch page are the recorded ones."""
    st.cache_resource.clear()
    store = runs.RunStore(FakeEngine())
    monkeypatch.setattr("mambaviz.pages.watch.run_store", lambda: store)
    return AppTest.from_function(script, default_timeout=60)


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def pictures(app: AppTest) -> str:
    return " ".join(str(element.proto) for element in app.get("bidi_component"))


def headline(app: AppTest) -> str:
    return html(app).partition("<h1>")[2].partition("</h1>")[0]


def setting(app: AppTest, label: str) -> Any:
    return next(found for found in app.number_input if found.label == label)


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def errors(app: AppTest) -> str:
    return " ".join(found.value for found in app.error)


def press(app: AppTest, label: str) -> AppTest:
    return next(found for found in app.button if found.label == label).click().run()


def test_the_default_is_there_at_once(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert headline(app) == words.headline(BATCHES[DEFAULT_BATCH].build())
    assert address(app) == {}
    assert not app.error


@pytest.mark.parametrize("slug", sorted(BATCHES))
def test_every_preset_opens_and_says_what_it_is(app: AppTest, slug: str) -> None:
    app.run()
    app.selectbox(key="batch-preset").select(slug).run()
    assert not app.exception
    assert not app.error
    assert headline(app) == words.headline(BATCHES[slug].build())
    assert setting(app, "drafts").value == BATCHES[slug].num_spec
    assert address(app) == ({} if slug == DEFAULT_BATCH else {"batch": slug})


def test_a_changed_setting_is_built_and_in_the_address(app: AppTest) -> None:
    app.run()
    setting(app, "chunk size").set_value(4).run()
    assert not app.error
    shown, problem = from_link(address(app))
    assert problem == ""
    assert shown.batch_shown.chunk_size == 4
    assert shown.batch_shown.rows == BATCHES[DEFAULT_BATCH].rows
    assert shown.batch_shown.name == "Mixed, one of each rule, edited"
    assert app.selectbox(key="batch-preset").value == "own"
    setting(app, "chunk size").set_value(8).run()
    assert address(app) == {}, "the preset's own content is the preset"


def test_a_setting_that_cannot_be_is_said_and_changes_nothing(app: AppTest) -> None:
    app.query_params["batch"] = "all-mode-columns"
    app.run()
    before = headline(app)
    setting(app, "chunk size").set_value(5).run()
    assert "Block size = 8: in all mode it must be a multiple of the chunk size (5)" in errors(app)
    assert "the batch before" in errors(app)
    assert headline(app) == before
    assert setting(app, "chunk size").value == 5, "what was typed is still there"
    assert address(app) == {"batch": "all-mode-columns"}
    setting(app, "chunk size").set_value(2).run()
    assert not app.error


def test_an_emptied_setting_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = BATCHES[DEFAULT_BATCH]
    monkeypatch.setattr(batch_editor, "_seed", lambda: seed)
    settings = {**seed.model_dump(exclude={"rows", "name", "story"}), "block_size": None}
    with pytest.raises(BatchError, match="block size: it is empty; fill it in"):
        batch_editor.judge(settings, [])


def test_rows_that_are_too_short_can_be_numbered_anew(app: AppTest) -> None:
    app.run()
    setting(app, "block size").set_value(8).run()
    assert "row 0 (A), worker row: 5 ids" in errors(app).lower().replace("(a)", "(A)")
    press(app, "Number the blocks anew")
    assert not app.error
    shown, _ = from_link(address(app))
    assert shown.batch_shown.block_size == 8
    assert shown.batch_shown.rows[0].blocks == [1, 2, 3, 4, 5, 6, 7]
    assert setting(app, "block size").value == 8


def test_rows_are_added_and_removed(app: AppTest) -> None:
    app.run()
    press(app, "Add a row")
    shown, _ = from_link(address(app))
    assert [row.request for row in shown.batch_shown.rows] == list("ABCDEFG")
    assert shown.batch_shown.rows[6].blocks == [24, 25, 26, 27]
    press(app, "Remove the last")
    assert address(app) == {}
    app.selectbox(key="batch-preset").select("padded-prompt-tail").run()
    press(app, "Remove the last")
    press(app, "Remove the last")
    assert "cannot be done" in " ".join(found.value for found in app.warning)


def test_a_batch_is_taken_from_the_step_of_the_watch_page(app: AppTest) -> None:
    app.query_params.update({"preset": "crossing-a-boundary", "step": "3"})
    app.run()
    press(app, "Take from Watch, step 3")
    shown, _ = from_link(address(app))
    assert shown.batch_shown.name == f"{PRESETS['crossing-a-boundary'].name}, step 3"
    assert (shown.preset, shown.step) == ("crossing-a-boundary", 3)
    assert not app.error


def test_a_pasted_batch_is_taken_or_refused_with_a_sentence(app: AppTest) -> None:
    app.run()
    mine = {
        "name": "Mine <b>",
        "rows": [{"request": "<i>x", "computed": 1, "query": 1, "blocks": [1]}],
    }
    app.text_area(key="batch-paste").set_value(json.dumps(mine)).run()
    press(app, "Use it")
    shown, _ = from_link(address(app))
    assert shown.batch_shown.rows[0].request == "<i>x"
    assert "<i>x" not in pictures(app) + html(app), "what a person typed is escaped"
    mine["rows"][0]["query"] = 99  # type: ignore[index]
    app.text_area(key="batch-paste").set_value(json.dumps(mine)).run()
    press(app, "Use it")
    said = " ".join(found.value for found in app.warning)
    assert "What was pasted was not taken: row 0 (\\<i>x), query = 99" in said
    assert from_link(address(app))[0].batch_shown == shown.batch_shown


def test_a_damaged_link_is_said_and_the_default_is_shown(app: AppTest) -> None:
    app.query_params["rows"] = "eJxnonsense"
    app.run()
    assert "The batch in this link is damaged" in " ".join(found.value for found in app.warning)
    assert headline(app) == words.headline(BATCHES[DEFAULT_BATCH].build())


def test_the_view_goes_along_from_page_to_page(app: AppTest) -> None:
    app.query_params.update({"preset": "crossing-a-boundary", "step": "3"})
    app.run()
    app.query_params.clear()  # the navigation drops it
    app.session_state["session"].page = "Watch"
    app.run()
    assert address(app).items() >= {"preset": "crossing-a-boundary", "step": "3"}.items()


# --------------------------------------------------------------------------------------
# The link
# --------------------------------------------------------------------------------------

OWN = build(
    {
        "name": "Mine: ü, ∅ & co",
        "num_spec": 1,
        "mode": "all",
        "block_size": 8,
        "rows": [
            {
                "request": "<x>",
                "computed": 9,
                "query": 2,
                "drafts": 1,
                "accepted": 2,
                "blocks": [1, 2, 3],
                "prev_last_scheduled": 1,
            }
        ],
    }
)


def test_a_batch_travels_in_the_link() -> None:
    view = PageState(own_batch=OWN, step=3)
    link = to_link(view)
    assert from_link(link) == (view, "")
    assert link["rows"].isascii()
    assert len(link["rows"]) < 400


@pytest.mark.parametrize("slug", sorted(BATCHES))
def test_every_preset_survives_packing(slug: str) -> None:
    assert state.unpack_batch(pack(BATCHES[slug])) == BATCHES[slug]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"batch": "gone"}, "batch “gone”"),
        ({"rows": "!!"}, "damaged"),
        ({"rows": pack(OWN)[:-8]}, "end is missing"),
        ({"rows": pack(OWN.model_copy(update={"block_size": 9}))}, "multiple of the chunk"),
    ],
)
def test_a_damaged_batch_gets_the_default_and_the_rest_of_the_link_counts(
    params: dict[str, str], says: str
) -> None:
    view, problem = from_link({**params, "backend": "reference"})
    assert view == PageState(backend="reference")
    assert says in problem


# --------------------------------------------------------------------------------------
# Worker rows as text
# --------------------------------------------------------------------------------------


def test_worker_rows_are_written_and_read() -> None:
    assert batch_editor.write_blocks([1, 0, 22]) == "1, 0, 22"
    for text in ("1, 0, 22", "1 0 22", "[1,0;22]", " 1, 0, 22 "):
        assert batch_editor.read_blocks(text, "row 0") == [1, 0, 22]
    assert batch_editor.read_blocks(None, "row 0") == []
    with pytest.raises(BatchError, match=r"row 2 \(C\), worker row: 'x' is no block id"):
        batch_editor.read_blocks("1, x", "row 2 (C)")
    with pytest.raises(BatchError, match="'-1' is no block id"):
        batch_editor.read_blocks("-1", "row 0")


def test_an_empty_accepted_count_is_one_and_an_empty_name_is_said() -> None:
    row = {"request": "A", "prefilling": None, "accepted": None, "blocks": "1"}
    assert batch_editor.read_rows([row])[0]["accepted"] == 1
    assert batch_editor.read_rows([row])[0]["prefilling"] is False
    with pytest.raises(BatchError, match=r"row 0 \(no name\), worker row"):
        batch_editor.read_rows([{**row, "request": None, "blocks": "?"}])
