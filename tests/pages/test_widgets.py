"""Widgets are told only what they do not show: a choice made meanwhile is not taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, Element, ElementTree

PAGES = ("about", "compare", "explorer", "kernels", "learn", "metadata", "reports", "sizes")


def _page(name: str) -> None:
    from importlib import import_module

    from mambaviz.pages import state, widgets

    state.enter(name.title())
    import_module(f"mambaviz.pages.{name}").page()
    widgets.drawn()


def app(name: str) -> AppTest:
    return AppTest.from_function(_page, args=(name,), default_timeout=60)


def elements(block: Block) -> Iterator[Element]:
    for one in block.children.values():
        if isinstance(one, Block):
            yield from elements(one)
        else:
            yield one


def told(page: AppTest) -> list[str]:
    """Labels of the widgets that the browser is told to set."""
    protos = [one.proto for part in (page.main, page.sidebar) for one in elements(part)]
    return [proto.label for proto in protos if getattr(proto, "set_value", False)]


@pytest.mark.parametrize("name", [*PAGES, "watch"])
def test_a_page_drawn_again_leaves_its_widgets_alone(name: str) -> None:
    page = app(name).run()
    assert not page.exception
    assert told(page), "at first the browser knows nothing"
    assert told(page.run()) == []


def _one() -> None:
    import streamlit as st

    from mambaviz.pages import widgets

    name = st.session_state["name"]
    widgets.stand("one", "own", name)
    st.selectbox("One", ["other", "own"], key="one", format_func=lambda one: f"{one} {name}")
    if not st.session_state["broken off"]:
        widgets.drawn()


@pytest.fixture
def one() -> AppTest:
    page = AppTest.from_function(_one)
    page.session_state["name"], page.session_state["broken off"] = "A", False
    return page


def test_what_a_run_broken_off_has_told_is_told_again(one: AppTest) -> None:
    one.session_state["broken off"] = True
    assert told(one.run()) == ["One"]
    assert told(one.run()) == ["One"]
    one.session_state["broken off"] = False
    assert told(one.run()) == ["One"]
    assert told(one.run()) == []


def test_another_value_or_another_text_of_it_is_told(one: AppTest) -> None:
    assert told(one.run()) == ["One"]
    assert told(one.run()) == []
    one.session_state["name"] = "B"
    assert told(one.run()) == ["One"]
    one.selectbox(key="one").select("other")
    assert told(one.run()) == ["One"]
    assert one.selectbox(key="one").value == "own"


def test_what_the_browser_has_not_reported_is_told_again(
    one: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run that comes before the widget of the first one is mounted."""
    assert told(one.run()) == ["One"]
    monkeypatch.setattr(ElementTree, "get_widget_states", lambda _: WidgetStates())
    assert told(one.run()) == ["One"]
    monkeypatch.undo()
    assert told(one.run()) == []


def lists(page: AppTest) -> list[Element]:
    """Everything to choose one of several things from."""
    return [*page.selectbox, *page.radio, *page.button_group]


@pytest.mark.parametrize("name", [*PAGES, "watch"])
def test_a_label_that_is_gone_when_it_is_pressed_is_no_choice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = app(name).run()
    reported = ElementTree.get_widget_states
    for place, pressed in enumerate(lists(page)):
        stood = pressed.value

        def gone(tree: ElementTree, pressed: Element = pressed) -> WidgetStates:
            reports = reported(tree)
            for one in reports.widgets:
                if one.id == pressed.id and one.HasField("string_array_value"):
                    one.string_array_value.data[:] = ["gone"]
                elif one.id == pressed.id:
                    one.string_value = "gone"
            return reports

        monkeypatch.setattr(ElementTree, "get_widget_states", gone)
        page.run()
        monkeypatch.undo()
        assert not page.exception, pressed.key
        assert lists(page)[place].value == stood, pressed.key
    assert lists(page)
