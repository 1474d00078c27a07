"""The run store: computed once for everybody, kept while there is room, stopped when unwanted."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mambaviz.pages.runs import (
    Job,
    RunStore,
    read_recording,
    recorded,
    recording_path,
    write_recording,
)
from mambaviz.pages.sessions import GRACE, Presence
from mambaviz.scenario import PRESETS, Scenario, ScenarioError
from mambaviz.trace import Trace

SLUGS = list(PRESETS)


RECORDED = recorded("plain-decode")


def fake_trace(scenario: Scenario) -> Trace:
    assert RECORDED is not None
    return RECORDED.trace.model_copy(
        update={"scenario": scenario, "scenario_hash": scenario.content_hash}
    )


class FakeEngine:
    """Counts what it is asked for; ``gate`` holds it before its second step."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails: Exception | None = None

    def __call__(
        self, scenario: Scenario, backend: str, progress: Callable[[int, str], None]
    ) -> Trace:
        self.calls.append((scenario.content_hash, backend))
        progress(1, "step 0")
        assert self.gate.wait(10)
        if self.fails:
            raise self.fails
        progress(2, "step 1")
        return fake_trace(scenario)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


def finished(job: Job) -> Job:
    deadline = time.monotonic() + 10
    while job.status == "running":
        assert time.monotonic() < deadline, "the run never ended"
        time.sleep(0.005)
    return job


def test_a_run_is_computed_once_for_everybody(engine: FakeEngine) -> None:
    store = RunStore(engine)
    first = store.request(PRESETS["plain-decode"], "auto", "one")
    second = store.request(PRESETS["plain-decode"], "auto", "two")
    assert finished(first) is second
    assert first.run is not None
    assert not first.run.recorded
    assert (first.done_steps, first.message) == (2, "step 1")
    assert engine.calls == [(PRESETS["plain-decode"].content_hash, "auto")]


def test_the_name_of_a_scenario_does_not_make_it_another_run(engine: FakeEngine) -> None:
    store = RunStore(engine)
    renamed = PRESETS["plain-decode"].model_copy(update={"name": "other", "story": ""})
    job = finished(store.request(PRESETS["plain-decode"], "auto", "one"))
    assert store.request(Scenario.model_validate(renamed.model_dump()), "auto", "one") is job


def test_another_back_end_is_another_run(engine: FakeEngine) -> None:
    store = RunStore(engine)
    store.request(PRESETS["plain-decode"], "auto", "one")
    finished(store.request(PRESETS["plain-decode"], "reference", "one"))
    assert [backend for _, backend in engine.calls] == ["auto", "reference"]


def test_the_oldest_runs_make_room(engine: FakeEngine) -> None:
    store = RunStore(engine, capacity=2)
    for slug in SLUGS[:3]:
        finished(store.request(PRESETS[slug], "auto", "one"))
    store.request(PRESETS[SLUGS[2]], "auto", "one")
    kept = [slug for slug in SLUGS if store.find(PRESETS[slug], "auto")]
    assert kept == SLUGS[1:3]


def test_the_last_one_to_stop_ends_the_run(engine: FakeEngine) -> None:
    engine.gate.clear()
    store = RunStore(engine)
    job = store.request(PRESETS["plain-decode"], "auto", "one")
    store.request(PRESETS["plain-decode"], "auto", "two")
    store.stop(job, "one")
    store.stop(job, "two")
    engine.gate.set()
    assert finished(job).status == "stopped"
    assert job.run is None
    again = finished(store.request(PRESETS["plain-decode"], "auto", "one"))
    assert again.status == "done"


def test_a_run_that_somebody_still_wants_goes_on(engine: FakeEngine) -> None:
    engine.gate.clear()
    store = RunStore(engine)
    job = store.request(PRESETS["plain-decode"], "auto", "one")
    store.request(PRESETS["plain-decode"], "auto", "two")
    store.stop(job, "one")
    engine.gate.set()
    assert finished(job).status == "done"


def test_advice_is_said_as_it_is(engine: FakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    engine.fails = ScenarioError("engine.mode = 'all': not on Tuesdays")
    job = finished(RunStore(engine).request(PRESETS["plain-decode"], "auto", "one"))
    assert (job.status, job.problem) == ("failed", "engine.mode = 'all': not on Tuesdays")
    assert not caplog.records


def test_a_defect_is_one_sentence_and_a_traceback_in_the_log(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.fails = KeyError("shape\nmismatch")
    store = RunStore(engine)
    job = finished(store.request(PRESETS["plain-decode"], "auto", "one"))
    assert job.status == "failed"
    assert "after 1 steps" in job.problem
    assert "KeyError" in job.problem
    assert "\n" not in job.problem
    assert "Traceback" in caplog.text
    assert store.request(PRESETS["plain-decode"], "auto", "one") is job
    engine.fails = None
    store.retry(job)
    assert finished(store.request(PRESETS["plain-decode"], "auto", "one")).status == "done"


def test_a_recording_is_written_the_same_way_every_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mambaviz.pages.runs.RECORDED_DIR", tmp_path)
    trace = fake_trace(PRESETS["plain-decode"])
    write_recording("plain-decode", trace)
    first = recording_path("plain-decode").read_bytes()
    write_recording("plain-decode", trace)
    assert recording_path("plain-decode").read_bytes() == first


def test_a_full_disk_leaves_the_recording_that_was_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mambaviz.pages.runs.RECORDED_DIR", tmp_path)
    trace = fake_trace(PRESETS["plain-decode"])
    write_recording("plain-decode", trace)
    before = recording_path("plain-decode").read_bytes()

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_recording("plain-decode", trace)
    assert recording_path("plain-decode").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["plain-decode.json.gz"]


def test_a_recording_of_another_scenario_is_not_shown(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mambaviz.pages.runs.RECORDED_DIR", tmp_path)
    read_recording.cache_clear()
    try:
        write_recording("plain-decode", fake_trace(PRESETS["shift-in-place"]))
        assert recorded("plain-decode") is None  # there, but of another scenario
        assert recorded("shift-in-place") is None  # not there
    finally:
        read_recording.cache_clear()


# --------------------------------------------------------------------------------------
# Many sessions
# --------------------------------------------------------------------------------------


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def test_runs_are_computed_one_at_a_time_and_say_how_many_come_before(engine: FakeEngine) -> None:
    engine.gate.clear()
    store = RunStore(engine, drawn=False)
    jobs = [store.request(PRESETS[slug], "auto", slug) for slug in SLUGS[:3]]
    until(lambda: engine.calls)
    assert [store.ahead(job) for job in jobs] == [0, 1, 2]
    assert len(engine.calls) == 1
    engine.gate.set()
    assert [finished(job).status for job in jobs] == ["done"] * 3
    assert [called for called, _ in engine.calls] == [PRESETS[s].content_hash for s in SLUGS[:3]]


def test_a_run_that_waits_is_given_up_without_being_begun(engine: FakeEngine) -> None:
    engine.gate.clear()
    store = RunStore(engine, drawn=False)
    first = store.request(PRESETS[SLUGS[0]], "auto", "one")
    left, other = (store.request(PRESETS[slug], "auto", "two") for slug in SLUGS[1:3])
    until(lambda: engine.calls)
    store.want_only("two", [other.key])
    assert finished(left).status == "stopped"
    engine.gate.set()
    assert (finished(first).status, finished(other).status) == ("done", "done")
    assert PRESETS[SLUGS[1]].content_hash not in [called for called, _ in engine.calls]


@pytest.mark.parametrize("raised", [KeyError("shape"), SystemExit(1)])
def test_after_a_run_that_raises_another_session_has_its_turn(
    engine: FakeEngine, raised: BaseException
) -> None:
    engine.gate.clear()
    engine.fails = raised  # type: ignore[assignment]
    store = RunStore(engine, drawn=False)
    broken = store.request(PRESETS[SLUGS[0]], "auto", "one")
    until(lambda: engine.calls)
    engine.gate.set()
    assert finished(broken).status == "failed"
    engine.fails = None
    assert finished(store.request(PRESETS[SLUGS[1]], "auto", "two")).status == "done"


def test_a_thread_that_cannot_start_is_a_failed_run_and_no_stuck_queue(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(engine, drawn=False)
    with monkeypatch.context() as patch:

        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", start)
        job = store.request(PRESETS[SLUGS[0]], "auto", "one")
    assert (job.status, "can't start new thread" in job.problem) == ("failed", True)
    assert finished(store.request(PRESETS[SLUGS[1]], "auto", "two")).status == "done"


def test_the_run_of_a_closed_tab_ends_and_the_next_one_begins(engine: FakeEngine) -> None:
    engine.gate.clear()
    here = {"one", "two"}
    store = RunStore(engine, drawn=False, present=here.__contains__)
    job = store.request(PRESETS[SLUGS[0]], "auto", "one")
    waits = store.request(PRESETS[SLUGS[1]], "auto", "two")
    never = store.request(PRESETS[SLUGS[2]], "auto", "gone already")
    assert finished(never).status == "stopped"
    here.remove("one")
    engine.gate.set()
    assert finished(job).status == "stopped"
    assert finished(waits).status == "done"


def test_bytes_are_bounded_and_what_a_page_still_shows_is_not_computed_again(
    engine: FakeEngine,
) -> None:
    assert RECORDED is not None
    size = finished(
        RunStore(engine, drawn=False).request(PRESETS[SLUGS[0]], "auto", "one")
    ).run.held_bytes
    assert size > len(RECORDED.trace.to_json())
    store = RunStore(engine, drawn=False, most_bytes=int(2.5 * size))
    shown = finished(store.request(PRESETS[SLUGS[0]], "auto", "one")).run
    for slug in SLUGS[1:4]:
        finished(store.request(PRESETS[slug], "auto", "two"))
    engine.calls.clear()
    kept = [slug for slug in SLUGS[1:4] if store.find(PRESETS[slug], "auto")]
    assert kept == SLUGS[2:4]
    found = store.request(PRESETS[SLUGS[0]], "auto", "one")
    assert found.run is shown
    assert engine.calls == []


def test_a_single_run_beyond_the_bound_is_kept_all_the_same(engine: FakeEngine) -> None:
    store = RunStore(engine, drawn=False, most_bytes=1)
    job = finished(store.request(PRESETS[SLUGS[0]], "auto", "one"))
    until(lambda: not any(t.name.startswith("run ") for t in threading.enumerate()))
    assert store.find(PRESETS[SLUGS[0]], "auto") is job


def test_a_clock_that_is_set_changes_nothing(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is reckoned by a clock that cannot be set."""
    engine.gate.clear()
    store = RunStore(engine, drawn=False)
    job = store.request(PRESETS[SLUGS[0]], "auto", "one")
    waits = store.request(PRESETS[SLUGS[1]], "auto", "two")
    until(lambda: job.progress)
    now = time.time()
    for jumped in (now + 86_400, now - 86_400):
        monkeypatch.setattr(time, "time", partial(float, jumped))
        assert job.progress is not None
        assert 0 <= time.monotonic() - job.progress.since < 60
        assert (job.progress.seconds_left(time.monotonic()) or 0) < 600
    engine.gate.set()
    assert (finished(job).status, finished(waits).status) == ("done", "done")


def test_a_connection_lost_for_a_moment_is_no_closed_tab() -> None:
    connected, now = {"one"}, [0.0]
    present = Presence(connected.__contains__, lambda: now[0])
    assert present("one")
    connected.clear()
    assert present("one")
    now[0] = GRACE - 1
    assert present("one")
    connected.add("one")
    assert present("one")
    connected.clear()
    now[0] = 2 * GRACE - 2
    assert present("one")
    now[0] = 3 * GRACE
    assert not present("one")
