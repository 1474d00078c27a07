"""Symbols against real bytes: the same windows, states, roles, broken invariants."""

from __future__ import annotations

import random

import pytest

from mambaviz import engine
from mambaviz.explore.replay import disagreement
from mambaviz.explore.run import Stage, SymbolicRun
from mambaviz.explore.symbols import row_position
from mambaviz.explore.worker import Worker, breach_of
from mambaviz.fault_scenarios import FAULT_SCENARIOS
from mambaviz.faults import FAULTS
from mambaviz.random_scenarios import random_scenario
from mambaviz.roles import row_roles
from mambaviz.scenario import PRESETS, Scenario
from mambaviz.trace import PhaseName, Role, Trace, tokens_absorbed, window_rows

SEEDS = range(30)
BEFORE_IT_FADES = 24  # steps: bytes forget a wrong state in the end, up to rounding; symbols do not
Labels = dict[tuple[str, int, int], object]


def drawn(seed: int) -> Scenario:
    """A random scenario over everything that the explorer takes."""
    return random_scenario(
        random.Random(f"symbols/{seed}"),
        modes=("none", "align", "align", "all"),
        runners=("v1", "v2"),
        layouts=("SD", "DS"),
        conv_kernels=(2, 3, 4),
        mamba_groups=(1, 1, 2),
        attention=(False, True),
        events=True,
        replayssm=True,
        full_cuda_graphs=(False, True),
        drop_last_matched_block=(False, True),
        sufficient=bool(seed % 4),
    )


def symbolic_labels(run: SymbolicRun) -> Labels:
    labels: Labels = {}
    for group, contents in enumerate(run.contents):
        for block, rows in enumerate(contents.conv):
            labels["conv", group, block] = [row_position(row) for row in rows]
        for block, state in enumerate(contents.temporal):
            labels["temporal", group, block] = run.stage.histories.tokens_absorbed(state)
    return labels


def real_labels(trace: Trace, held: dict, like: Labels) -> Labels:
    first = {}
    for spec in reversed(trace.states):
        first[spec.state, spec.group] = spec
    labels: Labels = {}
    for state, group, block in like:
        spec = first[state, group]
        raw = held.get((spec.layer, state, block), bytes(spec.num_bytes))
        numbers = spec.decode(raw)
        labels[state, group, block] = (
            window_rows(numbers, trace.scenario.engine.layout)
            if state == "conv"
            else tokens_absorbed(numbers)
        )
    return labels


def symbolic_roles(run: SymbolicRun, labels: Labels, name: str, running: int) -> list[list[Role]]:
    scenario, manager = run.stage.scenario, run.scheduler.manager
    window = scenario.layer.conv_kernel - 1

    def roles(group: int, worker_row: tuple[int, ...]) -> list[Role]:
        if group >= scenario.engine.num_mamba_groups:
            return ["cached" if manager.is_registered(block) else "running" for block in worker_row]

        def holds(block: int, column: int) -> bool:
            end = (column + 1) * scenario.engine.effective_block_size
            wanted = [p if p >= 0 else None for p in range(end - window, end)]
            found = labels["conv", group, block]
            assert isinstance(found, list)
            return found[:window] == wanted and labels["temporal", group, block] == end

        return row_roles(manager.block_lists(name)[group], worker_row, running, holds)

    rows = run.books.requests[name].rows
    return [roles(group, row) for group, row in enumerate(rows)]


@pytest.mark.parametrize("seed", SEEDS)
def test_contents_roles_and_invariants_of_every_phase(seed: int) -> None:
    scenario = drawn(seed)
    trace = engine.run(scenario, backend="reference")
    real = {
        (step.index, phase.name): (tables, dict(held)) for step, phase, tables, held in trace.walk()
    }
    compared = []

    def watch(phase: PhaseName, run: SymbolicRun) -> None:
        tables, held = real[run.step, phase]
        labels = symbolic_labels(run)
        assert labels == real_labels(trace, held, labels), (run.step, phase)
        for name, row in tables.rows.items():
            if name in run.books.requests and row.state_col is not None:
                roles = symbolic_roles(run, labels, name, row.state_col)
                assert roles == row.roles, (run.step, phase, name)
                compared.append(phase)

    run = SymbolicRun.start(Stage(scenario, Worker(scenario)))
    run.watch = watch
    for step in trace.steps:
        assert not run.is_over
        output = run.schedule()
        assert list(output.order) == step.order
        found = run.finish(output, run.planned(output))
        assert set(found.breaches) == {breach_of(violation) for violation in step.violations}
    assert run.is_over
    assert {"pre-copy", "forward", "post-copy"} <= set(compared)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_break_alike(fault: str) -> None:
    """Where its author shows it, and in some random scenarios in which it can act."""
    shown = FAULT_SCENARIOS[fault]
    able = (drawn(seed) for seed in range(400))
    spoiled = [one for one in able if not FAULTS[fault].missing(one)][:2]
    for scenario in (shown, *spoiled):
        # Siblings of one group can part (reset-seen-by-siblings): symbols stand for the first.
        layer = scenario.layer.model_copy(update={"num_layers": scenario.engine.num_mamba_groups})
        mistaken = scenario.model_copy(update={"faults": [fault], "layer": layer})
        assert disagreement(mistaken, steps=BEFORE_IT_FADES) == ""


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_break_alike(name: str) -> None:
    assert disagreement(PRESETS[name], steps=1000) == ""
