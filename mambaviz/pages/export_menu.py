"""The Export menu: the picture on screen, the run, and a replay that needs no server.

Everything is made when it is asked for. A picture is written by `mambaviz.viz.svg` from the same
scene as the stage's; a PNG is that SVG, drawn by the reader's own browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import streamlit as st

from mambaviz.pages import state
from mambaviz.pages.assets import PICTURE_SCRIPT, PICTURE_STYLE
from mambaviz.pages.runs import Run
from mambaviz.trace import PHASES, Trace
from mambaviz.viz.export import replay_html
from mambaviz.viz.stamp import Place, picture_name, run_name
from mambaviz.viz.svg import exported
from mambaviz.viz.theme import ThemeName

PictureKind = Literal["svg", "png"]

_picture_buttons = st.components.v2.component(
    "mambaviz_picture",
    html=(
        '<div><button type="button" data-kind="svg">Picture as SVG</button>'
        '<button type="button" data-kind="png">Picture as PNG</button>'
        '<p role="status"></p></div>'
    ),
    css=PICTURE_STYLE.read_text(encoding="utf-8"),
    js=PICTURE_SCRIPT.read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class Made:
    """A picture on its way to the browser. ``number`` grows from one to the next."""

    number: int
    kind: PictureKind
    name: str  # of the file, without its suffix
    svg: str


@st.fragment
def place(run: Run | None) -> None:
    """The menu's button; what is in the menu is made ready when it is opened."""
    menu = st.popover(
        "Export", width="stretch", disabled=run is None, key="menu", on_change="rerun"
    )
    if run is None or not menu.open:
        return
    with menu, st.container(key="export-menu"):
        _picture(run)
        _files(run)


def _picture(run: Run) -> None:
    st.markdown(
        "**What is on screen**: tokens, blocks and state of this phase with headline and stamp. "
        "SVG for the web and for editing, PNG (twice the size) for chats and slides."
    )
    made: Made | None = st.session_state.get("picture")
    number = made.number if made else 0
    _picture_buttons(
        key="picture-buttons",
        data={"made": vars(made) if made else None, "first": number},
        on_wanted_change=lambda: _make(run),
    )


def _make(run: Run) -> None:
    """Callback: the browser wants a picture of where its stage stands."""
    wanted = st.session_state.get("picture-buttons", {}).get("wanted")
    asked = picture_asked(run.trace, wanted)
    if asked is None:
        return
    kind, style, at = asked
    before: Made | None = st.session_state.get("picture")
    number = before.number + 1 if before else 1
    name = picture_name(run.trace, at)
    st.session_state["picture"] = Made(number, kind, name, exported(run.trace, at, style))


def picture_asked(trace: Trace, wanted: Any) -> tuple[PictureKind, ThemeName, Place] | None:
    """What the browser asks for (it comes from outside); None if this run has no such place."""
    if not (isinstance(wanted, dict) and isinstance(wanted.get("view"), dict)):
        return None
    view = wanted["view"]
    kind: Any = wanted.get("kind")
    at = Place(*(view.get(name) for name in ("step", "phase", "request", "layer")))
    known = (
        kind in get_args(PictureKind)
        and isinstance(at.step, int)
        and 0 <= at.step < len(trace.steps)
        and at.phase in PHASES
        and at.request in [plan.id for plan in trace.scenario.requests]
        and at.layer in [spec.layer for spec in trace.states]
    )
    return (kind, "dark" if wanted.get("dark") is True else "light", at) if known else None


def _files(run: Run) -> None:
    held = state.session()  # a file is made later, outside this session's script
    name = run_name(run.trace)
    st.markdown(
        "**The whole run** as JSON: every step, copy, table and byte. "
        "`mambaviz.trace.Trace.from_json` reads it."
    )
    st.download_button(
        "Run as JSON",
        run.trace.to_json,
        file_name=f"{name}.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
    )
    size = len(replay(run, held).encode())
    st.markdown(
        "**A replay**: one HTML file that steps and plays in any browser, without server, Python "
        f"or network; {megabytes(size)}."
    )
    st.download_button(
        "Replay as one HTML file",
        lambda: replay(run, held),
        file_name=f"{name}-replay.html",
        mime="text/html",
        on_click="ignore",
        width="stretch",
    )


def replay(run: Run, held: state.Session) -> str:
    """The run as a page of its own, opened where the stage stands."""
    view = held.state
    step, phase = run.payload.opening if view.opening else (view.step, view.phase)
    return replay_html(
        run.trace,
        step=step,
        phase=phase,
        request=view.request,
        layer=view.layer,
        payload=run.payload,
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{max(1, round(size / 1000))} kB"
