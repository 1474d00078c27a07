"""The Kernels page: one launch of a real kernel on inputs that the reader edits (section 3)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

import streamlit as st

from mambaviz.launches.from_run import from_trace_step
from mambaviz.launches.inputs import (
    FAST_STORY,
    KERNEL_FUNCTIONS,
    KERNEL_LABELS,
    KERNEL_STORIES,
    LAUNCHES,
    LaunchError,
    LaunchInputs,
    parse,
    slug_of,
)
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import Damage, LaunchRecord, recorded
from mambaviz.pages import launch_editor, shell, state, watch, widgets
from mambaviz.pages.assets import KERNELS_STYLE
from mambaviz.pages.failures import explained
from mambaviz.pages.kernels_component import part, told
from mambaviz.pages.kernels_state import KernelsView
from mambaviz.pages.messages import sentence
from mambaviz.pages.pasting import Pasting
from mambaviz.pages.plain import plain
from mambaviz.pages.runs import Run
from mambaviz.pages.sidebar import BACKEND_HELP, BACKEND_LABELS
from mambaviz.pages.state import BACKEND_CHOICES, BackendChoice, PageState
from mambaviz.speeds import committed
from mambaviz.viz.kernels import code, view
from mambaviz.viz.kernels.speeds import speeds_html

BROKE_OFF = "This launch broke off"
OWN = "own"  # the entry of the preset list for inputs that are none

_LAST = "launch_record"  # the record on screen
_LIVE = "launch_live"  # the launch that the reader has asked for, though it is recorded
_SHOWN = "launch_shown"  # the launch the component shows: its reports are about that one


@dataclass(frozen=True)
class Shown:
    """A launch as it is on screen; ``is_recorded``: it was there before anything was launched."""

    record: LaunchRecord
    is_recorded: bool

    @property
    def origin(self) -> str:
        return "recorded" if self.is_recorded else f"live, {self.record.backend}"


def page() -> None:
    view_state = state.current()
    shell.frame(view_state)
    st.html(f"<style>{KERNELS_STYLE.read_text(encoding='utf-8')}</style>")
    launch_editor.follow(view_state.kernels.inputs)
    side = "sidebar" not in view_state.hide
    with st.sidebar if side else st.container(key="kernels-hidden"):
        head = st.container(key="side-scenario")
        with head:
            choice = st.container(key="launch-choice")
            sizes = st.popover("Sizes and options", width="stretch")
            with sizes, st.container(key="launch-sizes"):
                settings = launch_editor.settings()
            actions = st.container(key="launch-actions")
        foot = st.container(key="side-foot")
    say, messages = st.container(key="kernels-say"), st.container(key="messages")
    left, right = st.columns([103, 100], gap="small")
    with left:
        heading = st.container(key="launch-heading", horizontal=True, vertical_alignment="center")
        rows = launch_editor.rows_table(settings)
    draft = _draft(settings, rows, messages)
    with heading:
        _heading(settings, rows, view_state.kernels.inputs, draft)
    shown = _record(view_state, messages)
    damage = _damage(view_state.kernels, messages)
    with choice:
        _choice(view_state.kernels, shown.record)
    with actions:
        _actions(view_state, draft)
    with foot:
        _foot(view_state, shown)
    with say:
        st.html(view.say_html(shown.record, damage))
    _pictures(view_state.kernels, shown.record, damage, left, right)
    part("speeds", speeds_html(committed()))


# --------------------------------------------------------------------------------------
# Pictures
# --------------------------------------------------------------------------------------


def _pictures(
    shown: KernelsView, record: LaunchRecord, damage: Damage | None, left: Any, right: Any
) -> None:
    keys = {program.key for program in record.programs}
    chosen = shown.program if shown.program in keys else record.first.key
    launch = f"{record.inputs.content_hash[:8]} {record.function} {state.session().wish}"
    st.session_state[_SHOWN] = launch
    values = code.values(record)
    with left:
        part(
            "programs",
            view.programs_html(record, damage),
            chosen=chosen,
            launch=launch,
            on_program=_take_program,
        )
    with right:
        part(
            "detail",
            view.detail_html(record, damage, values),
            values=values,
            fades="_pieces_" not in record.function,  # of the fast one too few values are known
            chosen=chosen,
            launch=launch,
            on_path=_take_path,
        )


def _take_program() -> None:
    """Callback: the reader rests on another program; the link follows."""
    program = told("programs", "program", st.session_state.get(_SHOWN, ""))
    record = st.session_state.get(_LAST)
    if program is None or record is None:
        return
    if program in {one.key for one in record.record.programs}:
        state.follow(kernels=state.current().kernels.changed(program=program))


def _take_path() -> None:
    """Callback: the fast kernel or the readable one."""
    path = told("detail", "path", st.session_state.get(_SHOWN, ""))
    if path in ("fast", "readable"):
        _update(fast=path == "fast")


def _update(**changes: Any) -> None:
    PASTING.settle()
    state.update(kernels=state.current().kernels.changed(**changes))


# --------------------------------------------------------------------------------------
# The draft
# --------------------------------------------------------------------------------------


def _draft(
    settings: dict[str, Any], rows: list[dict[str, Any]], messages: Any
) -> LaunchInputs | None:
    """What the widgets say; None, and a sentence, where that cannot be launched."""
    with messages:
        for sentence in (state.notice(), PASTING.problem):
            if sentence:
                st.warning(plain(sentence), icon=":material/link_off:")
        try:
            return launch_editor.judge(settings, rows)
        except LaunchError as error:
            _refused(str(error))
    return None


def _refused(problem: str) -> None:
    st.error(
        f"{plain(sentence(problem))} What you see is the launch before.",
        icon=":material/error:",
    )


def _heading(
    settings: dict[str, Any],
    rows: list[dict[str, Any]],
    launched: LaunchInputs,
    draft: LaunchInputs | None,
) -> None:
    """Title of the table, with what was edited since the launch on screen."""
    preset = LAUNCHES.get(slug_of(launched) or "")
    note = "edit any cell, then launch"
    if draft is not None and draft != launched:
        note = f"{launch_editor.difference(launched, draft)}: not launched yet"
    elif preset is None and launched.name.endswith(", edited"):
        base = next(
            (one for one in LAUNCHES.values() if f"{one.name}, edited" == launched.name), None
        )
        note = launch_editor.difference(base, launched) if base is not None else note
    st.html(f'<h3 class="mv-title">Inputs <small>{escape(note)}</small></h3>')
    changes = {"Add a row": launch_editor.with_row, "Remove the last": launch_editor.without_row}
    for label, change in changes.items():
        st.button(label, type="tertiary", on_click=_change, args=(change, settings, rows))


def _change(
    change: Callable[[dict[str, Any], list[dict[str, Any]]], LaunchInputs],
    settings: dict[str, Any],
    rows: list[dict[str, Any]],
) -> None:
    """Callback: launch other inputs, made from what the widgets say."""
    try:
        _take(change(settings, rows))
    except LaunchError as error:
        PASTING.complain(f"This cannot be done to the inputs: {error}.")


def _take(inputs: LaunchInputs) -> None:
    """Callback: launch these inputs and show them."""
    PASTING.settle()
    state.say("")
    state.update(kernels=state.current().kernels.showing(inputs))


# --------------------------------------------------------------------------------------
# The launch and the damage
# --------------------------------------------------------------------------------------


def _record(shown: PageState, messages: Any) -> Shown:
    """The recorded launch of a preset at once, any other by launching it; else the one before."""
    try:
        found = _found(shown)
    except Exception as error:  # noqa: BLE001  # whatever a launch raises becomes a sentence
        with messages:
            _refused(explained(error, BROKE_OFF))
        before = st.session_state.get(_LAST)
        return before or Shown(recorded(next(iter(LAUNCHES))), is_recorded=True)
    st.session_state[_LAST] = found
    return found


def _found(shown: PageState) -> Shown:
    kernels = shown.kernels
    slug = slug_of(kernels.inputs)
    wanted = (kernels.inputs.content_hash, shown.backend)
    plain_way = shown.backend == "auto" and not kernels.fast
    if slug is not None and plain_way and st.session_state.get(_LIVE) != wanted:
        return Shown(recorded(slug), is_recorded=True)
    with _waiting():
        record = _launched(kernels.inputs.model_dump_json(), shown.backend, kernels.fast)
    return Shown(record, is_recorded=False)


def _waiting() -> Any:
    """Importing torch takes a while, once; a launch does not."""
    loaded = "torch" in sys.modules
    return st.spinner("Launching …" if loaded else "Loading PyTorch, about two seconds …")


@lru_cache(maxsize=64)
def _launched(text: str, backend: BackendChoice, fast: bool) -> LaunchRecord:
    from mambaviz.launches.run import launch

    return launch(parse(text), None if backend == "auto" else backend, fast=fast)


def _damage(shown: KernelsView, messages: Any) -> Damage | None:
    if not shown.mistakes:
        return None
    try:
        with _waiting():
            return _damaged(shown.inputs.model_dump_json(), shown.mistakes)
    except Exception as error:  # noqa: BLE001  # whatever it raises becomes a sentence
        with messages:
            _refused(explained(error, BROKE_OFF))
        return None


@lru_cache(maxsize=64)
def _damaged(text: str, mistakes: tuple[str, ...]) -> Damage:
    from mambaviz.launches.simulate import damage

    return damage(parse(text), mistakes)


# --------------------------------------------------------------------------------------
# Sidebar
# --------------------------------------------------------------------------------------


def _choice(shown: KernelsView, record: LaunchRecord) -> None:
    kernel = shown.inputs.kernel
    widgets.stand("launch-kernel", kernel)
    st.selectbox(
        "Kernel",
        list(KERNEL_LABELS),
        key="launch-kernel",
        format_func=KERNEL_LABELS.__getitem__,
        on_change=_take_kernel,
    )
    fast = record.function != KERNEL_FUNCTIONS[record.inputs.kernel]
    story = FAST_STORY if fast else KERNEL_STORIES[record.inputs.kernel]
    name = record.function.replace("_", "_<wbr>")
    st.html(f'<p class="mv-story"><code>{name}</code><br>{escape(story)}</p>')
    presets = {slug: one.name for slug, one in LAUNCHES.items() if one.kernel == kernel}
    own = slug_of(shown.inputs) is None
    widgets.stand("launch-preset", OWN if own else slug_of(shown.inputs), shown.inputs.name)
    st.selectbox(
        "Inputs",
        [*presets, OWN] if own else [*presets],
        key="launch-preset",
        format_func=lambda slug: presets.get(slug, f"{shown.inputs.name} (own)"),
        on_change=_take_preset,
        help=shown.inputs.story or None,
    )
    st.html(_facts(shown.inputs, record))


def _take_kernel() -> None:
    kernel = widgets.choice("launch-kernel", KERNEL_LABELS)
    if kernel is not None:
        _take(next(one for one in LAUNCHES.values() if one.kernel == kernel))


def _take_preset() -> None:
    slug = widgets.choice("launch-preset", LAUNCHES)
    if slug is not None:
        _take(LAUNCHES[slug])


def _facts(inputs: LaunchInputs, record: LaunchRecord) -> str:
    lines = [
        ("grid", " × ".join(str(size) for size in record.grid)),
        ("block size", f"{inputs.block_size}"),
    ]
    if inputs.copies:
        conv, temporal = record.states[0], record.states[1]
        row = conv.elem_size * (inputs.channels if inputs.layout == "SD" else inputs.conv_width)
        lines += [
            ("layout, dtype", f"{inputs.layout}, {inputs.dtype}"),
            ("layers", str(inputs.layers)),
            ("conv row, block", f"{row} B, {conv.num_bytes} B"),
            ("temporal block", f"{temporal.num_bytes} B"),
            ("columns in a row", str(inputs.columns)),
        ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    return f'<dl class="mv-facts">{rows}</dl>'


def _actions(shown: PageState, draft: LaunchInputs | None) -> None:
    kernels = shown.kernels
    st.html("<h4>Break it</h4>")
    for name, mistake in MISTAKES.items():
        key = f"launch-broken-{name}"
        widgets.stand(key, name in kernels.mistakes)
        st.toggle(
            mistake.label,
            key=key,
            help=f"{mistake.what} {mistake.how}",
            on_change=_take_mistakes,
            disabled=not kernels.inputs.copies,
        )
    st.button(
        "Launch",
        type="primary",
        width="stretch",
        on_click=_launch,
        args=(draft, shown.backend),
        disabled=draft is None,
        help="Run the real kernel on these inputs, in small caches.",
    )


def _take_mistakes() -> None:
    on = tuple(name for name in MISTAKES if st.session_state.get(f"launch-broken-{name}"))
    _update(mistakes=on)


def _launch(draft: LaunchInputs, backend: BackendChoice) -> None:
    """Callback: launch what the widgets say, a preset's own inputs too."""
    st.session_state[_LIVE] = (draft.content_hash, backend)
    _take(draft)


def _foot(shown: PageState, found: Shown) -> None:
    run, step = watch.watched(shown)
    st.button(
        f"Take from Watch, step {step}",
        on_click=_take_step,
        args=(run, step, shown),
        disabled=run is None,
        help=None if run else "The run on the Watch page is not computed yet: open it once.",
        width="stretch",
    )
    left, right = st.columns(2, gap="xsmall")
    with left:
        PASTING.place("Paste", "A launch as JSON")
    right.download_button(
        "Save JSON",
        lambda: shown.kernels.inputs.model_dump_json(indent=2, exclude_defaults=True),
        file_name="launch.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
    )
    shell.copy_link()
    widgets.stand("launch-backend", shown.backend)
    st.selectbox(
        "Back end",
        BACKEND_CHOICES,
        key="launch-backend",
        format_func=BACKEND_LABELS.__getitem__,
        help=BACKEND_HELP,
        on_change=_take_backend,
    )
    st.html(
        f'<p class="mv-foot"><span>launch {found.record.inputs.content_hash[:7]}</span>'
        f"<span>{escape(found.origin)}</span></p>"
    )


def _take_backend() -> None:
    choice = widgets.choice("launch-backend", BACKEND_CHOICES)
    if choice is not None:
        state.update(backend=choice)


def _take_step(run: Run, step: int, shown: PageState) -> None:
    """Callback: what the chosen kernel decides on in a step, of the chosen layer's cache group."""
    specs = run.trace.states
    group = next((spec.group for spec in specs if spec.layer == shown.layer), specs[0].group)
    try:
        _take(from_trace_step(run.trace, step, shown.kernels.inputs.kernel, group))
    except LaunchError as error:
        PASTING.complain(f"Step {step} was not taken: {error}.")


PASTING = Pasting("launch", "a launch", parse, LaunchError, _take)
