"""The run store: a run by its scenario and back end, recorded or live, and what goes wrong."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
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


def test_a_run_knows_what_it_takes_in_memory(engine: FakeEngine) -> None:
    bare, drawn = (
        finished(RunStore(engine, drawn=drawn).request(PRESETS[SLUGS[0]], "auto", "one")).run
        for drawn in (False, True)
    )
    assert bare is not None
    assert drawn is not None
    assert len(bare.trace.to_json()) < bare.held_bytes < drawn.held_bytes
