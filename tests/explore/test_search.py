"""Exhaustive: every run once, the shortest first, the same result in any number of pieces."""

from __future__ import annotations

from itertools import product

import pytest

from mambaviz import engine
from mambaviz.acceptance import verify
from mambaviz.explore.explorer import explore
from mambaviz.explore.pool import SerialPool
from mambaviz.explore.queries import QUERIES, AskedQuery
from mambaviz.explore.scope import Scope, with_fault
from mambaviz.explore.search import (
    Job,
    Tally,
    run_task,
    scenario_of,
    tally_from_text,
    tally_to_text,
    tasks_of,
)
from mambaviz.scenario import Scenario
from mambaviz.scheduler import Scheduler
from tests.explore.scopes import ONE, TWO, scope


def whole(scope: Scope, depth: int, goal: AskedQuery | None = None) -> Tally:
    tally = Tally()
    for task in tasks_of(scope, depth):
        found = run_task(Job.of(scope, goal), task)
        assert isinstance(found, Tally)
        tally.add(found)
    return tally


def histories(scenario: Scenario, depth: int) -> set[tuple[object, ...]]:
    """What can be kept, step by step, found by trying every accept plan in the real scheduler."""
    found = set()
    num_spec = scenario.engine.num_spec
    for plans in product(
        product(range(num_spec + 1), repeat=depth - 1), repeat=len(scenario.requests)
    ):
        requests = [
            plan.model_copy(update={"accept": list(accept)})
            for plan, accept in zip(scenario.requests, plans, strict=True)
        ]
        scheduler = Scheduler(scenario.model_copy(update={"requests": requests}))
        kept: list[object] = []
        for step in range(depth):
            if scheduler.is_done():
                break
            output = scheduler.schedule(step)
            verdict = verify(output, scheduler.requests)
            scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
            kept.append(tuple(sorted(verdict.accepted_drafts.items())))
        found.add(tuple(kept))
    return found


@pytest.mark.parametrize("small", [ONE, TWO], ids=["one", "two"])
def test_every_run_is_taken_once(small: Scope) -> None:
    scenarios = [small.scenario(shape) for shape in small.shapes()]
    runnable = [scenario for scenario in scenarios if scenario is not None]
    expected = sum(len(histories(scenario, small.steps)) for scenario in runnable)
    tally = whole(small, small.steps)
    assert tally.runs == expected
    assert tally.refused == len(scenarios) - len(runnable)
    assert tally.hits == 0


def test_the_first_found_is_the_shortest() -> None:
    """Against every run of the scope in the real engine."""
    small = with_fault(ONE, "accepted-count-not-reset")
    report = explore(small, None, SerialPool())
    assert report.shortest is not None
    everything = whole(small, small.steps)
    steps = []
    for found in [*everything.shortest, *(found for _, found in everything.others)]:
        scenario = scenario_of(small, small.shapes(), found)
        taken = zip(range(small.steps), engine.iter_steps(scenario, "reference"), strict=False)
        steps += [index + 1 for index, step in taken if step.violations][:1]
    assert report.shortest.size.steps == report.depth == min(steps)
    assert report.shortest == min(everything.shortest)
    assert report.disagreements == []
    assert report.replayed_hits == report.hits


def test_a_fault_that_takes_two_requests() -> None:
    report = explore(with_fault(TWO, "wrong-block-table-row"), None, SerialPool(), most_replays=3)
    assert report.shortest is not None
    assert report.shortest.size.requests == 2
    assert report.disagreements == []


def test_the_shortest_is_an_ordinary_scenario() -> None:
    report = explore(with_fault(ONE, "pre-copy-skipped"), None, SerialPool())
    assert report.scenario is not None
    again = Scenario.model_validate_json(report.scenario.model_dump_json())
    trace = engine.run(again, backend="reference")
    assert trace.violations[0].step == report.depth - 1
    right = again.model_copy(update={"faults": []})
    assert engine.run(right, backend="reference").violations == []


def test_a_scope_that_holds_is_gone_through_to_its_end() -> None:
    report = explore(ONE, None, SerialPool())
    assert (report.hits, report.shortest, report.depth) == (0, None, ONE.steps)
    assert report.runs == whole(ONE, ONE.steps).runs
    assert report.replayed_others == report.runs
    assert report.disagreements == []


def test_a_rule_known_to_be_unsound_is_found_or_set_aside() -> None:
    padded = scope(block_sizes=[4], num_specs=[1], num_requests=[2], prompt_lens=[1], steps=2)
    assert explore(padded, None, SerialPool()).hits
    aside = padded.model_copy(update={"set_padded_first_tokens_aside": True})
    report = explore(aside, None, SerialPool())
    assert report.hits == 0
    assert report.set_aside


FINDABLE = scope(
    block_sizes=[4],
    num_specs=[3],
    num_blocks=[12],
    num_requests=[1, 2],
    prompt_lens=[1, 3, 5],
    max_tokens=[4],
    arrivals=[1],
    shared_prefix=[True],
    events=["none", "preempt"],
    event_steps=[2],
    steps=4,
)


@pytest.mark.parametrize("text", [*(q for q in QUERIES if q != "migrate-back"), "bias=3"])
def test_what_happens_when(text: str) -> None:
    """Each query has an answer, and the real run of the answer shows it where it is said to be."""
    query = AskedQuery.parse(text)
    report = explore(FINDABLE, query, SerialPool(), most_replays=3)
    assert report.scenario is not None, query.words
    trace = engine.run(report.scenario, backend="reference")
    step = trace.steps[report.depth - 1]
    decisions = [d for phase in ("pre-copy", "post-copy") for d in step.phase(phase).decisions]
    copies = [decision for decision in decisions if decision.copies]
    if query.name == "bias":
        assert query.number in {decision.bias for decision in copies}
    if query.name == "in-place-shift":
        assert any(d.src_col == d.dst_col and d.bias for d in copies)
    if query.name == "prefix-hit":
        assert any(r.event == "new" and r.num_computed for r in step.requests.values())
    if query.name == "preemption":
        assert step.preempted
    if query.name == "padded-tail":
        assert any(request.padded_tail for request in step.requests.values())
    assert report.disagreements == []


def test_a_running_block_can_move_back() -> None:
    """Only where drafts are few after many: the example of section 2."""
    back = scope(block_sizes=[4], num_specs=[2], prompt_lens=[1], max_tokens=[4], steps=4)
    query = AskedQuery.parse("migrate-back")
    assert explore(back, query, SerialPool(), most_replays=0).scenario is None
    uneven = back.model_copy(update={"draft_plans": [[1, 2, 0]]})
    report = explore(uneven, query, SerialPool(), most_replays=3)
    assert report.scenario is not None
    assert report.disagreements == []


def test_a_tally_survives_its_text() -> None:
    tally = whole(with_fault(ONE, "pre-copy-skipped"), 3)
    assert tally.shortest
    assert tally_from_text(tally_to_text(tally)) == tally
