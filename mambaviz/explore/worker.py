"""The engine's worker, run once for each situation and then remembered.

`Worker.step` answers what the real runner does in a step: it looks the step up among those it has
seen (the same lengths, columns, counts and rows, whatever the blocks are called), and only for a
new one lets a real `ModelRunner` take it. Where the copies of that step really went is read from
the caches: every number in them is made different from all others before a copy launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from mambaviz.attention import Mamba2AttentionMetadata
from mambaviz.explore.dataflow import (
    Breach,
    Cell,
    Move,
    Operation,
    Read,
    RowOf,
    RowSource,
    StateMove,
    WindowMove,
    WorkerStep,
)
from mambaviz.explore.recording import Recorder
from mambaviz.invariants import StepChecks, read_slots
from mambaviz.mistakes import runner_class
from mambaviz.observe import RunObserver
from mambaviz.runner import ModelRunner
from mambaviz.runner.base import RequestBooks, WorkerBooks
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import Violation


class Numbering:
    """Blocks renamed in the order in which they come up; null stays 0."""

    def __init__(self) -> None:
        self.real = [0]
        self._name = {0: 0}

    def row(self, row: Iterable[int]) -> tuple[int, ...]:
        name, real = self._name, self.real
        found = []
        for block in row:
            number = name.get(block)
            if number is None:
                number = name[block] = len(real)
                real.append(block)
            found.append(number)
        return tuple(found)

    def rows(self, rows: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
        return tuple(map(self.row, rows))


@dataclass(frozen=True)
class NamedStep:
    """A `WorkerStep`, and the real block behind each of its numbers."""

    step: WorkerStep
    blocks: Sequence[int]
    books: WorkerBooks


class Worker:
    """The real worker of one engine configuration, with a memory."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.observer = RunObserver()
        self.recorder = Recorder()
        self.runner: ModelRunner = runner_class(scenario)(
            scenario, self.recorder.kernels(), torch.device("cpu"), self.observer
        )
        self.observer.bind(self.runner, self.runner.cache.state_specs(scenario))
        self.start = self.runner.save()
        self.with_rings = scenario.engine.replayssm_buffer_len > 0  # their base decides something
        self._seen: dict[object, WorkerStep] = {}

    def step(
        self, books: WorkerBooks, output: SchedulerOutput, accepted: Mapping[str, int]
    ) -> NamedStep:
        """One step from these books; ``accepted`` counts, bonus token included, by request."""
        concerned = _concerned(output)
        numbering = Numbering()
        mine = {
            name: replace(known, rows=numbering.rows(known.rows))
            for name in concerned
            if (known := books.requests.get(name)) is not None
        }
        new = {one.req_id: numbering.rows(one.block_ids) for one in output.scheduled_new_reqs}
        cached = {
            name: numbering.rows(rows)
            for name, rows in output.scheduled_cached_reqs.new_block_ids.items()
        }
        places = {name: books.places[name] for name in concerned if name in books.places}
        key = (
            output.batch_order,
            tuple(
                (
                    one.event,
                    one.num_computed,
                    one.num_scheduled,
                    one.drafts,
                    one.padded_tail,
                    one.is_prefilling,
                    one.prefill_end if self.with_rings else None,
                    accepted[name],
                )
                for name in output.order
                for one in (output.requests[name],)
            ),
            output.order,
            tuple(mine.items()),
            tuple(new.items()),
            tuple(cached.items()),
            tuple(places.items()),
            books.slots,
            books.memory,
            output.finished_req_ids,
            output.preempted,
        )
        found = self._seen.get(key)
        if found is None:
            found = self._take(
                WorkerBooks(mine, places, books.slots, books.memory),
                _renamed(output, new, cached),
                accepted,
            )
            self._seen[key] = found
        return NamedStep(found, numbering.real, _merged(books, concerned, found.books, numbering))

    # A step that was not seen yet.

    def _take(
        self, books: WorkerBooks, output: SchedulerOutput, accepted: Mapping[str, int]
    ) -> WorkerStep:
        runner, observer = self.runner, self.observer
        specs = {(spec.layer, spec.state): spec for spec in observer.states}
        checks = StepChecks(0, self.scenario, specs)
        runner.restore(books)
        runner.update_states(output)
        observer.begin_step(output)
        if not output.order:
            return WorkerStep((), (), (), (), runner.save(), (), (), ())

        self._make_all_numbers_differ()
        decisions = runner.pre_copy(output)
        if decisions:
            observer.decided_on_cpu(decisions)
        before = observer.explanation
        pre_moves = self._moves()
        if before is not None:
            checks.check_copies("pre-copy", before.copies)

        metadata = runner.build_metadata(output)
        reads = []
        computed = [output.requests[name].num_computed for name in output.batch_order]
        for group, built in metadata.items():
            checks.check_bounds(group, built)
            for slot in read_slots(group, built, output.batch_order, computed, self.scenario):
                if checks.can_be_read(slot):
                    assert slot.conv_block is not None
                    assert slot.temporal_block is not None
                    reads.append(
                        Read(
                            slot.request,
                            group,
                            slot.computed,
                            slot.conv_block,
                            slot.conv_row,
                            slot.temporal_block,
                            slot.state_tokens,
                        )
                    )
        forward = self._forward(output, metadata)

        self._make_all_numbers_differ()
        runner.post_copy(output, accepted)
        after = observer.explanation
        post_moves = self._moves()
        if after is not None:
            checks.check_copies("post-copy", after.copies)
        return WorkerStep(
            pre_copy=pre_moves,
            reads=tuple(reads),
            forward=forward,
            post_copy=post_moves,
            books=runner.save(),
            breaches=tuple(dict.fromkeys(map(breach_of, checks.violations))),
            pre_decisions=tuple(before.decisions) if before is not None else (),
            post_decisions=tuple(after.decisions) if after is not None else (),
        )

    def _forward(
        self, output: SchedulerOutput, metadata: Mapping[int, Mamba2AttentionMetadata]
    ) -> tuple[Operation, ...]:
        """The real forward over recorders, layer by layer; of a group's layers, the first."""
        runner = self.runner
        operations: list[Operation] = []
        for group in runner.group_ids:
            self.recorder.operations = []
            self.recorder.group = group
            self.recorder.first_prefill = metadata[group].num_decode_tokens
            runner.forward_layer(runner.layer_of(group), output, metadata)
            operations += self.recorder.operations
        return tuple(operations)

    # Where copies went.

    def _make_all_numbers_differ(self) -> None:
        for cache in self.runner.cache.layers:
            for state in cache.states:
                state.copy_(_tags(state))
        self.observer.pages = self.runner.cache.snapshot()
        self.observer.begin_phase()

    def _moves(self) -> tuple[Move, ...]:
        moves: list[Move] = []
        for group in self.runner.group_ids:
            cache = self.runner.cache.layers[self.runner.layer_of(group)]
            conv, temporal = cache.states[:2]
            for block, numbers in _changed(conv):
                rows = _cells(numbers, conv.shape, self.scenario.engine.layout)
                moves.append(WindowMove(group, block, rows))
            for block, numbers in _changed(temporal):
                size = temporal[0].numel()
                sources = tuple(dict.fromkeys((int(n) - 1) // size for n in numbers.flatten()))
                moves.append(StateMove(group, block, sources))
        return tuple(moves)


def _tags(state: torch.Tensor) -> torch.Tensor:
    """1, 2, 3, ... in the shape of a state; exact in float32 for any scenario of an explorer."""
    return torch.arange(1, state.numel() + 1, dtype=torch.float32).view(state.shape)


def _changed(state: torch.Tensor) -> Iterable[tuple[int, torch.Tensor]]:
    differs = (state != _tags(state)).flatten(1).any(1)
    return [(int(block), state[block]) for block in differs.nonzero().flatten()]


def _cells(numbers: torch.Tensor, shape: Sequence[int], layout: str) -> tuple[RowSource, ...]:
    """Where each token row of a conv state came from, by the numbers found in it."""
    _, *inner = shape
    rows_first = numbers if layout == "SD" else numbers.T  # [state_len, dim]
    channels = inner[1] if layout == "SD" else inner[0]
    rows = inner[0] if layout == "SD" else inner[1]

    def cell(number: float) -> Cell:
        block, rest = divmod(int(number) - 1, rows * channels)
        if layout == "SD":
            return (block, *divmod(rest, channels))
        channel, row = divmod(rest, rows)
        return block, row, channel

    found: list[RowSource] = []
    for row in rows_first.tolist():
        cells = tuple(map(cell, row))
        block, first, _ = cells[0]
        whole = all(one == (block, first, channel) for channel, one in enumerate(cells))
        found.append(RowOf(block, first) if whole else cells)
    return tuple(found)


def breach_of(violation: Violation) -> Breach:
    """What of a violation does not depend on words and layers."""
    return Breach(
        violation.invariant,
        violation.step,
        violation.phase,
        violation.request,
        violation.group,
        violation.state,
        violation.block,
    )


def _concerned(output: SchedulerOutput) -> tuple[str, ...]:
    leaving = sorted(output.finished_req_ids | output.preempted_req_ids)
    return tuple(dict.fromkeys((*output.order, *leaving)))


def _renamed(
    output: SchedulerOutput,
    new: Mapping[str, tuple[tuple[int, ...], ...]],
    cached: Mapping[str, tuple[tuple[int, ...], ...]],
) -> SchedulerOutput:
    return replace(
        output,
        scheduled_new_reqs=tuple(
            replace(one, block_ids=new[one.req_id]) for one in output.scheduled_new_reqs
        ),
        scheduled_cached_reqs=replace(output.scheduled_cached_reqs, new_block_ids=cached),
    )


def _merged(
    books: WorkerBooks, concerned: Iterable[str], after: WorkerBooks, numbering: Numbering
) -> WorkerBooks:
    """The books of all requests, those of the step's own with their real blocks."""
    real = numbering.real
    requests, places = dict(books.requests), dict(books.places)
    for name in concerned:
        requests.pop(name, None)
        places.pop(name, None)
    for name, found in after.requests.items():
        rows = tuple(tuple(real[block] for block in row) for row in found.rows)
        requests[name] = RequestBooks(found.num_computed, found.num_accepted, rows)
    places.update(after.places)
    return WorkerBooks(requests, places, after.slots, after.memory)
