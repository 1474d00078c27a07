"""The life of blocks: who held them, how often they were referenced, who wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from mambaviz.engine import run
from mambaviz.history import History, frame_of, phases_of
from mambaviz.lifelines import Life, lifelines, owners_of
from mambaviz.scenario import PRESETS, build
from mambaviz.trace import Trace


def lives_of(trace: Trace) -> dict[int, Life]:
    return {life.block: life for life in lifelines(History(trace))}


def run_of(**fields: Any) -> Trace:
    return run(build(fields), backend="reference")


@pytest.fixture(scope="module")
def shared() -> Trace:
    return run(PRESETS["a-shared-prefix"], backend="reference")


@pytest.fixture(scope="module")
def full_pool() -> Trace:
    """A pool so small that a request is preempted, and cached blocks are taken for new data."""
    requests = [
        {"id": name, "prompt_len": 9, "max_tokens": 12, "arrive": at}
        for at, name in enumerate("ABC")
    ]
    return run_of(engine={"num_blocks": 12, "admission_gate": False}, requests=requests)


def told(life: Life) -> list[tuple[int, str, str, str]]:
    return [(event.step, event.phase, event.kind, event.request) for event in life.events]


def test_a_shared_block_from_its_first_owner_to_the_last(shared: Trace) -> None:
    life = lives_of(shared)[1]
    assert told(life) == [
        (0, "allocate", "taken", "A"),
        (0, "allocate", "registered", ""),
        (0, "forward", "forward", "A"),
        (2, "allocate", "freed", "A"),
        (3, "allocate", "found", "B"),
        (4, "allocate", "freed", "B"),
    ]
    wrote = life.events[2]
    assert (wrote.tokens, wrote.holds) == ((0, 7), 8)
    found = life.events[4]
    assert (found.prefix, found.references) == ("A@8", 1)
    assert life.span_at(frame_of(2, "forward")).references == 0
    assert life.span_at(frame_of(2, "forward")).prefix == "A@8"


def test_copies_name_their_sources_and_bias(shared: Trace) -> None:
    checkpoint = next(e for e in lives_of(shared)[2].events if e.kind == "checkpoint")
    assert (checkpoint.source, checkpoint.bias, checkpoint.holds) == ((3, 4), 1, 12)


@pytest.mark.parametrize("name", ["shared", "full_pool"])
def test_spans_say_at_every_frame_what_the_tables_say(
    name: str, request: pytest.FixtureRequest
) -> None:
    trace: Trace = request.getfixturevalue(name)
    history = History(trace)
    for life in lifelines(history):
        assert life.spans[0].first == 0
        assert life.spans[-1].last == len(history.tables) - 1
        for frame, tables in enumerate(history.tables):
            span = life.span_at(frame)
            assert span.role == tables.block_roles[life.block]
            assert span.prefix == tables.registered.get(life.block, "")
            lists = [ids for row in tables.rows.values() for ids in row.block_list]
            assert span.references == sum(ids.count(life.block) for ids in lists)


@pytest.mark.parametrize("name", ["shared", "full_pool"])
def test_events_account_for_every_change_of_owners_and_registration(
    name: str, request: pytest.FixtureRequest
) -> None:
    trace: Trace = request.getfixturevalue(name)
    history = History(trace)
    for life in lifelines(history):
        holders: set[str] = set()
        prefix = ""
        for frame, (_, phase) in enumerate(phases_of(trace)):
            for event in life.events_at(frame):
                if event.kind in ("taken", "found"):
                    holders.add(event.request)
                elif event.kind in ("freed", "let go"):
                    holders.discard(event.request)
                elif event.kind == "registered":
                    prefix = event.prefix
                elif event.kind == "unregistered":
                    prefix = ""
            owners = owners_of(history.tables[frame]).get(life.block, ())
            assert holders == {owner.request for owner in owners}, (life.block, frame)
            assert prefix == history.tables[frame].registered.get(life.block, "")
            wrote = {e.kind for e in life.events_at(frame)} & {"forward", "migrate", "checkpoint"}
            changed = any(change.block == life.block for change in phase.changes)
            assert bool(wrote) >= changed


def test_a_full_pool_takes_cached_blocks_and_preempts(full_pool: Trace) -> None:
    events = [event for life in lives_of(full_pool).values() for event in life.events]
    assert any(step.preempted for step in full_pool.steps)
    assert {event.why for event in events if event.kind == "freed"} >= {"preempted", "finished"}
    assert any(event.kind == "unregistered" for event in events)


def test_unused_blocks_have_no_life() -> None:
    trace = run_of(engine={"num_blocks": 30}, requests=[{"id": "A", "prompt_len": 3}])
    lives = lives_of(trace)
    assert 0 not in lives
    assert 0 < len(lives) < 29
