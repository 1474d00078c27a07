"""Seeded random scenarios: I6 and I5 at every point, rows a worker can use, and an end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from mambaviz.acceptance import verify
from mambaviz.random_scenarios import random_scenario
from mambaviz.scenario import Scenario
from mambaviz.scheduler import ScheduledRequest, Scheduler, SchedulerOutput
from tests.scheduler.stepping import WorkerRows

RUNS = 120


def drawn(mode: str, seed: int, *, sufficient: bool = True) -> Scenario:
    return random_scenario(
        random.Random(f"{mode}/{seed}/{sufficient}"),
        modes=(mode,),
        mamba_groups=(1, 1, 2),
        attention=(False, True),
        events=seed % 2 == 0,
        drop_last_matched_block=(False, False, True),
        sufficient=sufficient,
    )


@dataclass
class Witness:
    """Follows a run and says at every point what does not hold."""

    scenario: Scenario
    workers: WorkerRows = field(default_factory=WorkerRows)
    running: dict[str, int] = field(default_factory=dict)  # V1's running-state columns
    accepted: dict[str, int] = field(default_factory=dict)  # accepted counts, bonus included
    seen: Counter[str] = field(default_factory=Counter)

    def step(self, scheduler: Scheduler, index: int) -> None:
        scheduler.begin_step(index)
        self.check_blocks(scheduler)
        output = scheduler.schedule(index)
        self.check_blocks(scheduler)
        self.workers.follow(output)
        self.seen.update(preempted=len(output.preempted), padded=len(output.padded_tail_req_ids))
        for name in output.order:
            self.check_rows(scheduler, output, name)
            if self.scenario.engine.mode == "align":
                self.check_align_sources(scheduler, output, name)
        verdict = verify(output, scheduler.requests)
        if self.scenario.engine.mode == "align":
            for name in output.order:
                self.check_checkpoint(scheduler, output, name, verdict.accepted_drafts.get(name, 0))
        scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
        self.check_blocks(scheduler)

    def check_blocks(self, scheduler: Scheduler) -> None:
        """I6; and I5: what stands in two lists is registered."""
        assert scheduler.check_conservation() == []
        manager = scheduler.manager
        for block, places in manager.places().items():
            assert len({place.group for place in places}) == 1
            assert len({place.request for place in places}) == len(places)
            if len(places) > 1:
                assert manager.is_registered(block)
        queue = manager.free_queue()
        registered = [manager.is_registered(block) for block in queue]
        if not any(event.kind.startswith("reset") for event in self.scenario.events):
            # The pool starts unregistered; what is cached is taken last.
            assert registered == sorted(registered)

    def check_rows(self, scheduler: Scheduler, output: SchedulerOutput, name: str) -> None:
        """Blocks written in this step stand in one list, and the worker's row names them."""
        row, manager = output.requests[name], scheduler.manager
        self.seen["hits"] += row.event != "running" and row.num_computed > 0
        lists = manager.block_lists(name)
        for listed, worker in zip(lists, self.workers.rows[name], strict=True):
            assert len(listed) == len(worker)
            assert all(ours in (0, theirs) for ours, theirs in zip(listed, worker, strict=True))
        for group in range(self.scenario.engine.num_mamba_groups):
            written = [lists[group][column] for column in self.written_columns(row)]
            assert 0 not in written
            assert len(set(written)) == len(written)
            assert all(manager.ref_count(block) == 1 for block in written)

    def written_columns(self, row: ScheduledRequest) -> list[int]:
        engine = self.scenario.engine
        B, S = engine.block_size, engine.num_spec
        end = row.num_computed + row.num_scheduled
        if engine.mode == "none":
            return list(range(1 + S))
        last = -(-end // B) - 1
        if engine.mode == "align":
            return list(range(last, last + S + 1))
        if row.row_class == "prefill":
            return list(range(row.num_computed // B, last + 1))
        return list(range(last, last + 1 + row.drafts))

    def check_align_sources(self, scheduler: Scheduler, output: SchedulerOutput, name: str) -> None:
        """The pre-copy's source blocks are still the request's own (or its hit)."""
        row, B = output.requests[name], self.scenario.engine.block_size
        previous = self.running.get(name)
        if row.event != "running":
            previous = (row.num_computed - 1) // B if row.num_computed else None
            self.accepted[name] = 1
        current = -(-(row.num_computed + row.num_scheduled) // B) - 1
        self.running[name] = current
        if previous is None or previous == current:
            return
        self.seen["migrated back"] += current < previous
        for group in range(self.scenario.engine.num_mamba_groups):
            worker = self.workers.rows[name][group]
            held = scheduler.manager.block_lists(name)[group]
            for column in {previous, previous + self.accepted[name] - 1}:
                assert worker[column] != 0
                assert worker[column] in held
        self.accepted[name] = 1

    def check_checkpoint(
        self, scheduler: Scheduler, output: SchedulerOutput, name: str, accepted_drafts: int
    ) -> None:
        """The post-copy's destination is null, or still the list's block of that column."""
        row, B = output.requests[name], self.scenario.engine.block_size
        self.accepted[name] = 1 + accepted_drafts
        running = row.num_computed + row.num_scheduled - row.drafts
        aligned = (running + accepted_drafts) // B * B
        if not row.drafts or aligned < running:
            return
        self.seen["checkpoints"] += 1
        column = aligned // B - 1
        for group in range(self.scenario.engine.num_mamba_groups):
            worker = self.workers.rows[name][group][column]
            assert worker in (0, scheduler.manager.block_lists(name)[group][column])
        if column == self.running[name]:
            self.accepted[name] = 1


def watch(scenario: Scenario) -> tuple[Scheduler, Counter[str]]:
    scheduler, witness = Scheduler(scenario), Witness(scenario)
    for index in range(1000):
        if scheduler.is_done():
            return scheduler, witness.seen
        witness.step(scheduler, index)
    raise AssertionError("no end")


@pytest.mark.parametrize("mode", ["align", "all", "none"])
def test_conservation_ownership_and_an_end(mode: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(RUNS):
        scheduler, found = watch(drawn(mode, seed))
        seen += found
        assert not scheduler.stuck, f"seed {seed}: a pool that suffices"
    # The generator reaches what it is for.
    assert seen["preempted"] > 10
    assert seen["padded"] > 0
    assert (seen["hits"] > 20) == (mode != "none")
    if mode == "align":
        assert seen["checkpoints"] > 50
        assert seen["migrated back"] > 0


@pytest.mark.parametrize("mode", ["align", "all"])
def test_a_pool_that_does_not_suffice_still_ends(mode: str) -> None:
    stuck = [watch(drawn(mode, seed, sufficient=False))[0].stuck for seed in range(RUNS)]
    assert any(stuck)
    assert not all(stuck)


def test_every_request_gets_what_it_asked_for() -> None:
    """Whatever was preempted and replayed: the tokens are those of an undisturbed run."""
    for seed in range(1, RUNS, 2):  # no events
        scenario = drawn("align", seed)
        scheduler, _ = watch(scenario)
        for index, plan in enumerate(scenario.requests):
            prompt, tokens = scenario.prompt_of(index), scheduler.requests[plan.id].token_ids
            length = min(len(prompt) + plan.max_tokens, scenario.engine.max_model_len)
            family = 1000 * (prompt[-1] // 1000)
            assert tokens == prompt + [family + at for at in range(len(prompt), length)]


def test_the_same_seed_gives_the_same_scenario() -> None:
    assert drawn("align", 3) == drawn("align", 3)
    assert drawn("align", 3) != drawn("align", 4)


def test_no_combination_left() -> None:
    with pytest.raises(ValueError, match="all mode runs on the v1 runner only"):
        random_scenario(random.Random(0), modes=("all",), runners=("v2",))


def test_settings_come_from_what_is_offered() -> None:
    drawn_settings = [
        random_scenario(
            random.Random(seed),
            modes=("none", "align", "all"),
            runners=("v1", "v2"),
            layouts=("SD", "DS"),
            conv_kernels=(2, 3),
            cache_dtypes=("float16", "bfloat16"),
            chunk_sizes=(2, 4),
            page_paddings=(0, 64),
            replayssm=True,
        )
        for seed in range(150)
    ]
    assert {scenario.engine.mode for scenario in drawn_settings} == {"none", "align", "all"}
    assert {scenario.engine.runner for scenario in drawn_settings} == {"v1", "v2"}
    assert {scenario.engine.layout for scenario in drawn_settings} == {"SD", "DS"}
    assert {scenario.layer.conv_kernel for scenario in drawn_settings} == {2, 3}
    assert {scenario.layer.cache_dtype for scenario in drawn_settings} == {"float16", "bfloat16"}
    assert {scenario.layer.page_padding_bytes for scenario in drawn_settings} == {0, 64}
    assert any(scenario.engine.replayssm_buffer_len for scenario in drawn_settings)
