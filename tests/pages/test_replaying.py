"""The Watch page with a recording: opened from a file, judged, left again."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mambaviz.pages import opening, replaying, state
from mambaviz.pages.opening import RecordingJob
from mambaviz.pages.replaying import FILE, MOST_MB, facts, not_recorded, unpacked
from mambaviz.pages.state import PageState, from_link, to_link
from mambaviz.pages.turns import Turns
from mambaviz.pages.work_store import WorkStore
from mambaviz.recording.lines import Head, Hook
from mambaviz.recording.reader import RecordingError, open_recording
from mambaviz.recording.replay import Replay, replay
from mambaviz.recording.shelf import OWN_FILE, example_head, examples
from mambaviz.viz.payload import stage_payload
from mambaviz.viz.recorded_words import recorded_words
from mambaviz.viz.verdict_table import verdict_table
from mambaviz.viz.views import frame_at
from tests.recording.files import lines_of, preset_trace, reader_of

APP = Path(__file__).resolve().parents[2] / "app.py"
LINES = lines_of(preset_trace("draft-filled-blocks"))


def _opened(lines: list[str] = LINES) -> AppTest:
    """The page as it is once a file has been taken."""

    def script(name: str, text: str) -> None:
        import streamlit as st

        from mambaviz.pages import replaying, state

        st.session_state.setdefault(replaying.FILE, (name, text.encode()))
        view = state.current()
        if view.recording is None:
            view = state.update(recording="file", step=0, phase="schedule", opening=True)
        replaying.page(view)

    return AppTest.from_function(script, args=("run.jsonl", "".join(lines)), default_timeout=60)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> WorkStore[RecordingJob]:
    """One in which nothing has been opened yet."""
    found = WorkStore[RecordingJob](Turns(), capacity=4, most_bytes=10**9)
    monkeypatch.setattr(replaying, "recording_store", lambda: found)
    return found


def finished(store: WorkStore[RecordingJob], lines: list[str] = LINES) -> RecordingJob:
    job = store.known(RecordingJob("run.jsonl", "".join(lines).encode()))
    assert job is not None
    assert job.ended.wait(60)
    return job


def test_a_file_is_judged_and_its_first_broken_step_offered(
    store: WorkStore[RecordingJob],
) -> None:
    app = _opened().run()
    finished(store)
    app.run()
    assert not app.exception
    assert [error.value for error in app.error] == [
        "Step 1 breaks “boundary state” for A: block 1 is registered for A@2, but its conv state "
        "is the state of A after 1 tokens. 2 findings in 4 steps."
    ]
    assert app.query_params["recording"] in ("file", ["file"])
    app.button("first-broken").click().run()
    here = app.session_state["session"].state
    assert (here.recording, here.step, here.phase, here.request) == ("file", 1, "commit", "A")


def test_a_recording_is_stopped_and_opened_after_all(
    store: WorkStore[RecordingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, judged = threading.Event(), opening.replay

    def held_up(*args: Any, **kwargs: Any) -> Replay:
        assert gate.wait(60)
        return judged(*args, **kwargs)

    monkeypatch.setattr(opening, "replay", held_up)
    app = _opened().run()
    assert [info.value for info in app.info] == ["Opening the recording: reading it."]
    assert any("block size" in found.proto.body for found in app.get("html")), "the head’s facts"
    app.button("open-stop").click().run()
    assert [info.value for info in app.info] == ["This recording was stopped."]
    gate.set()
    assert finished(store).status == "stopped"
    app.button("open-it").click().run()
    assert finished(store).status == "done"
    app.run()
    assert not app.info
    assert len(app.error) == 1


def test_a_recording_that_is_refused_gets_its_sentence(store: WorkStore[RecordingJob]) -> None:
    lines = [*LINES[:3], "{}\n"]
    app = _opened(lines).run()
    assert finished(store, lines).refused
    app.run()
    assert [error.value for error in app.error] == [
        'run.jsonl, line 4, a line must be an object with the key "event". Try another one: the '
        "sidebar has examples, and opens files."
    ]


def test_a_file_of_another_kind_gets_its_own_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(state, "say", said.append)
    replaying.take("notes.txt", b"")
    replaying.take("run.jsonl", b"")
    assert [one.partition(":")[0] for one in said] == [
        "notes.txt was not opened",
        "run.jsonl was not opened",
    ]
    assert said[0].endswith("a recording ends in .jsonl or .jsonl.gz, a scenario, which is opened "
                            "from our own runs, in .json.")  # fmt: skip


def test_a_link_holds_an_example_but_no_file() -> None:
    assert to_link(PageState(recording=OWN_FILE, opening=True))["recording"] == "file"
    view, problem = from_link({"recording": "file", "step": "3"})
    assert view.recording is None
    assert problem.startswith("This link shows a recording that was opened from a file")
    view, problem = from_link({"recording": "no-such"})
    assert (view.recording, problem[:37]) == (None, "This link asks for a recording “no-su")


@pytest.mark.parametrize("name", examples())
def test_an_example_has_a_title_and_opens_by_its_link(name: str) -> None:
    link = to_link(PageState(recording=name, opening=True))
    assert link == {"recording": name}
    view, problem = from_link(link)
    assert (view.recording, view.opening, problem) == (name, True, "")
    assert example_head(name).engine == "vllm"
    found = replay(open_recording(examples()[name]))
    assert found.trace.steps


def test_the_choice_of_requests_is_in_the_link_of_an_example() -> None:
    chosen = state.opened(recording="hybrid-drafts", only=("r3", "r0"))
    assert to_link(chosen) == {"recording": "hybrid-drafts", "only": "r3,r0"}
    assert from_link(to_link(chosen)) == (chosen, "")
    assert chosen.showing(chosen.scenario).only == ()
    assert "only" not in to_link(chosen.changed(recording=OWN_FILE))


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"recording": "hybrid-drafts", "only": "r3,r99"}, "a request “r99”, which the recording"),
        ({"recording": "hybrid-drafts", "only": ""}, "a request “”, which the recording"),
        ({"only": "r3"}, "which is for recordings, and names none"),
        ({"recording": "hybrid-drafts", "only": ",".join(map(str, range(65)))}, "65 requests"),
    ],
)
def test_a_choice_that_makes_no_sense_gets_a_sentence(params: dict[str, str], says: str) -> None:
    view, problem = from_link(params)
    assert says in problem
    assert (view.only, view.recording) == ((), params.get("recording"))


def test_another_scenario_leaves_the_recording() -> None:
    view = PageState(recording=OWN_FILE)
    assert view.showing(view.scenario).recording is None


def test_a_file_too_large_or_damaged_is_refused() -> None:
    with pytest.raises(RecordingError, match="it has more than 20 MB, which is all that this page"):
        unpacked("run.jsonl", b" " * (MOST_MB * 10**6 + 1))
    with pytest.raises(RecordingError, match="more than 20 MB"):
        unpacked("run.jsonl.gz", gzip.compress(b" " * (MOST_MB * 10**6 + 1)))
    damaged = bytearray(gzip.compress("".join(LINES).encode()))
    damaged[len(damaged) // 2] ^= 0xFF
    no_block = bytes(damaged[:10]) + b"\x07" + bytes(damaged[11:])  # of a type that there is not
    for data in (b"no gzip", bytes(damaged), bytes(damaged[:-20]), no_block):
        with pytest.raises(RecordingError, match=r"it is not whole: what a \.gz file holds"):
            unpacked("run.jsonl.gz", data)
    assert unpacked("run.jsonl.gz", gzip.compress(b"{}")) == b"{}"


def test_only_what_is_known_of_the_engine_is_told() -> None:
    head = Head(
        event="head",
        format="",
        version=1,
        engine="vllm",
        engine_version="0.30.0",
        settings={},
        hooks=[Hook(seam="rows", hooked=False, why="no <such> name")],
    )  # type: ignore[arg-type]
    assert facts(head) == [("engine", "vllm 0.30.0"), ("bytes", "no")]
    assert "<li><b>rows</b>: no &lt;such&gt; name</li>" in not_recorded(head)
    other = Hook(seam="rows", hooked=True)  # the runner in use needs one wrapper of its own
    assert not_recorded(head.model_copy(update={"hooks": [*(head.hooks or ()), other]})) == ""


def test_the_table_marks_the_step_on_screen() -> None:
    found = replay(reader_of(LINES))
    table = verdict_table(found.verdicts, 3)
    assert table.count("<tr class=now>") == 1
    assert "<td>boundary state</td>" in table
    assert verdict_table((), 0) == "<p>Nothing in this recording contradicts the rules.</p>"
    assert (replaying.FILE, state.OF_A_RUN[2]) == (FILE, "recording")


def test_what_is_broken_is_the_headline_and_what_happened_follows() -> None:
    found = replay(reader_of(LINES))
    told = recorded_words(frame_at(found.trace, 1, "commit"), "A", 0)
    assert told.headline == "“Boundary state” is broken for A: I1 in commit."
    assert told.plain.startswith("block 1 is registered for A@2, but its conv state is the state")
    assert "Computed now: A 2." in told.plain
    sound = recorded_words(frame_at(found.trace, 1, "accept"), "A", 0)
    assert "broken" not in sound.headline


def test_the_requests_chosen_are_drawn_without_the_others() -> None:
    """Metadata of a step name blocks of requests that are not drawn, too."""
    path = examples()["hybrid-drafts"]
    narrow = replay(open_recording(path), only=frozenset({"r3"}))
    assert {name for step in narrow.trace.steps for name in step.batch_order} == {"r3"}
    assert stage_payload(narrow.trace).opening[0] < len(narrow.steps)
    alone = next(step for step in narrow.trace.steps if not step.order)
    told = recorded_words(frame_at(narrow.trace, alone.index, "schedule"), "r3", 0)
    assert told.headline == "None of the chosen requests runs in this step."
