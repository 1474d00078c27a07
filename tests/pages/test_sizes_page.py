"""The Sizes page's wiring: widgets, model, settings and address agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.pages.sizes_state import SizesView
from mambaviz.pages.state import PageState, from_link, pack, to_link
from mambaviz.sizes.models import DEFAULT_MODEL, MODELS
from mambaviz.sizes.reader import parse_config
from mambaviz.sizes.settings import settings_of


def script() -> None:
    from mambaviz.pages import sizes, state

    state.enter("Sizes")
    sizes.page()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=60)


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def headline(app: AppTest) -> str:
    return html(app).partition("<h1>")[2].partition("</h1>")[0]


def setting(app: AppTest, name: str) -> Any:
    widgets = [*app.number_input, *app.selectbox, *app.checkbox]
    return next(found for found in widgets if found.key == f"sizes {name}")


def address(app: AppTest) -> dict[str, str]:
    return {
        name: text if isinstance(text, str) else text[0] for name, text in app.query_params.items()
    }


def test_the_first_screen_sizes_a_model_and_draws_three_charts(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert headline(app) == "Qwen3.8-27B: blocks of 784 tokens, pages of 3,211,264 bytes"
    assert len(app.get("plotly_chart")) == 3
    assert "16 × ⌈3,207,168 / (16 × 4,096)⌉" in html(app)
    assert address(app) == {}


def test_every_model_of_the_list_opens(app: AppTest) -> None:
    app.run()
    for slug, public in MODELS.items():
        app.selectbox(key="sizes-model").set_value(slug).run()
        assert not app.exception
        assert headline(app).startswith(f"{public.name}: ")
        assert address(app) == ({} if slug == DEFAULT_MODEL else {"model": slug})


def test_a_setting_changes_numbers_and_address(app: AppTest) -> None:
    app.run()
    setting(app, "num_spec").set_value(7).run()
    setting(app, "block_size").set_value(816).run()
    assert "blocks of 1,632 tokens" in headline(app)
    assert address(app) == {"sizes": "num_spec:7,block_size:816"}
    setting(app, "block_size").set_value(None).run()
    assert "blocks of 832 tokens" in headline(app)
    assert address(app) == {"sizes": "num_spec:7"}


def test_a_split_that_cannot_be_keeps_what_is_seen(app: AppTest) -> None:
    app.run()
    setting(app, "tp").set_value(7).run()
    assert not app.exception
    (error,) = app.error
    assert error.value.startswith("tp = 7 does not divide linear\\_num") or error.value.startswith(
        "tp = 7 does not divide linear_num_key_heads = 16"
    )
    assert "blocks of 784 tokens" in headline(app)
    setting(app, "tp").set_value(2).run()
    assert not app.error


def paste(app: AppTest, text: str) -> AppTest:
    app.text_area(key="sizes-paste").set_value(text)
    return app.button(key="sizes-use").click().run()


def test_a_pasted_config_is_shown_and_stands_in_the_link(app: AppTest) -> None:
    app.run()
    config = {**MODELS["granite-4-0-h-small"].config, "_name_or_path": "mine/small", "vocab": 3}
    paste(app, json.dumps(config))
    assert headline(app).startswith("small: blocks of 528 tokens")
    link = address(app)
    assert link.keys() == {"config"}
    state, problem = from_link(link)
    assert problem == ""
    assert state.sizes.own == parse_config(json.dumps(config))
    app.selectbox(key="sizes-model").set_value(DEFAULT_MODEL).run()
    assert address(app) == {}


def test_a_bad_config_gets_its_sentence_and_changes_nothing(app: AppTest) -> None:
    app.run()
    paste(app, "{]")
    (warning,) = app.warning
    assert warning.value.startswith("What was pasted was not taken: this is not JSON")
    assert headline(app).startswith("Qwen3.8-27B")


def test_a_name_stays_text(app: AppTest) -> None:
    app.run()
    config = {**MODELS["lfm2-1-2b"].config, "name": "<b>bold</b> & co"}
    paste(app, json.dumps(config))
    assert "<b>bold" not in html(app)


def test_warnings_and_assumptions_are_said(app: AppTest) -> None:
    app.run()
    setting(app, "prompt").set_value(300).run()
    assert "Prefix caching is inert for such prompts" in html(app)
    app.selectbox(key="sizes-model").set_value("mamba2-2-7b").run()
    assert "bfloat16 is assumed" in html(app)


def test_running_small_goes_to_watch(app: AppTest) -> None:
    app.run()
    next(found for found in app.button if found.label == "Run this shape small").click().run()
    session = app.session_state["session"]
    assert session.wanted_page == "Watch"
    assert session.state.scenario.name == "Qwen3.8-27B small"
    assert not app.exception


# ---- the link ---------------------------------------------------------------------------------


def test_a_link_holds_the_whole_input() -> None:
    settings = settings_of(
        {
            "tp": 2,
            "num_spec": 3,
            "mode": "all",
            "layout": "DS",
            "kv_dtype": "fp8",
            "conv_dtype": "float32",
            "temporal_dtype": "float16",
            "block_size": 48,
            "kernel_block": 32,
            "flashinfer_gdn": True,
            "prefill_checkpoints": True,
            "sequence": 9,
            "prompt": 8,
            "prefill_budget": 7,
            "memory_gib": 1.5,
            "acceptance": 0.25,
        }
    )
    assert len(settings.model_dump(exclude_defaults=True)) == len(type(settings).model_fields)
    for view in (
        SizesView(model="plamo-2-1b", settings=settings),
        SizesView(own=MODELS["kimi-linear-48b-a3b"].model, settings=settings),
    ):
        state, problem = from_link(to_link(PageState(sizes=view)))
        assert problem == ""
        assert state.sizes == view


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"model": "gpt"}, "This link asks for a model “gpt”, which is not in the list"),
        ({"sizes": "tp:0"}, "This link's settings make no sense (tp = 0: allowed 1 to 256)"),
        ({"sizes": "tp"}, "This link's settings make no sense (tp = ''"),
        ({"sizes": "mode:" + "[" * 1900}, "This link's settings make no sense (mode ="),
        ({"config": "xx"}, "The model in this link is damaged"),
        ({"config": pack(settings_of({"tp": 2}))}, "The model in this link is none that has sizes"),
    ],
)
def test_a_damaged_link_says_so(link: dict[str, str], sentence: str) -> None:
    state, problem = from_link(link)
    assert problem.startswith(sentence)
    assert state.sizes == SizesView()
