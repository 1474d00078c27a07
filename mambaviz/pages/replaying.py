"""A recording of another engine on the Watch page: opened, judged, and walked through.

The stage is the one of our own runs; what was not recorded it says so. The sidebar has what is
known of the engine and a choice of requests, the part below the stage every verdict and the log.
"""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import asdict, replace
from html import escape
from typing import Any

import streamlit as st

from mambaviz import workload
from mambaviz.limits import LONGEST_SENTENCE, MOST_RECORDING_MB, MOST_REQUESTS, USUAL
from mambaviz.pages import messages, shell, state, tab_bar, widgets
from mambaviz.pages.opening import MOST_BYTES, MOST_KEPT, RecordingJob, Shown
from mambaviz.pages.plain import plain
from mambaviz.pages.progress import how_far
from mambaviz.pages.sessions import Presence, session_name
from mambaviz.pages.stage_component import StageState, stage
from mambaviz.pages.state import RECORDING_TABS, PageState
from mambaviz.pages.turns import process_turns
from mambaviz.pages.wishes import standing
from mambaviz.pages.work_store import WorkStore
from mambaviz.recording.lines import Head
from mambaviz.recording.reader import Reader, RecordingError
from mambaviz.recording.replay import Replay
from mambaviz.recording.scenario import Parting, parting, scenario_of
from mambaviz.recording.shelf import OWN_FILE, example_head, examples
from mambaviz.recording.steps import request_names
from mambaviz.recording.told import counted, step_lines, verdict_lines
from mambaviz.scenario import Scenario, ScenarioError
from mambaviz.viz.recorded_export import recording_html
from mambaviz.viz.stamp import run_name
from mambaviz.viz.verdict_table import VERDICT_CSS, verdict_table

MOST_MB = MOST_RECORDING_MB
FILE = "recording-file"  # in the session: the bytes of the reader's own recording


GIVEN_UP = "recording-given-up"  # the one that the reader has stopped
LAST = "last_recording"  # the one on screen


@st.cache_resource
def recording_store() -> WorkStore[RecordingJob]:
    """Recordings of all sessions."""
    return WorkStore(process_turns(), capacity=MOST_KEPT, most_bytes=MOST_BYTES, present=Presence())


def choice(shown: str | None) -> None:
    """Example recordings to choose from; ``shown`` is the one on screen, an own file too."""
    labels = {name: example_head(name).title or name for name in examples()}
    if shown == OWN_FILE and FILE in st.session_state:
        labels[OWN_FILE] = f"{st.session_state[FILE][0]} (own)"
    if not labels:
        return
    stands = shown if shown in labels else None
    widgets.stand("recording-example", stands, labels.get(OWN_FILE, ""))
    st.selectbox(
        "Recording" if OWN_FILE in labels else "Example recording",
        [*labels],
        key="recording-example",
        format_func=lambda name: labels.get(name, name),
        placeholder="a real engine’s run",
        on_change=_take_example,
    )


def _take_example() -> None:
    name = widgets.choice("recording-example", examples())
    if name is not None:
        _show(name)


def _uploader() -> None:
    number = st.session_state.get("recordings-opened", 0)
    st.file_uploader(
        f"A recording (.jsonl or .jsonl.gz), up to {MOST_MB} MB",
        max_upload_size=MOST_MB,
        key=f"recording {number}",
        on_change=_take_file,
        help="A larger one: `python -m mambaviz replay run.jsonl --steps 100:400 --cut part.jsonl`",
    )


def _take_file() -> None:
    """Callback: the reader has chosen a file."""
    number = st.session_state.get("recordings-opened", 0)
    file = st.session_state.get(f"recording {number}")
    if file is None:
        return
    st.session_state["recordings-opened"] = number + 1
    take(file.name, file.getvalue())


def take(name: str, data: bytes) -> None:
    """Look at a recording from a file; one that is none changes nothing but for a sentence.

    The uploaders take any name: what they refuse themselves would leave the old sentence standing.
    """
    if not name.lower().endswith((".jsonl", ".gz")):
        state.say(
            f"{name} was not opened: a recording ends in .jsonl or .jsonl.gz, a scenario, which is "
            "opened from our own runs, in .json."
        )
        return
    try:
        text = unpacked(name, data)
        _ = Reader(io.BytesIO(text), name).head
    except RecordingError as error:
        state.say(f"{name} was not opened: {error}")
        return
    st.session_state[FILE] = (name, text)
    _show(OWN_FILE)


def unpacked(name: str, data: bytes) -> bytes:
    """The text of a recording. Raises `RecordingError` for more than this page takes."""
    if name.endswith(".gz"):
        try:
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(MOST_MB * 10**6 + 1)
        except (OSError, EOFError, zlib.error):
            raise RecordingError(
                "it is not whole: what a .gz file holds cannot be unpacked; copy it anew, or open "
                "the file that it was made from"
            ) from None
    if len(data) > MOST_MB * 10**6:
        raise RecordingError(
            f"it has more than {MOST_MB} MB, which is all that this page takes; cut it with python "
            "-m mambaviz replay FILE --steps 0:400 --cut PART, or replay it on the command line"
        )
    return data


def _show(name: str) -> None:
    state.say("")
    start = {"step": 0, "phase": "schedule", "request": None, "layer": 0, "opening": True}
    state.update(recording=name, only=(), **start)


def leave() -> None:
    """Back to our own runs."""
    state.update(recording=None, only=(), step=0, phase="schedule", request=None, opening=False)


# --------------------------------------------------------------------------------------
# The page
# --------------------------------------------------------------------------------------


def page(view: PageState) -> bool:
    """Instead of a run of our own. Whether there is anything on the stage: the recording, or the
    one that was there before; what cannot be drawn leaves its sentence and the sidebar."""
    job, problem = _asked(view)
    shown = job.value if job is not None else None
    if "sidebar" not in view.hide:
        _sidebar(view, job, shown)
    with st.container(key="messages"):
        if state.notice():
            st.warning(plain(state.notice()), icon=":material/info:")
        if job is None:
            st.error(plain(messages.sentence(problem)), icon=":material/error:")
        elif shown is None:
            _messages(job, _still())
    if shown is not None:
        st.session_state[LAST] = shown
        with st.container(key="verdict"):
            _verdict(shown)
    before = st.session_state.get(LAST)
    if before is not None:
        _stage(before)
    return before is not None


def leave_recordings() -> None:
    """Of a session that looks at something else: what it waits for need not be computed."""
    st.session_state.pop(LAST, None)
    recording_store().want_only(session_name(), [])


def _asked(view: PageState) -> tuple[RecordingJob | None, str]:
    """The recording of the view, asked for unless it was stopped; or why there is none."""
    job = wanted_recording(view)
    if job is None:
        return None, "the recording is not here any more: open its file again"
    store, session = recording_store(), session_name()
    store.want_only(session, [job.key])
    known = store.known(job) if _given_up(job) else store.ask(job, session)
    return known or job, ""


def wanted_recording(view: PageState) -> RecordingJob | None:
    """As it is to be asked of the store; None if the reader's own file is gone."""
    only = frozenset(view.only)
    if view.recording != OWN_FILE:
        assert view.recording is not None
        return RecordingJob(view.recording, None, only)
    held = st.session_state.get(FILE)
    return RecordingJob(held[0], held[1], only) if held is not None else None


def _given_up(job: RecordingJob) -> bool:
    return st.session_state.get(GIVEN_UP) == job.key


def _still() -> str:
    """Said while something else is on screen."""
    there = LAST in st.session_state or "last_run" in st.session_state
    return " What you see is what was there before." if there else ""


def _messages(job: RecordingJob, still: str) -> None:
    if _given_up(job):
        if messages.stopped(f"This recording was stopped.{still}", "Open it", "open-it"):
            st.session_state[GIVEN_UP] = None
            st.rerun()
    elif job.refused:
        try_another = " Try another one: the sidebar has examples, and opens files."
        problem = plain(messages.sentence(job.problem))
        st.error(f"{problem}{try_another}{still}", icon=":material/error:")
    elif job.status == "failed":
        if messages.failed(job.problem, "Try again", "open-again", still):
            recording_store().retry(job)
            st.rerun()
    else:
        st.fragment(_follow, run_every=process_turns().look_again())(job, still)


def _follow(job: RecordingJob, still: str) -> None:
    """Say how far a recording is, and draw the page anew when it is there."""
    if job.status != "running":
        st.rerun()
    store = recording_store()
    text = how_far(job.progress, store.ahead(job), "Opening the recording", "reading it")
    if messages.under_way(f"{text}.{still}", "open-stop"):
        store.stop(job, session_name())
        st.session_state[GIVEN_UP] = job.key
        st.rerun()


def _verdict(shown: Shown) -> None:
    """What the judge says of the whole recording, and a way to the first broken step."""
    whole = shown.whole
    for remark in whole.remarks:
        st.info(plain(remark), icon=":material/content_cut:")
    if whole.first is None:
        st.success(plain(whole.summary), icon=":material/check_circle:")
        return
    first = whole.first
    whose = "" if first.request is None else f" for {first.request}"
    told = (
        f"Step {first.step} breaks “{first.rule}”{whose}: {first.message}. "
        f"{counted(len(whole.verdicts), 'finding')} in {counted(len(whole.steps), 'step')}."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.error(plain(told[:LONGEST_SENTENCE]), icon=":material/error:")
        st.button("First broken step", key="first-broken", on_click=_go, args=(whole,))


def _go(whole: Replay) -> None:
    step, phase = whole.opening
    assert whole.first is not None
    state.update(step=step, phase=phase, request=whole.first.request)


@st.fragment
def _stage(shown: Shown) -> None:
    view = state.current()
    run = shown.run
    wish = standing("wish", run.payload.run, within(shown, view), state.session().wish)
    hidden = [part for part in ("transport", "panels", "legend") if part in view.hide]
    at = stage(run.payload, key="stage", wish=wish, hidden=hidden)
    if at != within(shown, view) and is_wanted(shown, view):
        state.follow(**asdict(at))
    if "tabs" not in view.hide:
        _tabs(shown, at)


def is_wanted(shown: Shown, view: PageState) -> bool:
    """Whether it is what the view asks for, and not the recording before."""
    wanted = wanted_recording(view) if view.recording is not None else None
    return wanted is not None and wanted.key == shown.key


def within(shown: Shown, view: PageState) -> StageState:
    """The view's place, as far as the recording has it; it opens at the first broken step."""
    trace = shown.run.trace
    known = {plan.id for plan in trace.scenario.requests}
    request = view.request if view.request in known else None
    step, phase = (view.step, view.phase)
    if view.opening:
        step, phase = shown.whole.opening if shown.whole.first else shown.run.payload.opening
    layers = trace.scenario.layer.num_layers
    place = StageState(min(step, len(trace.steps) - 1), phase, request, 0, view.details)
    return replace(place, layer=min(view.layer, layers - 1))


def _tabs(shown: Shown, at: StageState) -> None:
    verdicts, log = tab_bar.place(RECORDING_TABS)
    step = shown.whole.steps[at.step]
    here = [verdict for verdict in shown.whole.verdicts if verdict.step == step.index]
    if verdicts.open:
        with verdicts:
            st.html(f"<style>{VERDICT_CSS}</style>")
            st.html(verdict_table(shown.whole.verdicts, step.index))
    if log.open:
        with log:
            first = bool(here) and shown.whole.first is here[0]
            lines = [*step_lines(step), *verdict_lines(here, first=first)]
            st.code("\n".join(lines), language=None, wrap_lines=True)


# --------------------------------------------------------------------------------------
# Sidebar
# --------------------------------------------------------------------------------------


def _sidebar(view: PageState, job: RecordingJob | None, shown: Shown | None) -> None:
    """What the first line says of the engine is there at once."""
    with st.sidebar:
        with st.container(key="side-scenario"):
            choice(view.recording)
            if job is not None:
                head = head_of(job)
                st.html(_story(head, job))
                st.html(f"<h4>Recorded</h4>{facts_table(head)}{not_recorded(head)}")
            if shown is not None:
                _requests(shown, view)
                _as_scenario(shown)
            with st.popover("Open another recording", width="stretch"):
                _uploader()
            st.button("Back to our own runs", on_click=leave, width="stretch")
        with st.container(key="side-foot"):
            if view.recording == OWN_FILE:
                st.caption("A file of yours is in no link: export the replay to pass it on.")
                if shown is not None:
                    _export(shown)
                return
            left, right = st.columns([4, 5], gap="xsmall")
            with left:
                shell.copy_link()
            with right:
                if shown is not None:
                    _export(shown)


def head_of(job: RecordingJob) -> Head:
    if job.data is None:
        return example_head(job.title)
    return Reader(io.BytesIO(job.data), job.title).head


def _story(head: Head, job: RecordingJob) -> str:
    """Its name in full, since the choice above may have cut it, and what there is to see."""
    name = head.title or job.title
    return f'<p class="mv-story"><b>{escape(name)}</b> {escape(head.story or "")}</p>'


def facts_table(head: Head) -> str:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts(head)
    )
    return f'<dl class="mv-facts">{rows}</dl>'


def facts(head: Head) -> list[tuple[str, Any]]:
    """What is known of the engine; what is not is left out."""
    settings = head.settings
    groups = head.groups or []
    kinds = {kind: sum(group.kind == kind for group in groups) for kind in ("mamba", "attention")}
    found = [
        ("engine", f"{head.engine} {head.engine_version}"),
        ("cache mode", settings.mode),
        ("block size", f"{settings.block_size} tokens" if settings.block_size else None),
        ("drafts per step", settings.num_spec),
        ("runner", settings.runner.upper() if settings.runner else None),
        ("layout", settings.layout),
        ("blocks", f"{settings.num_blocks - 1} + null" if settings.num_blocks else None),
        ("Mamba groups", kinds["mamba"] or None),
        ("attention groups", kinds["attention"] or None),
        ("token budget", settings.max_num_batched_tokens),
        ("bytes", "yes" if head.states else "no"),
    ]
    return [(name, value) for name, value in found if value is not None]


def not_recorded(head: Head) -> str:
    """The seams that the recorder did not find, each with its reason."""
    missing = head.missing
    if not missing:
        return ""
    lines = "".join(
        f"<li><b>{escape(hook.seam)}</b>{': ' + escape(hook.why) if hook.why else ''}</li>"
        for hook in missing
    )
    return (
        f'<details class="mv-unhooked"><summary>{len(missing)} seams not recorded</summary>'
        f"<ul>{lines}</ul></details>"
    )


def _requests(shown: Shown, view: PageState) -> None:
    """Which requests are drawn; all are judged."""
    names = request_names(shown.whole.steps)
    if len(names) < 2:
        return
    widgets.stand("recording-requests", [name for name in names if name in view.only])
    st.multiselect(
        "Only these requests",
        names,
        key="recording-requests",
        placeholder=f"all {len(names)}" if len(names) <= MOST_REQUESTS else f"{MOST_REQUESTS}",
        max_selections=MOST_REQUESTS,
        on_change=_choose_requests,
    )


def _choose_requests() -> None:
    state.say("")
    state.update(only=tuple(st.session_state["recording-requests"]))


def _as_scenario(shown: Shown) -> None:
    """The same run on our own engine, where it does what the recorded one did up to this step."""
    st.button(
        "Show as scenario",
        on_click=_try_as_scenario,
        args=(shown,),
        width="stretch",
        help="Runs our engine with the recorded prompts and acceptance. Where it gives every "
        "request the recorded lists up to the step on screen, that run is shown: with bytes.",
    )


def _try_as_scenario(shown: Shown) -> None:
    """Callback: look at our own run, or say why there is none."""
    step = within(shown, state.current()).step
    phase = within(shown, state.current()).phase
    try:
        scenario = scenario_of(shown.whole.head, shown.whole.steps)
        workload.within(scenario, USUAL)
        apart = _apart(shown.run.trace.scenario_hash, scenario, shown.whole, step)
    except (RecordingError, ScenarioError) as error:
        state.say(f"This recording cannot be shown as a scenario: {error}.")
        return
    if apart is not None:
        state.say(
            f"Step {step} cannot be shown as a scenario: our engine does otherwise than the "
            f"recorded one from step {apart.step} on, where {apart.what}."
        )
        return
    state.show(scenario)
    state.update(step=step, phase=phase)


@st.cache_resource(max_entries=32, show_spinner=False)
def _apart(_hash: str, _scenario: Scenario, _whole: Replay, step: int) -> Parting | None:
    """Where our engine and the recorded one part, looked at up to one step."""
    from mambaviz.engine import iter_steps

    wanted = _whole.steps[: step + 1]
    return parting(iter_steps(_scenario, backend="reference"), wanted)


def _export(shown: Shown) -> None:
    view = state.current()
    place = within(shown, view)

    def made() -> str:
        return recording_html(
            shown.whole,
            step=place.step,
            phase=place.phase,
            request=place.request,
            layer=place.layer,
            payload=shown.run.payload,
        )

    st.download_button(
        "Export HTML",
        made,
        file_name=f"{run_name(shown.run.trace)}.html",
        mime="text/html",
        on_click="ignore",
        width="stretch",
    )
