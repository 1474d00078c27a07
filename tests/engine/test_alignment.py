"""Which steps stand beside each other."""

from __future__ import annotations

import pytest

from mambaviz import engine
from mambaviz.alignment import Moment, align, first_computed, place_of
from mambaviz.comparisons import READY_MADE
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace
from tests.engine.runs import preset_run


@pytest.fixture(scope="module")
def modes() -> list[Trace]:
    """none, align, all."""
    scenarios = READY_MADE["cache-mode"].scenarios
    return [engine.run(scenario, backend="reference") for scenario in scenarios]


@pytest.fixture(scope="module")
def rewound() -> list[Trace]:
    scenarios = READY_MADE["rewound"].scenarios
    return [engine.run(scenario, backend="reference") for scenario in scenarios]


def test_by_step_a_run_that_has_ended_has_no_step(rewound: list[Trace]) -> None:
    assert [len(trace.steps) for trace in rewound] == [5, 7]
    moments = align(rewound)
    assert [moment.steps for moment in moments] == [
        (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (None, 5), (None, 6),
    ]  # fmt: skip
    assert [moment.at for moment in moments] == list(range(7))


def test_by_token_runs_meet_where_they_have_computed_the_same(modes: list[Trace]) -> None:
    """align computes 4 of A's 6 prompt tokens in its first step, the others all of them."""
    moments = align(modes, "A")
    assert moments[:3] == (
        Moment(0, 3, (0, 0, 0)),
        Moment(4, 5, (0, 1, 0)),
        Moment(6, 7, (1, 2, 1)),
    )
    for moment in moments:
        for trace, step in zip(modes, moment.steps, strict=True):
            if step is not None:
                after = trace.steps[step].num_computed_after["A"]
                assert after > moment.last, "the token is final after its step"
                assert trace.steps[step].requests["A"].num_computed <= moment.at


def test_tokens_that_a_hit_brings_count_at_its_step(modes: list[Trace]) -> None:
    assert first_computed(modes[1], "A2")[:10] == [5] * 10  # 8 found, 2 computed
    assert first_computed(modes[0], "A2")[:10] == [5] * 10


def test_a_token_that_a_run_never_computes() -> None:
    """Of two runs one stops after fewer tokens."""
    short = PRESETS["plain-decode"].model_dump()
    name = short["requests"][0]["id"]
    short["requests"][0]["max_tokens"] = 2
    traces = [preset_run("plain-decode"), engine.run(build(short), backend="reference")]
    computed = [len(first_computed(trace, name)) for trace in traces]
    assert computed[0] > computed[1]
    moments = align(traces, name)
    without = [moment.at for moment in moments if moment.steps[1] is None]
    assert without[0] == computed[1]
    assert moments[-1].last == computed[0] - 1


def test_a_preempted_request_keeps_its_first_steps() -> None:
    scenario = PRESETS["plain-decode"].model_dump()
    name = scenario["requests"][0]["id"]
    scenario["events"] = [{"step": 2, "kind": "preempt", "request": name}]
    steps = first_computed(engine.run(build(scenario), backend="reference"), name)
    assert steps == sorted(steps)
    prompt = scenario["requests"][0]["prompt_len"]
    assert steps[:prompt] == first_computed(preset_run("plain-decode"), name)[:prompt]


def test_the_moment_of_a_step_or_token(modes: list[Trace]) -> None:
    by_token = align(modes, "A")
    assert [place_of(by_token, token) for token in (0, 3, 4, 7, 999)] == [
        0, 0, 1, 2, len(by_token) - 1,
    ]  # fmt: skip


def test_what_cannot_be_aligned(modes: list[Trace]) -> None:
    with pytest.raises(ValueError, match="no run"):
        align([])
    with pytest.raises(ValueError, match="no run computes a token of a request 'Z'"):
        align(modes, "Z")
