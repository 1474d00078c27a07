"""Whose tokens a block's state is: read from its bytes, and followed back through the run."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from mambaviz.engine import run
from mambaviz.history import History, frame_of
from mambaviz.provenance import BlockOrigin, provenance
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import BlockChange, Trace

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {"mode": "none"},
    "all": {"mode": "all", "num_blocks": 40},
    "v2": {"runner": "v2"},
    "DS": {"layout": "DS"},
    "no drafts": {"num_spec": 0},
    "ring": {"mode": "none", "replayssm_buffer_len": 4, "num_spec": 0},
    "groups": {"num_mamba_groups": 2, "num_blocks": 40},
}


def run_of(**fields: Any) -> Trace:
    return run(build(fields), backend="reference")


@pytest.fixture(scope="module")
def watch() -> History:
    return History(run(PRESETS["drafts-meet-the-boundary"], backend="reference"))


def all_origins(history: History) -> list[BlockOrigin]:
    engine, layer = history.trace.scenario.engine, history.trace.scenario.layer
    return [
        provenance(history, frame, block, number)
        for frame in range(len(history.tables))
        for block in range(1, engine.num_blocks)
        for number in range(layer.num_layers)
    ]


def test_a_checkpoint_leads_back_to_every_forward(watch: History) -> None:
    origin = provenance(watch, frame_of(2, "post-copy"), 2, 0)
    assert origin.known
    assert origin.temporal is not None
    assert origin.temporal.absorbed == 8
    assert [(t.first, t.last, t.step) for t in origin.temporal.taken] == [
        (0, 3, 0),
        (4, 5, 1),
        (6, 7, 2),
    ]
    assert [(hop.kind, hop.source, hop.block) for hop in origin.temporal.hops] == [
        ("checkpoint", 7, 2),
        ("forward", 3, 7),
        ("migrate", 2, 3),
        ("forward", 2, 2),
        ("migrate", 1, 2),
        ("forward", None, 1),
    ]


def test_conv_rows_name_their_tokens_and_way(watch: History) -> None:
    origin = provenance(watch, frame_of(2, "post-copy"), 2, 0)
    assert origin.conv is not None
    assert [row.position for row in origin.conv] == [5, 6, 7, 8, None]
    assert [row.token for row in origin.conv[:3]] == [1005, 1006, 1007]
    assert [row.kind for row in origin.conv[:4]] == [
        "prompt",
        "generated",
        "draft accepted",
        "draft rejected",
    ]
    first = origin.conv[0]
    assert [hop.kind for hop in first.hops] == ["checkpoint", "carried", "migrate", "forward"]
    assert [hop.step for hop in first.hops] == [2, 2, 2, 1]


def test_a_hit_is_a_station_and_the_tokens_stay_their_makers() -> None:
    history = History(run(PRESETS["a-shared-prefix"], backend="reference"))
    row = history.row("B", frame_of(3, "commit"))
    assert row is not None
    assert row.state_col is not None
    running = row.worker_row[0][row.state_col]
    origin = provenance(history, frame_of(3, "commit"), running, 0)
    assert origin.known
    assert origin.temporal is not None
    assert [taken.request for taken in origin.temporal.taken] == ["A", "B"]
    assert any(hop.kind == "hit" and hop.request == "B" for hop in origin.temporal.hops)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_byte_of_a_sound_run_is_accounted_for(option: str) -> None:
    drafts = OPTIONS[option].get("num_spec", 2)
    requests = [
        {"id": "A", "prompt_len": 6, "accept": [1, 2, 0] if drafts else "all"},
        {"id": "B", "prompt_len": 9, "accept": [2, 0] if drafts else "all", "arrive": 1},
    ]
    history = History(run_of(engine=OPTIONS[option], requests=requests))
    origins = all_origins(history)
    assert all(origin.known for origin in origins)
    chains = [o.temporal for o in origins if o.temporal is not None and o.temporal.absorbed]
    assert chains
    for chain in chains:
        assert chain.taken[0].first == 0
        ends = [taken.last + 1 for taken in chain.taken[:-1]]
        assert [taken.first for taken in chain.taken[1:]] == ends
        assert chain.taken[-1].last == chain.absorbed - 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_caches_are_recognised_within_their_tolerance(dtype: str) -> None:
    trace = run_of(
        layer={"cache_dtype": dtype}, requests=[{"id": "A", "prompt_len": 6, "accept": [1, 2, 0]}]
    )
    assert all(origin.known for origin in all_origins(History(trace)))


def test_changed_bytes_are_unknown(watch: History) -> None:
    """A cell that somebody tampered with: its label is as it was, but no history gives it."""
    trace = watch.trace
    step = trace.steps[2]
    phase = step.phase("post-copy")

    def spoilt(change: BlockChange) -> BlockChange:
        if (change.layer, change.block) != (0, 2):
            return change
        numbers = np.frombuffer(change.raw, "<f4").copy()
        numbers[-1 if change.state == "temporal" else 1] += 0.5
        return change.model_copy(update={"data": base64.b64encode(numbers.tobytes()).decode()})

    other = phase.model_copy(update={"changes": [spoilt(change) for change in phase.changes]})
    phases = [other if p.name == "post-copy" else p for p in step.phases]
    steps = [s if s.index != 2 else step.model_copy(update={"phases": phases}) for s in trace.steps]
    origin = provenance(
        History(trace.model_copy(update={"steps": steps})), frame_of(2, "post-copy"), 2, 0
    )
    assert not origin.known
    assert origin.temporal is not None
    assert not origin.temporal.known
    assert origin.temporal.off == pytest.approx(0.5, abs=1e-3)
    assert origin.conv is not None
    assert [row.known for row in origin.conv] == [False, True, True, True, True]


def test_a_state_that_absorbed_placeholders_is_nobodys() -> None:
    history = History(run(PRESETS["padded-first-token"], backend="reference"))
    unknown = [origin for origin in all_origins(history) if not origin.known]
    assert unknown
    assert {origin.frame // 8 for origin in unknown} == {2}
