"""The sidebar of the Sizes page: which model, how it is served, what goes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import streamlit as st

from mambaviz.pages import shell, state, widgets
from mambaviz.pages.pasting import Pasting
from mambaviz.pages.sizes_state import SizesView
from mambaviz.scenario import ScenarioError
from mambaviz.sizes import export
from mambaviz.sizes.families import SizesError
from mambaviz.sizes.model import Model
from mambaviz.sizes.models import MODELS
from mambaviz.sizes.reader import parse_config
from mambaviz.sizes.report import Report
from mambaviz.sizes.settings import (
    MODES,
    KvDtypeChoice,
    Layout,
    StateDtypeChoice,
    bounds,
    settings_of,
)
from mambaviz.sizes.small import small_scenario

OWN = "own"  # the entry of the model list for a pasted config


@dataclass(frozen=True)
class Knob:
    """A number to choose; ``auto`` says that it may be left empty."""

    name: str
    label: str
    help: str
    step: float = 1
    auto: str = ""


@dataclass(frozen=True)
class Choice:
    """One of a few words to choose."""

    name: str
    label: str
    help: str
    options: tuple[str, ...]


SERVED: tuple[tuple[Knob | Choice, ...], ...] = (
    (
        Knob("tp", "Ranks (TP)", "Tensor-parallel ranks. Every number is for one of them."),
        Knob("num_spec", "Drafts", "Draft tokens of a step. Each is a row of the conv state more."),
    ),
    (
        Choice("mode", "Cache mode", "none, align, or all (earlier releases).", MODES),
        Choice("layout", "Layout", "SD: a row a token. DS: a row a channel.", get_args(Layout)),
    ),
    (
        Choice("kv_dtype", "KV dtype", "auto: the model’s own.", get_args(KvDtypeChoice)),
        Choice(
            "temporal_dtype",
            "State dtype",
            "Of the temporal state. auto: as the family has it.",
            get_args(StateDtypeChoice),
        ),
    ),
    (
        Knob("block_size", "Block size", "Left empty: 16. It works as the grain.", 16, "16"),
        Knob(
            "kernel_block",
            "Kernel block",
            "Smallest block of the attention backend. Left empty: 16, of MLA 128.",
            16,
            "backend’s",
        ),
    ),
)
ASKED: tuple[tuple[Knob | Choice, ...], ...] = (
    (
        Knob("prompt", "Prompt", "Tokens of a typical prompt.", 512),
        Knob("sequence", "Whole length", "Tokens of a request at its end.", 4096),
    ),
    (
        Knob("prefill_budget", "Prefill budget", "Most tokens one step computes.", 1024),
        Knob("acceptance", "Acceptance", "Chance of each draft after kept ones.", 0.05),
    ),
    (Knob("memory_gib", "GiB for the cache", "On one rank, beside weights and activations.", 1.0),),
)
SWITCHES = (
    ("flashinfer_gdn", "FlashInfer prefill of GDN", "Its blocks of 64 go into the grain."),
    ("prefill_checkpoints", "Checkpoints in a prefill", "One state block more in align mode."),
)


def place(view: SizesView, report: Report | None) -> None:
    with st.sidebar:
        with st.container(key="side-scenario"):
            _model(view)
            PASTING.place("Paste a config.json", "A model’s config.json, as it is", 220)
            st.html("<h4>Served</h4>")
            _rows(view, SERVED)
            with st.popover("More settings", width="stretch"):
                conv = Choice("conv_dtype", "Conv state dtype", "", get_args(StateDtypeChoice))
                _rows(view, ((conv,),))
                for name, label, words in SWITCHES:
                    widgets.stand(_key(name), getattr(view.settings, name))
                    st.checkbox(label, key=_key(name), help=words, on_change=partial(_take, name))
            st.html("<h4>Asked of it</h4>")
            _rows(view, ASKED)
        with st.container(key="side-foot"):
            _out(report)
            shell.copy_link()


# --------------------------------------------------------------------------------------
# Which model
# --------------------------------------------------------------------------------------


def _model(view: SizesView) -> None:
    own = view.own is not None
    widgets.stand("sizes-model", OWN if own else view.model, view.shown.name)
    names = {slug: public.name for slug, public in MODELS.items()}
    st.selectbox(
        "Model",
        [*MODELS, OWN] if own else [*MODELS],
        key="sizes-model",
        format_func=lambda slug: names.get(slug, f"{view.shown.name} (own)"),
        on_change=_take_model,
    )


def _take_model() -> None:
    slug = widgets.choice("sizes-model", MODELS)
    if slug is not None:
        _show(state.current().sizes.changed(model=slug, own=None))


def _take_own(model: Model) -> None:
    """Callback: size this config."""
    _show(state.current().sizes.changed(own=model))


def _show(view: SizesView) -> None:
    PASTING.settle()
    state.say("")
    state.update(sizes=view)


# --------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------


def _rows(view: SizesView, rows: tuple[tuple[Knob | Choice, ...], ...]) -> None:
    for row in rows:
        for column, one in zip(st.columns(len(row), gap="xsmall"), row, strict=True):
            with column:
                _widget(view, one)


def _widget(view: SizesView, one: Knob | Choice) -> None:
    key, value = _key(one.name), getattr(view.settings, one.name)
    widgets.stand(key, value)
    if isinstance(one, Choice):
        choose = partial(_choose, one)
        st.selectbox(one.label, one.options, key=key, help=one.help or None, on_change=choose)
        return
    least, most = bounds(one.name)
    whole = isinstance(one.step, int)
    optional: dict[str, Any] = {"value": None, "placeholder": one.auto} if one.auto else {}
    st.number_input(
        one.label,
        min_value=int(least) if whole else float(least),
        max_value=int(most) if whole else float(most),
        step=one.step,
        format=None if whole else "%g",
        key=key,
        help=one.help,
        on_change=partial(_take, one.name),
        **optional,
    )


def _key(name: str) -> str:
    return f"sizes {name}"


def _choose(one: Choice) -> None:
    """Callback: take one of the words, if it is one."""
    if widgets.choice(_key(one.name), one.options) is not None:
        _take(one.name)


def _take(name: str) -> None:
    """Callback: take over a setting; what else was wrong is settled."""
    view = state.current().sizes
    values = {**view.settings.model_dump(), name: st.session_state[_key(name)]}
    if values[name] is None and name not in ("block_size", "kernel_block"):
        return  # a number was wiped out: the widget gets it back
    _show(view.changed(settings=settings_of(values)))


# --------------------------------------------------------------------------------------
# Out
# --------------------------------------------------------------------------------------


def _out(report: Report | None) -> None:
    st.button(
        "Run this shape small",
        type="primary",
        width="stretch",
        disabled=report is None,
        help="Opens the Watch page with the same ratios, small enough to follow.",
        on_click=_run_small,
        args=(report,),
    )
    if report is None:
        return
    left, right = st.columns(2, gap="xsmall")
    left.download_button(
        "Save table",
        lambda: export.to_csv(report),
        file_name="sizes.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
    )
    right.download_button(
        "Save JSON",
        lambda: export.to_json(report),
        file_name="sizes.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
    )


def _run_small(report: Report) -> None:
    """Callback: the same ratios on the Watch page."""
    try:
        scenario = small_scenario(report)
    except ScenarioError as error:
        PASTING.complain(f"This shape cannot be run small: {error}.")
        return
    PASTING.settle()
    state.show(scenario)
    state.go_to("Watch")


PASTING = Pasting("sizes", "a config.json", parse_config, SizesError, _take_own)
