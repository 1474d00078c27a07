"""The About page: the glossary, what is simplified, versions and back ends, keys, texts to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import streamlit as st

from mambaviz import check
from mambaviz.check import Finding
from mambaviz.likeness import KINDS, LIKENESSES
from mambaviz.pages import shell, state, widgets
from mambaviz.pages.about_state import ABOUT_PARTS, AboutPart
from mambaviz.pages.assets import ABOUT_STYLE
from mambaviz.pages.handbook import texts
from mambaviz.pages.plain import plain
from mambaviz.pages.sights import SIGHTS
from mambaviz.viz.about import tables
from mambaviz.viz.about.glossary import (
    Where,
    glossary_css,
    glossary_html,
    glossary_js,
    group_names,
)

PART_NAMES: dict[AboutPart, str] = {
    "glossary": "Glossary",
    "exact": "What is simplified",
    "versions": "Versions and back ends",
    "keys": "Keys",
    "docs": "Specification and guides",
}
_GLOSSARY = """<div class="glossary"><div class="head">
<input type="search" placeholder="Search the glossary  ( / )" aria-label="search the glossary">
<div class="groups" role="group" aria-label="groups"></div>
<span class="count" role="status"></span></div><div class="list"></div></div>"""


def page() -> None:
    view = state.current().about
    shell.frame(state.current())
    st.html(f"<style>{ABOUT_STYLE.read_text(encoding='utf-8')}</style>")
    with st.container(key="about-say"):
        st.html(tables.say_html(*_say(view.part)))
    with st.container(key="messages"):
        if state.notice():
            st.warning(plain(state.notice()), icon=":material/info:")
    _choice(view.part)
    _PARTS[view.part]()


def _say(part: AboutPart) -> tuple[str, str]:
    if part == "glossary":
        return (
            "Every word that the pictures use",
            "The same sentences as in the hovers: what a word means, where it can be seen, and the "
            "section of the specification that says more.",
        )
    if part == "exact":
        counts = {kind: sum(one.kind == kind for one in LIKENESSES) for kind in KINDS}
        return (
            "What is exactly as in a real engine, and what is simplified",
            f"The engine is vLLM, whose terms are used here. {counts['exact']} parts are exact, "
            f"{counts['simplified']} simplified, {counts['left out']} left out, and "
            f"{counts['added']} are only here.",
        )
    if part == "versions":
        return (
            "What runs here",
            "Versions, back ends and sources; python -m mambaviz check says the same in a terminal "
            "and tests the kernels.",
        )
    if part == "keys":
        return "Keys of every page", "On the Watch page, ? shows its list beside the picture."
    return (
        "The specification and the guides",
        "The texts of the folder docs, as they stand beside the code.",
    )


def _choice(part: AboutPart) -> None:
    key = "about-part"
    widgets.stand(key, part)
    st.segmented_control(
        "Part",
        ABOUT_PARTS,
        key=key,
        format_func=PART_NAMES.__getitem__,
        label_visibility="collapsed",
        on_change=_chosen,
        args=(key,),
    )


def _chosen(key: str) -> None:
    """Callback; choosing the chosen part again keeps it."""
    view = state.current().about
    part = widgets.choice(key, ABOUT_PARTS) or view.part
    state.say("")
    state.update(about=view.changed(part=part, term=view.term if part == "glossary" else None))


# --------------------------------------------------------------------------------------
# Glossary
# --------------------------------------------------------------------------------------


@cache
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "mambaviz_glossary", html=_GLOSSARY, css=glossary_css(), js=glossary_js()
    )


@cache
def _glossary_text() -> str:
    return glossary_html(lambda name: Where(SIGHTS[name].words, SIGHTS[name].href))


def _glossary() -> None:
    _mount()(
        key="glossary",
        data={
            "html": _glossary_text(),
            "groups": group_names(),
            "term": state.current().about.term,
        },
        on_term_change=lambda: set_off(_told("term")),
        on_see_change=lambda: see(_told("see")),
        on_read_change=lambda: read(_told("read")),
    )


def _told(what: str) -> Any:
    """What was clicked. It comes from outside."""
    return st.session_state["glossary"].get(what)


def set_off(term: Any) -> None:
    """Callback: a word of the glossary, and the address with it."""
    if isinstance(term, str) and term in SIGHTS:
        state.say("")
        state.update(about=state.current().about.changed(term=term))


def see(term: Any) -> None:
    """Callback: the page where a word can be seen."""
    if isinstance(term, str) and term in SIGHTS:
        sight = SIGHTS[term]
        state.say("")
        if sight.view:
            state.update(**sight.view)
        state.go_to(sight.page)


def read(name: Any) -> None:
    """Callback: a section of the specification, or a guide."""
    if isinstance(name, str) and name in texts():
        state.say("")
        state.update(about=state.current().about.changed(part="docs", term=None, read=name))


# --------------------------------------------------------------------------------------
# The other parts
# --------------------------------------------------------------------------------------


def _exact() -> None:
    st.html(tables.likeness_html())


def _versions() -> None:
    left, right = st.columns([46, 54], gap="large")
    with left:
        st.html(tables.findings_html("Versions", _rows([check.code(), *check.versions()])))
        found = st.empty()
        found.html(
            tables.findings_html("Back ends", [("", "Asking PyTorch what this machine has …", "")])
        )
    with right:
        st.html(tables.sources_html())
    # Last: it may have to import torch, and everything else should be there by then.
    found.html(tables.findings_html("Back ends", _rows(check.backends())))


def _rows(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.subject, one.text, one.advice if one.ok is False else "") for one in findings]


def _keys() -> None:
    st.html(f'<div class="mv-keylists">{tables.keys_html()}</div>')


def _docs() -> None:
    if not texts():
        st.info("The texts are not installed here: they stand in docs, beside the code.")
        return
    view = state.current().about
    key = "about-read"
    widgets.stand(key, view.read)
    st.selectbox(
        "Text",
        list(texts()),
        key=key,
        format_func=lambda name: texts()[name].title,
        label_visibility="collapsed",
        on_change=lambda: read(st.session_state[key]),
    )
    text = texts()[view.read]
    with st.container(key="about-text"):
        st.markdown(text.markdown)
        st.caption(f"From {text.file}")


_PARTS: dict[AboutPart, Callable[[], None]] = {
    "glossary": _glossary,
    "exact": _exact,
    "versions": _versions,
    "keys": _keys,
    "docs": _docs,
}
