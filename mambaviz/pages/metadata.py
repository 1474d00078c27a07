"""The Metadata page: edit a batch, see what the real builder makes of it (section 4)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from html import escape

import streamlit as st

from mambaviz.batch import BATCHES, Batch, BatchError, from_trace_step, parse
from mambaviz.batch_record import BatchRecord, recorded
from mambaviz.pages import batch_editor, shell, state, watch, widgets
from mambaviz.pages.assets import METADATA_STYLE
from mambaviz.pages.batch_component import pictures
from mambaviz.pages.pasting import Pasting
from mambaviz.pages.plain import plain
from mambaviz.pages.runs import Run
from mambaviz.pages.state import PageState
from mambaviz.viz.batch import fields, view

OWN = "own"  # the entry of the preset list for a batch that is none

_LAST = "batch_record"  # the record on screen


def page() -> None:
    view_state = state.current()
    shell.frame(view_state)
    st.html(f"<style>{METADATA_STYLE.read_text(encoding='utf-8')}</style>")
    batch_editor.follow(view_state.batch_shown)
    side = "sidebar" not in view_state.hide
    with st.sidebar if side else st.container(key="batch-hidden"):
        head = st.container(key="side-scenario")
        with head:
            choice = st.container(key="batch-choice")
            settings = batch_editor.settings()
        foot = st.container(key="side-foot")
    say, messages = st.container(key="batch-say"), st.container(key="messages")
    left, right = st.columns([116, 100], gap="small")
    with left:
        heading = st.container(key="batch-heading", horizontal=True, vertical_alignment="center")
        rows = batch_editor.rows_table(settings)
    with heading:
        _heading(settings, rows)
    with messages:
        _judge(settings, rows)
    record = _record(state.current().batch_shown, messages)
    with choice:
        _choice(state.current())
    with foot:
        _foot(state.current(), record)
    with say:
        st.html(view.say_html(record))
    with right:
        pictures(view.split_html(record), key="batch-split")
    pictures(view.build_html(record), key="batch-build", chosen=view.chosen_field(record))


# --------------------------------------------------------------------------------------
# The batch and its record
# --------------------------------------------------------------------------------------


def _judge(settings: dict, rows: list[dict]) -> None:
    """Take over what the widgets say, or say what is wrong with it."""
    for sentence in (state.notice(), PASTING.problem):
        if sentence:
            st.warning(plain(sentence), icon=":material/link_off:")
    try:
        batch = batch_editor.judge(settings, rows)
    except BatchError as error:
        _refused(str(error), settings, rows)
        return
    if batch != state.current().batch_shown:
        shown = state.show_batch(batch).batch_shown
        batch_editor.made(shown)


def _heading(settings: dict, rows: list[dict]) -> None:
    st.html('<h3 class="mv-title">The batch <small>edit any cell</small></h3>')
    changes = {"Add a row": batch_editor.with_row, "Remove the last": batch_editor.without_row}
    for label, change in changes.items():
        st.button(label, type="tertiary", on_click=_change, args=(change, settings, rows))


def _change(change: Callable[[dict, list[dict]], Batch], settings: dict, rows: list[dict]) -> None:
    """Callback: another batch from what the widgets say, or a sentence on why there is none."""
    try:
        _take(change(settings, rows))
    except BatchError as error:
        PASTING.complain(f"This cannot be done to the batch: {error}.")


def _refused(sentence: str, settings: dict, rows: list[dict]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.error(
            f"{plain(_capital(sentence))}. What you see is the batch before.",
            icon=":material/error:",
        )
        if "worker row" in sentence or "no block" in sentence:
            st.button(
                "Number the blocks anew",
                on_click=_change,
                args=(batch_editor.renumbered, settings, rows),
            )


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _take(batch: Batch) -> None:
    """Callback: show a batch that does not come from the widgets as they are."""
    PASTING.settle()
    batch_editor.fill(state.show_batch(batch).batch_shown)


def _record(batch: Batch, messages: st.delta_generator.DeltaGenerator) -> BatchRecord:
    """The record of a preset at once, of another batch by building it; else the one before."""
    try:
        record = record_of(batch)
    except BatchError as error:
        messages.error(f"{plain(_capital(str(error)))}. What you see is the batch before.")
        return st.session_state.get(_LAST, recorded(next(iter(BATCHES))))
    st.session_state[_LAST] = record
    return record


def record_of(batch: Batch) -> BatchRecord:
    """What the builder says; presets are recorded, anything else needs torch (two seconds)."""
    slug = next((slug for slug, preset in BATCHES.items() if preset == batch), None)
    if slug is not None:
        return recorded(slug)
    if "torch" in sys.modules:
        return _built(batch.model_dump_json())
    with st.spinner("Loading PyTorch, about two seconds …"):
        return _built(batch.model_dump_json())


@lru_cache(maxsize=64)
def _built(text: str) -> BatchRecord:
    return parse(text).build()


# --------------------------------------------------------------------------------------
# Sidebar
# --------------------------------------------------------------------------------------


def _choice(shown: PageState) -> None:
    own = shown.own_batch is not None
    names = {slug: batch.name for slug, batch in BATCHES.items()}
    widgets.stand("batch-preset", OWN if own else shown.batch, shown.batch_shown.name)
    st.selectbox(
        "Batch",
        [*BATCHES, OWN] if own else [*BATCHES],
        key="batch-preset",
        format_func=lambda slug: names.get(slug, shown.batch_shown.name),
        on_change=_take_preset,
    )
    story = shown.batch_shown.story
    if story:
        st.html(f'<p class="mv-story">{escape(story)}</p>')


def _take_preset() -> None:
    slug = widgets.choice("batch-preset", BATCHES)
    if slug is not None:
        _take(BATCHES[slug])


def _foot(shown: PageState, record: BatchRecord) -> None:
    run, step = watch.watched(shown)
    st.button(
        f"Take from Watch, step {step}",
        on_click=_take_step,
        args=(run, step, shown.layer),
        disabled=run is None,
        help=None if run else "The run on the Watch page is not computed yet: open it once.",
        width="stretch",
    )
    left, right = st.columns(2, gap="xsmall")
    with left:
        PASTING.place("Paste", "A batch as JSON")
    right.download_button(
        "Save JSON",
        lambda: shown.batch_shown.model_dump_json(indent=2, exclude_defaults=True),
        file_name="batch.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
    )
    shell.copy_link()
    empty = fields.empty_fields(record)
    if empty:
        listed = "<br>".join(escape(name).replace("_", "_<wbr>") for name in empty)
        st.html(f'<h4>None for this batch</h4><p class="mv-none">{listed}</p>')


def _take_step(run: Run, step: int, layer: int) -> None:
    """Callback: the batch of a step, of the cache group that the chosen layer is in."""
    specs = run.trace.states
    group = next((spec.group for spec in specs if spec.layer == layer), specs[0].group)
    try:
        _take(from_trace_step(run.trace, step, group))
    except BatchError as error:
        PASTING.complain(f"Step {step} was not taken: {error}.")


PASTING = Pasting("batch", "a batch", parse, BatchError, _take)
