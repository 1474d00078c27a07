"""How far a run is: the steps to expect, the time left, and that drawing is part of it."""

from __future__ import annotations

import threading
import time

import pytest

from mambaviz.largest import NUM_STEPS, largest_scenario
from mambaviz.pages.progress import Progress
from mambaviz.pages.runs import RunStore, recorded
from mambaviz.scenario import PRESETS, RequestPlan, Scenario, build
from mambaviz.workload import expected_steps


@pytest.mark.parametrize("slug", PRESETS)
def test_expected_steps_of_the_presets_are_right_to_one(slug: str) -> None:
    run = recorded(slug)
    assert run is not None
    assert abs(expected_steps(PRESETS[slug]) - len(run.trace.steps)) <= 1


def test_expected_steps_of_the_largest_run() -> None:
    assert abs(expected_steps(largest_scenario()) - NUM_STEPS) < 12


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"max_tokens": 9, "accept": "none"}, 1 + 8),
        ({"max_tokens": 9, "accept": "all"}, 1 + 3),
        ({"max_tokens": 9, "accept": "all", "drafts": 0}, 1 + 8),
        ({"max_tokens": 9, "accept": {"rate": 0.5, "seed": 1}}, 1 + 5),  # 8 / 1.75
        ({"max_tokens": 9, "accept": [1, 0], "arrive": 4}, 4 + 1 + 6),  # 8 / 1.5
        ({"max_tokens": 500, "accept": "none"}, 1 + 57),  # the model's length ends it
    ],
)
def test_expected_steps_follow_the_plan(fields: dict[str, object], steps: int) -> None:
    scenario = build({"requests": [{"id": "A", "prompt_len": 6, **fields}]})
    assert expected_steps(scenario) == steps


def test_requests_that_queue_take_their_turns() -> None:
    plans = [RequestPlan(id=name, prompt_len=4, max_tokens=5, drafts=0) for name in "ABCD"]
    scenario = Scenario(requests=plans)
    one_by_one = scenario.model_copy(
        update={"engine": scenario.engine.model_copy(update={"max_num_seqs": 1})}
    )
    assert expected_steps(scenario) == 5
    assert expected_steps(one_by_one) == 20


def test_the_sentence_says_what_is_known() -> None:
    start = Progress("Computing", 0, 200, exact=False, since=100.0)
    assert start.sentence(100.5) == "Computing"
    early = Progress("Computing", 5, 200, exact=False, since=100.0)
    assert early.sentence(101.0) == "Computing step 5 of about 200"
    later = Progress("Computing", 50, 200, exact=False, since=100.0)
    assert later.sentence(104.0) == "Computing step 50 of about 200, about 12 s left"
    drawing = Progress("Drawing", 100, 200, exact=True, since=100.0)
    assert drawing.sentence(104.0) == "Drawing step 100 of 200, about 4 s left"
    longer = Progress("Computing", 210, 200, exact=False, since=100.0)
    assert longer.sentence(130.0) == "Computing step 210 of about 210"


def test_a_run_is_drawn_before_it_is_done_and_drawing_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = recorded("plain-decode")
    assert run is not None
    drawing, gate = threading.Event(), threading.Event()

    def payload(trace: object, progress: object) -> object:
        assert callable(progress)
        progress(1)
        drawing.set()
        assert gate.wait(10)
        progress(2)
        raise AssertionError("nobody wanted it any more")

    monkeypatch.setattr("mambaviz.pages.runs.stage_payload", payload)
    store = RunStore(lambda scenario, backend, progress: run.trace)
    job = store.request(PRESETS["plain-decode"], "auto", "one")
    assert drawing.wait(10)
    assert job.status == "running"
    assert job.run is None
    assert job.progress is not None
    assert job.progress.sentence().startswith(f"Drawing step 1 of {len(run.trace.steps)}")
    store.stop(job, "one")
    gate.set()
    deadline = time.monotonic() + 10
    while job.status == "running":
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert job.status == "stopped"
