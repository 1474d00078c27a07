"""One engine step after another: schedule, allocate, move, describe, compute, accept, move, commit.

    scheduler ─► runner (worker functions, metadata, mixer kernels) ─► scheduler
        └──────────────── observed ──────────────────┘ ─► Step ─► Trace
                 oracle ─► violations

The engine decides nothing about Mamba itself; it calls the rooms that do, in the order of a
serving engine, and writes down what they did.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import torch

import kernels
from kernels import BackendName, KernelSet
from mambaviz.acceptance import Verdict, verify
from mambaviz.attention import Mamba2AttentionMetadata
from mambaviz.columns import last_column
from mambaviz.invariants import StepChecks, read_slots
from mambaviz.metadata_record import metadata_record
from mambaviz.mistakes import runner_class, scheduler_class
from mambaviz.observe import RunObserver, tensor_record
from mambaviz.oracle import AcceptedSequence, Oracle
from mambaviz.request import RequestStatus
from mambaviz.roles import block_roles, row_roles
from mambaviz.runner import ModelRunner
from mambaviz.runner.base import BatchTokens
from mambaviz.scenario import Scenario
from mambaviz.scheduler import SchedulerOutput
from mambaviz.trace import (
    Metadata,
    Phase,
    PhaseName,
    RequestStep,
    Role,
    RowTables,
    Step,
    Tables,
    TensorRecord,
    Trace,
    tokens_absorbed,
    window_rows,
)

Backend = Literal["auto", "cuda", "interpreter", "reference"]
Progress = Callable[[int, str], None]


def run(scenario: Scenario, backend: Backend = "auto", progress: Progress | None = None) -> Trace:
    """Run a scenario to its end.

    ``progress(steps_done, words)`` is called after every step; what it raises stops the run.
    Raises `kernels.BackendError` for a back end that this process does not have.
    """
    engine = Engine(scenario, backend)
    steps = []
    for step in engine.steps():
        steps.append(step)
        if progress is not None:
            progress(len(steps), f"step {step.index}: {', '.join(step.order) or 'idle'}")
    return engine.trace(steps)


def iter_steps(scenario: Scenario, backend: Backend = "auto") -> Iterator[Step]:
    """The steps of a run as they are done; same errors as `run`."""
    return Engine(scenario, backend).steps()


class Engine:
    """A scenario on its way through scheduler, worker and kernels."""

    def __init__(self, scenario: Scenario, backend: Backend = "auto") -> None:
        chosen: BackendName | None = None if backend == "auto" else backend
        self.scenario = scenario
        self.kernels: KernelSet = kernels.kernel_set(chosen)
        on_host = self.kernels.backend == "reference"
        device = torch.device("cpu") if on_host else kernels.device()
        self.scheduler = scheduler_class(scenario)(scenario)
        self.observer = RunObserver()
        self.runner: ModelRunner = runner_class(scenario)(
            scenario, self.kernels, device, self.observer
        )
        self.states = self.runner.cache.state_specs(scenario)
        self.specs = {(spec.layer, spec.state): spec for spec in self.states}
        self.observer.bind(self.runner, self.states)
        self.oracle = Oracle(self.runner.params)
        self.sequences: dict[str, AcceptedSequence] = {}
        self.running_cols: dict[str, int] = {}
        self.checked_prefixes: dict[int, str] = {}
        self.initial_tables = self.tables = self._tables()

    # Whole runs.

    def steps(self) -> Iterator[Step]:
        index = 0
        while not self.scheduler.is_done():
            yield self.step(index)
            index += 1

    def trace(self, steps: list[Step]) -> Trace:
        """The record of the steps done so far."""
        return Trace(
            scenario=self.scenario,
            scenario_hash=self.scenario.content_hash,
            backend=self.kernels.backend,
            versions=versions(),
            states=self.states,
            initial_tables=self.initial_tables,
            steps=steps,
        )

    # One step.

    def step(self, index: int) -> Step:
        self.checks = StepChecks(index, self.scenario, self.specs)
        self.phases: list[Phase] = []
        step_start = self.observer.pages

        self._begin()
        self.scheduler.begin_step(index)
        self._end("schedule")

        self._begin()
        output = self.scheduler.schedule(index)
        self.runner.update_states(output)
        edits = [edit for edit in self.scenario.edits if edit.step == index]
        self.actions = [*output.actions]
        self.actions += [self.runner.edit_row(edit) for edit in edits if edit.kind == "worker_row"]
        self.observer.begin_step(output)
        self._note_columns(output)
        self._end("allocate")

        self._begin()
        decisions = self.runner.pre_copy(output) if output.order else []
        if decisions:
            self.observer.decided_on_cpu(decisions)
        self._end("pre-copy")

        self._begin()
        metadata = self.runner.build_metadata(output) if output.order else {}
        self.actions += [
            self.runner.edit_metadata(metadata, edit) for edit in edits if edit.kind == "metadata"
        ]
        records = [metadata_record(group, built) for group, built in metadata.items()]
        rules = self.runner.explain_rows(output) if output.order else {}
        self._end("metadata")

        self._begin()
        self._check_before_forward(output, metadata)
        outputs = self.runner.forward(output, metadata) if output.order else []
        self._end("forward")

        self._begin()
        verdict = verify(output, self.scheduler.requests)
        accepted = {r: verdict.accepted_drafts.get(r, 0) + 1 for r in output.order}
        self._end("accept", accepted)

        self._begin()
        if output.order:
            self.runner.post_copy(output, accepted)
        self._end("post-copy")

        self._begin()
        finished = self.scheduler.update(output, verdict.sampled, verdict.accepted_drafts)
        for req_id in finished:
            self.running_cols.pop(req_id, None)
        self._end("commit")

        requests = self._request_steps(output, verdict, rules, outputs)
        self._check_outputs(requests)
        self._check_caches(step_start)
        return self._step(output, requests, records, finished)

    def _begin(self) -> None:
        self.observer.begin_phase()

    def _end(self, name: PhaseName, accepted: Mapping[str, int] | None = None) -> None:
        """Close a phase: what changed in caches and tables, and the checks due every phase."""
        observer = self.observer
        changes = observer.end_phase()
        explanation = observer.explanation
        copies = explanation.copies if explanation is not None else []
        tables = self._tables(accepted)
        self.phases.append(
            Phase(
                name=name,
                tables=tables if tables != self.tables else None,
                changes=changes,
                launches=observer.launches,
                decisions=explanation.decisions if explanation is not None else [],
                copies=copies,
                bytes_unexplained=observer.bytes_unexplained(),
            )
        )
        self.tables = tables
        self.checks.check_copies(name, copies)
        self.checks.check_null(name, observer.phase_start, observer.pages)
        self.checks.check_conservation(name, self.scheduler.manager)

    def _step(
        self,
        output: SchedulerOutput,
        requests: dict[str, RequestStep],
        metadata: list[Metadata],
        finished: Sequence[str],
    ) -> Step:
        return Step(
            index=output.step,
            arrivals=list(output.arrivals),
            order=list(output.order),
            batch_order=list(output.batch_order),
            requests=requests,
            waiting=list(output.waiting),
            preempted=list(output.preempted),
            finished_reported=sorted(output.finished_req_ids),
            finished_after=list(finished),
            num_computed_after={
                req_id: self.scheduler.requests[req_id].num_computed_tokens
                for req_id in output.order
            },
            actions=self.actions,
            stuck=output.stuck,
            free_queue_after_alloc=list(output.free_queue_after_alloc),
            free_count=output.free_count,
            phases=self.phases,
            metadata=metadata,
            checks=self.checks.results(),
            violations=self.checks.violations,
        )

    def _request_steps(
        self,
        output: SchedulerOutput,
        verdict: Verdict,
        rules: Mapping[str, str],
        outputs: Sequence[torch.Tensor],
    ) -> dict[str, RequestStep]:
        starts = BatchTokens.of(output).query_start_loc
        rows = {req_id: row for row, req_id in enumerate(output.batch_order)}
        return {
            req_id: RequestStep(
                event=request.event,
                row_class=request.row_class,
                class_rule=rules[req_id],
                num_computed=request.num_computed,
                num_scheduled=request.num_scheduled,
                num_tokens=request.num_tokens,
                num_prompt_tokens=request.num_prompt_tokens,
                tokens=list(request.token_ids),
                drafts=request.drafts,
                accepted_drafts=verdict.accepted_drafts.get(req_id),
                sampled=verdict.sampled.get(req_id, []),
                padded_tail=request.padded_tail,
                last_state_block_idx=request.last_state_block_idx,
                outputs={
                    layer: tensor_record(y[starts[rows[req_id]] : starts[rows[req_id] + 1]])
                    for layer, y in enumerate(outputs)
                },
            )
            for req_id, request in output.requests.items()
        }

    # Tables and roles.

    def _note_columns(self, output: SchedulerOutput) -> None:
        """The running-state column of each scheduled request for this step."""
        for req_id in output.preempted_req_ids | output.finished_req_ids:
            self.running_cols.pop(req_id, None)
        for req_id, request in output.requests.items():
            total = request.num_computed + request.num_scheduled
            block_size = self.scenario.engine.effective_block_size
            self.running_cols[req_id] = last_column(total, block_size)

    def _tables(self, accepted: Mapping[str, int] | None = None) -> Tables:
        manager = self.scheduler.manager
        registered = self.scheduler.registered_prefixes()
        rows: dict[str, RowTables] = {}
        weights: list[tuple[Sequence[int], Sequence[Role]]] = []
        for request in self.scheduler.requests.values():  # in order of arrival
            block_list = manager.block_lists(request.id)
            if request.status is not RequestStatus.RUNNING or not any(block_list):
                continue
            known = self.runner.requests.get(request.id)
            worker_row = [list(row) for row in known.block_ids] if known else block_list
            running = self.running_cols.get(request.id)
            roles = [
                self._roles(group, block_list[group], row, running)
                for group, row in enumerate(worker_row)
            ]
            weights += zip(worker_row, roles, strict=True)
            batch = self.runner.batch.req_ids
            rows[request.id] = RowTables(
                block_list=block_list,
                worker_row=worker_row,
                roles=roles,
                hashed_cols=manager.hashed_columns(request.id),
                state_col=running,
                num_accepted=self._accepted(request.id, accepted),
                num_computed=request.num_computed_tokens,
                batch_row=batch.index(request.id) if request.id in batch else None,
                slot=self.runner.slot_of(request.id),
            )
        return Tables(
            rows=rows,
            registered=registered,
            free_queue=manager.free_queue(),
            block_roles=block_roles(self.scenario.engine.num_blocks, weights, registered),
        )

    def _accepted(self, req_id: str, accepted: Mapping[str, int] | None) -> int:
        if accepted is not None and req_id in accepted:
            return accepted[req_id]
        return self.runner.accepted_count(req_id) if req_id in self.runner.requests else 1

    def _roles(
        self, group: int, block_list: list[int], worker_row: list[int], running: int | None
    ) -> list[Role]:
        if group >= self.scenario.engine.num_mamba_groups:
            # An attention group has no state that could lie elsewhere: in use, or registered.
            registered = self.scheduler.manager.is_registered
            return ["cached" if registered(block) else "running" for block in worker_row]

        def holds_boundary(block: int, column: int) -> bool:
            return self._holds_boundary(group, block, column)

        return row_roles(block_list, worker_row, running, holds_boundary)

    def _holds_boundary(self, group: int, block: int, column: int) -> bool:
        """Whether a block's bytes are, by their labels, the state at the column's end."""
        end = (column + 1) * self.scenario.engine.effective_block_size
        layout, kernel = self.scenario.engine.layout, self.scenario.layer.conv_kernel
        wanted = [position if position >= 0 else None for position in range(end - kernel + 1, end)]
        read = StepChecks(0, self.scenario, self.specs).read
        pages = self.observer.pages
        for spec in self.states:
            if spec.group != group:
                continue
            numbers = read(spec.layer, spec.state, block, pages)
            if spec.state == "temporal" and tokens_absorbed(numbers) != end:
                return False
            if spec.state == "conv" and window_rows(numbers, layout)[: kernel - 1] != wanted:
                return False
        return True

    # Checks against the oracle.

    def _sequence(self, req_id: str) -> AcceptedSequence:
        """The oracle's view of a request's accepted tokens, brought up to date."""
        tokens = self.scheduler.requests[req_id].token_ids
        sequence = self.sequences.setdefault(req_id, self.oracle.sequence())
        sequence.extend(tokens[len(sequence) :])
        return sequence

    def _check_before_forward(
        self, output: SchedulerOutput, metadata: Mapping[int, Mamba2AttentionMetadata]
    ) -> None:
        sequences = {req_id: self._sequence(req_id) for req_id in output.order}
        computed = [output.requests[req_id].num_computed for req_id in output.batch_order]
        for group, built in metadata.items():
            self.checks.check_bounds(group, built)
            slots = read_slots(group, built, output.batch_order, computed, self.scenario)
            self.checks.check_running(slots, self.observer.pages, sequences)

    def _check_outputs(self, requests: Mapping[str, RequestStep]) -> None:
        """I3 for every position whose token was kept."""
        for req_id, request in requests.items():
            kept = request.num_scheduled - request.drafts + (request.accepted_drafts or 0)
            truth = self._sequence(req_id)
            kept = min(kept, len(truth) - request.num_computed)  # a stop can cut accepted tokens
            for layer, record in request.outputs.items():
                for offset in range(kept):
                    self.checks.check_output(
                        req_id,
                        layer,
                        request.num_computed + offset,
                        np.asarray(record.values[offset], dtype=np.float32),
                        truth,
                    )

    def _check_caches(self, step_start: Sequence[np.ndarray]) -> None:
        """I1 for boundary blocks that are new or were written, and I5 for what was written."""
        pages = self.observer.pages
        written = {
            int(block)
            for old, new in zip(step_start, pages, strict=True)
            for block in np.flatnonzero((old != new).any(axis=1))
        }
        registered = self.tables.registered
        for block, prefix in registered.items():
            if block not in written and self.checked_prefixes.get(block) == prefix:
                continue
            group = self.scheduler.manager.group_of(block)
            if group >= self.scenario.engine.num_mamba_groups:
                continue  # an attention block holds no Mamba state
            request, _, num_tokens = prefix.rpartition("@")
            self.checks.check_boundary(
                block, group, request, int(num_tokens), pages, self._sequence(request)
            )
        self.checked_prefixes = dict(registered)
        self.checks.check_ownership(self.scheduler.manager, written)


def versions() -> dict[str, str]:
    """What the numbers of a run depend on."""
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    try:
        import triton
    except ImportError:
        return found
    return {**found, "triton": triton.__version__}


__all__ = ["Backend", "Engine", "TensorRecord", "iter_steps", "run", "versions"]
