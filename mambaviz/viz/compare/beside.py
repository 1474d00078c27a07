"""Some runs set side by side: all that the pictures and the sentences of a moment are made from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from mambaviz.alignment import Moment, align, all_request_ids
from mambaviz.comparisons import RunLabel, run_labels
from mambaviz.costs import StepCosts, costs
from mambaviz.differences import Difference, Parting, RunFacts, differences, parting
from mambaviz.prefix_hits import Admission, admissions
from mambaviz.trace import PhaseName, Step, Trace
from mambaviz.viz.compare.rows import RunRows


class SideBySide:
    """Two or three runs, locked to the same step, or to the same token of ``lock``.

    States are read for ``layer``. Raises ValueError for a request that no run computes, KeyError
    for a layer that one of them lacks.
    """

    def __init__(self, traces: Sequence[Trace], *, lock: str | None = None, layer: int = 0) -> None:
        for trace in traces:
            if all(spec.layer != layer for spec in trace.states):
                raise KeyError(f"layer {layer}: {trace.scenario.name} has no such layer")
        self.traces = tuple(traces)
        self.lock = lock
        self.layer = layer
        self.moments: tuple[Moment, ...] = align(traces, lock)
        self.labels: tuple[RunLabel, ...] = run_labels([trace.scenario for trace in traces])
        self.requests = all_request_ids(traces)

    @property
    def names(self) -> list[str]:
        return [label.name for label in self.labels]

    @cached_property
    def facts(self) -> list[RunFacts]:
        return [RunFacts(trace, self.layer) for trace in self.traces]

    @cached_property
    def rows(self) -> list[RunRows]:
        return [RunRows(trace, self.layer) for trace in self.traces]

    @cached_property
    def costs(self) -> list[list[StepCosts]]:
        return [costs(trace) for trace in self.traces]

    @cached_property
    def admissions(self) -> list[list[Admission]]:
        return [
            admissions(trace, rows.group)
            for trace, rows in zip(self.traces, self.rows, strict=True)
        ]

    @cached_property
    def parting(self) -> Parting | None:
        return parting(self.facts, self.moments)

    def differences(self, moment: int, phase: PhaseName) -> tuple[Difference, ...]:
        return differences(self.facts, self.moments[moment], phase)

    # ------------------------------------------------------------------ one run at a moment

    def step(self, run: int, moment: int) -> Step | None:
        index = self.moments[moment].steps[run]
        return None if index is None else self.traces[run].steps[index]

    def latest(self, run: int, moment: int) -> int | None:
        """The run's step at a moment; its last one before if it has none there, None before all."""
        for earlier in range(moment, -1, -1):
            index = self.moments[earlier].steps[run]
            if index is not None:
                return index
        return None

    def admitted(self, run: int, request: str, moment: int) -> Admission | None:
        """The request's latest admission in a run up to a moment."""
        step = self.latest(run, moment)
        past = [one for one in self.admissions[run] if one.request == request]
        return next((one for one in reversed(past) if step is not None and one.step <= step), None)

    # ------------------------------------------------------------------ the request in focus

    @cached_property
    def has_hits(self) -> bool:
        return any(one.reused for found in self.admissions for one in found)

    @cached_property
    def parted_request(self) -> str:
        """The first request that the runs part over; empty if it is none's doing."""
        found = self.parting.differences if self.parting else ()
        return next((one.fact.request for one in found if one.fact.request), "")

    def focus(self, moment: int) -> str:
        """The request that a moment is about: the locked one; where nothing is ever found in the
        cache, the one that the runs part over; else the one admitted last."""
        if self.lock is not None:
            return self.lock
        if self.parted_request and not self.has_hits:
            return self.parted_request
        latest = [
            (one.step, self.requests.index(one.request), one.request)
            for run, found in enumerate(self.admissions)
            for one in found
            if one.step <= (-1 if (step := self.latest(run, moment)) is None else step)
        ]
        return max(latest)[2] if latest else self.requests[0]

    def total_copied(self, run: int, moment: int) -> int | None:
        """Bytes copied by a run up to a moment."""
        step = self.latest(run, moment)
        return None if step is None else sum(c.bytes_copied for c in self.costs[run][: step + 1])

    def total_recomputed(self, run: int, moment: int) -> int | None:
        step = self.latest(run, moment)
        if step is None:
            return None
        return sum(c.tokens_recomputed for c in self.costs[run][: step + 1])

    def recomputed_of(self, run: int, request: str, moment: int) -> int:
        step = self.latest(run, moment)
        past = [] if step is None else self.costs[run][: step + 1]
        return sum(c.recomputed_of.get(request, 0) for c in past)

    def held(self, run: int, moment: int) -> int | None:
        index = self.moments[moment].steps[run]
        return None if index is None else self.costs[run][index].blocks_held

    # ------------------------------------------------------------------ where to look first

    @cached_property
    def opening(self) -> int:
        """The first moment with a prefix hit, else the one where the runs part, else the start."""
        for moment in range(len(self.moments)):
            steps = self.moments[moment].steps
            for found, step in zip(self.admissions, steps, strict=True):
                if any(one.step == step and one.reused for one in found):
                    return moment
        return self.parting.moment if self.parting else 0
