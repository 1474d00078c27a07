"""The sidebar of the Compare page: which runs, what they share, what they are locked to."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from mambaviz.comparisons import (
    FAULT,
    FEWEST_RUNS,
    NO_FAULT,
    READY_MADE,
    VARIATIONS,
    Variation,
    varied,
)
from mambaviz.pages import shell, sidebar, state, widgets
from mambaviz.pages.compare_state import CompareView
from mambaviz.pages.plain import plain
from mambaviz.pages.runs import Run
from mambaviz.pages.state import PageState
from mambaviz.scenario import PRESETS, Scenario, ScenarioError

OWN = "own"  # the entry of the list for a comparison that is not ready-made
SIDES = {2: ("left", "right"), 3: ("left", "middle", "right")}
STEP = ""  # of the lock: no request, the same step
ANOTHER = "another scenario"
ON_WATCH = "on Watch"


def place(view: PageState, runs: Sequence[Run]) -> None:
    scenarios = view.compare.comparison.scenarios
    with st.sidebar:
        with st.container(key="side-scenario"):
            _ready_made(view)
            st.html(f"<h4>Runs</h4>{_table(_sides(view))}")
            st.html(f"<h4>Shared</h4>{_table(shared(scenarios))}")
            st.html(f"<h4>Requests</h4>{requests_table(scenarios)}")
            _lock(view)
            _layer(view)
            with st.popover("Change what differs", width="stretch"):
                _change(view)
        with st.container(key="side-foot"):
            sidebar.backend(view)
            shell.copy_link()
            st.html(f'<p class="mv-foot"><span>{_origin(view, runs)}</span></p>')


# --------------------------------------------------------------------------------------
# Which comparison
# --------------------------------------------------------------------------------------


def _ready_made(view: PageState) -> None:
    own = bool(view.compare.own)
    options = [*READY_MADE, OWN] if own else [*READY_MADE]
    widgets.stand("compared", OWN if own else view.compare.ready)
    st.selectbox(
        "Compare",
        options,
        key="compared",
        format_func=lambda slug: READY_MADE[slug].name if slug in READY_MADE else "own choice",
        on_change=_take_ready_made,
    )
    story = view.compare.comparison.story
    if story:
        st.html(f'<p class="mv-story">{escape(story)}</p>')


def _take_ready_made() -> None:
    slug = widgets.choice("compared", READY_MADE)
    if slug is not None:
        state.say("")
        state.update(compare=CompareView(ready=slug))


def compare(scenarios: Sequence[Scenario]) -> None:
    """Callback: set these scenarios side by side."""
    state.say("")
    state.update(compare=CompareView(own=tuple(scenarios)))


# --------------------------------------------------------------------------------------
# What they are
# --------------------------------------------------------------------------------------


def _sides(view: PageState) -> list[tuple[str, str]]:
    labels = view.compare.comparison.labels
    return [(side, label.name) for side, label in zip(SIDES[len(labels)], labels, strict=True)]


def shared(scenarios: Sequence[Scenario]) -> list[tuple[str, str]]:
    """What is the same in all of them, in a line each."""
    found = [dict(_facts(scenario)) for scenario in scenarios]
    first, others = found[0], found[1:]
    return [
        (name, text)
        for name, text in first.items()
        if all(other.get(name) == text for other in others)
    ]


def _facts(scenario: Scenario) -> list[tuple[str, str]]:
    """The block size as it is set: in none mode a block covers the whole length (section 2)."""
    configured = ("block size", f"{scenario.engine.block_size} tokens")
    return [
        configured if name == "block size" else (name, text)
        for name, text in sidebar.facts(scenario)
    ]


def requests_table(scenarios: Sequence[Scenario]) -> str:
    """Prompt and arrival of every request; a run that lacks one is another scenario's."""
    rows: dict[str, str] = {}
    for scenario in scenarios:
        for plan in scenario.requests:
            rows.setdefault(
                plan.id,
                f"<tr><td><b>{escape(plan.id)}</b></td><td>{plan.num_prompt_tokens}</td>"
                f"<td>step {plan.arrive}</td></tr>",
            )
    head = "<tr><th></th><th>prompt</th><th>arrives</th></tr>"
    return f'<table class="mv-requests">{head}{"".join(rows.values())}</table>'


def _table(lines: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    return f'<dl class="mv-facts mv-compared">{rows}</dl>'


def _origin(view: PageState, runs: Sequence[Run]) -> str:
    wanted = [scenario.content_hash for scenario in view.compare.comparison.scenarios]
    if [run.trace.scenario_hash for run in runs] != wanted:
        return "not run"
    return escape(", ".join(dict.fromkeys(run.origin for run in runs)))


# --------------------------------------------------------------------------------------
# What they are locked to
# --------------------------------------------------------------------------------------


def _lock(view: PageState) -> None:
    widgets.stand("lock", view.compare.locked or STEP)
    st.selectbox(
        "Locked to",
        _locks(view.compare),
        key="lock",
        format_func=lambda name: f"the same token of {name}" if name else "the same step",
        on_change=_take_lock,
    )


def _locks(compare: CompareView) -> list[str]:
    plans = (plan for run in compare.comparison.scenarios for plan in run.requests)
    return [STEP, *dict.fromkeys(plan.id for plan in plans)]


def _take_lock() -> None:
    """The place is in steps or in tokens: with another lock it is looked for anew."""
    compare = state.current().compare
    lock = widgets.choice("lock", _locks(compare))
    if lock is not None:
        state.update(compare=compare.changed(lock=lock or None, at=None))


def _layer(view: PageState) -> None:
    layers = _layers(view)
    if len(layers) == 1:
        return
    widgets.stand("compare-layer", min(view.layer, layers[-1]))
    st.segmented_control(
        "States of",
        layers,
        key="compare-layer",
        format_func=lambda layer: f"layer {layer}",
        on_change=_take_layer,
    )


def _layers(view: PageState) -> range:
    """Layers that every scenario has."""
    return range(min(run.layer.num_layers for run in view.compare.comparison.scenarios))


def _take_layer() -> None:
    layer = widgets.choice("compare-layer", _layers(state.current()))
    if layer is not None:  # not where the chosen one was clicked again
        state.update(layer=layer)


# --------------------------------------------------------------------------------------
# Another choice
# --------------------------------------------------------------------------------------


def _change(view: PageState) -> None:
    """One scenario in several ways, or any two scenarios."""
    scenarios = {
        ON_WATCH: view.scenario,
        "as on the left": view.compare.comparison.scenarios[0],
        **{preset.name: preset for preset in PRESETS.values()},
    }
    base = st.selectbox(
        "Scenario",
        list(scenarios),
        index=1,
        key="change-base",
        format_func=lambda name: f"on Watch: {view.scenario.name}" if name == ON_WATCH else name,
    )
    names = [*(variation.what for variation in VARIATIONS), ANOTHER]
    what = st.selectbox("What differs", names, key="change-what")
    if what == ANOTHER:
        other = st.selectbox("Against", list(scenarios), index=2, key="change-other")
        chosen, problem = [scenarios[base], scenarios[other]], ""
        if chosen[0] == chosen[1]:
            problem = "These are one and the same scenario: choose another one."
    else:
        variation = next(one for one in VARIATIONS if one.what == what)
        chosen, problem = ways_of(scenarios[base], variation, _ways(variation))
    if problem:
        st.caption(plain(problem))
    st.button(
        "Compare",
        key="change-go",
        type="primary",
        width="stretch",
        disabled=len(chosen) < FEWEST_RUNS,
        on_click=compare,
        args=(chosen,),
    )


def _ways(variation: Variation) -> Sequence[str]:
    if variation is not FAULT:
        return variation.ways
    faults = [way for way in variation.ways if way != NO_FAULT]
    return (NO_FAULT, st.selectbox("Fault", faults, key="change-fault"))


def ways_of(
    scenario: Scenario, variation: Variation, ways: Sequence[str]
) -> tuple[list[Scenario], str]:
    """The scenario in these ways, as far as it can run so, and why one of them cannot."""
    found: list[Scenario] = []
    problem = ""
    for way in ways:
        try:
            found.append(varied(scenario, variation, way))
        except ScenarioError as error:
            problem = f"Not as {way}: {error}"
    return found, problem
