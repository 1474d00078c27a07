"""Runs of public bug reports: a few steps of the real engine, told in the numbers of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mambaviz.engine import Engine
from mambaviz.runner import V1Runner, V2Runner
from mambaviz.scenario import Scenario
from mambaviz.trace import BlockCopy, Decision, PhaseName, StateKind, Trace

# A draft model that drops the last matched block has a prompt of less than two blocks computed
# in one chunk; without it every prompt stops at its last boundary.
ONE_CHUNK = {"drop_last_matched_block": True}


def scenario(
    *requests: dict[str, Any],
    layer: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    **engine: Any,
) -> Scenario:
    """Requests, layer and engine settings as plain mappings; the pool is large."""
    return Scenario.model_validate(
        {
            "engine": {"num_blocks": 40} | engine,
            "layer": layer or {},
            "requests": list(requests),
            "events": events or [],
        }
    )


@dataclass(frozen=True)
class Pre:
    """What a step decided before its forward. Columns, not block ids.

    ``conv`` is (source column, shift in tokens, destination column), ``temporal`` (source column,
    destination column); None for a copy that was not made. ``num_blocks`` counts the columns of
    the worker's row.
    """

    prev: int
    curr: int
    num_blocks: int
    accepted_after: int
    bias: int | None = None
    conv: tuple[int, int, int] | None = None
    temporal: tuple[int, int] | None = None


@dataclass(frozen=True)
class Post:
    """What a step decided after acceptance; ``conv`` and ``temporal`` as in `Pre`."""

    running: int
    new_computed: int
    aligned: int
    src: int
    accepted_out: int
    bias: int | None = None
    dst: int | None = None
    conv: tuple[int, int, int] | None = None
    temporal: tuple[int, int] | None = None


class Play:
    """The real engine on the plain back end, halted where a test says so.

    While it is halted, what the worker remembers can be read, or spoiled as a fault did it.
    """

    def __init__(self, what: Scenario) -> None:
        self.engine = Engine(what, backend="reference")
        self.columns: list[dict[str, int | None]] = []  # running columns before each step
        self.trace = self.engine.trace([])

    def run(self, until: int | None = None) -> Self:
        """Go on until ``until`` steps are done in all; None: to the end."""
        steps = list(self.trace.steps)
        while not self.engine.scheduler.is_done() and len(steps) != until:
            runner = self.engine.runner
            self.columns.append({name: runner.state_column(name) for name in runner.requests})
            steps.append(self.engine.step(len(steps)))
        self.trace = self.engine.trace(steps)
        return self

    @property
    def v1(self) -> V1Runner:
        assert isinstance(self.engine.runner, V1Runner)
        return self.engine.runner

    @property
    def v2(self) -> V2Runner:
        assert isinstance(self.engine.runner, V2Runner)
        return self.engine.runner

    def set_accepted(self, request: str, count: int) -> None:
        """Make the worker believe in another accepted count, wherever it keeps that."""
        if isinstance(self.engine.runner, V2Runner):
            self.v2.num_accepted[self.v2.slots[request]] = count
        else:
            self.v1.requests[request].num_accepted_tokens = count

    # What a step did.

    def chunk_ends(self, request: str) -> list[int]:
        """Tokens computed after each step that computed prompt tokens of a request."""
        found = [step.requests[request] for step in self.trace.steps if request in step.requests]
        return [
            row.num_computed + row.num_scheduled
            for row in found
            if row.num_computed < row.num_prompt_tokens
        ]

    def hit(self, request: str) -> int:
        """Tokens that a request found computed when it was admitted."""
        return next(
            step.requests[request].num_computed
            for step in self.trace.steps
            if request in step.requests
        )

    def worker_row(self, step: int, request: str) -> list[int]:
        return self.trace.tables_after(step, "allocate").rows[request].worker_row[0]

    def block_list(self, step: int, request: str) -> list[int]:
        return self.trace.tables_after(step, "allocate").rows[request].block_list[0]

    def pre(self, step: int, request: str) -> Pre:
        decision = self._decision(step, "pre-copy", request)
        conv, temporal = self._columns_copied(step, "pre-copy", request)
        assert decision.dst_col is not None
        assert decision.accepted_out is not None
        return Pre(
            prev=self._prev(step, decision),
            curr=decision.dst_col,
            num_blocks=len(self.worker_row(step, request)),
            accepted_after=decision.accepted_out,
            bias=decision.bias,
            conv=conv,
            temporal=temporal,
        )

    def post(self, step: int, request: str) -> Post:
        decision = self._decision(step, "post-copy", request)
        conv, temporal = self._columns_copied(step, "post-copy", request)
        values = (
            decision.running,
            decision.new,
            decision.aligned,
            decision.src_col,
            decision.accepted_out,
        )
        known = [value for value in values if value is not None]
        assert len(known) == len(values)
        return Post(*known, decision.bias, decision.dst_col, conv, temporal)

    def copies(self, step: int, phase: PhaseName, request: str) -> list[BlockCopy]:
        found = self.trace.steps[step].phase(phase).copies
        return [copy for copy in found if copy.request == request]

    def state(
        self, step: int, phase: PhaseName, kind: StateKind, block: int, layer: int = 0
    ) -> np.ndarray:
        """One block's state after a phase."""
        raw = self.trace.contents_after(step, phase)[layer, kind, block]
        return self.trace.spec_of[layer, kind].decode(raw)

    def metadata(self, step: int, field: str) -> Any:
        """Values of a metadata tensor of the first group."""
        fields = {found.name: found.value for found in self.trace.steps[step].metadata[0].fields}
        return fields[field].values

    def _decision(self, step: int, phase: PhaseName, request: str) -> Decision:
        found = self.trace.steps[step].phase(phase).decisions
        return next(decision for decision in found if decision.request == request)

    def _prev(self, step: int, decision: Decision) -> int:
        """The running column before the step: as remembered, or that of a fresh request."""
        if decision.copies:
            assert decision.src_col is not None
            return decision.src_col
        if self.trace.steps[step].requests[decision.request].event != "running":
            return (decision.computed - 1) // self.trace.scenario.engine.block_size
        column = self.columns[step][decision.request]
        assert column is not None
        return column

    def _columns_copied(
        self, step: int, phase: PhaseName, request: str
    ) -> tuple[tuple[int, int, int] | None, tuple[int, int] | None]:
        made = [copy for copy in self.copies(step, phase, request) if copy.skipped is None]
        conv = {(c.src_col, c.bias, c.dst_col) for c in made if c.state == "conv"}
        temporal = {(c.src_col, c.dst_col) for c in made if c.state == "temporal"}
        assert len(conv) <= 1, "the layers of one request disagree"
        assert len(temporal) <= 1, "the layers of one request disagree"
        return next(iter(conv), None), next(iter(temporal), None)


def is_sound(trace: Trace) -> bool:
    """No invariant broken, and every byte that changed in a copy phase is explained."""
    phases = [phase for step in trace.steps for phase in step.phases]
    return not trace.violations and not any(phase.bytes_unexplained for phase in phases)


def broken(trace: Trace) -> set[tuple[str, int]]:
    """(invariant, step) of everything that broke."""
    return {(violation.invariant, violation.step) for violation in trace.violations}
