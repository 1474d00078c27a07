"""The tabs below the stage: what they say comes from the trace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mambaviz.history import History, frame_of
from mambaviz.pages import tabs, truth_tab, watch
from mambaviz.pages.runs import Run, RunStore, recorded
from mambaviz.pages.stage_component import StageState
from mambaviz.pages.state import RUN_TABS
from mambaviz.pages.tab_component import CHOSEN
from mambaviz.scenario import DEFAULT_PRESET, ScenarioError
from mambaviz.trace import PHASES, Trace
from tests.pages.test_runs import FakeEngine

APP = Path(__file__).resolve().parents[2] / "app.py"


def default_run() -> Run:
    run = recorded(DEFAULT_PRESET)
    assert isinstance(run, Run)
    return run


def at(step: int, phase: str = "post-copy", request: str | None = None) -> StageState:
    return StageState(step=step, phase=phase, request=request, layer=0)  # type: ignore[arg-type]


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def bytes_at(shown: StageState) -> str:
    run = default_run()
    return tabs.changed_bytes(run.trace, shown, run.history)


# -- bytes -------------------------------------------------------------------------------


def test_changed_bytes_are_marked_and_only_they() -> None:
    trace, shown = default_run().trace, bytes_at(at(2))
    assert "block 2, conv state, float32" in shown
    assert "64 bytes, from bytes 16 to 79 of block 3" in shown
    before = History(trace)
    changes = [change for change in trace.steps[2].phase("post-copy").changes if change.layer == 0]
    differ = sum(
        new != old
        for change in changes
        for new, old in zip(
            change.raw,
            before.raw((0, change.state, change.block), frame_of(2, "post-copy") - 1),
            strict=True,
        )
    )
    assert shown.count("<mark>") == differ > 0
    assert shown.count("<section>") == len(changes)


def test_every_copy_of_the_layer_is_drawn() -> None:
    copies = [c for c in default_run().trace.steps[2].phase("post-copy").copies if c.layer == 0]
    assert bytes_at(at(2)).count("<figure>") == len(copies) == 4


def test_a_phase_that_changes_nothing_says_so() -> None:
    assert "changed no bytes of layer 0" in bytes_at(at(0, "schedule"))


def test_before_the_first_write_a_block_is_zeros() -> None:
    assert "00 00 00 00" in bytes_at(at(0, "forward"))


# -- blocks ------------------------------------------------------------------------------


def test_the_block_looked_at_is_the_running_one_of_the_request() -> None:
    run = default_run()
    assert tabs.running_block(run, at(2, request="A")) == 3
    assert tabs.running_block(run, at(2, request="B")) == 5
    assert tabs.running_block(run, at(0, "schedule", "A")) is None


def test_a_chosen_block_stays_until_the_run_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    run, session = default_run(), {CHOSEN: (default_run().trace.scenario_hash, 7)}
    monkeypatch.setattr(st, "session_state", session)
    assert tabs.looked_at(run, at(2)) == 7
    session[CHOSEN] = ("another", 7)
    assert tabs.looked_at(run, at(2, request="A")) == 3


def test_blocks_on_screen_are_those_that_hold_something() -> None:
    run = default_run()
    assert tabs.blocks_on_screen(run, at(0, "schedule")) == {}
    shown = tabs.blocks_on_screen(run, at(2))
    assert shown[3] == "3 R: running, A column 2"
    assert shown[1] == "1 C: cached, unowned"
    roles = run.history.tables[frame_of(2, "post-copy")].block_roles
    assert set(shown) == {block for block, role in enumerate(roles) if role != "free"} - {0}


def test_provenance_of_the_running_block_in_words() -> None:
    shown = text(tabs.block_origin(default_run(), at(2), 2))
    assert "h(8): tokens 0–7 of A" in shown
    assert "CHECKPOINT block 7 → 2" in shown
    assert "every cell is accounted for" in shown


# -- truth -------------------------------------------------------------------------------


class Elsewhere(FakeEngine):
    """Runs of the recorded trace, and no GPU."""

    def __call__(
        self, scenario: object, backend: str, progress: Callable[[int, str], None]
    ) -> Trace:
        self.calls.append(("", backend))
        progress(1, "step 0")
        assert self.gate.wait(10)
        progress(2, "step 1")
        if backend == "cuda":
            raise ScenarioError("torch sees no CUDA device")
        if self.fails:
            raise self.fails
        return default_run().trace.model_copy(update={"backend": backend})


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    fake = Elsewhere()
    store = RunStore(fake)
    monkeypatch.setattr(truth_tab, "truth_store", lambda: store)
    yield fake
    fake.gate.set()


def settle(run: Run) -> None:
    deadline = time.monotonic() + 10
    while any(job.status == "running" for job in truth_tab.asked(run, "me").values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def standings(run: Run) -> dict[str, str]:
    return {row.name: row.standing for row in truth_tab.strip_rows(run, 2, "me")}


def test_the_strip_measures_what_is_there_and_invents_nothing(engine: Elsewhere) -> None:
    run = default_run()
    rows = truth_tab.strip_rows(run, 2, "me")
    assert [row.standing for row in rows] == ["done", "not run yet", "not run yet", "not run yet"]
    assert rows[0].name == "the recorded run (interpreter)"
    assert rows[0].measured is not None
    assert rows[0].measured.ok
    assert engine.calls == []


def test_asked_for_it_runs_every_back_end_and_says_why_one_is_missing(engine: Elsewhere) -> None:
    run = default_run()
    truth_tab.ask(run, "me")
    settle(run)
    rows = {row.name: row for row in truth_tab.strip_rows(run, 2, "me")}
    assert rows["GPU"].standing == "unavailable"
    assert rows["GPU"].note == "torch sees no CUDA device"
    assert rows["plain twin, CPU"].standing == rows["interpreter, CPU"].standing == "done"
    assert truth_tab.gaps(run, 2) == {"conv": 0.0, "temporal": 0.0, "outputs": 0.0}
    truth_tab.ask(run, "me")
    assert len(engine.calls) == 3, "a scenario is run once"


def test_a_live_run_needs_no_second_one_of_its_back_end(engine: Elsewhere) -> None:
    live = Run(default_run().trace, recorded=False)
    truth_tab.ask(live, "me")
    settle(live)
    assert sorted(backend for _, backend in engine.calls) == ["cuda", "reference"]
    assert standings(live)["interpreter, CPU"] == "done"


def test_it_can_be_stopped_and_run_again(engine: Elsewhere) -> None:
    run = default_run()
    engine.gate.clear()
    truth_tab.ask(run, "me")
    assert standings(run)["plain twin, CPU"] == "running"
    jobs = list(truth_tab.asked(run, "me").values())
    truth_tab.give_up(jobs, "me")
    engine.gate.set()
    deadline = time.monotonic() + 10
    while any(job.status == "running" for job in jobs):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert standings(run)["plain twin, CPU"] == "stopped"
    truth_tab.ask(run, "me")
    settle(run)
    assert standings(run)["plain twin, CPU"] == "done"


def test_a_run_that_broke_off_says_so_and_starts_anew(engine: Elsewhere) -> None:
    run = default_run()
    engine.fails = RuntimeError("out of luck")
    truth_tab.ask(run, "me")
    settle(run)
    assert standings(run)["plain twin, CPU"] == "failed"
    engine.fails = None
    truth_tab.ask(run, "me")
    settle(run)
    assert standings(run)["plain twin, CPU"] == "done"


# -- wiring ------------------------------------------------------------------------------


@pytest.fixture
def app(engine: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    live = FakeEngine()
    store = RunStore(live)
    monkeypatch.setattr(watch, "run_store", lambda: store)
    st.cache_resource.clear()
    return AppTest.from_file(APP, default_timeout=30)


@pytest.mark.parametrize("name", RUN_TABS)
def test_every_tab_opens_at_the_start_and_at_the_end(app: AppTest, name: str) -> None:
    for step, phase in ((0, PHASES[0]), (4, PHASES[-1])):
        app.query_params["step"], app.query_params["phase"] = str(step), phase
        app.query_params["tab"] = name
        app.run()
        assert not app.exception
        assert [tab.label for tab in app.tabs] == list(RUN_TABS.values())
        assert [tab.label for tab in app.tabs if tab.children] == [RUN_TABS[name]]
